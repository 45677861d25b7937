//! Every price for real, on the machine that builds.

use super::*;
use std::collections::BTreeSet;

fn setting() -> Setting {
    Setting {
        budget: Duration::from_millis(4),
        directory: std::env::temp_dir(),
        program: vec![c"/bin/true".into()],
        array_bytes: 1 << 20,
    }
}

fn named(name: &str) -> &'static Price {
    PRICES.iter().find(|price| price.name == name).unwrap()
}

#[test]
fn every_price_of_a_plain_linux_is_measured() {
    for price in PRICES {
        // Only some kernels have huge pages to give, and some processors no such instruction.
        let is_of_another = price.name == "cpuid" && !cfg!(target_arch = "x86_64");
        if price.name.contains("huge") || is_of_another {
            continue;
        }
        let measured = price.measure(&setting());
        let measured = measured.unwrap_or_else(|why| panic!("{}: {why}", price.name));
        assert!(measured.lowest_ns > 0.0, "{}: {measured:?}", price.name);
        assert!(measured.lowest_ns <= measured.median_ns, "{}: {measured:?}", price.name);
        assert!(measured.median_ns < 1e9, "{}: {measured:?}", price.name);
        assert!(measured.batch_count >= 5, "{}: {measured:?}", price.name);
    }
}

#[test]
fn names_are_unique_and_can_be_fields() {
    let names: BTreeSet<&str> = PRICES.iter().map(|price| price.name).collect();
    assert_eq!(names.len(), PRICES.len());
    let is_plain = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '_';
    assert!(names.iter().all(|name| name.chars().all(is_plain)));
}

#[test]
fn what_leaves_the_cache_is_dearer_than_what_stays_in_it() {
    let median = |name| named(name).measure(&setting()).unwrap().median_ns;
    assert!(median("memory_latency_64_mib") > 2.0 * median("memory_latency_16_kib"));
}

#[test]
fn a_program_that_fails_or_is_not_there_has_no_price() {
    for (program, why) in [
        (c"/bin/false", "the program that was started ended with Some(1)"),
        (c"/nothing/here", "the program that was to run could not be started"),
    ] {
        let setting = Setting { program: vec![program.into()], ..setting() };
        let refusal = named("fork_exec_wait").measure(&setting).unwrap_err();
        assert_eq!(refusal.to_string(), why);
    }
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let setting = Setting { directory: "/nothing/here".into(), ..setting() };
    let refusal = named("file_open").measure(&setting).unwrap_err().to_string();
    assert!(refusal.starts_with("cannot create `/nothing/here/surtax-price-"), "{refusal}");
}

#[test]
fn arrays_that_do_not_fit_are_refused_before_they_are_touched() {
    let setting = Setting { array_bytes: 1 << 50, ..setting() };
    let refusal = named("memory_triad").measure(&setting).unwrap_err().to_string();
    assert!(refusal.contains("do not fit"), "{refusal}");
}

#[test]
fn nothing_is_left_in_the_directory() {
    let directory = std::env::temp_dir().join(format!("surtax-prices-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let setting = Setting { directory: directory.clone(), ..setting() };
    for name in ["file_open", "file_stat", "file_read", "file_create", "file_fsync"] {
        named(name).measure(&setting).unwrap();
    }
    // Only an empty one can be removed.
    std::fs::remove_dir(&directory).unwrap();
}
