//! Closures of planted programs, and of this machine's own.

use super::*;
use crate::guest::elf::Elf;
use crate::guest::packed::planted::Planted;
use object::elf::{DT_AUDIT, DT_DEPAUDIT, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME};
use std::fs;
use tempfile::TempDir;

/// A directory with a loader, in which a test lays out files.
struct Bench {
    place: TempDir,
    /// Name of the loader.
    loader: &'static str,
    command: Command,
}

impl Bench {
    fn with(loader: &'static str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let cwd = place.path().as_os_str().as_bytes().to_vec();
        let bench = Self { place, loader, command: Command { cwd, ..Command::default() } };
        bench.lay(loader, &Planted::new().with(DT_SONAME, "ld-odd.so.9"));
        bench
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn lay(&self, name: &str, file: &Planted) {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        fs::write(self.at(name), file.bytes()).unwrap();
    }

    /// Libraries of a program, by names in this directory, without the loader.
    fn found(&self, program: &str) -> Result<Vec<String>, Fault> {
        let (program, loader) = (self.at(program), self.at(self.loader));
        let bytes = fs::read(&program).unwrap();
        let mut found = of(&program, &bytes, loader.to_str().unwrap(), &self.command)?;
        assert_eq!(found.pop().unwrap().path, loader);
        let name = |file: PackedFile| {
            file.path.strip_prefix(self.place.path()).unwrap().to_str().unwrap().to_owned()
        };
        Ok(found.into_iter().map(name).collect())
    }
}

fn needing(names: &[&str]) -> Planted {
    names.iter().fold(Planted::new(), |planted, name| planted.with(DT_NEEDED, name))
}

#[test]
fn libraries_of_libraries_are_found_once_and_from_where_each_lies() {
    let bench = Bench::with("ld.so");
    let program = needing(&["liba.so.9", "libb.so.9", "ld-odd.so.9"]);
    bench.lay("bin/p", &program.with(DT_RUNPATH, "$ORIGIN/../lib:${ORIGIN}"));
    // A circle, and one that is there by another name.
    let library = needing(&["libc.so.9", "liba-itself.so.9"]).with(DT_SONAME, "liba-itself.so.9");
    bench.lay("lib/liba.so.9", &library.with(DT_RUNPATH, "$ORIGIN/more"));
    bench.lay("bin/libb.so.9", &needing(&["libc.so.9", "ld.so"]));
    bench.lay("lib/more/libc.so.9", &needing(&["liba.so.9"]));
    let told = ["bin/../lib/liba.so.9", "bin/libb.so.9", "bin/../lib/more/libc.so.9"];
    assert_eq!(bench.found("bin/p").unwrap(), told);
}

#[test]
fn a_list_for_a_file_s_own_libraries_is_not_for_theirs_and_the_older_kind_is() {
    let bench = Bench::with("ld.so");
    bench.lay("lib/liba.so.9", &needing(&["libb.so.9"]));
    bench.lay("lib/libb.so.9", &Planted::new());
    bench.lay("old", &needing(&["liba.so.9"]).with(DT_RPATH, "$ORIGIN/lib"));
    assert_eq!(bench.found("old").unwrap(), ["lib/liba.so.9", "lib/libb.so.9"]);
    let new = needing(&["liba.so.9"]).with(DT_RUNPATH, "$ORIGIN/lib");
    bench.lay("new", &new);
    let shown = bench.at("lib/liba.so.9");
    let fault = bench.found("new").unwrap_err();
    let told = format!("the library `libb.so.9`, which `{}` needs, is not found", shown.display());
    assert_eq!(fault.message, told);
    // Beside the newer kind the older does not count.
    let both = needing(&["libb.so.9"]).with(DT_RPATH, "$ORIGIN/lib").with(DT_RUNPATH, "/none");
    bench.lay("both", &both);
    assert!(bench.found("both").is_err());
}

#[test]
fn what_the_command_names_is_looked_into_behind_the_older_list_and_before_the_newer() {
    let mut bench = Bench::with("ld.so");
    for place in ["listed", "given"] {
        bench.lay(&format!("{place}/liba.so.9"), &Planted::new());
    }
    bench.lay("old", &needing(&["liba.so.9"]).with(DT_RPATH, "$ORIGIN/listed"));
    bench.lay("new", &needing(&["liba.so.9"]).with(DT_RUNPATH, "$ORIGIN/listed"));
    bench.lay("none", &needing(&["liba.so.9"]));
    assert!(bench.found("none").is_err());
    bench.command.env = vec![(b"LD_LIBRARY_PATH".to_vec(), b"/none;given".to_vec())];
    assert_eq!(bench.found("old").unwrap(), ["listed/liba.so.9"]);
    assert_eq!(bench.found("new").unwrap(), ["given/liba.so.9"]);
    assert_eq!(bench.found("none").unwrap(), ["given/liba.so.9"]);
}

#[test]
fn what_is_no_library_for_this_machine_is_passed_over() {
    let bench = Bench::with("ld.so");
    let program = needing(&["liba.so.9"]);
    bench.lay("p", &program.with(DT_RUNPATH, "$LIB/x:${PLATFORM}:pipe:text:other:good"));
    for place in ["pipe", "text", "other"] {
        fs::create_dir(bench.at(place)).unwrap();
    }
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, bench.at("pipe/liba.so.9"), mode).unwrap();
    fs::write(bench.at("text/liba.so.9"), "INPUT(liba.so.10)\n").unwrap();
    let mut other = Planted::new().bytes();
    other[18] = 183;
    fs::write(bench.at("other/liba.so.9"), other).unwrap();
    bench.lay("good/liba.so.9", &Planted::new());
    assert_eq!(bench.found("p").unwrap(), ["good/liba.so.9"]);
}

#[test]
fn variants_for_newer_processors_come_along_with_what_they_need() {
    let bench = Bench::with("ld.so");
    bench.lay("p", &needing(&["liba.so.9"]).with(DT_RPATH, "$ORIGIN"));
    bench.lay("liba.so.9", &Planted::new());
    bench.lay("glibc-hwcaps/x86-64-v3/liba.so.9", &needing(&["libb.so.9"]));
    bench.lay("libb.so.9", &Planted::new());
    let told = ["liba.so.9", "glibc-hwcaps/x86-64-v3/liba.so.9", "libb.so.9"];
    assert_eq!(bench.found("p").unwrap(), told);
}

#[test]
fn a_library_by_its_path_is_that_file() {
    let bench = Bench::with("ld.so");
    bench.lay("p", &needing(&["$ORIGIN/x/liba.so.9", "./libb.so.9", "x/none.so"]));
    // It needs itself.
    bench.lay("x/liba.so.9", &needing(&["$ORIGIN/liba.so.9"]));
    bench.lay("libb.so.9", &Planted::new());
    bench.lay("x/none.so", &Planted::new());
    let told = ["x/liba.so.9", "./libb.so.9", "x/none.so"].map(|name| bench.at(name));
    let found = bench.found("p").unwrap();
    assert_eq!(found.into_iter().map(|name| bench.at(&name)).collect::<Vec<_>>(), told);
    bench.lay("q", &needing(&["/none/liba.so.9"]));
    let fault = bench.found("q").unwrap_err();
    assert!(fault.message.starts_with("the library `/none/liba.so.9`, which"), "{fault}");
}

#[test]
fn libraries_that_watch_the_loader_are_refused_wherever_they_are_named() {
    let bench = Bench::with("ld.so");
    let watched = |tag| needing(&[]).with(tag, "/srv/audit.so");
    for tag in [DT_AUDIT, DT_DEPAUDIT] {
        bench.lay("p", &watched(tag));
        let fault = bench.found("p").unwrap_err();
        assert!(fault.message.contains("/p` names libraries that watch its loader"), "{fault}");
        bench.lay("q", &needing(&["liba.so.9"]).with(DT_RUNPATH, "$ORIGIN"));
        bench.lay("liba.so.9", &watched(tag));
        let fault = bench.found("q").unwrap_err();
        assert!(fault.message.contains("/liba.so.9` names libraries that watch"), "{fault}");
        assert_eq!(fault.hint.as_deref(), Some(LEAVE_OUT));
    }
}

#[test]
fn libraries_without_an_end_are_refused() {
    let bench = Bench::with("ld.so");
    let name = |number: usize| format!("lib{number}.so.9");
    let long = DEPTH_MOST + 1;
    for number in 0..long {
        bench.lay(&name(number), &needing(&[name(number + 1).as_str()]));
    }
    bench.lay(&name(long), &Planted::new());
    let from = |first: usize| needing(&[name(first).as_str()]).with(DT_RPATH, "$ORIGIN");
    bench.lay("p", &from(2));
    assert_eq!(bench.found("p").unwrap().len(), DEPTH_MOST);
    bench.lay("p", &from(1));
    let fault = bench.found("p").unwrap_err();
    assert!(fault.message.contains("more than 32 of which each needs the next"), "{fault}");
    let names: Vec<String> = (0..=LIBRARIES_MOST).map(|number| format!("w{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for name in &names {
        bench.lay(name, &Planted::new());
    }
    bench.lay("p", &needing(&names).with(DT_RPATH, "$ORIGIN"));
    let fault = bench.found("p").unwrap_err();
    assert!(fault.message.contains("more than 500 libraries"), "{fault}");
    bench.lay("p", &needing(&names[1..]).with(DT_RPATH, "$ORIGIN"));
    assert_eq!(bench.found("p").unwrap().len(), LIBRARIES_MOST);
}

#[test]
fn musl_s_loader_is_its_c_library_and_takes_both_lists_for_the_same() {
    let bench = Bench::with("lib/ld-musl-x86_64.so.1");
    let itself = ["libc.so", "libc.musl-x86_64.so.1", "libpthread.so.0", "libm.so.6"];
    bench.lay("p", &needing(&itself).with(DT_NEEDED, "liba.so.9").with(DT_RUNPATH, "$ORIGIN/x"));
    bench.lay("x/liba.so.9", &needing(&["libb.so.9"]).with(DT_SONAME, "libodd.so.9"));
    bench.lay("x/libb.so.9", &needing(&["libodd.so.9"]));
    bench.lay("x/libodd.so.9", &Planted::new());
    let told = ["x/liba.so.9", "x/libb.so.9", "x/libodd.so.9"];
    assert_eq!(bench.found("p").unwrap(), told);
    fs::create_dir(bench.at("etc")).unwrap();
    fs::write(bench.at("etc/ld-musl-x86_64.path"), bench.at("y").to_str().unwrap()).unwrap();
    bench.lay("q", &needing(&["liby.so.9"]));
    bench.lay("y/liby.so.9", &Planted::new());
    assert_eq!(bench.found("q").unwrap(), ["y/liby.so.9"]);
}

/// Libraries of a program of this machine, and its loader; none where it is static or not there.
fn real(program: &Path) -> Vec<PathBuf> {
    let Ok(bytes) = fs::read(program) else { return Vec::new() };
    let loader = Elf::parse(&bytes).and_then(|it| it.interpreter());
    let command = Command { cwd: b"/".to_vec(), ..Command::default() };
    let found = loader.map(|it| of(program, &bytes, it, &command).unwrap()).unwrap_or_default();
    found.into_iter().map(|file| file.path).collect()
}

#[test]
fn what_this_machine_s_programs_need_is_there_and_needs_no_more() {
    for program in ["/bin/sh", "/bin/bash", "/usr/bin/python3", "/usr/bin/sha256sum"] {
        let found = real(Path::new(program));
        let name = |path: &PathBuf| path.file_name().unwrap().as_bytes().to_vec();
        let mut names: BTreeSet<Vec<u8>> = found.iter().map(name).collect();
        let needs = |path: &Path| dynamic::read(&fs::read(path).unwrap()).unwrap();
        names.extend(found.iter().filter_map(|path| needs(path).own_name));
        for path in &found {
            assert!(path.is_file(), "{program}: {}", path.display());
            for needed in needs(path).libraries {
                let shown = String::from_utf8_lossy(&needed);
                assert!(names.contains(&needed), "{program}: {} needs {shown}", path.display());
            }
        }
        if !found.is_empty() {
            let own = needs(Path::new(program)).libraries;
            assert!(own.iter().all(|needed| names.contains(needed)), "{program}");
        }
    }
}

#[test]
fn what_is_found_for_this_program_is_what_the_kernel_and_the_loader_mapped() {
    let found = real(&std::env::current_exe().unwrap());
    assert!(found.iter().any(|path| path.ends_with("libc.so.6")), "{found:?}");
    let mapped = fs::read_to_string("/proc/self/maps").unwrap();
    // Which variant is loaded, this processor decides.
    let is_variant = |path: &Path| path.components().any(|it| it.as_os_str() == "glibc-hwcaps");
    let has_variants = |path: &Path| variants(path).iter().any(|it| it.is_file());
    for path in found.iter().filter(|path| !is_variant(path) && !has_variants(path)) {
        let path = fs::canonicalize(path).unwrap();
        assert!(mapped.contains(path.to_str().unwrap()), "{} is not mapped", path.display());
    }
}
