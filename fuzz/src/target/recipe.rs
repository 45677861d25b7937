//! Recipes of appliances: TOML that somebody else wrote.

use super::{Target, text};
use surtax::driver::untrusted;

pub const TARGET: Target = Target {
    name: "recipe",
    run: |bytes| drop(untrusted::recipe(text(bytes))),
    seeds: super::none,
    folders: &["appliances"],
    words: &[
        "[image]", "[machine]", "[command]", "board = ", "memory = ", "cpus = ", "{command}",
        "over = ", "tcp", "console", "probe = ", "ready = ", "port = ", "\"", "\n",
        "999999999999T",
    ],
    longest: 16 << 10,
};
