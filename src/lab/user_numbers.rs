//! Numbers of users that are nobody on this machine, for those who seem to be somebody in a
//! container.

/// The first of this machine's users that are a container's: far from those that people and tools
/// use.
pub const FIRST: u32 = 999_948_288;

/// Number of users, and of groups.
pub const COUNT: u32 = 65_536;
