//! The grammar of `--in`: stacks, lists of stacks, options and limits.

use super::{Target, text};
use surtax::driver;
use surtax::driver::parse_list;
use surtax::layer::StackSpec;
use surtax::plan::{duration, percentage};

pub const TARGET: Target =
    Target { name: "stack", run, seeds: super::none, folders: &[], longest: 8 << 10 };

fn run(bytes: &[u8]) {
    let text = text(bytes);
    if let Ok(stack) = driver::parse(text) {
        assert_prints_the_same(&stack);
        for layer in &stack.layers {
            let _limits = layer.limits();
            let _root = layer.root();
        }
    }
    for stack in parse_list(text).unwrap_or_default() {
        assert_prints_the_same(&stack);
    }
    if let Ok(time) = duration::parse(text) {
        let _ = (duration::text(time), duration::rough(time));
    }
    if let Ok(share) = percentage::parse(text) {
        assert_eq!(percentage::parse(&percentage::text(share)).ok(), Some(share));
    }
}

fn assert_prints_the_same(stack: &StackSpec) {
    let printed = stack.to_string();
    match driver::parse(&printed) {
        Ok(again) => assert_eq!(&again, stack, "`{printed}` is another stack"),
        Err(fault) => panic!("`{printed}` was accepted and is refused: {fault}"),
    }
}
