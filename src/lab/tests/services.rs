//! Services: started once, used by many rooms, gone with the lab.

use super::*;

fn sleeper(room: &Room) -> Result<Option<Process>, Fault> {
    room.spawn(program(&["sleep", "1000"])).map(Some)
}

#[test]
fn a_service_is_started_once_and_ends_with_the_lab() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let id = lab.id().to_owned();
    let service = lab.service("engine", sleeper).unwrap();
    let again = lab.service("engine", |_| panic!("it is there already")).unwrap();
    assert_eq!(service, again);
    assert!(service.directory.is_dir());
    assert_eq!(lab.close().unwrap(), Vec::<String>::new(), "it ends when it is asked to");
    assert_eq!(traces(&id), Vec::<String>::new());
}

#[test]
fn a_service_that_has_died_is_started_anew() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let brief = |room: &Room| room.spawn(program(&["true"])).map(Some);
    let starts = std::cell::Cell::new(0);
    eventually("it has died and was started again", || {
        let counted = |room: &Room| {
            starts.set(starts.get() + 1);
            brief(room)
        };
        lab.service("brief", counted).unwrap();
        starts.get() > 1
    });
    assert_eq!(lab.close().unwrap(), Vec::<String>::new());
}

#[test]
fn a_service_that_does_not_start_leaves_nothing() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let fail = |room: &Room| {
        fs::write(room.directory().join("half"), "made").unwrap();
        Err(Fault::machine("it would not start"))
    };
    assert_eq!(lab.service("broken", fail).unwrap_err().message, "it would not start");
    assert!(!lab.base.directory.join("broken").exists());
    lab.service("broken", sleeper).unwrap();
    assert_eq!(lab.close().unwrap(), Vec::<String>::new());
}
