//! Pages: one page of the book for each kind of layer, out of its descriptor, the header of its
//! file, and the command line that an end-to-end test saw.
//!
//! `SURTAX_BLESS=1 cargo test pages` writes them, their lines in the contents, and what Debian's
//! package suggests; the tests hold that all are what they would write.

use crate::driver::registered;
use crate::layer::{Descriptor, Exchange, LayerSpec, OptionSpec, Rights, RootKind};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Files of the kinds that are not in a file or a directory of their own name.
const FILES: [(&str, &str); 5] = [
    ("runc", "oci.rs"),
    ("crun", "oci.rs"),
    ("youki", "oci.rs"),
    ("cloud-hypervisor", "monitor/cloud_hypervisor.rs"),
    ("firecracker", "monitor/firecracker.rs"),
];

/// Packages that Debian's suggests beside those of the layers.
const MORE: [&str; 2] = ["libvirt-daemon-system", "qemu-utils"];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The file of a kind, from the root of the repository.
fn file_of(kind: &str) -> PathBuf {
    let own = FILES.iter().find(|(known, _)| *known == kind).map(|(_, file)| PathBuf::from(file));
    let drivers = Path::new("src/driver");
    own.map_or_else(
        || {
            let alone = drivers.join(kind).with_extension("rs");
            let is_alone = repository().join(&alone).is_file();
            if is_alone { alone } else { drivers.join(kind).join("mod.rs") }
        },
        |file| drivers.join(file),
    )
}

/// The header of a file without its first paragraph, as Markdown: figures as they are drawn.
fn header(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let text: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let text = text.join("\n");
    let shown = text.split("\n\n").skip(1).map(|paragraph| match paragraph.contains("──") {
        true => format!("```text\n{paragraph}\n```"),
        false => paragraph.replace("[`crate::", "[`").replace("[`", "`").replace("`]", "`"),
    });
    shown.collect::<Vec<_>>().join("\n\n").trim().to_owned()
}

/// The same with a capital.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// The command line that starts a kind, with an option on each line, and the stack that it is of.
/// `tests/e2e/suite.rs` holds the file against what really was started.
fn command_line(kind: &str) -> Option<(String, String)> {
    let golden = repository().join("tests/e2e/golden/command_lines").join(kind);
    let text = std::fs::read_to_string(golden.with_extension("txt")).ok()?;
    let (stack, line) = text.trim_end().split_once('\n')?;
    Some((stack.to_owned(), line.replace(" -", " \\\n    -")))
}

/// Separates a kind from its options, if there are any.
fn colon(options: &str) -> &'static str {
    if options.is_empty() { "" } else { ":" }
}

fn options_table(options: &[OptionSpec]) -> String {
    if options.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n## Options\n\n| option | values | what |\n|---|---|---|\n");
    for OptionSpec { key, values, help, is_path } in options {
        let values = match (values, is_path) {
            ([], true) => String::from("a file"),
            ([], false) => String::from("any text"),
            (words, _) => listed(words),
        };
        let _ = writeln!(text, "| `{key}` | {values} | {} |", help.replace('|', "\\|"));
    }
    text
}

/// Says who can start the plain form of a kind.
fn starter(descriptor: &Descriptor) -> &'static str {
    match (descriptor.rights)(&LayerSpec::of(descriptor.kind, &[])) {
        Rights::User => "any user",
        Rights::Namespace => "any user, in a user namespace of their own",
        Rights::Root => "root",
    }
}

/// The parts that `surtax why --confirm` exchanges.
fn exchanges(descriptor: &Descriptor) -> String {
    let mut text = String::new();
    for (place, Exchange { option: (key, value), instead, .. }) in
        descriptor.exchanges.iter().enumerate()
    {
        if place == 0 {
            text += "\n## What can be exchanged alone\n\n| with | there is |\n|---|---|\n";
        }
        let _ = writeln!(text, "| `{key}={value}` | {instead} |");
    }
    text
}

fn page(descriptor: &Descriptor) -> String {
    let Descriptor {
        kind, summary, aliases, options, limits, roots, variants, not_yet_run, ..
    } = descriptor;
    let file = file_of(kind);
    let source = std::fs::read_to_string(repository().join(&file)).unwrap();
    let mut text = format!(
        "# `{kind}`\n\n<!-- Made by `SURTAX_BLESS=1 cargo test pages`; change the descriptor \
         or the header of its file. -->\n\n{}{}. Its driver is [`{file}`](../../{file}).\n\n{}\n",
        if descriptor.ran_on_hardware || summary.contains("not yet run") {
            ""
        } else {
            "Not yet run on hardware: here only in emulation. "
        },
        sentence(summary),
        header(&source),
        file = file.display(),
    );
    text += &options_table(options);
    if let Some(subject) = descriptor.subject {
        let _ = writeln!(
            text,
            "\nIt means nothing without `{subject}`, which may stand first and without its key."
        );
    }
    text += "\n## What it is\n\n| | |\n|---|---|\n";
    let mut row = |what: &str, said: String| {
        let _ = writeln!(text, "| {what} | {said} |");
    };
    for (alias, options) in *aliases {
        row("also called", format!("`{alias}`, for `{kind}{}{options}`", colon(options)));
    }
    let limits: Vec<&str> = limits.iter().flat_map(|limit| limit.keys()).copied().collect();
    row("limits that it takes", if limits.is_empty() { "none".into() } else { listed(&limits) });
    let roots: Vec<&str> = roots.iter().map(|root: &RootKind| root.words()).collect();
    row("root file systems", if roots.is_empty() { "its own".into() } else { listed(&roots) });
    let yes = |is: bool| String::from(if is { "yes" } else { "no" });
    row("another layer can be started in it", yes(descriptor.holds_layers));
    row("can be started by", starter(descriptor).into());
    row("memory of its own, which no limit outside ends", yes(descriptor.has_own_memory));
    if descriptor.shuts_keyrings {
        row("the kernel's keyrings, of which root's are this machine's", "shut".into());
    }
    if let both @ [_, ..] = descriptor.both_ways {
        row("`net=` by which it and the outside can call each other", listed(both));
    }
    if !variants.is_empty() {
        row("what `surtax doctor` asks about", listed(variants));
    }
    if !not_yet_run.is_empty() {
        row("nobody of us has run", listed(not_yet_run));
    }
    text += &exchanges(descriptor);
    if let Some((stack, line)) = command_line(kind) {
        let _ = write!(
            text,
            "\n## What starts it\n\n`{stack}` is started by this; words in capitals are the \
             trial's or the machine's own.\n\n```text\n{line}\n```\n"
        );
    }
    text
}

#[test]
fn every_layer_has_a_page_of_the_book_and_it_says_what_its_descriptor_says() {
    let directory = repository().join("docs/layers");
    let is_written = std::env::var_os("SURTAX_BLESS").is_some();
    let listed = registered().into_iter().filter(|it| it.is_listed);
    let pages: Vec<(PathBuf, String)> =
        listed.map(|it| (directory.join(it.kind).with_extension("md"), page(it))).collect();
    if is_written {
        std::fs::create_dir_all(&directory).unwrap();
        for (path, text) in &pages {
            std::fs::write(path, text).unwrap();
        }
    }
    for (path, text) in &pages {
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == *text, "{} is old: see the header of this file", path.display());
    }
    let count = std::fs::read_dir(&directory).unwrap().count();
    assert_eq!(count, pages.len(), "a page of a layer that is none");
    // The book's table of contents has them in the order of the registry.
    let contents = repository().join("docs/SUMMARY.md");
    let found = std::fs::read_to_string(&contents).unwrap();
    let is_of_a_layer = |line: &&str| line.contains("](layers/");
    let before = found.lines().take_while(|line| !is_of_a_layer(line)).map(String::from);
    let after = found.lines().skip_while(|line| !is_of_a_layer(line)).skip_while(is_of_a_layer);
    let kinds = pages.iter().map(|(path, _)| path.file_stem().unwrap().to_str().unwrap());
    let links = kinds.map(|kind| format!("  - [`{kind}`](layers/{kind}.md)"));
    let lines: Vec<String> = before.chain(links).chain(after.map(String::from)).collect();
    let text = lines.join("\n") + "\n";
    if is_written {
        std::fs::write(&contents, &text).unwrap();
    }
    assert!(found == text || is_written, "{} lists other layers", contents.display());
}

/// A page of all layers is prose, which no descriptor has.
#[test]
fn the_page_of_stacks_names_every_layer() {
    let text = std::fs::read_to_string(repository().join("docs/layers.md")).unwrap();
    for Descriptor { kind, .. } in registered().into_iter().filter(|it| it.is_listed) {
        let names = [format!("`{kind}`"), format!("`{kind}:")];
        let is_named = names.iter().any(|name| text.contains(name));
        assert!(is_named, "docs/layers.md has no row with `{kind}`");
    }
}

#[test]
fn debian_s_package_suggests_the_tools_of_all_layers_and_setup_installs_them() {
    let packages = || registered().into_iter().map(|it| it.package).filter(|it| !it.is_empty());
    let setup = std::fs::read_to_string(repository().join("setup/debian.sh")).unwrap();
    let installed: BTreeSet<_> =
        setup.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(packages().all(|it| installed.contains(it)), "`needs` of setup/debian.sh lacks one");

    let file = repository().join("Cargo.toml");
    let manifest = std::fs::read_to_string(&file).unwrap();
    let line = |key: &str| manifest.lines().find(|line| line.starts_with(key)).unwrap();
    let recommended: Vec<&str> = line("recommends = ").split(['"', ',', ' ']).collect();
    let suggested: BTreeSet<&str> =
        packages().chain(MORE).filter(|it| !recommended.contains(it)).collect();
    let suggested = Vec::from_iter(suggested).join(", ");
    let (old, new) = (line("suggests = "), format!("suggests = \"{suggested}\""));
    let is_written = std::env::var_os("SURTAX_BLESS").is_some();
    if is_written {
        std::fs::write(&file, manifest.replace(old, &new)).unwrap();
    }
    assert!(old == new || is_written, "Cargo.toml is old: see the header of this file");
}
