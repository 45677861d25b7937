//! Answers of a comparison, and what it says when the question was bad.

use crate::machine::{Machine, is_usable, text};
use serde_json::Value;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The last arm of a stack of which anything was run: of the baseline's two the second, unless the
/// command failed in the first and nothing more was run.
pub fn arm<'a>(answer: &'a Value, stack: &str) -> &'a Value {
    let arms = answer["arms"].as_array().unwrap();
    let mut all = arms.iter().filter(|arm| arm["stack"] == stack);
    let is_tried = |arm: &&Value| arm["trials"].as_array().is_some_and(|all| !all.is_empty());
    all.clone().rfind(is_tried).or(all.next_back()).unwrap_or_else(|| panic!("no arm `{stack}`"))
}

/// Returns the median of a metric of an arm.
#[track_caller]
pub fn median(arm: &Value, metric: &str) -> f64 {
    let all = arm["metrics"].as_array().unwrap();
    let found = all.iter().find(|it| it["metric"] == metric);
    found.and_then(|it| it["median"].as_f64()).unwrap_or_else(|| panic!("{metric}: {arm}"))
}

/// Writes a line that acts as root of the command's own groups of a controller, where root inside
/// has namespaces of its own: it sees them from there on, and may write there. The acts have no
/// `'`.
pub fn as_root_of_its_groups(controller: &str, acts: &str) -> String {
    format!(
        "unshare -UrmC sh -c 'mount -t cgroup -o {controller} none /mnt || \
         mount -t cgroup2 none /mnt || exit 9; cd /mnt; {acts}'"
    )
}

/// Returns the value that a level proved of `key`.
#[track_caller]
pub fn fact<'a>(level: &'a Value, key: &str) -> &'a str {
    let facts = level["facts"].as_array().unwrap();
    let fact = facts.iter().find(|fact| fact["key"] == key);
    fact.unwrap_or_else(|| panic!("no fact `{key}` in {level}"))["value"].as_str().unwrap()
}

/// The arguments of a comparison whose answer is JSON.
pub fn compare<'a>(stacks: &'a str, runs: &'a str, command: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["compare", "--in", stacks, "--runs", runs, "--format", "json", "--"];
    arguments.extend(command);
    arguments
}

/// The arguments of a run of one stack, beside what starts nothing, so that its command need not
/// succeed anywhere else; that has no scratch directory, so what has one is beside what starts
/// soon.
pub fn alone<'a>(stack: &'a str, command: &[&'a str]) -> Vec<&'a str> {
    let baseline = match stack.contains("scratch=") {
        true if stack.starts_with("qemu") => "native:scratch=bind",
        true => stack,
        false => "simulated",
    };
    let mut arguments = vec!["compare", "--in", stack, "--baseline", baseline, "--runs", "1"];
    arguments.extend(["--format", "json", "--"]);
    arguments.extend(command);
    arguments
}

#[test]
fn one_user_space_and_another_kernel() {
    let machine = Machine::take();
    if !["native", "runc", "qemu"].iter().all(|stack| is_usable(&machine, stack)) {
        return;
    }
    let script = "id -u; uname -r; cat /etc/os-release | head -1";
    let answer = machine.json(&compare("native,runc,qemu", "1", &["sh", "-c", script]));
    for stack in ["native", "runc", "qemu"] {
        let arm = arm(&answer, stack);
        assert_eq!(arm["trial_count"], 1, "{stack}: {}", arm["trouble"]);
    }
    let hash = |stack: &str| arm(&answer, stack)["stdout_hashes"].clone();
    assert_eq!(hash("native"), hash("runc"), "one kernel, one user space: one output");
    assert_ne!(hash("native"), hash("qemu"), "another kernel says another release");
    let codes: Vec<&Value> =
        answer["cautions"].as_array().unwrap().iter().map(|caution| &caution["code"]).collect();
    assert!(codes.iter().any(|code| **code == "outputs-differ"), "{codes:?}");
    let release =
        |stack: &str| fact(&arm(&answer, stack)["evidence"][0], "inside_kernel_release").to_owned();
    let is_told = codes.iter().any(|code| **code == "kernels-differ");
    assert_eq!(release("native") != release("qemu"), is_told, "{codes:?}");
    machine.assert_as_before();
}

/// A comparison of two simulated stacks, the second 7 % dearer, with these flags.
fn simulated<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    let stacks = "simulated:noise=0.02,seed=1,simulated:cost=1.07,noise=0.02,seed=1";
    let mut arguments = vec!["compare", "--in", stacks, "--format", "json"];
    arguments.extend(["--baseline", "simulated:noise=0.02,seed=1", "--seed", "1"]);
    arguments.extend(flags);
    arguments.extend(["--", "true"]);
    arguments
}

#[test]
fn a_run_that_is_precise_enough_ends_and_resume_adds_nothing() {
    let machine = Machine::take();
    let answer = machine.json(&simulated(&["--precision", "1%"]));
    let count = answer["run"]["blocks_done"].as_u64().unwrap();
    assert!((16..150).contains(&count), "{count} blocks");
    assert_eq!(answer["run"]["precision"], 0.01);
    let wall = &arm(&answer, "simulated:cost=1.07,noise=0.02,seed=1")["metrics"][0]["overhead"];
    let [ratio, low, high] = ["ratio", "low", "high"].map(|key| wall[key].as_f64().unwrap());
    assert!((high - low) / 2.0 / ratio <= 0.01, "{wall}");
    let again = machine.json(&["resume", "last", "--format", "json"]);
    assert_eq!(again["run"]["blocks_done"], count);
    let short = machine.json(&simulated(&["--precision", "0.1%", "--runs", "20"]));
    let cautions = short["cautions"].as_array().unwrap();
    assert!(cautions.iter().any(|caution| caution["code"] == "precision-missed"), "{cautions:?}");
    machine.assert_as_before();
}

#[test]
fn a_threshold_fails_a_run_only_when_it_is_shown_to_be_crossed() {
    let machine = Machine::take();
    let exit = |arguments: &[&str]| machine.surtax(arguments).status.code();
    assert_eq!(exit(&simulated(&["--runs", "20", "--fail-if", "wall > +3%"])), Some(1));
    assert_eq!(exit(&["show", "--fail-if", "wall > +3%"]), Some(1));
    assert_eq!(exit(&["show", "--fail-if", "wall > +20%"]), Some(0));
    // The estimate lies beyond it, and not the whole interval.
    let open = ["show", "--fail-if", "simulated: wall > +6.9%"];
    assert_eq!(exit(&open), Some(4));
    assert_eq!(exit(&[&open[..], &["--undecided", "fail"]].concat()), Some(1));
    assert_eq!(exit(&[&open[..], &["--undecided", "pass"]].concat()), Some(0));
    assert_eq!(exit(&[&open[..], &["--fail-if", "wall > +3%"]].concat()), Some(1));
    assert_eq!(exit(&["show", "--fail-if", "runc: wall > +6.9%"]), Some(2));
    let answer = machine.answer(&[&open[..], &["--format", "json"]].concat());
    let held = &answer["thresholds"][0];
    assert_eq!(held["standing"], "undecided");
    assert_eq!(held["threshold"], "simulated: wall > +6.9%");
    assert_eq!(held["metric"], "wall_ns");
    assert_eq!(held["stack"], answer["arms"][2]["stack"]);
    assert!((held["limit"].as_f64().unwrap() - 1.069).abs() < 1e-9, "{held}");
    assert!(held["overhead"]["low"].as_f64() < Some(1.069), "{held}");
    assert_eq!(exit(&["show", "--fail-if", "cpu-others > +3%"]), Some(3));
    assert_eq!(exit(&["show", "--fail-if", "wal > +3%"]), Some(2));
    machine.assert_as_before();
}

#[test]
fn a_run_goes_on_where_a_threshold_is_not_decided_and_ends_where_it_is() {
    let machine = Machine::take();
    let retried = |limit: &str| {
        let flags = ["--runs", "10", "--fail-if", limit, "--undecided", "retry"];
        let ended = machine.surtax(&simulated(&flags));
        let answer: Value = serde_json::from_slice(&ended.stdout).unwrap();
        let held = &answer["thresholds"][0]["overhead"]["confidence"];
        assert!((held.as_f64().unwrap() - (1.0 - 0.05 / 3.0)).abs() < 1e-9, "{held}");
        let said = text(&ended.stderr);
        let count = said.matches("goes on to").count();
        (ended.status.code(), answer["run"]["blocks_done"].as_u64().unwrap(), count)
    };
    assert_eq!(retried("wall > +50%"), (Some(0), 10, 0));
    assert_eq!(retried("wall > +1%"), (Some(1), 10, 0));
    // The truth is 7 %: so near to it nothing is decided by so few blocks.
    assert_eq!(retried("wall > +7%"), (Some(4), 40, 2));
    for command in ["show", "resume"] {
        let threshold = ["last", "--fail-if", "wall > +7%", "--undecided", "retry"];
        let refused = machine.surtax(&[&[command][..], &threshold].concat());
        let is_looked_at = command == "resume"; // the last run may look: it only has ended
        assert_eq!(refused.status.code(), Some(if is_looked_at { 4 } else { 2 }));
    }
    assert!(machine.surtax(&simulated(&["--runs", "5"])).status.success());
    let refused = machine.surtax(&["resume", "--fail-if", "wall > +7%", "--undecided", "retry"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("is said when a run begins"));
    machine.assert_as_before();
}

#[test]
fn an_answer_is_written_for_other_programs_as_the_exit_code_has_it() {
    let machine = Machine::take();
    let (tests, times) = (machine.path("tests.xml"), machine.path("times.json"));
    let exports = [format!("junit={}", tests.display()), format!("hyperfine={}", times.display())];
    let question = ["--runs", "20", "--fail-if", "wall > +3%", "--fail-if", "wall > +20%"];
    let flags = ["--export", &exports[0], "--export", &exports[1], "--export", "github"];
    let ended = machine.surtax(&simulated(&[&question[..], &flags].concat()));
    assert_eq!(ended.status.code(), Some(1));
    let printed = text(&ended.stdout);
    assert!(printed.lines().all(|line| line.starts_with("::")), "{printed}");
    assert_eq!(printed.matches("::error title=surtax%3A wall > +3%25::").count(), 1, "{printed}");
    let tests = std::fs::read_to_string(&tests).unwrap();
    assert!(tests.contains("tests=\"2\" failures=\"1\" errors=\"0\""), "{tests}");
    let times: Value = serde_json::from_slice(&std::fs::read(&times).unwrap()).unwrap();
    assert_eq!(times["results"][0]["times"].as_array().unwrap().len(), 40);
    // What the next one would be refused for is said before anything is measured.
    let refused = machine.surtax(&simulated(&["--export", "junit=/nowhere/at/all.xml"]));
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(refused.stdout.is_empty());
    machine.assert_as_before();
}

#[test]
fn two_runs_of_one_question_are_compared_and_of_two_questions_are_not() {
    let machine = Machine::take();
    let [one, other, another] = ["one", "other", "another"].map(|it| machine.path(it));
    let run = |path: &Path| {
        let flags = ["--runs", "20", "-o", path.to_str().unwrap()];
        assert!(machine.surtax(&simulated(&flags)).status.success());
        path.to_str().unwrap().to_owned()
    };
    let (one, other) = (run(&one), run(&other));
    let found = machine.json(&["diff", &one, &other, "--format", "json"]);
    assert_eq!(found["machine"], "same-boot");
    let changes = found["changes"].as_array().unwrap();
    let wall = changes.iter().find(|it| it["basis"] == "baseline" && it["metric"] == "wall_ns");
    assert_eq!(wall.unwrap()["verdict"], "unchanged", "{found}");
    assert!(changes.iter().any(|it| it["basis"] == "absolute"), "{found}");
    // The later run is the last one where none is named.
    let shown = machine.surtax(&["diff", &one]);
    let (table, said) = (text(&shown.stdout), text(&shown.stderr));
    assert!(table.contains("unchanged") && said.contains("the same machine"), "{table}{said}");
    let refused = |arguments: &[&str]| {
        let ended = machine.surtax(&[&["diff"], arguments].concat());
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
        text(&ended.stderr)
    };
    assert!(refused(&[&one, &one]).contains("both are the same run"));
    assert!(refused(&[&one, &other, "--metric", "wal"]).contains("use `wall`"));
    let another = another.to_str().unwrap();
    let question = ["compare", "--in", "native", "--runs", "1", "-o", another, "--", "true"];
    assert!(machine.surtax(&question).status.success());
    assert!(refused(&[&one, another]).contains("cannot be compared"));
    machine.assert_as_before();
}

#[test]
fn the_runs_of_one_question_are_a_history_and_those_of_others_are_not_in_it() {
    let machine = Machine::take();
    for _ in 0..3 {
        assert!(machine.surtax(&simulated(&["--runs", "6"])).status.success());
    }
    // The same command with another baseline, and another command.
    for (baseline, command) in [("native", "true"), ("simulated", "false")] {
        let question = ["compare", "--in", "simulated,native", "--runs", "1", "--ignore-failure"];
        let rest = ["--baseline", baseline, "--", command];
        assert!(machine.surtax(&[&question[..], &rest].concat()).status.success());
    }
    let runs = machine.surtax(&["list", "--format", "json"]);
    let runs: Value = serde_json::from_slice(&runs.stdout).unwrap();
    let first = runs[0]["name"].as_str().unwrap();
    let found = machine.json(&["history", first, "--format", "json"]);
    assert_eq!(found["runs"].as_array().unwrap().len(), 3, "{found}");
    let series = found["series"].as_array().unwrap();
    let wall = series.iter().find(|it| it["metric"] == "wall_ns").unwrap();
    assert_eq!(wall["points"].as_array().unwrap().len(), 3);
    assert_eq!(wall["points"][1]["machine"], "same-boot");
    let shown = machine.surtax(&["history", first]);
    let (table, said) = (text(&shown.stdout), text(&shown.stderr));
    assert!(table.contains("New level") && said.contains("in 3 runs: a new level shows"), "{said}");
    let names = [runs[0]["path"].as_str().unwrap(), runs[1]["path"].as_str().unwrap()];
    let two = machine.json(&["history", names[0], names[1], "--format", "json"]);
    assert_eq!(two["runs"].as_array().unwrap().len(), 2);
    let refused = |arguments: &[&str]| {
        let ended = machine.surtax(&[&["history"], arguments].concat());
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}");
        text(&ended.stderr)
    };
    assert!(refused(&[first, "--metric", "wal"]).contains("use `wall`"));
    assert!(refused(&[first, "last"]).contains("cannot be compared"));
    machine.assert_as_before();
}

#[test]
fn every_answer_in_json_is_as_its_schema_says() {
    let machine = Machine::take();
    let run = simulated(&["--runs", "6"]);
    let plan = ["plan", "--in", "native,runc", "--runs", "2", "--", "true"];
    let judged = simulated(&["--runs", "6", "--fail-if", "wall > 10x"]);
    let cases: [(&str, &[&str]); 10] = [
        ("answer", &run),
        ("answer", &judged),
        ("answer", &["show", "last"]),
        ("answer", &["export", "last", "--as", "json"]),
        ("list", &["list"]),
        ("history", &["history"]),
        ("diff", &["diff", "last", "last"]),
        ("plan", &plan),
        ("doctor", &["doctor", "native"]),
        ("workloads", &["workload", "list"]),
    ];
    for (name, arguments) in cases {
        let schema = machine.surtax(&["schema", name]);
        let schema: Value = serde_json::from_slice(&schema.stdout).unwrap();
        let (words, command) = match arguments.iter().position(|it| *it == "--") {
            Some(at) => arguments.split_at(at),
            None => (arguments, &[][..]),
        };
        let mut words = words.to_vec();
        let names = machine.surtax(&["list", "--format", "json"]);
        let names: Value = serde_json::from_slice(&names.stdout).unwrap();
        if name == "diff" {
            words[1] = names[0]["name"].as_str().unwrap();
        }
        if arguments[0] != "compare" && arguments[0] != "export" {
            words.extend(["--format", "json"]);
        }
        let answer = machine.answer(&[&words, command].concat());
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&answer).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new(), "{arguments:?}");
    }
    let refused = machine.surtax(&["schema", "answers"]);
    assert!(text(&refused.stderr).contains("use `answer`"), "{}", text(&refused.stderr));
    machine.assert_as_before();
}

#[test]
fn what_a_verdict_rests_on_is_in_every_format() {
    let machine = Machine::take();
    let answer = machine.json(&simulated(&["--runs", "20"]));
    let dear = arm(&answer, "simulated:cost=1.07,noise=0.02,seed=1");
    let because = dear["because"].as_str().unwrap();
    assert!(because.contains("slower than") && because.contains("the noise floor"), "{because}");
    assert_eq!(dear["block_count"], 20);
    assert_eq!(dear["p_value"], dear["p_value_adjusted"], "there is one comparison");
    let effect = dear["detectable_effect"].as_f64().unwrap();
    assert!((0.002..0.05).contains(&effect), "{effect}");
    let progress = dear["progress"].as_array().unwrap();
    let (first, last) = (&progress[0], progress.last().unwrap());
    assert_eq!((&first["block_count"], &last["block_count"]), (&3.into(), &20.into()));
    for end in ["ratio", "low", "high"] {
        assert_eq!(last[end], dear["overhead"][end]);
    }
    let quantiles = &dear["metrics"][0]["quantiles"];
    assert!(quantiles[0]["low"].is_number() && quantiles[2]["value"].is_null(), "{quantiles}");
    let said = |arguments: &[&str]| text(&machine.surtax(arguments).stdout);
    assert!(said(&["show", "--format", "markdown"]).contains(because));
    assert!(said(&["show", "--format", "csv"]).contains(because));
    let words: Vec<String> = said(&["show"]).split_whitespace().map(String::from).collect();
    assert!(words.join(" ").contains(because), "{words:?}");
    let trials = said(&["export", "--trials"]);
    assert!(trials.starts_with("arm,") && trials.contains(",cpu_user_ns,"), "{trials}");
    let page = machine.path("report.html");
    machine.surtax(&["report", "-o", page.to_str().unwrap()]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("id=\"progress\"") && page.contains("id=\"spread\""));
    machine.assert_as_before();
}

/// Runs whose page is a link, a directory, or one that somebody else wrote: the runs go, and all of
/// these stay.
fn assert_a_link_beside_a_run_is_left(machine: &Machine) {
    let runs = machine.path("data/surtax/runs");
    let kept = machine.path("kept.html");
    std::fs::write(&kept, "<!doctype html>").unwrap();
    for name in ["one", "two"] {
        let file = runs.join(format!("{name}.surtax"));
        let file = file.to_str().unwrap();
        let asked = ["compare", "--in", "native", "--runs", "1", "-o", file, "--", "true"];
        assert!(machine.surtax(&asked).status.success());
    }
    let file = runs.join("three.surtax");
    let asked =
        ["compare", "--in", "native", "--runs", "1", "-o", file.to_str().unwrap(), "--", "true"];
    assert!(machine.surtax(&asked).status.success());
    std::os::unix::fs::symlink(&kept, runs.join("one.html")).unwrap();
    std::fs::create_dir(runs.join("two.html")).unwrap();
    std::fs::write(runs.join("three.html"), "<!doctype html><title>mine</title>").unwrap();
    let removed = machine.surtax(&["rm", "one", "two", "three"]);
    assert!(removed.status.success(), "{}", text(&removed.stderr));
    assert!(!text(&removed.stderr).contains("removed its report"), "{}", text(&removed.stderr));
    assert!(
        kept.exists() && !runs.join("one.surtax").exists() && !runs.join("two.surtax").exists()
    );
    assert!(runs.join("three.html").exists(), "a page that somebody else wrote");
    std::fs::remove_file(runs.join("one.html")).unwrap();
    std::fs::remove_file(runs.join("three.html")).unwrap();
    std::fs::remove_dir(runs.join("two.html")).unwrap();
}

#[test]
fn a_finished_run_says_so_when_it_is_resumed_and_the_list_says_what_it_was() {
    let machine = Machine::take();
    let answer = machine.json(&simulated(&["--runs", "3"]));
    let resumed = machine.surtax(&["resume", "--format", "json"]);
    assert!(resumed.status.success());
    let said = text(&resumed.stderr);
    assert!(said.contains("the run is finished") && !said.contains("goes on"), "{said}");
    let again: Value = serde_json::from_slice(&resumed.stdout).unwrap();
    assert_eq!(again["arms"], answer["arms"]);
    let list = machine.json(&["list", "--format", "json"]);
    let run = list.as_array().unwrap().last().unwrap();
    assert_eq!(run["stacks"][1], "simulated:cost=1.07,noise=0.02,seed=1");
    assert_eq!(run["wall_ns"], answer["run"]["wall_ns"]);
    assert_eq!(run["counted_trial_count"], 9, "three blocks of three trials");
    let listed = machine.surtax(&["list"]);
    assert!(text(&listed.stdout).contains("just now"), "{}", text(&listed.stdout));
    assert!(machine.surtax(&["report", "last"]).status.success());
    let pages = || {
        let kept = std::fs::read_dir(machine.path("data/surtax/runs")).unwrap();
        kept.filter(|it| it.as_ref().unwrap().path().extension().is_some_and(|it| it == "html"))
            .count()
    };
    assert_eq!(pages(), 1);
    assert!(machine.surtax(&["rm", "last"]).status.success());
    assert_eq!(pages(), 0, "the page of a run that is gone");
    assert_a_link_beside_a_run_is_left(&machine);
    assert_eq!(machine.json(&["list", "--format", "json"]), serde_json::json!([]));
    assert_eq!(machine.surtax(&["rm", "last"]).status.code(), Some(2));
    machine.assert_as_before();
}

#[test]
fn a_variable_of_a_stack_reaches_the_command_there_alone() {
    let machine = Machine::take();
    if !["native", "runc"].iter().all(|stack| is_usable(&machine, stack)) {
        return;
    }
    let (twin, container) = ("native:env.A=two", "runc:env.A=two");
    let stacks = format!("native,{twin},{container}");
    let mut arguments = vec!["compare", "--env", "A=one"];
    arguments.extend(&compare(&stacks, "1", &["sh", "-c", "echo $A"])[1..]);
    let answer = machine.json(&arguments);
    let hash = |stack: &str| arm(&answer, stack)["stdout_hashes"].clone();
    assert_eq!(hash(twin), hash(container), "two of them say `two`");
    assert_ne!(hash("native"), hash(twin), "and the baseline says `one`");
    let entered = machine.surtax(&["enter", container, "--", "sh", "-c", "echo A is $A"]);
    assert!(text(&entered.stdout).contains("A is two"), "{}", text(&entered.stderr));
    machine.assert_as_before();
}

#[test]
fn a_failing_command_fails_its_arm_with_its_stderr() {
    let machine = Machine::take();
    let command = ["sh", "-c", "echo why not >&2; exit 3"];
    let answer = machine.json_of_a_failure(&compare("native", "2", &command));
    let arm = arm(&answer, "native");
    assert_eq!(arm["verdict"]["is"], "invalid");
    assert_eq!(arm["verdict"]["gap"], "command-failed");
    assert_eq!(arm["trial_count"], 0);
    assert_eq!(arm["exit_statuses"][0], "exit 3");
    assert!(arm["trouble"]["stderr"].as_str().unwrap().contains("why not"), "{}", arm["trouble"]);
    machine.assert_as_before();
}

/// The arm of the baseline in which the command failed.
fn arm_that_failed(answer: &Value) -> &Value {
    let failed = |arm: &&Value| arm["part"] != "compared" && !arm["trouble"].is_null();
    answer["arms"].as_array().unwrap().iter().find(failed).expect("a baseline that failed")
}

#[test]
fn a_command_that_fails_in_the_baseline_ends_the_run_unless_failure_is_ignored() {
    let machine = Machine::take();
    if !is_usable(&machine, "runc") {
        return;
    }
    let begun = |answer: &Value| {
        let arms = answer["arms"].as_array().unwrap().iter();
        arms.map(|arm| arm["trials"].as_array().unwrap().len()).sum::<usize>()
    };
    let failing = ["sh", "-c", "echo why not >&2; exit 3"];
    let line = compare("native,runc", "4", &failing);
    let output = machine.surtax(&line);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let stop = "nothing more is run: the command failed in `native`, which the others are \
                compared with";
    assert_eq!(said.matches(stop).count(), 1, "{said}");
    let answer = machine.json(&["show", "--format", "json"]);
    assert!(begun(&answer) <= 2, "one of runc's at most comes before native's: {answer}");
    let remedy = arm_that_failed(&answer)["trouble"]["remedy"].as_str().unwrap();
    assert!(remedy.contains("`--ignore-failure` counts failures too"), "{remedy}");

    let ignored = [&["compare", "-i"], &line[1..]].concat();
    let answer = machine.json(&ignored);
    assert_eq!(begun(&answer), 12);
    assert_eq!(arm(&answer, "runc")["trial_count"], 4);
    let cautions = answer["cautions"].as_array().unwrap();
    let told = cautions.iter().find(|it| it["code"] == "failures-counted").expect("a caution");
    assert_eq!(told["finding"], "runs that ended with exit 3 count: failure is ignored");

    // One that is killed has no time that says anything.
    let killed = compare("native", "2", &["sh", "-c", "kill -9 $$"]);
    let answer = machine.answer(&[&["compare", "-i"], &killed[1..]].concat());
    assert_eq!(arm(&answer, "native")["trial_count"], 0);

    // Whoever came before the baseline in its block counts, and is compared with nothing.
    let stacks = "native:env.CODE=3,runc";
    let code = ["sh", "-c", "exit ${CODE:-0}"];
    let counted = ["1", "13"].map(|seed| {
        let mut arguments = compare(stacks, "2", &code);
        arguments.splice(1..1, ["--baseline", "native:env.CODE=3", "--seed", seed]);
        let output = machine.surtax(&arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "seed {seed}: {said}");
        assert!(said.contains("nothing more is run"), "seed {seed}: {said}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        arm(&answer, "runc")["trial_count"].as_u64().unwrap()
    });
    assert_eq!(counted, [0, 1], "the baseline came first, and `runc` did");

    // A failure in a stack that is compared is that stack's.
    let stacks = "native,runc:env.CODE=3";
    let output = machine.surtax(&compare(stacks, "2", &["sh", "-c", "exit ${CODE:-0}"]));
    assert_eq!(output.status.code(), Some(3), "nothing is compared: {}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(arm(&answer, "native")["trial_count"], 2);
    assert_eq!(arm(&answer, "runc:env.CODE=3")["exit_statuses"][0], "exit 3");
    machine.assert_as_before();
}

#[test]
fn numbers_that_nothing_is_compared_with_are_no_answer() {
    let machine = Machine::take();
    let absent = "docker:runtime=no-such-runtime";
    let stacks = format!("{absent},native");
    let mut arguments = compare(&stacks, "1", &["true"]);
    arguments.splice(1..1, ["--baseline", absent]);
    let output = machine.surtax(&arguments);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(arm(&answer, absent)["trial_count"], 0);
    assert_eq!(arm(&answer, "native")["trial_count"], 1);
    machine.assert_as_before();
}

#[test]
fn a_command_that_is_not_there_is_named() {
    let machine = Machine::take();
    let output = machine.surtax(&compare("native", "1", &["no-such-program-anywhere"]));
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("`no-such-program-anywhere` is not in `PATH`"), "{said}");
    std::fs::write(machine.path("plain"), "#!/bin/sh\n").unwrap();
    let (place, plain) = (machine.path(""), machine.path("plain"));
    for (program, why, hint) in [
        ("/no/such/program", "there is no `/no/such/program`, so no stack", "spelling"),
        ("./nothere.sh", "there is no `./nothere.sh`, so no stack", "spelling"),
        (place.to_str().unwrap(), "` is a directory", "`sh` with a script"),
        (plain.to_str().unwrap(), "/plain` is not executable", "hint: chmod +x "),
    ] {
        let output = machine.surtax(&compare("native,runc", "1", &[program]));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{program}: {said}");
        assert!(said.contains(why) && said.contains(hint), "{program}: {said}");
    }
    machine.assert_as_before();
}

#[test]
fn a_layer_that_is_not_installed_is_a_named_gap_and_the_others_still_run() {
    let machine = Machine::take();
    let mut command = machine.command(&compare("native,crun", "1", &["true"]));
    let empty = machine.path("bin");
    std::fs::create_dir(&empty).unwrap();
    for tool in ["true", "sh"] {
        std::os::unix::fs::symlink(format!("/bin/{tool}"), empty.join(tool)).unwrap();
    }
    let output = command.env("PATH", &empty).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(arm(&answer, "native")["trial_count"], 1);
    let gap = arm(&answer, "crun");
    assert_eq!(gap["verdict"]["is"], "invalid");
    assert_eq!(gap["metrics"], serde_json::json!([]), "a gap is never a zero");
    assert!(gap["trouble"]["remedy"].as_str().unwrap().contains("crun"), "{gap}");
    machine.assert_as_before();
}

#[test]
fn a_command_that_floods_its_output_is_hashed_whole_and_kept_at_its_end() {
    let machine = Machine::take();
    let script = "yes flood | head -c 50000000; printf '\\033[2J\\033]0;title\\007' >&2; exit 1";
    let answer = machine.json_of_a_failure(&compare("native", "1", &["sh", "-c", script]));
    let stderr = arm(&answer, "native")["trouble"]["stderr"].as_str().unwrap().to_owned();
    assert!(!stderr.contains('\u{1b}') && !stderr.contains('\u{7}'), "{stderr:?}");
    assert!(answer.to_string().len() < 200_000, "the flood is not in the answer");
    let listed = machine.surtax(&["list"]);
    let listed = text(&listed.stdout);
    assert!(listed.contains("nothing counts") && !listed.contains("finished"), "{listed}");
    machine.assert_as_before();
}

#[test]
fn writes_are_thrown_away_unless_a_directory_is_shared() {
    let machine = Machine::take();
    let shared = machine.path("shared");
    std::fs::create_dir(&shared).unwrap();
    let name = format!("surtax-test-{}", std::process::id());
    let lost: Vec<PathBuf> = ["/var/tmp", "/etc", "/run", "/run/lock", "/dev/shm"]
        .iter()
        .map(|directory| Path::new(directory).join(&name))
        .chain([machine.path("lost")])
        .collect();
    // Who listens below `/run` is heard all the same.
    let socket = Path::new("/run").join(format!("{name}.socket"));
    let _listener = UnixListener::bind(&socket).unwrap();
    let connect = "socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, sockaddr_un(shift)) or die $!";
    let script = format!(
        "set -e; echo x > {}/kept; {}; perl -MSocket -e '{connect}' {}",
        shared.display(),
        lost.iter()
            .map(|path| format!("echo x > {}", path.display()))
            .collect::<Vec<_>>()
            .join("; "),
        socket.display()
    );
    let mut arguments = vec!["compare", "--in", "native", "--runs", "1", "--writable"];
    let shared_text = shared.to_str().unwrap();
    arguments.extend([shared_text, "--", "sh", "-c", &script]);
    let output = machine.surtax(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(shared.join("kept").exists(), "a shared directory keeps writes");
    for path in lost {
        assert!(!path.exists(), "`{}` is thrown away as any other write", path.display());
    }
    std::fs::remove_file(&socket).unwrap();
    machine.assert_as_before();
}

#[test]
fn a_full_disk_is_said_and_what_was_finished_is_kept() {
    let machine = Machine::take();
    // A ledger on a file system of 400 KiB, in a mount namespace that ends with the command.
    let place = machine.path("small");
    std::fs::create_dir(&place).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=400k tmpfs {0} && {1} compare --in simulated --baseline simulated \
         --runs 5000 -o {0}/run.surtax -- true; code=$?; cp {0}/run.surtax* {2}; exit $code",
        place.display(),
        env!("CARGO_BIN_EXE_surtax"),
        machine.path("").display(),
    );
    let mut command = std::process::Command::new("unshare");
    let output = command.args(["-m", "sh", "-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("full"), "{}", text(&output.stderr));
    let shown = machine.path("run.surtax");
    let shown = machine.json(&["show", shown.to_str().unwrap(), "--format", "json"]);
    assert!(shown["run"]["blocks_done"].as_u64().unwrap() > 0, "{}", shown["run"]);
    machine.assert_as_before();
}

#[test]
fn a_report_that_cannot_be_written_keeps_no_answer_back() {
    let machine = Machine::take();
    let place = machine.path("pages");
    std::fs::create_dir(&place).unwrap();
    let (place, page) = (place.to_str().unwrap(), format!("{}/x.html", place.display()));
    let stacks = ["--in", "native:root=host", "--baseline", "native:root=host", "--runs", "1"];
    let command = ["--report", &page, "--", "rm", "-rf", place];
    let output = machine.surtax(&[&["compare"], &stacks[..], &command[..]].concat());
    let (answer, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(answer.contains("native:root=host"), "{answer}");
    assert!(said.contains("the run is kept in"), "{said}");
    assert!(said.contains("`surtax report last` writes it as HTML"), "{said}");
    let error = format!("error: there is no directory `{place}` for `{page}`\n  hint: mkdir -p");
    assert!(said.contains(&error), "{said}");
    machine.assert_as_before();
}

#[test]
fn a_workload_of_fixed_time_is_shown_without_a_verdict_on_wall_time_and_thresholds_still_decide() {
    let machine = Machine::take();
    if !["native", "runc"].iter().all(|stack| is_usable(&machine, stack)) {
        return;
    }
    let workload = "disk.requests:seconds=1,file_bytes=1048576";
    let stacks = "native:scratch=bind,runc:scratch=bind";
    let question = ["compare", "--in", stacks, "--workload", workload, "--runs", "3"];
    let output = machine.surtax(&question);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    let head = shown.lines().find(|line| line.starts_with("Stack ")).unwrap();
    assert!(head.contains("Trials") && head.contains("CPU"), "{shown}");
    assert!(!head.contains("Wall") && !head.contains("Verdict"), "{shown}");
    assert!(!shown.contains("Noise floor") && shown.contains("latency_p50"), "{shown}");
    // What is left out for people is there for programs.
    let answer = machine.json(&["show", "--format", "json"]);
    assert_eq!(answer["run"]["is_of_fixed_time"], true);
    assert!(arm(&answer, "runc:scratch=bind")["overhead"]["ratio"].is_f64(), "{answer}");
    let exit = |threshold| machine.surtax(&["show", "--fail-if", threshold]).status.code();
    assert_eq!(exit("latency_p50 > +100000%"), Some(0));
    // What takes as long everywhere would keep any.
    assert_eq!(exit("wall > +100000%"), Some(2));
    machine.assert_as_before();
}

/// Takes back that a file may only be appended to, also when the test fails.
struct Appended(PathBuf);

impl Appended {
    fn flip(&self, sign: char) -> bool {
        let script = format!("chattr {sign}a {}/*.journal", self.0.display());
        let chattr = std::process::Command::new("sh").args(["-c", &script]).output();
        chattr.is_ok_and(|output| output.status.success())
    }
}

impl Drop for Appended {
    fn drop(&mut self) {
        self.flip('-');
    }
}

#[test]
fn what_cannot_be_taken_away_at_the_end_of_a_run_is_told_after_its_table() {
    let machine = Machine::take();
    let journals = Appended(machine.path("state"));
    std::fs::DirBuilder::new().mode(0o700).create(&journals.0).unwrap();
    std::fs::write(journals.0.join("probe.journal"), "").unwrap();
    let is_supported = journals.flip('+');
    journals.flip('-');
    std::fs::remove_file(journals.0.join("probe.journal")).unwrap();
    if !is_supported {
        println!("SKIPPED: `chattr +a` does nothing here");
        return;
    }
    let surtax = |arguments: &[&str]| {
        let mut command = machine.command(arguments);
        command.env("SURTAX_STATE_DIR", &journals.0).output().unwrap()
    };
    // A journal that may not be removed keeps the lab from its end, and nothing else.
    let script = format!("chattr +a {}/*.journal", journals.0.display());
    let stack = "native:root=host";
    let output =
        surtax(&["compare", "-q", "--in", stack, "--runs", "1", "--", "sh", "-c", &script]);
    let (table, told) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(table.contains(stack), "{table}{told}");
    assert!(told.contains(".journal`: Operation not permitted"), "{told}");
    assert!(journals.flip('-'));
    let output = surtax(&["gc"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    machine.assert_as_before();
}
