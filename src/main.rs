//! surtax
fn main() {}
