//! Interpreters of scripts: programs that the kernel starts in place of one that begins with `#!`.
//!
//! Reads the first line of an executable file as the kernel does, and of each file that it names:
//! an interpreter may be a script, too. The kernel follows few of them, but `env` and a shell begin
//! anew, so all are followed. Of the rest of the line absolute paths are taken, as in
//! `#!/usr/bin/env /srv/python`, `env -S VARIABLE=/srv/lib ${HOME}/python` or `perl -Mlib=/a,/b`.
//!
//! Source: `execve(2)`, "Interpreter scripts"; Linux 6.12, `fs/binfmt_script.c`; `env(1)`;
//! `perlrun(1)`; `LUA_PATH` in the Lua 5.4 Reference Manual, 6.3.

use super::split_string;
use crate::regular_file;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// Bytes of a file in which the kernel looks for the first line.
///
/// Source: Linux, `include/uapi/linux/binfmts.h`, `BINPRM_BUF_SIZE`.
const LINE_MOST: u64 = 256;

/// Lists all that first lines name, from those of these programs on.
pub(super) fn named(programs: impl IntoIterator<Item = PathBuf>) -> BTreeSet<PathBuf> {
    let mut waiting: Vec<PathBuf> = programs.into_iter().collect();
    let mut found = BTreeSet::new();
    // It ends: each file has one first line, and is asked for it once by each of its names.
    while let Some(program) = waiting.pop() {
        for path in first_line(&program).map(|line| words(&line)).unwrap_or_default() {
            if found.insert(path.clone()) {
                waiting.push(path);
            }
        }
    }
    found
}

/// The first line of a script without `#!`. A file that cannot be opened cannot be executed either.
fn first_line(program: &Path) -> Option<Vec<u8>> {
    if !is_program(program) {
        return None;
    }
    let mut head = Vec::new();
    regular_file::open(program).ok()?.take(LINE_MOST).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| matches!(byte, b'\n' | 0)).next()?;
    Some(line.to_vec())
}

/// Tells whether a file can be executed.
pub(super) fn is_program(path: &Path) -> bool {
    let found = fs::metadata(path);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Paths on such a line: that of the interpreter, and those in its arguments.
fn words(line: &[u8]) -> Vec<PathBuf> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let begin = line.iter().position(|byte| !is_blank(byte)).unwrap_or(line.len());
    let line = line.get(begin..).unwrap_or_default();
    let end = line.iter().position(is_blank).unwrap_or(line.len());
    let (interpreter, arguments) = line.split_at(end);
    // A relative one is looked for where the caller is.
    let interpreter = Some(path(interpreter)).filter(|path| !path.as_os_str().is_empty());
    let interpreter = interpreter.and_then(|path| std::path::absolute(path).ok());
    // The kernel hands over all of them as one; `env -S` splits it, and knows quotes.
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let is_mark = |byte: &u8| matches!(byte, b'"' | b'\'' | b'=' | b':' | b',' | b';');
    let whole = arguments.trim_ascii();
    let split = split_string::words(arguments, |name| std::env::var_os(name));
    let words = arguments.split(is_space).chain(split.iter().map(Vec::as_slice));
    let words = words.clone().chain(words.flat_map(|word| word.split(is_mark)));
    let mut paths: Vec<PathBuf> =
        std::iter::once(whole).chain(words).filter_map(absolute).collect();
    paths.extend(interpreter);
    paths.sort();
    paths.dedup();
    paths
}

/// The absolute path that a word is, or that follows an option without a space. A template, such as
/// Lua's `/srv/?.lua`, stands for all of the directory that it begins with.
fn absolute(word: &[u8]) -> Option<PathBuf> {
    let begin = match word {
        [b'/', ..] => 0,
        [b'-', ..] => word.iter().position(|byte| *byte == b'/')?,
        _ => return None,
    };
    let is_plain = |part: &Component<'_>| !part.as_os_str().as_bytes().contains(&b'?');
    Some(path(word.get(begin..)?).components().take_while(is_plain).collect())
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_line_names_its_interpreter_and_the_paths_behind_it() {
        let here = std::env::current_dir().unwrap();
        let of_home = Path::new(&std::env::var_os("HOME").unwrap()).join("v/python");
        for (line, told) in [
            ("/bin/sh", &["/bin/sh"][..]),
            (" \t/bin/sh -e", &["/bin/sh"]),
            ("/usr/bin/env python3", &["/usr/bin/env"]),
            ("/usr/bin/env /srv/python", &["/srv/python", "/usr/bin/env"]),
            ("/usr/bin/env -S /srv/python -u", &["/srv/python", "/srv/python -u", "/usr/bin/env"]),
            ("/usr/bin/env -S/srv/python", &["/srv/python", "/usr/bin/env"]),
            ("/usr/bin/env --split-string=/srv/python", &["/srv/python", "/usr/bin/env"]),
            ("/usr/bin/env '/srv/python'", &["/srv/python", "/usr/bin/env"]),
            (
                "/usr/bin/env -S P=/srv/a:/srv/b",
                &["/srv/a", "/srv/b", "/srv/a:/srv/b", "/usr/bin/env"],
            ),
            ("/usr/bin/env /srv/a b", &["/srv/a", "/srv/a b", "/usr/bin/env"]),
            ("/usr/bin/perl -I/srv/lib -w", &["/srv/lib", "/srv/lib -w", "/usr/bin/perl"]),
            ("/usr/bin/awk -f /srv/lib.awk", &["/srv/lib.awk", "/usr/bin/awk"]),
            ("/usr/bin/perl -I /srv/lib", &["/srv/lib", "/usr/bin/perl"]),
            (
                "/usr/bin/perl -Mlib=/srv/a,/srv/b",
                &["/srv/a", "/srv/a,/srv/b", "/srv/b", "/usr/bin/perl"],
            ),
            (
                "/usr/bin/env -S LUA_PATH=/srv/a/?.lua;/srv/b/?/x.lua lua",
                &["/srv/a", "/srv/b", "/usr/bin/env"],
            ),
            (
                r#"/usr/bin/env -S "/srv/my\_dir/python""#,
                &[
                    "/srv/my dir/python", r"/srv/my\_dir/python", r#"/srv/my\_dir/python""#,
                    "/usr/bin/env",
                ],
            ),
            (
                "/usr/bin/env -S ${HOME}/v/python",
                &[of_home.to_str().unwrap(), "/usr/bin/env", "/v/python"],
            ),
            ("/srv/it's=a:b/sh", &["/srv/it's=a:b/sh"]),
            ("bin/sh lib/x", &[here.join("bin/sh").to_str().unwrap()]),
            ("", &[]),
            (" \t", &[]),
        ] {
            let mut told: Vec<PathBuf> = told.iter().map(PathBuf::from).collect();
            told.sort();
            assert_eq!(words(line.as_bytes()), told, "{line:?}");
        }
    }

    #[test]
    fn scripts_are_followed_as_far_as_they_lead_and_nothing_else_is_opened() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let write = |name: &str, text: &str, mode: u32| {
            fs::write(at(name), text).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        let shown = place.path().display();
        for depth in 0..7 {
            write(&format!("s{depth}"), &format!("#!{shown}/s{}\n", depth + 1), 0o755);
        }
        write("s7", &format!("#!/usr/bin/env -S {shown}/last -u\nx"), 0o755);
        write("last", "\x7fELF", 0o755);
        write("circle", &format!("#! {shown}/circle"), 0o711);
        write("plain", "#!/srv/plain\n", 0o644);
        write("long", &format!("#!/{}\n", "x".repeat(300)), 0o755);
        write("ends", "#!/srv/ends\0/srv/more\n", 0o755);
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::from_raw_mode(0o777))
            .unwrap();
        let found = |name: &str| named([at(name)]);
        let mut told: BTreeSet<PathBuf> = (1..8).map(|depth| at(&format!("s{depth}"))).collect();
        // `env` may get the rest of the line as one path.
        told.extend([at("last"), at("last -u"), PathBuf::from("/usr/bin/env")]);
        assert_eq!(found("s0"), told);
        assert_eq!(found("circle"), [at("circle")].into());
        assert_eq!(found("ends"), ["/srv/ends".into()].into());
        assert_eq!(found("long"), [format!("/{}", "x".repeat(253)).into()].into());
        for name in ["plain", "pipe", "none", "last", "."] {
            assert_eq!(found(name), BTreeSet::new(), "{name}");
        }
    }
}
