//! Counts on a command line, and what is said of those that are none.

/// Reads a count of what must be there at least once. Zero is refused later, with what it would
/// mean.
pub(super) fn some(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| String::from("a whole number is wanted, at least 1"))
}

/// Reads a count of what may be left out.
pub(super) fn any(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| String::from("a whole number is wanted, at least 0"))
}
