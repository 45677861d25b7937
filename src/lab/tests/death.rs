//! Deaths: main processes and reapers that are killed, and what is left then.

use super::*;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Variable that names the directory of a main process's journal; the test below is such a process
/// if it is set.
const STATE: &str = "SURTAX_TEST_STATE";

/// A main process that is about to be killed: a lab, a room, and two processes in it.
struct Main {
    child: Child,
    /// Kept open: a main process that cannot print would end by itself.
    _stdout: BufReader<ChildStdout>,
    lab: String,
    reaper: u32,
    pids: Vec<u32>,
}

/// Is that main process, when it is started as one.
#[test]
fn this_process_is_a_main_process_to_be_killed() {
    let Some(state) = std::env::var_os(STATE) else { return };
    let lab = lab(Path::new(&state));
    let room = lab.room("doomed").unwrap();
    fs::write(room.directory().join("file"), "x").unwrap();
    fs::write(room.memory_directory().unwrap().join("file"), "x").unwrap();
    let stays = room.spawn(program(&["sleep", "1000"])).unwrap();
    // One that no death signal reaches: only its group tells whose it is.
    let daemon = "setsid sh -c 'sleep 1000 & echo $!; wait' & wait";
    let (read, write) = pipe();
    let mut daemon = program(&["sh", "-c", daemon]);
    daemon.stdio[1] = Some(write);
    let daemon = room.spawn(daemon).unwrap();
    let mut line = String::new();
    BufReader::new(read).read_line(&mut line).unwrap();
    let reaper = lab.reaper.as_ref().unwrap().pid();
    let line = line.trim_end();
    println!("\nready {} {reaper} {} {} {line}", lab.id(), stays.pid(), daemon.pid());
    // Rooms come and go while the killer takes its time.
    for number in 0.. {
        lab.room(&format!("r{number}")).unwrap().close().unwrap();
    }
}

impl Main {
    #[expect(
        clippy::disallowed_methods,
        reason = "the process under test is this test's own binary"
    )]
    fn start(state: &Path) -> Self {
        let name = "lab::tests::death::this_process_is_a_main_process_to_be_killed";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(STATE, state)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut lines = stdout.by_ref().lines().map(Result::unwrap);
        let ready = lines.find(|line| line.starts_with("ready ")).unwrap();
        let mut words = ready.split(' ').skip(1).map(String::from);
        let lab = words.next().unwrap();
        let mut numbers = words.map(|word| word.parse().unwrap());
        Self {
            child,
            _stdout: stdout,
            lab,
            reaper: numbers.next().unwrap(),
            pids: numbers.collect(),
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn a_reaper_takes_everything_away_when_the_main_process_is_killed() {
    let state = tempfile::tempdir().unwrap();
    let mut main = Main::start(state.path());
    assert!(!traces(&main.lab).is_empty());
    // Who asks everybody to end must not stop the one who cleans up.
    signal(main.reaper, Signal::TERM);
    main.kill();
    eventually("the reaper is done", || !is_alive(main.reaper));
    assert_eq!(traces(&main.lab), Vec::<String>::new());
    assert!(main.pids.iter().all(|pid| !is_alive(*pid)), "{:?}", main.pids);
    assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0, "the journal is removed");
}

#[test]
fn the_next_start_takes_everything_away_when_the_reaper_is_killed_too() {
    let state = tempfile::tempdir().unwrap();
    let mut main = Main::start(state.path());
    signal(main.reaper, Signal::KILL);
    main.kill();
    assert!(!traces(&main.lab).is_empty());
    let next = lab(state.path());
    let undone = &next.sweep_report().undone;
    assert!(undone.iter().any(|line| line.contains("was still alive")), "{undone:?}");
    assert_eq!(next.sweep_report().kept, Vec::<String>::new());
    assert_eq!(traces(&main.lab), Vec::<String>::new());
    assert!(main.pids.iter().all(|pid| !is_alive(*pid)), "{:?}", main.pids);
}

#[test]
fn nothing_is_left_whatever_the_main_process_was_doing_when_it_was_killed() {
    let state = tempfile::tempdir().unwrap();
    for pause_us in (0..8).map(|step| step * 700) {
        let mut main = Main::start(state.path());
        std::thread::sleep(Duration::from_micros(pause_us));
        main.kill();
        // Races the reaper for the journal, as a user who starts again at once does.
        let next = lab(state.path());
        assert_eq!(next.sweep_report().kept, Vec::<String>::new());
        next.close().unwrap();
        eventually("the reaper is done", || !is_alive(main.reaper));
        assert_eq!(traces(&main.lab), Vec::<String>::new(), "after {pause_us} µs");
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_process_dies_with_the_thread_that_started_it() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let room = lab.room("threads").unwrap();
    let mut process = std::thread::scope(|scope| {
        scope.spawn(|| room.spawn(program(&["sleep", "1000"])).unwrap()).join().unwrap()
    });
    let status = process.wait(Duration::from_secs(5)).unwrap();
    assert!(status.is_some(), "it outlived the thread");
}
