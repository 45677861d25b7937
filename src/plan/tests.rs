//! Plans for the tests of this folder and of `cli/`.

use super::*;
use crate::layer::tests::DESCRIPTORS;

/// A draft with these stacks and the command `true`.
pub(crate) fn draft(stacks: &[&str]) -> Draft {
    let stacks =
        stacks.iter().map(|text| StackSpec::parse_with(text, DESCRIPTORS).unwrap()).collect();
    Draft { stacks, command: vec![Word::from("true")], ..Draft::default() }
}

/// A caller in `/`.
pub(crate) fn around() -> Defaults<'static> {
    Defaults { fresh_seed: 7, ..Defaults::of_no_machine(DESCRIPTORS) }
}

/// The plan that the draft becomes.
pub(crate) fn plan(stacks: &[&str]) -> Plan {
    draft(stacks).complete(&around()).unwrap().plan
}

#[test]
fn a_plan_survives_the_ledger() {
    let plan = plan(&["native", "qemu:mem=1G,accel=tcg+runc"]);
    let json = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
}
