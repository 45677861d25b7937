//! Memory as it is asked for, refused, and found in a process.

use super::*;
use std::collections::BTreeMap;

fn read(options: &[(&str, &str)], mib: u64, files: Protocol) -> Result<Memory, Fault> {
    let options: BTreeMap<String, String> =
        options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    Memory::read(&LayerSpec { kind: "qemu".into(), options }, mib, files)
}

fn line(memory: Memory) -> String {
    memory.arguments().concat().join(" ")
}

#[test]
fn nothing_of_the_memory_is_left_to_the_defaults_of_qemu() {
    assert_eq!(
        line(read(&[], 512, Protocol::Virtiofs).unwrap()),
        "-m 512M -object memory-backend-memfd,id=memory,size=512M,share=on,prealloc=off,merge=off"
    );
    assert_eq!(
        line(read(&[("mergeable", "on")], 512, Protocol::Ninep).unwrap()),
        "-m 512M -object memory-backend-ram,id=memory,size=512M,share=off,prealloc=off,merge=on"
    );
    let huge = [("hugepages", "on"), ("prealloc", "on")];
    assert_eq!(
        line(read(&huge, 512, Protocol::Ninep).unwrap()),
        "-m 512M -object memory-backend-memfd,id=memory,size=512M,share=off,prealloc=on,merge=off,\
         hugetlb=on,hugetlbsize=2M"
    );
}

#[test]
fn memory_is_shared_with_a_switch_and_then_cannot_be_merged() {
    let options = [("net", "vhost-user"), ("mergeable", "on")];
    assert!(read(&options[..1], 512, Protocol::Ninep).unwrap().is_shared);
    let fault = read(&options, 512, Protocol::Ninep).unwrap_err();
    assert!(fault.message.ends_with("shared with a switch"), "{fault}");
}

#[test]
fn a_balloon_takes_what_is_not_left() {
    let memory = read(&[("balloon", "256M")], 512, Protocol::Virtiofs).unwrap();
    assert_eq!(memory.balloon_pages(), Some(65_536));
    assert_eq!(
        memory.balloon("pci").as_deref(),
        Some("virtio-balloon-pci,id=balloon,deflate-on-oom=off")
    );
    assert!(memory.size(512 << 20, &(200u64 << 20).to_string()).is_ok());
    assert!(memory.size(512 << 20, &(450u64 << 20).to_string()).is_err());
}

#[test]
fn options_that_contradict_each_other_are_refused_with_what_to_do() {
    let refused = |options: &[(&str, &str)], mib| {
        let fault = read(options, mib, Protocol::Virtiofs).unwrap_err();
        (fault.message, fault.hint.unwrap())
    };
    let (why, hint) = refused(&[("mergeable", "on")], 512);
    assert!(why.contains("shared with virtiofsd") && hint.contains("files=9p"), "{why}: {hint}");
    let (why, hint) = refused(&[("hugepages", "on")], 513);
    assert!(why.contains("no whole number") && hint.contains("memory=514M"), "{why}: {hint}");
    let (why, _) = refused(&[("hugepages", "on"), ("balloon", "256M")], 512);
    assert!(why.contains("`balloon=` works on pages of 4 KiB"), "{why}");
    let (why, _) = refused(&[("balloon", "64M")], 512);
    assert!(why.contains("too little for a kernel"), "{why}");
    let (why, _) = refused(&[("balloon", "1G")], 512);
    assert!(why.contains("takes nothing from a machine of 512 MiB"), "{why}");
}

#[test]
fn a_guest_may_see_a_little_less_memory_than_it_was_given_but_never_more() {
    let asked = 1u64 << 30;
    let memory = Memory::plain(1024, true);
    let seen = |bytes: u64| memory.size(asked, &bytes.to_string());
    assert!(seen(asked - (60 << 20)).is_ok());
    assert!(seen(asked / 2).is_err());
    assert!(seen(asked + 1).is_err());
    assert!(memory.size(asked / 2, "1").is_err());
}

#[test]
fn the_mapping_of_the_memory_is_told_from_what_the_translator_runs() {
    let smaps = "\
7f0000000000-7f0020000000 rwxp 00000000 00:00 0
Size:             524288 kB
Rss:               10240 kB
Shared_Hugetlb:        0 kB
Private_Hugetlb:       0 kB
VmFlags: rd wr ex mr mw me ac
7f1000000000-7f1020000000 rw-s 00000000 00:0f 7 /memfd:memory-backend-memfd (deleted)
Size:             524288 kB
Rss:                   0 kB
Shared_Hugetlb:   524288 kB
Private_Hugetlb:       0 kB
VmFlags: rd wr sh mr mw me ms de ht dd hg
";
    let mapping = Mapping::find(smaps, 512 << 20).unwrap();
    assert_eq!(mapping.resident_bytes, 512 << 20);
    assert!(mapping.has_flag("ht") && mapping.has_flag("sh") && !mapping.has_flag("mg"));
    assert!(Mapping::find(smaps, 1 << 30).is_none());
}
