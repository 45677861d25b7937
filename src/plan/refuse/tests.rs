//! Plans that a draft becomes, and the words with which it is refused.

use super::super::tests::{around, draft};
use super::*;
use crate::driver;
use crate::driver::registered;
use crate::workload::Workload;

fn decided(draft: Draft) -> CheckedPlan {
    draft.complete(&around()).unwrap_or_else(|fault| panic!("{fault}"))
}

#[track_caller]
fn refused(draft: Draft, expected: &str) {
    let fault = draft.complete(&around()).expect_err(expected);
    assert_eq!(fault.exit_code(), 2);
    assert!(fault.to_string().contains(expected), "{fault}");
}

#[test]
fn a_plan_without_count_and_time_has_ten_blocks_and_one_with_a_time_has_no_count() {
    assert_eq!(decided(draft(&["native", "runc"])).plan.runs, Some(10));
    let timed = Draft { time: Some(Duration::from_secs(120)), ..draft(&["native"]) };
    let plan = decided(timed).plan;
    assert_eq!((plan.runs, plan.time_budget()), (None, Some(Duration::from_secs(120))));
}

#[test]
fn native_is_the_baseline_and_is_added_where_it_is_missing() {
    let plan = decided(draft(&["runc", "qemu"])).plan;
    assert_eq!(plan.baseline.to_string(), "native");
    assert_eq!(
        plan.stacks.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["native", "runc", "qemu"]
    );
    let plan = decided(draft(&["runc", "native:cpus=1"])).plan;
    assert_eq!(plan.baseline.to_string(), "native:cpus=1");
    assert_eq!(plan.stacks.len(), 2);
}

#[test]
fn a_baseline_that_is_not_among_the_stacks_is_added_and_said() {
    let added = decided(draft(&["runc"])).notes;
    assert_eq!(
        added,
        ["`native` is measured too, as the baseline; `--baseline STACK` names another"]
    );
    let baseline = draft(&["qemu"]).stacks.pop();
    let named = decided(Draft { baseline, ..draft(&["native", "runc"]) });
    assert_eq!(named.notes, ["`qemu` is measured too, as the baseline"]);
    assert!(decided(draft(&["native", "runc"])).notes.is_empty());
}

#[test]
fn another_baseline_can_be_named_and_is_among_the_stacks_once() {
    let baseline = draft(&["runc"]).stacks.pop();
    let plan = decided(Draft { baseline, ..draft(&["native", "runc"]) }).plan;
    assert_eq!(
        plan.arms().iter().map(|arm| arm.stack.to_string()).collect::<Vec<_>>(),
        ["runc", "runc", "native"]
    );
}

#[test]
fn contradictions_are_refused() {
    refused(Draft { command: Vec::new(), ..draft(&["native"]) }, "there is no command to measure");
    refused(Draft { command: vec![Word::default()], ..draft(&["native"]) }, "an empty word");
    refused(Draft { runs: Some(0), ..draft(&["native"]) }, "`runs = 0` measures nothing");
    refused(Draft { runs: Some(u32::MAX), ..draft(&["native"]) }, "is above 100000");
    refused(Draft { warm_up: Some(5000), ..draft(&["native"]) }, "`warm_up = 5000` is above 1000");
    refused(Draft { seed: Some(u64::MAX), ..draft(&["native"]) }, "the limit of TOML");
    refused(draft(&[]), "there is no stack");
    refused(draft(&["runc", "native", "runc"]), "the stack `runc` is listed twice");
    refused(draft(&["runc:memory=1G", "runc:mem=1G"]), "listed twice");
    let environment = vec![(String::from("A=B"), Word::default())];
    refused(Draft { environment, ..draft(&["native"]) }, "cannot be the name of a variable");
}

#[test]
fn a_contradiction_of_a_file_is_named_with_its_line() {
    let places = BTreeMap::from([("runs", String::from("plans/io.toml:14"))]);
    let fault =
        Draft { runs: Some(0), places, ..draft(&["native"]) }.complete(&around()).unwrap_err();
    assert_eq!(fault.message, "plans/io.toml:14: `runs = 0` measures nothing");
}

#[test]
fn directories_must_be_there_and_relative_ones_are_made_absolute() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(place.path().join("work/out")).unwrap();
    std::fs::write(place.path().join("file"), "").unwrap();
    let around = Defaults { cwd: place.path().to_path_buf(), ..around() };
    let with = |cwd: &str, writable: &str| Draft {
        cwd: Some(cwd.into()),
        writable: vec![writable.into(), writable.into()],
        ..draft(&["native"])
    };
    let plan = with("work", "out").complete(&around).unwrap().plan;
    assert_eq!(plan.cwd, place.path().join("work"));
    assert_eq!(plan.writable, [place.path().join("work/out")]);
    for (cwd, writable, expected) in [
        ("nowhere", "out", "the working directory"),
        ("work", "nowhere", "mkdir -p"),
        ("work", "../file", "is not a directory"),
        ("work", "/", "would keep every write"),
    ] {
        let fault = with(cwd, writable).complete(&around).unwrap_err();
        assert!(fault.to_string().contains(expected), "{fault}");
    }
}

#[test]
fn a_place_is_named_without_the_dot_of_a_relative_one() {
    let around = Defaults { cwd: "/tmp".into(), ..around() };
    let writable = vec!["./not-there".into()];
    let fault = Draft { writable, ..draft(&["native"]) }.complete(&around).unwrap_err();
    assert!(fault.message.contains("`/tmp/not-there`"), "{fault}");
}

#[test]
fn a_cpu_that_is_not_there_is_blamed_on_what_was_typed() {
    let around = Defaults { cpus: Some(vec![0, 1]), ..around() };
    let pin = Some(String::from("99"));
    let fault = Draft { pin, ..draft(&["native", "runc"]) }.complete(&around).unwrap_err();
    assert!(fault.message.ends_with("`--pin`: this machine has no CPU 99"), "{fault}");
    let fault = draft(&["native", "runc:cpuset=99"]).complete(&around).unwrap_err();
    assert!(fault.message.contains("`runc:cpuset=99` cannot be"), "{fault}");
}

#[test]
fn a_root_directory_is_made_absolute_and_must_be_there() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("image")).unwrap();
    let around = Defaults { cwd: place.path().to_path_buf(), ..around() };
    let plan = draft(&["native", "runc:root=dir:image"]).complete(&around).unwrap().plan;
    let root = plan.stacks[1].layers[0].root();
    assert_eq!(root, Ok(Root::Directory(place.path().join("image"))));
    let fault = draft(&["runc:root=oci:nothing"]).complete(&around).unwrap_err();
    assert!(fault.message.contains("of `runc` is not there"), "{fault}");
}

#[test]
fn a_file_that_an_option_names_is_made_absolute_and_must_be_one_word() {
    let place = tempfile::tempdir().unwrap();
    let divided = place.path().join("c++");
    std::fs::create_dir(&divided).unwrap();
    let in_cwd = |cwd: &Path, file: &str| {
        let around = Defaults { cwd: cwd.to_path_buf(), ..around() };
        let plan = draft(&["native", &format!("qemu:kernel={file}")]).complete(&around)?.plan;
        Ok::<_, Fault>(plan.stacks[1].layers[0].option("kernel").map(str::to_owned))
    };
    let absolute = place.path().join("k").display().to_string();
    assert_eq!(in_cwd(place.path(), "k"), Ok(Some(absolute)));
    for kept in ["/boot/k", "~/k"] {
        assert_eq!(in_cwd(place.path(), kept), Ok(Some(kept.to_owned())));
    }
    let fault = in_cwd(&divided, "k").unwrap_err();
    let said = format!("the kernel `{}` holds `+` or `,`", divided.join("k").display());
    assert!(fault.message.contains(&said), "{fault}");
}

#[test]
fn the_callers_environment_is_not_in_the_plan_which_goes_into_the_run_file() {
    let mine = vec![(String::from("LANG"), "C".into()), (String::from("A"), "1".into())];
    let plan = decided(Draft { environment: mine.clone(), ..draft(&["native"]) }).plan;
    let names: Vec<&str> = plan.environment.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names.as_slice(), plan.inherit_environment), (["A", "LANG"].as_slice(), true));
    let alone = Draft { environment: mine, inherit_environment: Some(false), ..draft(&["native"]) };
    assert!(!decided(alone).plan.inherit_environment);
}

#[test]
fn a_native_root_that_keeps_writes_is_said_aloud() {
    assert!(decided(draft(&["native", "runc"])).notes.is_empty());
    let notes = decided(draft(&["native:root=host", "runc"])).notes;
    assert!(
        notes[0].contains("`native:root=host` writes to this machine's own files"),
        "{notes:?}"
    );
}

#[test]
fn the_command_line_counts_over_the_file() {
    let places =
        BTreeMap::from([("runs", String::from("p.toml:3")), ("cwd", String::from("p.toml:4"))]);
    let file = Draft {
        runs: Some(3),
        title: Some(String::from("mine")),
        places,
        ..draft(&["native", "runc"])
    };
    let line = Draft { runs: Some(0), ..Draft::default() };
    let both = file.overlaid_by(line);
    assert_eq!((both.runs, both.title.as_deref(), both.stacks.len()), (Some(0), Some("mine"), 2));
    let fault = both.complete(&around()).unwrap_err();
    assert_eq!(fault.message, "`runs = 0` measures nothing");
}

#[test]
fn a_precision_needs_an_end_and_room_to_be_reached() {
    let precise = |runs, time| Draft {
        precision_ppm: Some(20_000),
        runs,
        time,
        ..draft(&["native", "runc"])
    };
    let alone = decided(precise(None, None));
    assert_eq!((alone.plan.runs, alone.plan.precision()), (Some(PRECISION_RUNS), Some(0.02)));
    assert!(alone.notes[0].contains("`--time` or `--runs` sets another end"), "{:?}", alone.notes);
    let timed = decided(precise(None, Some(Duration::from_secs(60))));
    assert_eq!((timed.plan.runs, timed.notes.len()), (None, 0));
    let fault = precise(Some(3), None).complete(&around()).unwrap_err();
    assert_eq!(fault.message, "`precision` with `runs = 3` can never be reached");
}

#[test]
fn a_long_command_makes_a_short_title() {
    let command = vec!["sh".into(), "-c".into(), "x ".repeat(200).into()];
    let title = decided(Draft { command, ..draft(&["native"]) }).plan.title;
    assert_eq!(title.chars().count(), TITLE_LIMIT + 1);
    let titled = |length: usize| Draft { title: Some("x".repeat(length)), ..draft(&["native"]) };
    assert_eq!(decided(titled(TITLE_MAX)).plan.title.len(), TITLE_MAX);
    let fault = titled(TITLE_MAX + 1).complete(&around()).unwrap_err();
    assert_eq!(fault.message, "a title of 1001 bytes is longer than 1000");
}

#[test]
fn where_one_stack_names_a_medium_all_of_them_have_a_scratch_directory() {
    let descriptors = registered();
    let around = Defaults { descriptors: &descriptors, ..around() };
    let read = |stacks: &[&str]| {
        let stacks = stacks.iter().map(|text| driver::parse(text).unwrap()).collect();
        Draft { stacks, command: vec![Word::from("true")], ..Draft::default() }.complete(&around)
    };
    let plan = read(&["qemu+runc", "docker:scratch=volume"]).unwrap().plan;
    let stacks: Vec<String> = plan.stacks.iter().map(ToString::to_string).collect();
    assert_eq!(
        stacks,
        ["native:scratch=layer", "qemu+runc:scratch=layer", "docker:scratch=volume"]
    );
    assert_eq!(plan.baseline.to_string(), "native:scratch=layer");

    let why = |stacks: &[&str]| read(stacks).unwrap_err().message;
    assert!(
        why(&["runc:scratch=bind", "simulated"]).contains("`simulated` has no scratch directory")
    );
    assert!(why(&["runc:scratch=bind", "native:root=host"]).contains("no place for a scratch"));
    assert!(why(&["runc:scratch=layer", "runc"]).contains("is there twice"));
}

#[test]
fn where_one_side_is_outside_every_stack_has_a_network_and_it_is_said() {
    let descriptors = registered();
    let around = Defaults { descriptors: &descriptors, ..around() };
    let read = |stacks: &[&str], name: &str| {
        let stacks = stacks.iter().map(|text| driver::parse(text).unwrap()).collect();
        let workload = Some(Workload::find(name).unwrap());
        Draft { stacks, workload, ..Draft::default() }.complete(&around)
    };
    let decided = read(&["runc", "qemu"], "net.tcp_rr").unwrap();
    let stacks: Vec<String> = decided.plan.stacks.iter().map(ToString::to_string).collect();
    assert_eq!(stacks, ["native", "runc:net=veth", "qemu:net=tap"]);
    let note = "one side of `net.tcp_rr` is outside of the stack, so `runc` is `runc:net=veth`, \
                `qemu` is `qemu:net=tap`";
    assert!(decided.notes.iter().any(|line| line == note), "{:?}", decided.notes);
    let plan = read(&["runc"], "cpu.sysbench").unwrap().plan;
    assert_eq!(plan.stacks[1].to_string(), "runc");
    let fault = read(&["runc", "runc:net=veth"], "net.tcp_rr").unwrap_err();
    assert_eq!(fault.message, "the stack `runc:net=veth` is listed twice");
}

fn with_workload(stacks: &[&str], text: &str) -> Draft {
    let workload = Workload::of("mine", text.to_owned(), Vec::new()).unwrap();
    Draft { workload: Some(workload), command: Vec::new(), ..draft(stacks) }
}

const NUMBERS: &str = "about = \"numbers\"\ncommand = [\"seq\", \"3\"]\n[[metric]]\nname = \"n\"\n\
                       unit = \"count\"\nbetter = \"lower\"\nregex = '^(1)'\n";

#[test]
fn a_workload_brings_its_command_and_another_beside_it_is_refused() {
    let plan = decided(with_workload(&["native", "runc"], NUMBERS)).plan;
    assert_eq!((plan.title.as_str(), shell::line(&plan.command).as_str()), ("mine", "seq 3"));
    let both = Draft { command: vec![Word::from("true")], ..with_workload(&["native"], NUMBERS) };
    let fault = both.complete(&around()).unwrap_err();
    assert_eq!(fault.message, "there are a command and the workload `mine`");
}

#[test]
fn what_is_run_by_the_command_line_counts_over_what_is_run_by_the_file() {
    let (command, workload) = (draft(&["native"]), with_workload(&["native"], NUMBERS));
    let run = |under: &Draft, over: &Draft| {
        let plan = decided(under.clone().overlaid_by(over.clone())).plan;
        (plan.command[0].clone(), plan.workload.is_some())
    };
    assert_eq!(run(&command, &workload), (Word::from("seq"), true));
    assert_eq!(run(&workload, &command), (Word::from("true"), false));
    assert_eq!(run(&workload, &Draft::default()), (Word::from("seq"), true));
}

#[test]
fn a_workload_that_works_in_a_scratch_directory_is_refused_where_no_stack_names_one() {
    let text = format!("scratch = true\n{NUMBERS}");
    let fault = with_workload(&["native", "qemu:cpus=1"], &text).complete(&around()).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "`mine` works in the stack's scratch directory, and `native` has none\n  hint: say on what \
         its data lies, as in `native:scratch=layer`"
    );
}

#[test]
fn a_precision_is_refused_where_nothing_that_is_always_there_could_have_it() {
    let precision_ppm = Some(20_000);
    let text = format!("fixed_time = true\n{NUMBERS}");
    let draft = Draft { precision_ppm, ..with_workload(&["native"], &text) };
    assert!(draft.complete(&around()).is_ok());
    let optional = text.replace("better = ", "optional = true\nbetter = ");
    assert_ne!(optional, text);
    let draft = with_workload(&["native"], &optional);
    assert!(draft.clone().complete(&around()).is_ok());
    let fault = Draft { precision_ppm, ..draft }.complete(&around()).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "`precision` is that of wall time and of the first metric, and `mine` runs for a fixed \
         time and has no metric that is always there\n  hint: ask for `--runs 20`, or for a time"
    );
}
