//! Requests to the disk of the machine that builds, and to files that lie.

use super::*;
use crate::answer_to;

fn answer(line: &str) -> Result<String, Refused> {
    answer_to(&format!("disk {line}"))
}

/// A directory of its own, which is removed while it is empty: so nothing may be left in it.
fn with_directory(run: impl FnOnce(&str)) {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("surtax-disk-{}-{number}", std::process::id());
    // Not the temporary directory: in memory nothing is direct.
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target").join(name);
    fs::create_dir_all(&directory).unwrap();
    run(directory.to_str().unwrap());
    fs::remove_dir(&directory).unwrap();
}

#[test]
fn every_kind_of_request_is_carried_out_and_checked() {
    with_directory(|directory| {
        for kind in [
            "--operation read",
            "--operation read --pattern sequential --buffered",
            "--operation write",
            "--operation write --sync --pattern sequential --block-bytes 16384",
        ] {
            let line = format!("{kind} --directory {directory} --file-bytes 1048576 --requests 40");
            let answer = answer(&line).unwrap();
            assert!(answer.contains("\"request_count\":40,"), "{kind}: {answer}");
            assert!(answer.contains("\"latency_p50_ns\":"), "{kind}: {answer}");
            assert!(!answer.contains("\"checked_block_count\":0,"), "{kind}: {answer}");
        }
    });
}

#[test]
fn the_time_ends_it_too() {
    with_directory(|directory| {
        let line = format!("--directory {directory} --file-bytes 65536 --duration 20ms");
        let began = clock::monotonic_raw();
        answer(&line).unwrap();
        assert!(clock::monotonic_raw().since(began).seconds() < 5.0);
    });
}

#[test]
fn what_makes_no_sense_is_refused_before_a_file_is_made() {
    for (line, what) in [
        ("--block-bytes 1000", "`--block-bytes 1000` is not a multiple of 512"),
        ("--sync", "`--sync` is given, and nothing is written"),
        ("--operation erase", "`--operation erase` is none of read, write"),
        (
            "--block-bytes 512 --file-bytes 1125899906842624",
            "the file would have 2199023255552 blocks",
        ),
        ("--directory /nothing/here", "there is no directory `/nothing/here` for the file"),
    ] {
        let refused = answer(line).unwrap_err();
        assert!(refused.what.starts_with(what), "{line}: {}", refused.what);
    }
}

#[test]
fn a_file_that_is_larger_than_the_medium_is_refused_with_both_sizes() {
    let line = "--directory /tmp --block-bytes 67108864 --file-bytes 1125899906842624";
    let refused = answer(line).unwrap_err();
    assert!(refused.what.contains("does not fit into `/tmp`, where"), "{}", refused.what);
}

#[test]
fn a_block_of_another_place_or_version_is_told_from_the_right_one() {
    let mut bytes = [0; 512];
    inscribe(&mut bytes, 7, 3);
    expect(&bytes, 7, 3).unwrap();
    assert!(expect(&bytes, 8, 3).is_err());
    assert!(expect(&bytes, 7, 2).is_err());
    bytes[511] ^= 1;
    assert_eq!(expect(&bytes, 7, 3).unwrap_err().to_string(), "block 7 holds other data");
}

#[test]
fn a_disk_that_loses_a_write_is_found_out() {
    with_directory(|directory| {
        let job = Job {
            is_write: true,
            is_random: false,
            is_direct: false,
            is_synced: false,
            block_bytes: 512,
            block_count: 4,
            directory: directory.into(),
            duration: Duration::from_secs(1),
            requests_max: 4,
            seed: 1,
        };
        let target = Target::create(&job).unwrap();
        let mut versions = [0; 4];
        send(&job, &target.file, &mut versions, &mut Histogram::new()).unwrap();
        assert_eq!(read_back(&job, &target.file, &versions).unwrap(), 4);
        versions[2] += 1;
        let refusal = read_back(&job, &target.file, &versions).unwrap_err();
        assert_eq!(refusal.to_string(), "block 2 holds other data");
    });
}

#[test]
fn random_places_are_all_over_the_file() {
    let mut state = 1;
    let mut seen = [0; 10];
    for _ in 0..10_000 {
        seen[usize::try_from(draw(&mut state, 10)).unwrap()] += 1;
    }
    assert!(seen.iter().all(|count| (850..=1150).contains(count)), "{seen:?}");
}
