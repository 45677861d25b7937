//! Of secrets: what is hidden, and what is seen instead.

use super::*;
use crate::driver;
use std::os::unix::fs::PermissionsExt;

const TERRAFORM: &str = ".terraform.d/credentials.tfrc.json";

fn view() -> View {
    View {
        root: Root::Overlay,
        writable: Vec::new(),
        cwd: "/".into(),
        scratch: None,
        shows_secrets: false,
    }
}

#[test]
fn passwords_are_locked_and_their_users_stay() {
    let text = b"root:$y$j9T$hash:19700:0:99999:7:::\ndaemon:*:19700:0:99999:7:::\nno colon\n";
    let seen = String::from_utf8(locked(text)).unwrap();
    assert_eq!(seen, "root:*:19700:0:99999:7:::\ndaemon:*:19700:0:99999:7:::\n");
}

#[test]
fn the_password_file_of_this_machine_is_hidden_unless_it_was_asked_for() {
    let paths = |view: &View| -> Vec<PathBuf> {
        hidden(view).into_iter().map(|hidden| hidden.path).collect()
    };
    let shadow = PathBuf::from("/etc/shadow");
    assert!(paths(&view()).contains(&shadow));
    assert_eq!(paths(&View { shows_secrets: true, ..view() }), Vec::<PathBuf>::new());
    assert_eq!(
        paths(&View { root: Root::Directory("/srv".into()), ..view() }),
        Vec::<PathBuf>::new()
    );
    let named = View { writable: vec![shadow.clone()], ..view() };
    assert!(!paths(&named).contains(&shadow), "what was named is shown");
}

#[test]
fn each_list_names_a_secret_once_and_in_order_and_nothing_below_another() {
    fn require(list: &str, begin: char) {
        let list: Vec<&str> = list.lines().collect();
        let is_ordered = |one: &&str, other: &&str| one.to_lowercase() < other.to_lowercase();
        assert!(list.is_sorted_by(is_ordered));
        for one in &list {
            let is_path = one.len() > 1 && one.starts_with(begin) && !one.contains("..");
            assert!(is_path && !one.contains(char::is_whitespace), "{one:?}");
            assert!(!list.iter().any(|it| it != one && Path::new(one).starts_with(it)), "{one}");
        }
    }
    require(OF_THE_MACHINE, '/');
    require(OF_A_USER, '.');
}

#[test]
fn a_text_speaks_of_a_secret_by_its_whole_name() {
    for (text, found) in [
        ("cat: /root/.aws/credentials: No such file", Some(".aws")),
        ("open ~/.ssh: empty", Some(".ssh")),
        ("su: /etc/shadow", Some("/etc/shadow")),
        ("ls: /home/ann/.config/rclone: empty", Some(".config/rclone")),
        ("no login in ~/.terraform.d/credentials.tfrc.json", Some(TERRAFORM)),
        ("no volume in /var/lib/docker/volumes", Some("/var/lib/docker")),
        ("/etc/shadow-maint", None),
        ("/srv/.sshd/key .npmrc", None),
        ("é/.netrcé", None),
        ("", None),
    ] {
        assert_eq!(spoken_of(text), found, "{text}");
    }
}

#[test]
fn only_a_layer_over_this_machine_s_root_conceals() {
    let conceals = |text: &str| {
        let stack = crate::driver::parse(text).unwrap();
        driver::conceals_secrets(&stack.layers[0])
    };
    for text in ["runc", "qemu", "docker:net=host", "runc:secrets=masked"] {
        assert!(conceals(text), "{text}");
    }
    for text in ["native", "ssh:lab7", "runc:secrets=shown", "runc:root=dir:/srv"] {
        assert!(!conceals(text), "{text}");
    }
}

#[test]
fn an_overlay_shows_neither_a_hidden_file_nor_what_a_hidden_directory_holds() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let lab = crate::lab::tests::lab(directory.path());
    let room = lab.room("secrets").unwrap();
    let lower = directory.path().join("lower");
    fs::create_dir_all(lower.join("etc/keys/old")).unwrap();
    fs::write(lower.join("etc/keys/old/key"), "secret").unwrap();
    fs::write(lower.join("etc/shadow"), "root:secret:1::::::\n").unwrap();
    fs::write(lower.join("etc/plain"), "plain\n").unwrap();
    fs::set_permissions(lower.join("etc/shadow"), fs::Permissions::from_mode(0o640)).unwrap();
    let hidden = [("etc/keys", true, false), ("etc/shadow", false, true)].map(
        |(name, is_directory, keeps_users)| Hidden {
            path: lower.join(name),
            is_directory,
            keeps_users,
        },
    );
    let upper = room.memory_directory().unwrap().join("upper");
    let merged = room.directory().join("merged");
    let mut mounts = concealed(&hidden, &lower, &upper).unwrap();
    mounts.push(Mount::Overlay {
        lower: lower.clone(),
        work: room.memory_directory().unwrap().join("work"),
        upper,
        target: merged.clone(),
    });
    let namespace = room.mount_namespace(&mounts).unwrap();
    let script = format!(
        "cd {}; find . | sort; cat etc/shadow etc/plain; stat -c %a etc/shadow; touch etc/keys/new \
         && ls etc/keys",
        merged.display()
    );
    let (output, said) = crate::lab::pipe().unwrap();
    let mut process = room
        .spawn(crate::lab::Program {
            argv: ["/bin/sh", "-c", &script].map(String::from).to_vec(),
            stdio: [None, Some(said), None],
            mount_namespace: Some(namespace),
            ..crate::lab::Program::default()
        })
        .unwrap();
    let text = std::io::read_to_string(fs::File::from(output)).unwrap();
    process.wait(std::time::Duration::from_secs(10)).unwrap();
    assert_eq!(
        text,
        ".\n./etc\n./etc/keys\n./etc/plain\n./etc/shadow\nroot:*:1::::::\nplain\n640\nnew\n"
    );
    assert!(lower.join("etc/keys/old/key").exists());
    room.close().unwrap();
    lab.close().unwrap();
}

#[test]
fn a_link_in_a_home_conceals_what_is_its_owners_and_nothing_of_anybody_elses() {
    let directory = tempfile::tempdir().unwrap();
    let place = fs::canonicalize(directory.path()).unwrap();
    let (home, theirs) = (place.join("home"), place.join("theirs"));
    for path in [&home, &theirs, &home.join(".aws")] {
        fs::create_dir(path).unwrap();
    }
    std::os::unix::fs::symlink("/usr", home.join(".kube")).unwrap();
    std::os::unix::fs::symlink(&theirs, home.join(".ssh")).unwrap();
    assert_eq!(Seen::default().of_a_home(&home, ".aws"), Some(home.join(".aws")));
    assert_eq!(Seen::default().of_a_home(&home, ".ssh"), Some(theirs.clone()));
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&home, Some(65534), None).unwrap();
        assert_eq!(
            Seen::default().of_a_home(&home, ".kube"),
            None,
            "it would hide the programs of all"
        );
        assert_eq!(Seen::default().of_a_home(&home, ".ssh"), None);
        std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
        assert_eq!(Seen::default().of_a_home(&home, ".ssh"), Some(theirs));
    }
    assert_eq!(Seen::default().of_a_home(&home, ".netrc"), None);
}

#[test]
fn a_file_is_found_and_nothing_below_what_is_not_there_or_no_directory() {
    let place = tempfile::tempdir().unwrap();
    let place = fs::canonicalize(place.path()).unwrap();
    let at = |name: &str| place.join(name);
    fs::create_dir(at("directory")).unwrap();
    fs::write(at("directory/file"), "").unwrap();
    std::os::unix::fs::symlink("directory", at("link")).unwrap();
    let mut seen = Seen::default();
    for name in ["directory/file", "link/file"] {
        assert_eq!(seen.there(&at(name)), Some(at("directory/file")), "{name}");
    }
    for absent in ["netrc", "netrc/below", "netrc/far/below", "directory/file/below"] {
        assert_eq!(seen.there(&at(absent)), None, "{absent}");
    }
    assert!(!seen.may_hold(&at("netrc/far")) && !seen.may_hold(&at("directory/file")));
}

#[test]
fn what_its_directory_does_not_list_is_found_by_its_name() {
    // Of a process the kernel lists one thread and finds all, as autofs does with homes.
    let thread = std::thread::spawn(|| {
        let own = PathBuf::from("/proc").join(rustix::thread::gettid().to_string());
        let is_listed = fs::read_dir("/proc").unwrap().flatten().any(|entry| entry.path() == own);
        (is_listed, Seen::default().there(&own.join("comm")) == Some(own.join("comm")))
    });
    assert_eq!(thread.join().unwrap(), (false, true));
}
