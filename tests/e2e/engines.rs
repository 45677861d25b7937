//! Engines: commands that are the agent itself, in whatever stack.

use crate::answers::{arm, compare, fact};
use crate::machine::{Machine, is_usable};

#[test]
fn an_engine_runs_in_every_layer_and_is_the_same_program() {
    let machine = Machine::take();
    let wanted = ["native", "runc", "gvisor"];
    let stacks: Vec<&str> = wanted.into_iter().filter(|stack| is_usable(&machine, stack)).collect();
    let command = ["@surtax", "engine", "recording", "--count", "1000"];
    let answer = machine.json(&compare(&stacks.join(","), "1", &command));
    for stack in stacks {
        let arm = arm(&answer, stack);
        assert_eq!(arm["trial_count"], 1, "{stack}: {}", arm["trouble"]);
        let innermost = arm["evidence"].as_array().unwrap().last().unwrap();
        assert_eq!(fact(innermost, "command_file"), "@surtax", "{stack}");
    }
    let codes = answer["cautions"].as_array().unwrap().iter().map(|caution| &caution["code"]);
    assert!(codes.into_iter().all(|code| code != "another-program"), "{}", answer["cautions"]);
    machine.assert_as_before();
}
