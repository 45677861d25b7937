//! The options that mean the same in every layer: the limits of [`Limits`], `root`, `secrets`, and
//! on the innermost one `env.NAME`.
//!
//! They are read here and mapped by each driver. A limit that a driver does not map is refused
//! aloud, never ignored: a stack that looks limited and is not would win every comparison.

use crate::fault::Fault;
use crate::lab::huge_pages::HUGE_PAGE_MIB;
use crate::lab::{IoLimits, Limits, Partition};
use crate::layer::{Descriptor, Files, LayerSpec, Limit, Root, RootKind, TRANSPORT};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use surtax_instrument::probe::cgroup::CPUS_MAX;
use surtax_instrument::quantity::Bytes;

/// The option that says whether a level's secrets are shown.
const SECRETS: &str = "secrets";

/// The longest name of an image, in bytes.
const NAME_MAX: usize = 300;

/// Their keys, in the order of the help.
pub(super) const COMMON: [&str; 14] = [
    "cpus", "weight", "cpuset", "partition", "numa", "memory", "hugetlb", "pids", "read-bps",
    "write-bps", "read-iops", "write-iops", "root", SECRETS,
];

/// Prefix of the key of a variable of the command's environment.
const VARIABLE: &str = "env.";

/// Form of such a key where it stands for all of them.
pub(super) const ANY_VARIABLE: &str = "env.NAME";

/// Other spellings, and the one that is kept.
pub(super) const ALIASES: [(&str, &str); 1] = [("mem", "memory")];

/// The option of a machine whose memory is of huge pages.
const HUGE_MACHINE: &str = "hugepages";

impl LayerSpec {
    /// The common limits among the options.
    ///
    /// # Errors
    /// The user's, for a value that cannot be read; never for a spec that was parsed.
    pub fn limits(&self) -> Result<Limits, Fault> {
        Ok(Limits {
            cpu_millis: self.option("cpus").map(cpu_millis).transpose()?,
            cpuset: self.option("cpuset").map(numbers).transpose()?,
            memory: self.option("memory").map(memory).transpose()?,
            hugetlb: self.option("hugetlb").map(huge_pages).transpose()?,
            pids: self.option("pids").map(pids).transpose()?,
            weight: self.option("weight").map(weight).transpose()?,
            partition: self.option("partition").map(partition).transpose()?,
            numa: self.option("numa").map(numbers).transpose()?,
            io: IoLimits {
                read_bps: self.option("read-bps").map(bytes_per_second).transpose()?,
                write_bps: self.option("write-bps").map(bytes_per_second).transpose()?,
                read_iops: self.option("read-iops").map(per_second).transpose()?,
                write_iops: self.option("write-iops").map(per_second).transpose()?,
            },
        })
    }

    /// Reads where the layer's root file system comes from; [`Root::Overlay`] unless told.
    ///
    /// # Errors
    /// The user's, for a value that cannot be read; never for a spec that was parsed.
    pub fn root(&self) -> Result<Root, Fault> {
        self.option("root").map_or(Ok(Root::Overlay), root)
    }

    /// Tells whether a command in it sees what its level keeps secret; not unless told, but in
    /// `native`.
    #[must_use]
    pub fn shows_secrets(&self) -> bool {
        self.option(SECRETS).map_or(self.kind == "native", |word| word == "shown")
    }

    /// Tells whether what its level keeps secret is empty in it, as its driver's descriptor has it:
    /// where it starts from that level's own root.
    #[must_use]
    pub fn is_concealed_by(&self, descriptor: &Descriptor) -> bool {
        descriptor.conceals()
            && !self.shows_secrets()
            && self.root().is_ok_and(|root| root == Root::Overlay)
    }

    /// Variables that the command gets in this layer: name and value, sorted by name.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.options.iter().filter_map(|(key, value)| Some((variable(key)?, value.as_str())))
    }

    /// Makes a path in `root=` absolute, seen from `cwd`.
    pub fn make_root_absolute(&mut self, cwd: &Path) {
        if let Some(value) = self.options.get_mut("root")
            && let Some((from, path)) = value.split_once(':')
        {
            // The name of an image in a registry is no path.
            if from != TRANSPORT {
                *value = format!("{from}:{}", cwd.join(path).display());
            }
        }
    }
}

impl Descriptor {
    /// Tells whether a common option can be given to this layer.
    #[must_use]
    pub fn takes(&self, key: &str) -> bool {
        if key == SECRETS {
            return self.conceals();
        }
        limit(key).is_none_or(|limit| self.limits.contains(&limit))
    }

    /// Tells whether a command in this layer does not see what its level keeps secret.
    #[must_use]
    pub fn conceals(&self) -> bool {
        self.kind != "native" && self.files != Files::AsTheyAre && !self.is_remote
    }
}

/// The name of the variable that a key is about.
pub(super) fn variable(key: &str) -> Option<&str> {
    key.strip_prefix(VARIABLE)
}

/// Refuses what no shell could name.
pub(super) fn refuse_name(name: &str) -> Result<(), Fault> {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let is_name = name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
        && name.bytes().next().is_some_and(is_letter);
    if is_name {
        return Ok(());
    }
    Err(Fault::user(format!("`{name}` is not the name of a variable"))
        .hint("use letters, digits and `_`, as in `env.THREADS=2`"))
}

fn limit(key: &str) -> Option<Limit> {
    Limit::ALL.into_iter().find(|limit| limit.keys().contains(&key))
}

/// Checks the value of one common option, and that the layer can keep it.
pub(super) fn refuse_value(
    descriptor: &Descriptor,
    key: &str,
    value: &str,
    descriptors: &[&'static Descriptor],
) -> Result<(), Fault> {
    if key == SECRETS {
        return refuse_secrets(descriptor, value);
    }
    if !descriptor.takes(key) {
        return Err(cannot_limit(descriptor, key, descriptors));
    }
    if key == "root" {
        return refuse_root(descriptor, value);
    }
    let options = [(key.to_owned(), value.to_owned())].into();
    LayerSpec { kind: descriptor.kind.to_owned(), options }.limits().map(drop)
}

/// Refuses a root that the layer cannot have, and what is none.
fn refuse_root(descriptor: &Descriptor, value: &str) -> Result<(), Fault> {
    let (kind, takes) = (descriptor.kind, |root| descriptor.roots.contains(&root));
    let (message, hint) = match root(value)? {
        Root::Host if descriptor.is_remote => return Ok(()),
        _ if descriptor.is_remote => {
            return Err(Fault::user(format!(
                "`{kind}` shows the other machine's files as they are, and not `{value}`"
            ))
            .hint(format!(
                "drop `root=`, or give it to a layer behind it, as in `{kind}:…+runc`"
            )));
        }
        Root::Image(_) if !takes(RootKind::Image) => (
            format!("`{kind}` boots no disk, and `{value}` is the image of one"),
            "use `qemu`, or `root=dir:PATH` or `root=oci:PATH`",
        ),
        Root::Registry(_) if !takes(RootKind::Oci) => (
            format!("`{kind}` takes no image, and `{value}` is one of a registry"),
            "use a container, or `root=dir:PATH`",
        ),
        Root::Host if !takes(RootKind::Host) => (
            format!(
                "`{kind}` cannot take `host` as its root: writes would reach this machine's files"
            ),
            "use `root=overlay`, and `--writable PATH` for what must be kept",
        ),
        Root::Packed if !takes(RootKind::Packed) => (
            format!(
                "`{kind}` cannot take `packed` as its root: that is for a machine with a kernel of \
                 its own"
            ),
            "use `root=dir:PATH` with a directory that holds little, or `qemu:root=packed`",
        ),
        _ => return Ok(()),
    };
    Err(Fault::user(message).hint(hint))
}

/// Refuses `secrets=` where the layer itself says that it conceals nothing, and unknown values.
fn refuse_secrets(descriptor: &Descriptor, value: &str) -> Result<(), Fault> {
    let kind = descriptor.kind;
    if !descriptor.conceals() {
        return Err(Fault::user(format!(
            "`{kind}` conceals no files: `secrets=` means nothing in it"
        ))
        .hint("leave `secrets=` out, or give it to a container or a machine"));
    }
    match value {
        "masked" | "shown" => Ok(()),
        _ => Err(Fault::user(format!("`secrets={value}`: secrets are `masked` or `shown`"))
            .hint("write `secrets=shown` where the command needs this machine's keys")),
    }
}

/// Says what to do about an option of machines that was given to something else: its processes ask
/// for huge pages themselves, and what can be said of them is how many they may have.
pub(super) fn instead_of_huge_machine(descriptor: &Descriptor, key: &str) -> Option<String> {
    let is_meant = key == HUGE_MACHINE && descriptor.takes("hugetlb");
    is_meant.then(|| {
        format!(
            "`{HUGE_MACHINE}` is of machines, such as `qemu`; in `{}` a command asks for huge \
             pages itself, and `hugetlb=64M` says how many it may have",
            descriptor.kind
        )
    })
}

/// Says what to do about an option for the command that was given to a layer around the innermost
/// one, which may have other values of it, or have none.
pub(super) fn instead_of_outer(
    (outer, inner): (&str, &str),
    (key, value): (&str, &str),
    descriptors: &[&'static Descriptor],
) -> String {
    let descriptor = Descriptor::of_kind(inner, descriptors);
    let choice = descriptor.and_then(|it| it.options.iter().find(|choice| choice.key == key));
    match choice.map(|choice| choice.values) {
        None if variable(key).is_none() => {
            format!("take it from `{outer}`: `{inner}` has no `{key}`")
        }
        Some(values) if !values.is_empty() && !values.contains(&value) => {
            let words = values.iter().map(|word| format!("`{inner}:{key}={word}`"));
            let words: Vec<String> = words.collect();
            format!("take it from `{outer}` and write one of {}", words.join(", "))
        }
        _ => format!("take it from `{outer}` and write `{inner}:{key}={value}`"),
    }
}

fn cannot_limit(descriptor: &Descriptor, key: &str, descriptors: &[&'static Descriptor]) -> Fault {
    let kind = descriptor.kind;
    let mapped: Vec<&str> =
        COMMON.into_iter().filter(|k| limit(k).is_some() && descriptor.takes(k)).collect();
    let why = match mapped.as_slice() {
        [] => String::from("it has no limits at all"),
        mapped => format!("its limits are `{}`", mapped.join("`, `")),
    };
    let others: Vec<&str> = descriptors
        .iter()
        .filter(|descriptor| descriptor.takes(key))
        .map(|descriptor| descriptor.kind)
        .collect();
    let is_huge_machine =
        key == "hugetlb" && descriptor.options.iter().any(|choice| choice.key == HUGE_MACHINE);
    let hint = match others.as_slice() {
        _ if is_huge_machine => {
            format!("use `{HUGE_MACHINE}=on`, with which its memory is of huge pages")
        }
        [] => format!("leave `{key}` out"),
        others => format!(
            "leave `{key}` out, or give it to a layer that has it: `{}`",
            others.join("`, `")
        ),
    };
    Fault::user(format!("`{kind}` cannot limit `{key}`: {why}")).hint(hint)
}

/// `2`, `0.5`: CPUs' worth of time, in thousandths.
fn cpu_millis(text: &str) -> Result<u32, Fault> {
    let refuse = || {
        Fault::user(format!("`{text}` is not a number of CPUs")).hint(
            "write a number from 0.01 to 8192 with at most three decimals, such as `2` or `0.5`",
        )
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || whole.len() > 4 || fraction.len() > 3 {
        return Err(refuse());
    }
    let millis = format!("{whole}{fraction:0<3}").parse::<u32>().map_err(|_| refuse())?;
    if (10..=CPUS_MAX * 1000).contains(&millis) { Ok(millis) } else { Err(refuse()) }
}

/// `0-1;3`: numbers of CPUs or of NUMA nodes, sorted, each once.
fn numbers(text: &str) -> Result<Vec<u32>, Fault> {
    let refuse = || {
        Fault::user(format!("`{text}` is not a set of CPUs or nodes"))
            .hint("write numbers and ranges with `;` between them, such as `0-1;3`")
    };
    let mut cpus = Vec::new();
    for part in text.split(';') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.trim().parse().map_err(|_| refuse())?;
        let last: u32 = last.trim().parse().map_err(|_| refuse())?;
        if first > last || last >= CPUS_MAX {
            return Err(refuse());
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

fn memory(text: &str) -> Result<Bytes, Fault> {
    match Bytes::parse(text) {
        Ok(bytes) if bytes >= Bytes(1 << 20) => Ok(bytes),
        Ok(_) => {
            let hint = match text.bytes().all(|byte| byte.is_ascii_digit()) {
                true => "add a suffix, such as `512M` or `2G`",
                false => "give it `1M` or more",
            };
            Err(Fault::user(format!("`{text}` of memory is less than one mebibyte")).hint(hint))
        }
        Err(message) => Err(Fault::user(message)),
    }
}

/// `64M`, `0`: memory in whole huge pages.
fn huge_pages(text: &str) -> Result<Bytes, Fault> {
    const PAGE: u64 = HUGE_PAGE_MIB << 20;
    match Bytes::parse(text) {
        Ok(bytes) if bytes.0.is_multiple_of(PAGE) => Ok(bytes),
        Ok(bytes) => {
            let next = bytes.0.next_multiple_of(PAGE) >> 20;
            Err(Fault::user(format!(
                "`{text}` is no whole number of huge pages, of {HUGE_PAGE_MIB} MiB each"
            ))
            .hint(format!("write `{next}M`, or `0` for none")))
        }
        Err(message) => Err(Fault::user(message)),
    }
}

fn pids(text: &str) -> Result<u32, Fault> {
    let hint = "write a whole number from 1 to 4194304";
    whole(text, 1..=4_194_304, "a number of processes", hint)
}

/// Source: Linux `Documentation/admin-guide/cgroup-v2.rst`, `cpu.weight`.
fn weight(text: &str) -> Result<u32, Fault> {
    let hint = "write a whole number from 1 to 10000; everybody has 100";
    whole(text, 1..=10_000, "a weight", hint)
}

/// A whole number in a range, which is to be `what`.
fn whole(text: &str, range: RangeInclusive<u32>, what: &str, hint: &str) -> Result<u32, Fault> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| Fault::user(format!("`{text}` is not {what}")).hint(hint))
}

fn partition(text: &str) -> Result<Partition, Fault> {
    match text {
        "root" => Ok(Partition::Root),
        "isolated" => Ok(Partition::Isolated),
        _ => Err(Fault::user(format!("`{text}` is not a kind of cpuset partition"))
            .hint("use `root`, or `isolated`, where the scheduler spreads no load either")),
    }
}

/// Reads a number of bytes a second: no kernel keeps less than a page a second.
fn bytes_per_second(text: &str) -> Result<Bytes, Fault> {
    match Bytes::parse(text) {
        Ok(bytes) if bytes >= Bytes(4096) => Ok(bytes),
        Ok(_) => Err(Fault::user(format!("`{text}` a second is less than a page"))
            .hint("add a suffix, such as `512K` or `8M`")),
        Err(message) => Err(Fault::user(message)),
    }
}

fn per_second(text: &str) -> Result<u32, Fault> {
    let hint = "write a whole number, such as `100`";
    whole(text, 1..=u32::MAX, "a number of operations a second", hint)
}

/// Reads the name of an image in a registry.
fn reference(name: &str) -> Result<Root, Fault> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if begins && name.len() <= NAME_MAX && name.bytes().all(is_plain) {
        return Ok(Root::Registry(name.to_owned()));
    }
    Err(Fault::user(format!("`{name}` is not the name of an image"))
        .hint("write it as an engine knows it, such as `alpine:3` or `ghcr.io/me/tool:1`"))
}

fn root(text: &str) -> Result<Root, Fault> {
    if let Some((TRANSPORT, name)) = text.split_once("://") {
        return reference(name);
    }
    match text.split_once(':') {
        Some(("dir", path)) if !path.is_empty() => Ok(Root::Directory(PathBuf::from(path))),
        Some(("oci", path)) if !path.is_empty() => Ok(Root::Oci(PathBuf::from(path))),
        Some(("image", path)) if !path.is_empty() => Ok(Root::Image(PathBuf::from(path))),
        None if text == "overlay" => Ok(Root::Overlay),
        None if text == "host" => Ok(Root::Host),
        None if text == "packed" => Ok(Root::Packed),
        _ => Err(Fault::user(format!("`{text}` is not a root file system")).hint(
            "use `overlay`, `host` (`native` and other machines only), `packed` (machines only), \
             `image:PATH` (`qemu` only), `dir:PATH`, `oci:PATH` or `docker://NAME`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use crate::layer::common_options::*;

    fn layer(options: &[(&str, &str)]) -> LayerSpec {
        LayerSpec::of("runc", options)
    }

    #[test]
    fn limits_are_read_in_the_units_of_their_fields() {
        let spec =
            layer(&[("cpus", "1.5"), ("cpuset", "3;0-1;1"), ("memory", "2G"), ("pids", "100")]);
        let expected = Limits {
            cpu_millis: Some(1500),
            cpuset: Some(vec![0, 1, 3]),
            memory: Some(Bytes(2 << 30)),
            pids: Some(100),
            ..Limits::default()
        };
        assert_eq!(spec.limits(), Ok(expected));
        let huge = |text| layer(&[("hugetlb", text)]).limits().unwrap().hugetlb;
        assert_eq!((huge("64M"), huge("0")), (Some(Bytes(64 << 20)), Some(Bytes(0))));
        let spec =
            layer(&[("weight", "50"), ("numa", "0"), ("write-bps", "8M"), ("read-iops", "9")]);
        let expected = Limits {
            weight: Some(50),
            numa: Some(vec![0]),
            io: IoLimits {
                write_bps: Some(Bytes(8 << 20)),
                read_iops: Some(9),
                ..IoLimits::default()
            },
            ..Limits::default()
        };
        assert_eq!(spec.limits(), Ok(expected));
        assert_eq!(layer(&[]).limits(), Ok(Limits::default()));
    }

    #[test]
    fn limits_that_mean_nothing_are_refused() {
        for (key, value) in [
            ("cpus", "0"),
            ("cpus", "0.001"),
            ("cpus", "-1"),
            ("cpus", "1e3"),
            ("cpus", "1.2345"),
            ("cpus", ".5"),
            ("cpuset", "3-1"),
            ("cpuset", "0;;1"),
            ("cpuset", "0-4294967295"),
            ("memory", "512"),
            ("memory", "much"),
            ("pids", "0"),
            ("weight", "0"),
            ("weight", "10001"),
            ("numa", "a"),
            ("hugetlb", "3M"),
            ("hugetlb", "many"),
            ("read-bps", "1"),
            ("write-iops", "0"),
        ] {
            assert!(layer(&[(key, value)]).limits().is_err(), "{key}={value}");
        }
    }

    #[test]
    fn a_root_is_the_hosts_under_an_overlay_unless_told() {
        assert_eq!(layer(&[]).root(), Ok(Root::Overlay));
        assert_eq!(layer(&[("root", "dir:/a:b")]).root(), Ok(Root::Directory("/a:b".into())));
        assert_eq!(layer(&[("root", "packed")]).root(), Ok(Root::Packed));
        assert!(layer(&[("root", "dir:")]).root().is_err());
        assert_eq!(layer(&[("root", "image:a.img")]).root(), Ok(Root::Image("a.img".into())));
        assert!(layer(&[("root", "disk:debian")]).root().is_err());
    }

    #[test]
    fn variables_are_told_from_other_options() {
        let spec = layer(&[("env.B", "2"), ("cpus", "1"), ("env.A", "x=y")]);
        assert_eq!(spec.variables().collect::<Vec<_>>(), [("A", "x=y"), ("B", "2")]);
        for name in ["A", "_a1", "LD_PRELOAD"] {
            assert!(refuse_name(name).is_ok(), "{name}");
        }
        for name in ["", "1A", "A-B", "é", "A.B"] {
            assert!(refuse_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_relative_root_is_seen_from_the_working_directory() {
        let mut spec = layer(&[("root", "oci:debian")]);
        spec.make_root_absolute(Path::new("/home/me"));
        assert_eq!(spec.root(), Ok(Root::Oci("/home/me/debian".into())));
    }
}
