//! Journals that were cut off, damaged, taken over, or written in another boot.

use super::*;

fn header(lab: &str) -> Header {
    Header { lab: String::from(lab), ..Header::of_this_process().unwrap() }
}

fn group(name: &str) -> Undo {
    Undo::Group { path: PathBuf::from(format!("surtax-{name}")) }
}

/// A journal whose owner is gone, with `tail` at its end.
fn left_behind(state: &Path, tail: &str) -> PathBuf {
    let mut journal = Journal::create(state, header("0000aaaa")).unwrap();
    let ids = journal.will(vec![group("a"), group("b"), group("c")]).unwrap();
    journal.undone(&ids[1..2]).unwrap();
    let path = journal.path().to_path_buf();
    drop(journal);
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(tail.as_bytes()).unwrap();
    path
}

/// The journals of a directory that are ours within so many nanoseconds.
fn taken(state: &Path, limit: u64) -> Vec<Journal> {
    let deadline = monotonic_raw() + Nanoseconds(limit);
    let found = Journal::orphans(state).unwrap().found.into_iter();
    let taken = found.map(|path| Journal::take_before(deadline, &path).unwrap());
    taken
        .filter_map(|it| if let Taken::Over(journal) = it { Some(journal) } else { None })
        .collect()
}

fn pending(journal: &Journal) -> Vec<Undo> {
    journal.pending().into_iter().map(|(_, undo)| undo).collect()
}

#[test]
fn what_is_left_to_undo_comes_back_latest_first() {
    let state = tempfile::tempdir().unwrap();
    left_behind(state.path(), "");
    let orphans = taken(state.path(), 0);
    assert_eq!(orphans.len(), 1);
    assert_eq!(pending(&orphans[0]), [group("c"), group("a")]);
    let Header { lab, boot, pid, .. } = orphans[0].header().clone();
    let ours = header("0000aaaa");
    assert_eq!((lab, boot, pid), (ours.lab, ours.boot, ours.pid));
}

#[test]
fn a_line_that_was_cut_off_belongs_to_something_that_was_never_made() {
    let state = tempfile::tempdir().unwrap();
    let whole = serde_json::to_string(&JournalLine::Will { id: 9, undo: group("d") }).unwrap();
    for cut in 1..whole.len() {
        let path = left_behind(state.path(), &whole[..cut]);
        let journal = taken(state.path(), 0).remove(0);
        assert_eq!(pending(&journal), [group("c"), group("a")], "cut after {cut}");
        assert_eq!(journal.damage(), Vec::<String>::new(), "cut after {cut}");
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn what_is_written_after_a_cut_line_is_understood_all_the_same() {
    let state = tempfile::tempdir().unwrap();
    left_behind(state.path(), "{\"will\":{\"id\":9,\"un");
    let mut journal = taken(state.path(), 0).remove(0);
    let ids: Vec<u64> = journal.pending().iter().map(|(id, _)| *id).collect();
    journal.undone(&ids).unwrap();
    drop(journal);
    let journal = taken(state.path(), 0).remove(0);
    assert_eq!(pending(&journal), Vec::<Undo>::new());
    assert_eq!(journal.damage(), Vec::<String>::new());
}

#[test]
fn a_damaged_line_is_named_and_the_others_count() {
    let state = tempfile::tempdir().unwrap();
    let next = serde_json::to_string(&JournalLine::Will { id: 9, undo: group("d") }).unwrap();
    left_behind(state.path(), &format!("{{\"will\":\u{7f}}}\n{next}\n"));
    let journal = taken(state.path(), 0).remove(0);
    assert_eq!(pending(&journal), [group("d"), group("c"), group("a")]);
    assert!(
        journal.damage()[0].contains("0000aaaa.journal:6: cannot be read"),
        "{:?}",
        journal.damage()
    );
}

#[test]
fn a_journal_whose_owner_lives_is_nobody_elses() {
    let state = tempfile::tempdir().unwrap();
    let journal = Journal::create(state.path(), header("0000bbbb")).unwrap();
    assert_eq!(Journal::orphans(state.path()).unwrap().found.len(), 0);
    drop(journal);
    assert_eq!(Journal::orphans(state.path()).unwrap().found.len(), 1);
}

/// Starts a child that holds this journal as its standard input, for as long as it sleeps.
#[expect(clippy::disallowed_methods, reason = "stands for a child that has not come to its exec")]
fn holder(journal: &Journal, seconds: &str) -> std::process::Child {
    let input = journal.file.try_clone().unwrap();
    std::process::Command::new("sleep").arg(seconds).stdin(input).spawn().unwrap()
}

#[test]
fn a_lock_that_a_child_of_a_dead_owner_still_holds_is_waited_for() {
    let state = tempfile::tempdir().unwrap();
    let dead = Header { started_ticks: 1, ..header("0000eeee") };
    let journal = Journal::create(state.path(), dead).unwrap();
    let mut child = holder(&journal, "0.3");
    drop(journal);
    assert!(!is_locked_now(&open(&state.path().join("0000eeee.journal")).unwrap().unwrap()));
    assert_eq!(taken(state.path(), 0).len(), 0);
    assert_eq!(taken(state.path(), LOCK_LIMIT.0).len(), 1);
    child.wait().unwrap();
}

#[test]
fn one_sweep_holds_the_journal_alone_that_it_undoes() {
    let state = tempfile::tempdir().unwrap();
    for lab in ["0000aaaa", "0000bbbb"] {
        Journal::create(state.path(), header(lab)).unwrap();
    }
    let mut found = Journal::orphans(state.path()).unwrap().found;
    let Taken::Over(first) = Journal::take_before(Nanoseconds(0), &found.remove(0)).unwrap() else {
        panic!("somebody holds it");
    };
    let others = taken(state.path(), 0);
    assert_eq!(others.iter().map(|it| &*it.header().lab).collect::<Vec<_>>(), ["0000bbbb"]);
    drop(first);
}

#[test]
fn a_journal_that_was_undone_while_we_waited_is_nobodys() {
    let state = tempfile::tempdir().unwrap();
    let dead = Header { started_ticks: 1, ..header("0000ffff") };
    let journal = Journal::create(state.path(), dead).unwrap();
    let path = journal.path().to_path_buf();
    let reaper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        journal.remove().unwrap();
    });
    let orphan = Journal::orphans(state.path()).unwrap().found.remove(0);
    let deadline = monotonic_raw() + LOCK_LIMIT;
    assert!(matches!(Journal::take_before(deadline, &orphan), Ok(Taken::Undone)));
    reaper.join().unwrap();
    assert!(!path.exists());
}

#[test]
fn a_journal_that_somebody_undid_first_is_not_inherited() {
    let state = tempfile::tempdir().unwrap();
    let journal = Journal::create(state.path(), header("0000cccc")).unwrap();
    let path = journal.path().to_path_buf();
    journal.remove().unwrap();
    assert!(Journal::inherit(&path).unwrap().is_none());
}

#[test]
fn controllers_of_an_earlier_boot_are_forgotten_and_its_journal_removed() {
    let state = tempfile::tempdir().unwrap();
    let earlier = Header { boot: String::from("another"), ..header("0000dddd") };
    let mut journal = Journal::create(state.path(), earlier).unwrap();
    // A directory of the test's own stands for a group: what would be undone is written there.
    let group = tempfile::tempdir().unwrap();
    let controllers = group.path().join("cgroup.subtree_control");
    fs::write(&controllers, "must not be written").unwrap();
    let undo =
        Undo::Controllers { path: group.path().to_path_buf(), names: vec![String::from("cpuset")] };
    journal.will(vec![undo]).unwrap();
    drop(journal);
    let swept = sweep::orphans(state.path()).unwrap();
    assert_eq!(fs::read_to_string(controllers).unwrap(), "must not be written");
    assert_eq!(swept.kept, Vec::<String>::new());
    assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0);
}
