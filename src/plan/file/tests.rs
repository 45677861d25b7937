//! Contents that a plan file may have, and the words with which it is refused.

use super::super::tests::{around, draft, plan};
use super::*;
use crate::layer::tests::DESCRIPTORS;
use crate::plan::Draft;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

#[track_caller]
fn refused(text: &str, expected: &str) {
    let fault = parse(text, "plans/io.toml", DESCRIPTORS).expect_err(expected);
    assert_eq!(fault.exit_code(), 2);
    assert_eq!(fault.to_string(), expected.trim_start_matches('\n'));
}

#[test]
fn a_plan_may_say_everything() {
    let text = r#"
title = "compile"
command = ["make", "-j4"]
stacks = ["native", "qemu:mem=1G,accel=tcg+runc", [{ layer = "qemu", memory = "2G", cpus = 1.5 }, { layer = "docker" }]]
baseline = "runc"
beside = ["adversary.load:cpu=30@runc"]
runs = 0x10
meters = ["battery"]
time = "1h30m"
warm_up = 1
iterations = 5
instances = 2
cache = "warm"
settle = "100ms"
watch = "500ms"
env_padding = 0
ignore_failure = true
keep_disturbed = true
seed = 42
margin = "2.5%"
precision = "2%"
looks = 1
workload = "cpu.sysbench:threads=2"
deadline = "10s"
start_deadline = "1m"
cwd = "/"
writable = ["tmp"]
inherit_environment = false
environment = { LANG = "C" }
"#;
    let draft = parse(text, "plan.toml", DESCRIPTORS).unwrap();
    assert_eq!(draft.stacks[1].to_string(), "qemu:accel=tcg,memory=1G+runc");
    assert_eq!(draft.stacks[2].to_string(), "qemu:cpus=1.5,memory=2G+docker");
    assert_eq!((draft.runs, draft.seed, draft.margin_ppm), (Some(16), Some(42), Some(25_000)));
    assert_eq!(draft.time, Some(Duration::from_secs(5400)));
    assert_eq!(draft.environment, [(String::from("LANG"), Word::from("C"))]);
    assert_eq!(draft.inherit_environment, Some(false));
    assert_eq!(draft.places["runs"], "plan.toml:7");
    let said = draft.places.keys().count();
    assert_eq!(said, KEYS.len(), "this test says every key");
}

#[test]
fn an_unknown_key_is_answered_with_the_nearest_and_its_line() {
    refused(
        "command = [\"true\"]\nwarmup = 3\n",
        "plans/io.toml:2: unknown key `warmup`
  hint: use `warm_up`; the keys of a plan are `title`, `command`, `workload`, `stacks`, `baseline`, `beside`, `meters`, `runs`, `time`, `precision`, `looks`, `warm_up`, `iterations`, `instances`, `cache`, `settle`, `env_padding`, `watch`, `ignore_failure`, `keep_disturbed`, `seed`, `margin`, `deadline`, `start_deadline`, `cwd`, `writable`, `inherit_environment`, `environment`",
    );
}

#[test]
fn values_of_another_type_are_refused_with_what_was_expected() {
    refused(
        "\nruns = \"ten\"",
        "plans/io.toml:2: `runs` is a whole number, and this is of type string",
    );
    refused("runs = -1", "plans/io.toml:1: `runs = -1` is out of range");
    refused(
        "seed = 99999999999999999999",
        "plans/io.toml:1: `seed = 99999999999999999999` is out of range",
    );
    refused(
        "command = \"make -j4\"",
        "plans/io.toml:1: `command` is a list of strings, and this is of type string
  hint: write one word per string, or `command = [\"sh\", \"-c\", \"make -j4\"]`",
    );
    refused(
        "time = 90",
        "plans/io.toml:1: `time` is a duration, and this is of type integer\n  hint: write `time = \
         \"90s\"`",
    );
    refused(
        "deadline = \"90\"",
        "plans/io.toml:1: `90` is not a duration\n  hint: add a unit, as in `90s`",
    );
    refused(
        "cache = \"hot\"",
        "plans/io.toml:1: `hot` is no state of a cache\n  hint: use `cold` or `warm`; without it, \
         each start finds what it finds",
    );
    refused(
        "writable = [1]",
        "plans/io.toml:1: `writable` is a string, and this is of type integer",
    );
    refused(
        "[environment]\nDEBUG = 1",
        "plans/io.toml:2: `environment.DEBUG` is a string, and this is of type integer",
    );
}

#[test]
fn a_stack_in_a_list_is_refused_with_its_own_line() {
    refused(
        "stacks = [\n  \"native\",\n  \"rnuc:cpus=2\",\n]",
        "plans/io.toml:3: unknown layer `rnuc`
    rnuc:cpus=2
    ^^^^
  hint: use `runc`; the layers are `native`, `runc`, `docker`, `gvisor`, `qemu`, `simulated`",
    );
    refused(
        "stacks = [[{ memory = \"1G\" }]]",
        "plans/io.toml:1: a layer without its name\n  hint: add `layer = \"runc\"`",
    );
    refused(
        "stacks = [[{ layer = \"qemu\", kernel = \"a,b\" }]]",
        "plans/io.toml:1: the value `a,b` holds `+` or `,`",
    );
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    let fault = parse("runs = 3\nstacks = [\"native\"", "p.toml", DESCRIPTORS).unwrap_err();
    assert!(fault.message.starts_with("p.toml:2: "), "{fault}");
    let fault = parse("runs = 3\nruns = 4", "p.toml", DESCRIPTORS).unwrap_err();
    assert!(fault.message.starts_with("p.toml:2: "), "{fault}");
}

#[test]
fn a_plan_that_is_not_there_is_answered_with_how_to_make_one() {
    let fault = read(Path::new("/nowhere/plan.toml"), DESCRIPTORS).unwrap_err();
    assert!(fault.message.starts_with("cannot read the plan `/nowhere/plan.toml`: "), "{fault}");
    assert!(fault.hint.unwrap().contains("surtax plan --toml"));
}

#[test]
fn a_plan_that_was_written_reads_as_the_same_plan() {
    let around = around();
    let no_text = Word::from(OsString::from_vec(b"\\\xff'\"\xc3\xa4\xc3\n".to_vec()));
    let mut plans = vec![plan(&["native", "qemu:mem=1G,accel=tcg+runc"])];
    plans.push(Plan {
        title: String::from("a \"title\"\nwith 'quotes' \u{1b} and ''' \\ "),
        command: vec!["sh".into(), "-c".into(), "echo \"$HOME\" '''\n".into(), no_text.clone()],
        runs: None,
        time_budget_ns: Some(90_250_000_000),
        precision_ppm: Some(12_345),
        writable: vec![PathBuf::from("/tmp")],
        equivalence_margin_ppm: 12_345,
        environment: vec![
            (String::from("A.B C"), Word::from("\t\"x\"\r\n")),
            (String::from("BYTES"), no_text.clone()),
            (String::from("LANG"), Word::from("C")),
        ],
        ..plan(&["native"])
    });
    let workload = Some(Workload::find("cpu.sysbench:threads=2,events=7").unwrap());
    let with_one = Draft { workload, command: Vec::new(), ..draft(&["native"]) };
    plans.push(with_one.complete(&around).unwrap().plan);
    assert_eq!(plans[2].command[2], "--threads=2");
    plans.push(Plan { looks: 3, ..plan(&["native", "runc"]) });
    for plan in plans {
        let text = write(&plan);
        let read = parse(&text, "written.toml", DESCRIPTORS)
            .unwrap_or_else(|fault| panic!("{fault}\n{text}"));
        assert_eq!(read.complete(&around).unwrap().plan, plan, "{text}");
    }
}

#[test]
fn the_callers_environment_is_not_copied_into_the_file() {
    let text = write(&plan(&["native"]));
    assert!(!text.contains("PATH") && !text.contains("environment"), "{text}");
    let changed =
        Draft { environment: vec![(String::from("LANG"), Word::from("C"))], ..draft(&["native"]) };
    let text = write(&changed.complete(&around()).unwrap().plan);
    assert!(text.ends_with("\n[environment]\n\"LANG\" = \"C\"\n"), "{text}");
}

#[test]
fn a_plan_that_is_a_pipe_has_no_end_or_is_too_long_is_refused_at_once() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), rustix::fs::Mode::RUSR).unwrap();
    std::os::unix::fs::symlink("/dev/zero", path("zero")).unwrap();
    std::fs::write(path("long"), vec![b'#'; 1 + (1 << 20)]).unwrap();
    for (name, says) in [
        ("pipe", "it is a pipe, and no regular file"),
        ("zero", "it is a device, and no regular file"),
        ("long", "it is longer than 1048576 bytes"),
    ] {
        let fault = read(&path(name), DESCRIPTORS).unwrap_err();
        assert!(fault.message.ends_with(says), "{fault}");
        assert_eq!(fault.exit_code(), 2);
    }
}
