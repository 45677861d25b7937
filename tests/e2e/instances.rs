//! Several instances of a command or a workload at once in one stack.

use crate::answers::{arm, fact, median};
use crate::machine::{Machine, is_usable, text};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;

/// Returns the JSON answer of a comparison of so many instances.
fn answer(machine: &Machine, stacks: &str, count: &str, rest: &[&str]) -> Value {
    let mut arguments =
        vec!["compare", "--in", stacks, "--runs", "1", "--format", "json", "--instances", count];
    arguments.extend(rest);
    machine.json(&arguments)
}

/// Returns how far instances were apart in one metric of an arm.
fn between<'a>(arm: &'a Value, metric: &str) -> &'a Value {
    let all = arm["instances"].as_array().unwrap();
    all.iter().find(|it| it["metric"] == metric).unwrap_or_else(|| panic!("no {metric} in {all:?}"))
}

#[test]
fn instances_begin_together_each_knows_its_number_and_all_are_counted() {
    let machine = Machine::take();
    // Each says so by a file, and waits for the others': one after the other they would wait for
    // ever.
    let script = "touch /tmp/at.$SURTAX_INSTANCE; n=0; \
                  until test -e /tmp/at.0 -a -e /tmp/at.1 -a -e /tmp/at.2; do \
                  n=$((n + 1)); test $n -lt 1000 || exit 9; sleep 0.01; done";
    let stacks: Vec<&str> =
        ["native", "runc"].into_iter().filter(|it| is_usable(&machine, it)).collect();
    let answer = answer(&machine, &stacks.join(","), "3", &["--", "sh", "-c", script]);
    for stack in stacks {
        let found = arm(&answer, stack);
        assert_eq!(found["trial_count"], 1, "{stack}: {}", found["trouble"]);
        let innermost = found["evidence"].as_array().unwrap().last().unwrap();
        assert_eq!(fact(innermost, "instances"), "3", "{stack}");
        assert!(fact(innermost, "command_file").ends_with("/sh"), "{stack}");
        assert_eq!(between(found, "wall_ns")["instance_count"], 3, "{stack}");
    }
    machine.assert_as_before();
}

#[test]
fn an_instance_that_cannot_start_counts_not_even_where_failure_is_ignored() {
    let machine = Machine::take();
    let tool = machine.path("tool");
    std::fs::write(&tool, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let asked = ["compare", "--in", "native", "--runs", "1", "--instances", "2", "-i"];
    let output =
        machine.surtax(&[&asked[..], &["--format", "json", "--", tool.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let native = arm(&answer, "native");
    assert_eq!(native["trial_count"], 0, "{native:#}");
    assert!(native["trouble"].to_string().contains("cannot start"), "{}", native["trouble"]);
    machine.assert_as_before();
}

#[test]
fn a_rate_is_split_among_clients_of_servers_of_their_own_and_what_they_did_is_added_up() {
    let machine = Machine::beside_one();
    let stacks: Vec<&str> =
        ["native", "runc:net=veth"].into_iter().filter(|it| is_usable(&machine, it)).collect();
    let workload = ["--workload", "net.tcp_rr_rate:time=300,rate=400"];
    let answer = answer(&machine, &stacks.join(","), "4", &workload);
    for stack in stacks {
        let found = arm(&answer, stack);
        assert_eq!(found["trial_count"], 1, "{stack}: {}", found["trouble"]);
        // 400 in a second for 0.3 s are 120 by four: 30 each.
        assert_eq!(found["histograms"][0]["value_count"], 120, "{stack}");
        let (rate, each) = (median(found, "rate"), between(found, "rate"));
        let [least, most] = ["min", "max"].map(|key| each[key].as_f64().unwrap());
        assert!(least > 40.0 && most < 110.0 && rate > 3.9 * least, "{stack}: {rate} {each}");
        assert!(rate <= 4.0 * most, "{stack}: {rate} {each}");
    }
    machine.assert_as_before();
}

#[test]
fn an_instance_that_fails_fails_all_and_one_that_goes_on_is_ended_with_them() {
    let machine = Machine::take();
    let script = "test $SURTAX_INSTANCE = 1 || exit 0; echo the second is out of order >&2; exit 7";
    let asked = ["compare", "--in", "native", "--runs", "1", "--instances", "2", "--"];
    let output = machine.surtax(&[&asked[..], &["sh", "-c", script]].concat());
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(!output.status.success() && said.contains("the second is out of order"), "{said}");
    let asked =
        ["compare", "--in", "native", "--runs", "1", "--instances", "2", "--deadline", "1s"];
    let output = machine.surtax(&[&asked[..], &["--", "sleep", "98761"]].concat());
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(!output.status.success() && said.contains("deadline"), "{said}");
    machine.assert_as_before();
}

#[test]
fn what_cannot_be_several_at_once_is_refused_before_anything_is_started() {
    let machine = Machine::take();
    for (workload, count, expected) in [
        ("prices", "2", "only one `prices` can run at a time in a stack"),
        ("net.tcp_rr_rate:rate=3", "4", "instance 3 of 4 would have `rate=0`"),
        ("net.tcp_rr", "65", "`instances = 65` is not from 1 to 64"),
    ] {
        let output = machine
            .surtax(&["compare", "--in", "native", "--workload", workload, "--instances", count]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    machine.assert_as_before();
}
