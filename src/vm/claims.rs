//! Claims about a machine: what was asked for, held against what was found.
//!
//! Texts of errors begin without a name, which the driver that asked puts before them.

use crate::fault::Fault;

/// That a device has what was asked for, of all that is claimed: of what, what, and what was found.
///
/// # Errors
/// It has something else: both are quoted.
pub(crate) fn as_asked<'a>(
    device: &str,
    claims: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>,
) -> Result<(), Fault> {
    match claims.into_iter().find(|(_, asked, found)| asked != found) {
        Some((what, asked, found)) => {
            Err(Fault::machine(format!("{device}'s {what} was to be `{asked}`, and is `{found}`")))
        }
        None => Ok(()),
    }
}

/// Requires that two sources say the same of `what`: each who says, and what.
///
/// # Errors
/// They do not: both are quoted.
pub(crate) fn agree(what: &str, one: (&str, &str), other: (&str, &str)) -> Result<(), Fault> {
    if one.1 == other.1 {
        return Ok(());
    }
    Err(Fault::machine(format!("{what}: {} `{}`, but {} `{}`", one.0, one.1, other.0, other.1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sources_that_disagree_are_both_quoted() {
        let fault = agree("the board", ("asked for", "q35"), ("QMP says", "pc")).unwrap_err();
        assert_eq!(fault.message, "the board: asked for `q35`, but QMP says `pc`");
    }
}
