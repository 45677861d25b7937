//! Strangers' files and runs, given to the built binary: names that lead elsewhere, and runs that
//! would execute.

use crate::machine::{Machine, text};
use rustix::fs::{CWD, FileType, Mode};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use surtax_instrument::clock::monotonic_raw;

/// A run in `native` whose command leaves a mark.
fn run(machine: &Machine, file: &Path, mark: &Path) {
    let (file, mark) = (file.to_str().unwrap(), mark.to_str().unwrap());
    let place = Path::new(mark).parent().unwrap().to_str().unwrap();
    let question = ["compare", "--in", "native", "--runs", "1", "--writable", place, "-o", file];
    let output = machine.surtax(&[question.as_slice(), &["--", "touch", mark]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

fn edit(file: &Path, change: &str) {
    rusqlite::Connection::open(file).unwrap().execute_batch(change).unwrap();
}

#[test]
fn what_is_no_run_file_is_refused_at_once_by_every_command() {
    let machine = Machine::alone();
    let fifo = machine.path("fifo.surtax");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let sparse = machine.path("sparse.surtax");
    std::fs::File::create(&sparse).unwrap().set_len(1 << 40).unwrap();
    let folder = machine.path("folder.surtax");
    std::fs::create_dir(&folder).unwrap();
    let link = machine.path("link.surtax");
    std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
    let shown = |path: &Path| path.to_str().unwrap().to_owned();
    for (name, expected) in [
        (shown(&fifo), "is a pipe and no run file"),
        (shown(&sparse), "no run has more than"),
        (shown(&folder), "is a directory and no run file"),
        (shown(&link), "is a symbolic link and no run file"),
        (String::from("/proc/self/maps"), "holds no run"),
        (String::from("/dev/zero"), "is a device and no run file"),
        (String::from("/etc/passwd"), "is not a run file of surtax"),
    ] {
        for command in ["show", "report", "export", "resume"] {
            let began = monotonic_raw();
            let output = machine.surtax(&[command, &name]);
            let took = Duration::from(monotonic_raw().since(began));
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command} {name}: {errors}");
            assert!(errors.contains(expected), "{command} {name}: {errors}");
            assert!(took < Duration::from_secs(20), "{command} {name} took {took:?}");
        }
    }
}

#[test]
fn a_workload_that_somebody_else_could_change_is_not_taken_by_its_name() {
    let machine = Machine::take();
    let config = machine.path("config");
    let folder = config.join("surtax/workloads");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("cpu.pi.toml");
    let definition = "about = \"x\"\ncommand = [\"echo\", \"x 1\"]\n\
                      [[check]]\nabout = \"x\"\nregex = 'x (1)'\nmin = 1\nmax = 1\n";
    std::fs::write(&file, definition).unwrap();
    let run = || {
        let question = ["compare", "--in", "native", "--runs", "1", "--workload", "cpu.pi"];
        let mut command = machine.command(&question);
        command.env("XDG_CONFIG_HOME", &config).output().unwrap()
    };
    let ended = run();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    for theirs in [&file, &folder] {
        std::os::unix::fs::chown(theirs, Some(54_321), Some(54_321)).unwrap();
        let refused = run();
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(3), "{said}");
        assert!(said.contains("belongs to user 54321") && said.contains("name it"), "{said}");
        std::os::unix::fs::chown(theirs, Some(0), Some(0)).unwrap();
    }
    machine.assert_as_before();
}

#[test]
fn a_run_that_was_not_begun_here_is_shown_and_executes_nothing_until_somebody_says_so() {
    let machine = Machine::alone();
    let (file, mark) = (machine.path("run.surtax"), machine.path("marks/mark"));
    std::fs::create_dir(mark.parent().unwrap()).unwrap();
    run(&machine, &file, &mark);
    let name = file.to_str().unwrap();
    let undo = "UPDATE run SET state = 'interrupted'; UPDATE trials SET state = 'void'";
    let resume = |arguments: &[&str]| {
        std::fs::remove_file(&mark).unwrap();
        let output = machine.surtax(&[["resume", name].as_slice(), arguments].concat());
        (output.status.code(), text(&output.stderr), mark.exists())
    };
    edit(&file, undo);
    let (code, errors, was_executed) = resume(&[]);
    assert!(was_executed, "its own run goes on without a question: {code:?} {errors}");
    edit(&file, undo);
    edit(&file, "UPDATE run SET plan_json = json_set(plan_json, '$.seed', 4)");
    let (code, errors, was_executed) = resume(&[]);
    assert_eq!((code, was_executed), (Some(2), false), "{errors}");
    for part in ["command    touch ", "in         native", "nothing of it was executed", "--yes"] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    for form in ["table", "json", "markdown"] {
        let shown = text(&machine.surtax(&["show", name, "--format", form]).stdout);
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("are those of whoever wrote it"), "{form}: {shown}");
    }
    let page = machine.path("page.html");
    let report = machine.surtax(&["report", name, "-o", page.to_str().unwrap()]);
    assert!(report.status.success(), "{}", text(&report.stderr));
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("are those of whoever wrote it"));
    std::fs::write(&mark, "").unwrap();
    let (_, errors, was_executed) = resume(&["--yes"]);
    assert!(was_executed, "{errors}");
    // Nobody vouches for it either when it has gone on here, nor when nothing was left to do.
    let page = machine.path("gone-on.html");
    for arguments in [&["--yes", "--report", page.to_str().unwrap()][..], &["--format", "table"]] {
        let output = machine.surtax(&[["resume", name].as_slice(), arguments].concat());
        let said = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("are those of whoever wrote it"), "{arguments:?}: {said}");
    }
    assert!(std::fs::read_to_string(&page).unwrap().contains("are those of whoever wrote it"));
    machine.assert_as_before();
}

#[test]
fn a_seal_does_not_count_where_somebody_else_could_have_written_and_nothing_goes_on_there() {
    let machine = Machine::alone();
    let (file, mark) = (machine.path("run.surtax"), machine.path("marks/mark"));
    std::fs::create_dir(mark.parent().unwrap()).unwrap();
    run(&machine, &file, &mark);
    edit(&file, "UPDATE run SET state = 'interrupted'; UPDATE trials SET state = 'void'");
    std::fs::remove_file(&mark).unwrap();
    let name = file.to_str().unwrap();
    let resume = |arguments: &[&str]| {
        let output = machine.surtax(&[["resume", name].as_slice(), arguments].concat());
        assert_eq!((output.status.code(), mark.exists()), (Some(2), false), "{arguments:?}");
        text(&output.stderr)
    };
    let set_mode = |mode| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set_mode(0o620);
    let assert_refused = |why: &str| {
        for arguments in [[].as_slice(), &["--yes"]] {
            let said = resume(arguments);
            assert!(said.contains(why) && !said.contains("not begun"), "{arguments:?}: {said}");
        }
    };
    assert_refused("(mode 0620)");
    set_mode(0o600);
    let log = machine.path("run.surtax-wal");
    std::fs::write(&log, "").unwrap();
    std::os::unix::fs::chown(&log, Some(65_534), None).unwrap();
    assert_refused("belongs to user 65534");
    std::fs::remove_file(&log).unwrap();
    let output = machine.surtax(&["resume", name]);
    assert!(output.status.success() && mark.exists(), "{}", text(&output.stderr));
    machine.assert_as_before();
}

#[test]
fn a_file_that_an_older_surtax_left_empty_is_said_and_is_in_nobodys_way() {
    let machine = Machine::alone();
    let output = machine.surtax(&["compare", "--in", "native", "--runs", "1", "--", "true"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shelf = machine.path("data").join("surtax/runs");
    std::fs::write(shelf.join("99990101T000000Z-true.surtax"), "").unwrap();
    let shown = machine.surtax(&["show", "last"]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let listed = machine.surtax(&["list"]);
    assert!(listed.status.success() && text(&listed.stderr).contains("holds no run"));
    let empty = shelf.join("99990101T000000Z-true.surtax");
    let output = ["compare", "--in", "native", "-o", empty.to_str().unwrap(), "--", "true"];
    let refused = machine.surtax(&output);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("remove it, and ask again: rm "));
    assert_eq!(machine.surtax(&["rm", "99990101"]).status.code(), Some(2), "it is no run");
    machine.assert_as_before();
}

#[test]
fn a_disk_that_is_full_when_a_run_begins_keeps_no_file_of_it() {
    let machine = Machine::alone();
    let place = machine.path("small");
    std::fs::create_dir(&place).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=64k tmpfs {0} && {1} compare --in native -o {0}/run.surtax -- \
         true; code=$?; ls -A {0}; exit $code",
        place.display(),
        env!("CARGO_BIN_EXE_surtax"),
    );
    let mut command = std::process::Command::new("unshare");
    let output = command.args(["-m", "sh", "-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("No space left"), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "", "something is left");
    machine.assert_as_before();
}

#[test]
fn a_run_whose_file_is_removed_meanwhile_is_not_said_to_be_kept() {
    let machine = Machine::alone();
    let (file, marks) = (machine.path("run.surtax"), machine.path("marks"));
    std::fs::create_dir(&marks).unwrap();
    let (place, name) = (marks.to_str().unwrap(), file.to_str().unwrap());
    let question = ["compare", "--in", "native", "--runs", "1", "--writable", place, "-o", name];
    let script = format!("touch {place}/mark; sleep 1");
    let surtax = machine.start(&[question.as_slice(), &["--", "sh", "-c", &script]].concat());
    while !marks.join("mark").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::fs::remove_file(&file).unwrap();
    let output = surtax.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("the run is not kept: ") && said.contains("--output"), "{said}");
    assert!(text(&output.stdout).contains("native"), "what was measured is shown all the same");
    machine.assert_as_before();
}

#[test]
fn a_plan_a_workload_a_recipe_or_a_kernel_that_is_a_pipe_or_has_no_end_is_refused_at_once() {
    let machine = Machine::alone();
    let path = |name: &str| machine.path(name).display().to_string();
    let made = std::process::Command::new("mkfifo").arg(path("pipe.toml")).status().unwrap();
    assert!(made.success());
    std::os::unix::fs::symlink("/dev/zero", path("zero.toml")).unwrap();
    let compare = ["compare", "--runs", "1", "--in"];
    for (name, said) in [("pipe.toml", "it is a pipe"), ("zero.toml", "it is a device")] {
        let file = path(name);
        let (kernel, recipe) =
            (format!("qemu:accel=tcg,kernel={file}"), format!("appliance:recipe={file}"));
        let asked: [Vec<&str>; 5] = [
            vec!["run", &file],
            vec!["plan", &file],
            [&compare[..], &["native", "--workload", &file]].concat(),
            [&compare[..], &[&kernel, "--", "true"]].concat(),
            [&compare[..], &[&recipe, "--", "true"]].concat(),
        ];
        for words in asked {
            let surtax = env!("CARGO_BIN_EXE_surtax");
            // With no more memory than a small part of this machine's, and not for ever.
            let line = "ulimit -v 4000000; exec timeout 60 \"$@\"";
            let mut sh = std::process::Command::new("sh");
            sh.args(["-c", line, "sh", surtax]).args(&words).env("XDG_DATA_HOME", path("data"));
            let output = sh.stdin(std::process::Stdio::null()).output().unwrap();
            let told = text(&output.stdout) + &text(&output.stderr);
            assert!(told.contains(said), "{words:?}: {:?}: {told}", output.status);
            // What a layer lacks is a gap in the answer.
            let code = if words.contains(&kernel.as_str()) { 3 } else { 2 };
            assert_eq!(output.status.code(), Some(code), "{words:?}: {told}");
        }
    }
    machine.assert_as_before();
}

#[test]
fn a_plan_or_a_workload_that_the_caller_hands_down_is_read_from_a_pipe_and_from_standard_input() {
    let machine = Machine::alone();
    let plan = "stacks = [\"native\"]\ncommand = [\"true\"]\nruns = 1\n";
    let workload = "about = \"says 1\"\ncommand = [\"echo\", \"1\"]\n[[check]]\nabout = \"it \
                    does\"\nregex = \"(1)\"\nmin = 1\nmax = 1\n";
    for (text_of_it, words) in
        [(plan, "run --quiet"), (workload, "compare --quiet --in native --runs 1 --workload")]
    {
        for line in [
            format!("cat \"$0\" | \"$1\" {words} /dev/stdin"),
            format!("\"$1\" {words} /dev/stdin < \"$0\""),
            format!("\"$1\" {words} <(sleep 0.2; cat \"$0\")"),
        ] {
            let file = machine.path("given.toml");
            std::fs::write(&file, text_of_it).unwrap();
            let mut bash = std::process::Command::new("bash");
            bash.args(["-c", &line]).arg(&file).arg(env!("CARGO_BIN_EXE_surtax"));
            let output = bash.env("XDG_DATA_HOME", machine.path("data")).output().unwrap();
            assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        }
    }
    machine.assert_as_before();
}
