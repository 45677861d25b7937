//! Rooms: what is made in one, and that nothing of it stays.

use super::*;
use crate::layer::medium::Medium;
use crate::layer::{Root, View};
use crate::rootfs::scratch;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_closed_room_and_a_closed_lab_leave_nothing() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let id = lab.id().to_owned();
    let room = lab.room("one").unwrap();
    let memory = room.memory_directory().unwrap().to_path_buf();
    fs::write(room.directory().join("file"), "x").unwrap();
    fs::create_dir_all(memory.join("a/b")).unwrap();
    assert_eq!(output(&room, program(&["echo", "hello"])), "hello\n");
    let (place, group) = (room.directory().display(), room.group().display());
    let named = format!("{place}/a {group}/b {}/c /usr", memory.display());
    assert_eq!(room.redact_paths(&named), "ROOM/a ROOM_GROUP/b ROOM_IN_MEMORY/c /usr");
    assert_eq!(room.close().unwrap(), Vec::<String>::new());
    assert!(!memory.exists());
    let swept = lab.close().unwrap();
    assert_eq!(swept.len(), 0, "{swept:?}");
    assert_eq!(traces(&id), Vec::<String>::new());
    assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0, "the journal is removed");
}

#[test]
fn a_labs_memory_is_a_mount_of_its_own_that_nobody_else_reaches_into() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let room = lab.room("memory").unwrap();
    let memory = room.memory_directory().unwrap().to_path_buf();
    let place = Path::new("/run/surtax").join(lab.id());
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can mount");
        return;
    }
    assert_eq!(memory, place.join(".memory/memory"));
    assert!(directory::is_in_memory(&memory));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(Path::new("/run/surtax")) & 0o022, 0);
    let chain = [&*place, &place.join(".memory"), &*memory];
    assert_eq!(chain.map(mode), [0o700; 3]);
    let enter = || {
        let mut enter = program(&["sh", "-c", "cd \"$0\" && echo in || echo out"]);
        enter.argv.push(memory.display().to_string());
        enter.user = Some(65_534);
        output(&room, enter)
    };
    assert_eq!(enter(), "out\n");
    room.let_users_pass().unwrap();
    assert_eq!(chain.map(mode), [0o711; 3]);
    assert_eq!(enter(), "in\n");
    let disk = room.disk_directory().unwrap().parent().unwrap().to_path_buf();
    let random = disk.display().to_string().rsplit('-').next().unwrap().len();
    assert_eq!(random, 32, "{}", disk.display());
    // Who passes through there does not come to what a command writes into its layer.
    let view = View {
        root: Root::Overlay,
        writable: Vec::new(),
        cwd: "/".into(),
        scratch: Some(Medium::Layer),
        shows_secrets: false,
    };
    if let Some(layers) = scratch::above(&view, &room).unwrap() {
        room.let_users_pass().unwrap();
        assert_eq!([mode(layers.parent().unwrap()), mode(&layers)], [0o711, 0o700]);
    }
}

#[test]
fn a_rooms_directories_stay_in_sight_when_a_mount_covers_their_parents() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let room = lab.room("covered").unwrap();
    let memory = room.memory_directory().unwrap().to_path_buf();
    fs::write(memory.join("file"), "seen").unwrap();
    let merged = memory.join("merged");
    let mounts = [
        Mount::Tmpfs { target: merged.clone() },
        Mount::Tmpfs { target: PathBuf::from("/run") },
        Mount::Directory { target: merged.join("below"), mode: 0o755 },
    ];
    let mut look = program(&["sh", "-c", "ls /run; cat $0/file; ls $0/merged"]);
    look.argv.push(memory.display().to_string());
    look.mount_namespace = Some(room.mount_namespace(&mounts).unwrap());
    look.environment = Some(vec![(String::from("PATH"), String::from("/usr/bin:/bin"))]);
    assert_eq!(output(&room, look), "surtax\nseenbelow\n");
    assert_eq!(room.close().unwrap(), Vec::<String>::new());
}

#[test]
fn what_somebody_else_made_at_a_name_of_a_journals_is_left_alone() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can make a directory of somebody else's");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("surtax-0000beef");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("theirs"), "x").unwrap();
    std::os::unix::fs::chown(&directory, Some(65_534), None).unwrap();
    let undo = Undo::Directory { path: directory.clone() };
    let found = undo.perform().unwrap();
    assert!(found[0].contains("belongs to user 65534, and was left alone"), "{found:?}");
    assert!(directory.join("theirs").exists());
    std::os::unix::fs::chown(&directory, Some(0), None).unwrap();
    assert_eq!(undo.perform().unwrap(), Vec::<String>::new());
    assert!(!directory.exists());
}

#[test]
fn what_is_still_alive_when_a_room_is_closed_is_killed_and_named() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let room = lab.room("busy").unwrap();
    let process = room.spawn(program(&["sleep", "1000"])).unwrap();
    let pid = process.pid();
    eventually("it sleeps", || room.members(room.group()) == [(pid, String::from("sleep"))]);
    let found = room.close().unwrap();
    assert_eq!(found, [format!("process `sleep` ({pid}) was still alive")]);
    assert!(!is_alive(pid));
}

#[test]
fn a_dropped_lab_leaves_nothing_either() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let id = lab.id().to_owned();
    let room = lab.room("dropped").unwrap();
    let process = room.spawn(program(&["sleep", "1000"])).unwrap();
    let (pid, reaper) = (process.pid(), lab.reaper.as_ref().unwrap().pid());
    drop(process);
    assert!(!is_alive(pid), "a dropped process is killed and reaped");
    drop(room);
    drop(lab);
    assert_eq!(traces(&id), Vec::<String>::new());
    assert!(!is_alive(reaper));
}

#[test]
fn limits_are_read_back_and_one_that_does_not_take_is_a_fault() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let room = lab.room("limits").unwrap();
    let limits = Limits {
        cpu_millis: Some(500),
        cpuset: Some(vec![0]),
        memory: Some(Bytes(64 << 20)),
        pids: Some(20),
        weight: Some(50),
        numa: Some(vec![0]),
        ..Limits::default()
    };
    let group = room.subgroup("inner", &limits).unwrap();
    let facts: Vec<(String, String)> = held(lab.hierarchies(), &group, &limits)
        .unwrap()
        .into_iter()
        .map(|fact| (fact.key, fact.value))
        .collect();
    let fact = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let (quota, weight) = match lab.cpu_groups() {
        Version::One => ("50000", "512"),
        Version::Two => ("50000 100000", "50"),
    };
    assert_eq!(
        facts,
        [
            fact("limit_cpu_quota_us", quota),
            fact("limit_cpu_weight", weight),
            fact("limit_cpuset", "0"),
            fact("limit_numa_nodes", "0"),
            fact("limit_memory_bytes", "67108864"),
            fact("limit_pids", "20"),
        ]
    );
    let mut inside = program(&["sh", "-c", "cat /proc/self/cgroup; nproc"]);
    inside.group = Some(group.clone());
    let text = output(&room, inside);
    assert!(text.ends_with("\n1\n"), "one CPU is left: {text}");
    assert!(text.contains(&format!("/{}\n", group.display())), "{text}");
    let absurd = Limits { cpuset: Some(vec![1000]), ..Limits::default() };
    let fault = room.subgroup("absurd", &absurd).unwrap_err();
    assert!(fault.message.contains("cpuset.cpus"), "{fault}");
    room.close().unwrap();
}

#[test]
fn huge_pages_are_limited_where_nobody_has_enabled_them_and_the_controller_is_given_back() {
    let state = tempfile::tempdir().unwrap();
    let groups = Groups::discover().unwrap();
    let Some(hierarchy) = groups.hierarchies().of("hugetlb").cloned() else {
        println!("SKIPPED: this machine's groups do not know huge pages");
        return;
    };
    let control = hierarchy.mount_point.join("cgroup.subtree_control");
    let before = fs::read_to_string(&control).unwrap_or_default();
    let lab = lab_in(state.path(), groups);
    let (room, other) = (lab.room("huge").unwrap(), lab.room("plain").unwrap());
    let none = Limits { hugetlb: Some(Bytes(0)), ..Limits::default() };
    room.limit_huge_pages(&none).unwrap();
    let group = room.subgroup("inner", &none).unwrap();
    let proved = |group: &Path, limits: &Limits| held(lab.hierarchies(), group, limits);
    let facts = proved(&group, &none).unwrap();
    assert_eq!((facts[0].key.as_str(), facts[0].value.as_str()), ("limit_hugetlb_bytes", "0"));
    assert!(proved(other.group(), &none).is_err(), "another room has no such limit");
    // Who is started there is counted there, and gets none.
    let mut inside = program(&["cat", "/proc/self/cgroup"]);
    inside.group = Some(group.clone());
    assert!(output(&room, inside).contains(&format!("/{}", room.group().display())));

    // More than any pool has: the kernel keeps it as it was told, and a room is refused it.
    let much = Limits { hugetlb: Some(Bytes(1 << 50)), ..Limits::default() };
    lab.base.groups.limit_huge_pages(other.group(), Bytes(1 << 50)).unwrap();
    assert!(proved(other.group(), &much).is_ok());
    let fault = other.limit_huge_pages(&much).unwrap_err();
    assert!(fault.message.contains("huge pages for 1073741824 MiB are missing"), "{fault}");
    room.close().unwrap();
    other.close().unwrap();
    assert_eq!(lab.close().unwrap(), Vec::<String>::new());
    assert_eq!(fs::read_to_string(&control).unwrap_or_default(), before);
}

#[test]
fn a_throttled_group_dies_at_once() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let room = lab.room("throttled").unwrap();
    let limits = Limits { cpu_millis: Some(10), ..Limits::default() };
    let group = room.subgroup("slow", &limits).unwrap();
    let spin = "for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait";
    let mut spinners = program(&["sh", "-c", spin]);
    spinners.group = Some(group.clone());
    let process = room.spawn(spinners).unwrap();
    eventually("some of them spin", || room.members(&group).len() >= 3);
    let begin = monotonic_raw();
    let found = room.close().unwrap();
    let took = monotonic_raw().since(begin);
    assert!(found.len() >= 3, "{found:?}");
    assert!(took < Nanoseconds(1_000_000_000), "{took}");
    drop(process);
}

#[test]
fn a_fork_bomb_dies_where_nothing_kills_a_whole_group_at_once() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab_in(state.path(), Groups::discover().unwrap().without_unified());
    if lab.hierarchies().of("pids").is_none() {
        println!("SKIPPED: this machine has no cgroup v1 hierarchy with `pids`");
        return;
    }
    let room = lab.room("bomb").unwrap();
    let limits = Limits { pids: Some(60), ..Limits::default() };
    let group = room.subgroup("inner", &limits).unwrap();
    // A shell gives up when it cannot fork.
    let mut bomb = program(&["perl", "-e", "fork while 1"]);
    bomb.group = Some(group.clone());
    let process = room.spawn(bomb).unwrap();
    eventually("it goes off", || room.members(&group).len() > 10);
    let begin = monotonic_raw();
    assert!(!room.close().unwrap().is_empty());
    let took = monotonic_raw().since(begin);
    assert!(took < Nanoseconds(5_000_000_000), "{took}");
    drop(process);
}

#[test]
fn controllers_of_cgroup_v2_are_enabled_for_the_lab_and_disabled_after_it() {
    let state = tempfile::tempdir().unwrap();
    let groups = Groups::discover().unwrap().unified_with("hugetlb");
    let Some((root, _)) = groups.to_enable() else {
        println!("SKIPPED: cgroup v2 has no controller here that nobody uses");
        return;
    };
    let control = |group: &Path| {
        let file = root.join(group).join("cgroup.subtree_control");
        fs::read_to_string(file).unwrap().trim_end().to_owned()
    };
    let before = control(Path::new(""));
    let lab = lab_in(state.path(), groups);
    let room = lab.room("unified").unwrap();
    let group = room.subgroup("inner", &Limits::default()).unwrap();
    assert_eq!(control(room.group()), "hugetlb");
    let given = fs::read_to_string(root.join(&group).join("cgroup.controllers")).unwrap();
    assert_eq!(given, "hugetlb\n");
    // The room itself must not have processes now: its own are in a leaf.
    let text = output(&room, program(&["cat", "/proc/self/cgroup"]));
    assert!(text.contains(&format!("0::/{}/own\n", room.group().display())), "{text}");
    let mut inside = program(&["cat", "/proc/self/cgroup"]);
    inside.group = Some(group.clone());
    let text = output(&room, inside);
    assert!(text.contains(&format!("0::/{}\n", group.display())), "{text}");
    assert_eq!(room.close().unwrap(), Vec::<String>::new());
    lab.close().unwrap();
    assert_eq!(control(Path::new("")), before);
}

#[test]
fn a_frozen_group_dies() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let room = lab.room("frozen").unwrap();
    let process = room.spawn(program(&["sleep", "1000"])).unwrap();
    let Some(freezer) = lab.hierarchies().of("freezer") else { return };
    fs::write(freezer.directory(room.group()).join("freezer.state"), "FROZEN").unwrap();
    assert_eq!(room.close().unwrap().len(), 1);
    drop(process);
}

#[test]
fn groups_that_a_foreign_tool_made_below_ours_are_removed() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let room = lab.room("nested").unwrap();
    for hierarchy in &lab.hierarchies().0 {
        // Also in hierarchies in which we make nothing ourselves.
        fs::create_dir_all(hierarchy.directory(&room.group().join("runc/deeper"))).unwrap();
    }
    assert_eq!(room.close().unwrap(), Vec::<String>::new());
    let id = lab.id().to_owned();
    lab.close().unwrap();
    assert_eq!(traces(&id), Vec::<String>::new());
}

#[test]
fn two_labs_at_once_do_not_disturb_each_other() {
    let state = tempfile::tempdir().unwrap();
    let first = lab(state.path());
    let room = first.room("same-name").unwrap();
    let mut process = room.spawn(program(&["sleep", "1000"])).unwrap();
    let second = lab(state.path());
    assert_eq!(
        second.sweep_report(),
        &SweepReport::default(),
        "a living lab's journal is not swept"
    );
    let other = second.room("same-name").unwrap();
    other.close().unwrap();
    second.close().unwrap();
    assert!(process.wait(Duration::from_millis(1)).unwrap().is_none());
    assert!(room.directory().is_dir());
    process.kill().unwrap();
    process.wait(Duration::from_secs(5)).unwrap().unwrap();
    assert_eq!(room.close().unwrap(), Vec::<String>::new());
}

#[test]
fn a_room_name_is_used_once_and_is_plain() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let _room = lab.room("once").unwrap();
    assert!(lab.room("once").is_err());
    for name in ["", "..", "a/b", ".surtax-agent"] {
        assert!(lab.room(name).is_err(), "{name}");
    }
}

#[test]
fn a_promise_without_our_tag_is_refused() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let room = lab.room("promises").unwrap();
    for undo in [
        Undo::Directory { path: PathBuf::from("/home") },
        Undo::Directory { path: PathBuf::from("/tmp/surtax-x/../y") },
        Undo::Directory { path: PathBuf::from("/home/me/surtax/src") },
        Undo::Directory { path: PathBuf::from("/home/me/surtax") },
        Undo::Directory { path: PathBuf::from("/srv/0000beef") },
        Undo::Memory { path: PathBuf::from("/srv/surtax-x/y/.memory") },
        Undo::Memory { path: PathBuf::from("/run/surtax/0000beef") },
        Undo::Controllers { path: PathBuf::from("/tmp"), names: vec![String::from("cpu")] },
        Undo::Group { path: PathBuf::from("system.slice") },
        Undo::EngineContainer { socket: PathBuf::from("/s"), name: String::from("web") },
    ] {
        assert!(room.promise(undo.clone()).is_err(), "{undo:?}");
    }
}

#[test]
fn a_program_gets_its_descriptors_and_no_others() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let room = lab.room("descriptors").unwrap();
    // Inherited by mistake, as from a careless parent.
    let stray = File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&stray, rustix::io::FdFlags::empty()).unwrap();
    let (_read, write) = pipe();
    let (mut answer, asked) = pipe();
    let mut list = program(&["sh", "-c", "ls /proc/$$/fd; echo through-5 >&5"]);
    list.descriptors = vec![(write, 7), (asked, 5)];
    let text = output(&room, list);
    // `sh` may hold its script's place at 10 and above.
    assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["0", "1", "2", "5", "7"]);
    let mut through = String::new();
    answer.read_to_string(&mut through).unwrap();
    assert_eq!(through, "through-5\n");
    drop(stray);
}

#[test]
fn a_program_that_cannot_start_is_named_with_the_step_that_failed() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let room = lab.room("refused").unwrap();
    let fault = room.spawn(program(&["surtax-no-such-program"])).unwrap_err();
    assert!(fault.message.contains("no such program in `PATH`"), "{fault}");
    let mut lost = program(&["true"]);
    lost.cwd = Some(PathBuf::from("/no/such/place"));
    let fault = room.spawn(lost).unwrap_err();
    assert!(fault.message.contains("enter its working directory: No such file"), "{fault}");
}

#[test]
fn on_a_machine_without_cgroups_a_room_still_ends_its_processes_and_says_what_it_cannot_do() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab_in(state.path(), Groups::default());
    let room = lab.room("bare").unwrap();
    let fault = room.subgroup("x", &Limits { pids: Some(1), ..Limits::default() }).unwrap_err();
    let why =
        "`pids` to limit with: there is no cgroup hierarchy: nothing can be counted or limited";
    assert!(fault.message.ends_with(why), "{fault}");
    let (mut read, write) = pipe();
    let mut orphan = program(&["sh", "-c", "sleep 1000 & echo $!"]);
    orphan.stdio[1] = Some(write);
    let mut process = room.spawn(orphan).unwrap();
    let mut pid = [0; 16];
    let length = read.read(&mut pid).unwrap();
    let pid: u32 = std::str::from_utf8(&pid[..length]).unwrap().trim().parse().unwrap();
    process.wait(Duration::from_secs(5)).unwrap().unwrap();
    let comm = || fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    eventually("it outlives its parent", || comm() == "sleep\n");
    assert_eq!(room.close().unwrap(), [format!("process `sleep` ({pid}) was still alive")]);
    assert!(!is_alive(pid));
}

#[test]
fn what_a_room_costs() {
    let state = tempfile::tempdir().unwrap();
    let lab = lab(state.path());
    let mut rooms_ns = Vec::new();
    for number in 0..200 {
        let begin = monotonic_raw();
        let room = lab.room(&format!("r{number}")).unwrap();
        room.close().unwrap();
        rooms_ns.push(monotonic_raw().since(begin).0);
    }
    rooms_ns.sort_unstable();
    let (median, late) = (Nanoseconds(rooms_ns[100]), Nanoseconds(rooms_ns[190]));
    println!("a room costs {median} (median of 200), p95 {late}");
    assert!(median < Nanoseconds(10_000_000), "{median}");
}
