//! A line that is being typed is completed by real shells, from what there is on this machine.

use crate::machine::{Machine, text};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Lines as they are typed, and as they are after the key; for `RUN` the name of a run is set.
const LINES: [(&str, &str); 9] = [
    ("surtax compa", "surtax compare"),
    ("surtax compare --in native,gv", "surtax compare --in native,gvisor"),
    ("surtax compare --in native,gvisor:plat", "surtax compare --in native,gvisor:platform="),
    (
        "surtax compare --in native,gvisor:platform=sys",
        "surtax compare --in native,gvisor:platform=systrap",
    ),
    ("surtax enter qemu+ru", "surtax enter qemu+runc"),
    ("surtax compare --workload cpu.sysb", "surtax compare --workload cpu.sysbench"),
    (
        "surtax compare --workload cpu.sysbench:thr",
        "surtax compare --workload cpu.sysbench:threads=",
    ),
    ("surtax run stor", "surtax run storage"),
    ("surtax show RUN", "surtax show RUN"),
];

/// Installs the script of a shell where a package would, and a `surtax` in `PATH`.
fn install(machine: &Machine, shell: &str) -> std::path::PathBuf {
    let bin = machine.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_surtax"), bin.join("surtax"));
    let script = machine.surtax(&["completions", shell]);
    assert!(script.status.success(), "{}", text(&script.stderr));
    let folder = machine.path(shell);
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("_surtax");
    std::fs::write(&path, script.stdout).unwrap();
    path
}

/// The lines, with the name of a run of this machine's in the place of `RUN`: all but its end is
/// typed.
fn lines(machine: &Machine) -> Vec<(String, String)> {
    let asked = machine.surtax(&["compare", "--in", "native", "--runs", "1", "--", "true"]);
    assert!(asked.status.success(), "{}", text(&asked.stderr));
    let list = machine.json(&["list", "--format", "json"]);
    let name = list[0]["name"].as_str().unwrap().to_owned();
    let typed = name.strip_suffix("true").unwrap().to_owned();
    let of = |(line, done): (&str, &str)| (line.replace("RUN", &typed), done.replace("RUN", &name));
    LINES.into_iter().map(of).collect()
}

/// A shell with the machine's runs and that `surtax`.
fn shell(machine: &Machine, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    let path = std::env::join_paths(
        std::iter::once(machine.path("bin"))
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    command
        .args(arguments)
        .env("PATH", path.unwrap())
        .env("HOME", machine.path(""))
        .env("XDG_DATA_HOME", machine.path("data"))
        .env("TERM", "dumb")
        .env("PS1", "$ ")
        .current_dir(machine.path(""));
    command
}

/// Types into a shell on a terminal, and returns what is seen there.
fn typed(machine: &Machine, shell_line: &str, keys: &str) -> String {
    // A quotation mark that is left open would be waited for.
    let arguments = ["20", "script", "-qfec", shell_line, "/dev/null"];
    let mut terminal = shell(machine, "timeout", &arguments);
    let terminal = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut terminal = terminal.spawn().unwrap();
    terminal.stdin.take().unwrap().write_all(keys.as_bytes()).unwrap();
    text(&terminal.wait_with_output().unwrap().stdout)
}

/// Types each line, presses the key, and has the shell print what stands there then.
fn assert_completed(machine: &Machine, shell_line: &str, source: &str) {
    for (line, done) in lines(machine) {
        // The first key goes to the begin of the line.
        let keys = format!("{source}\n{line}\t\x01printf '<%s>\\n' \"\x05\"\nexit\n");
        let seen = typed(machine, shell_line, &keys);
        let wanted = [format!("<{done}>"), format!("<{done} >")];
        assert!(wanted.iter().any(|it| seen.contains(it)), "{line}: {done}\n{seen}");
    }
}

#[test]
fn bash_completes_stacks_options_workloads_plans_and_runs() {
    let machine = Machine::take();
    let script = install(&machine, "bash");
    let source = format!("source {}", script.display());
    assert_completed(&machine, "bash --norc --noprofile -i", &source);
    machine.assert_as_before();
}

#[test]
fn zsh_completes_the_same_from_where_a_package_puts_its_script() {
    let machine = Machine::take();
    let script = install(&machine, "zsh");
    let folder = script.parent().unwrap().display();
    let source = format!(
        "bindkey -e; fpath=({folder} $fpath); autoload -U compinit; compinit -u -d {folder}/dump"
    );
    assert_completed(&machine, "zsh -f -i", &source);
    machine.assert_as_before();
}

#[test]
fn fish_completes_the_same_with_a_line_about_each() {
    let machine = Machine::take();
    let script = install(&machine, "fish");
    for (line, done) in lines(&machine) {
        let asked = format!("source {}; complete -C '{line}'", script.display());
        let output = shell(&machine, "fish", &["--no-config", "-c", &asked]).output().unwrap();
        let seen = text(&output.stdout);
        let word = done.rsplit(' ').next().unwrap();
        let words: Vec<&str> = seen.lines().filter_map(|line| line.split('\t').next()).collect();
        assert!(words.contains(&word), "{line}: {word}\n{seen}{}", text(&output.stderr));
    }
    machine.assert_as_before();
}

#[test]
fn names_that_a_shell_would_divide_or_obey_are_typed_as_it_reads_them() {
    let machine = Machine::take();
    std::fs::write(machine.path("my run.surtax"), "").unwrap();
    std::fs::write(machine.path("it's$HOME.surtax"), "").unwrap();
    std::fs::write(machine.path(r"a\b.surtax"), "").unwrap();
    let bash = install(&machine, "bash");
    let zsh = install(&machine, "zsh");
    let of_home = format!("{}/my run.surtax", machine.path("").display());
    let of_bash = format!("source {}", bash.display());
    let of_zsh =
        format!("bindkey -e; autoload -U compinit; compinit -u -D; source {}", zsh.display());
    let (bash, zsh) = ("bash --norc --noprofile -i", "zsh -f -i");
    // A quotation mark that is open the shell sets itself, behind the only name that fits.
    for (shell_line, source, typed_so_far, name) in [
        (bash, &of_bash, "./my", "./my run.surtax"),
        (bash, &of_bash, "\"./my ", "./my run.surtax"),
        (bash, &of_bash, "'./my ", "./my run.surtax"),
        (bash, &of_bash, "\"./it", "./it's$HOME.surtax"),
        (bash, &of_bash, "'./it", "./it's$HOME.surtax"),
        (bash, &of_bash, "./it", "./it's$HOME.surtax"),
        (bash, &of_bash, "./a", r"./a\b.surtax"),
        (bash, &of_bash, "~/my", &of_home),
        (zsh, &of_zsh, "./my", "./my run.surtax"),
        (zsh, &of_zsh, "./a", r"./a\b.surtax"),
    ] {
        // The shell says which words it read.
        let keys =
            format!("{source}\nsurtax show {typed_so_far}\t\x01printf '<%s>\\n' \x05\nexit\n");
        let seen = typed(&machine, shell_line, &keys);
        assert!(seen.contains(&format!("<{name}>")), "{shell_line}, {typed_so_far}\n{seen}");
    }
    machine.assert_as_before();
}

#[test]
fn what_a_stranger_wrote_is_offered_without_letters_that_act_and_nothing_is_waited_for() {
    let machine = Machine::take();
    let folder = machine.path("config/surtax/workloads");
    std::fs::create_dir_all(&folder).unwrap();
    let about = "a\u{9d}0;OWNED\u{9c}\r\u{202e}z";
    let file = format!("about = \"{about}\"\ncommand = [\"true\"]\n");
    std::fs::write(folder.join("mine.toml"), file).unwrap();
    std::fs::write(folder.join("mi\u{202e}ne.toml"), "about = \"x\"\ncommand = [\"true\"]\n")
        .unwrap();
    std::os::unix::fs::symlink("/proc/kmsg", folder.join("min.toml")).unwrap();
    let ask = |shell: &str, words: &[&str]| {
        let mut command = machine.command(&["completions", shell, "--"]);
        command.args(words).env("XDG_CONFIG_HOME", machine.path("config"));
        command.stdin(Stdio::piped()).spawn().unwrap()
    };
    let words = ["surtax", "compare", "--workload", "mi"];
    let offered = text(&ask("zsh", &words).wait_with_output().unwrap().stdout);
    let names: Vec<&str> = offered.lines().filter_map(|line| line.split('\t').next()).collect();
    assert!(names.contains(&"mine") && !names.contains(&"mi\u{202e}ne"), "{offered:?}");
    let acts = |it: char| it != '\n' && it != '\t' && (it.is_control() || it == '\u{202e}');
    assert!(!offered.chars().any(acts), "{offered:?}");

    // Its standard input stays open, and nobody writes to it.
    let mut waiting = ask("bash", &["surtax compare --workload /dev/stdin:", ""]);
    let keyboard = waiting.stdin.take();
    assert!(waiting.wait().unwrap().success());
    drop(keyboard);
    machine.assert_as_before();
}

#[test]
fn bash_gets_no_word_that_it_would_obey() {
    let machine = Machine::take();
    let script = install(&machine, "bash");
    let data = machine.path("data/surtax/runs");
    std::fs::create_dir_all(&data).unwrap();
    let made = machine.path("made");
    std::fs::write(data.join("x$(touch made).surtax"), "").unwrap();
    std::fs::write(machine.path("y;touch made;.surtax"), "").unwrap();
    let source = format!("source {}", script.display());
    for line in ["surtax show x", "surtax show ./y"] {
        let keys = format!("{source}\n{line}\t\nexit\n");
        let seen = typed(&machine, "bash --norc --noprofile -i", &keys);
        assert!(!Path::new(&made).exists(), "{line}\n{seen}");
    }
    machine.assert_as_before();
}
