//! Recipes of appliances: TOML that somebody else wrote.

use super::{Target, text};
use surtax::driver::untrusted;

pub const TARGET: Target = Target {
    name: "recipe",
    run: |bytes| drop(untrusted::recipe(text(bytes))),
    seeds: super::none,
    folders: &["appliances"],
    longest: 16 << 10,
};
