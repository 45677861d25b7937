//! Xen's own tools, in Dom0: `xl` for domains, and the store in which domains and devices find each
//! other.
//!
//! Source: `xl(1)`, `xenstore-write(1)`, Xen `tools/libs/light/libxl_console.c`.

use super::configuration::{CHANNEL, Domain};
use crate::fault::{Doing, Fault};
use crate::lab::{self, Room, ToolRun, Undo};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

/// Least time that `xl` may take to make a domain; an emulated one needs seconds.
const CREATE_DEADLINE: Duration = Duration::from_secs(60);

/// Time that a tool may take to answer.
const DEADLINE: Duration = Duration::from_secs(20);

/// The tool.
pub(super) const XL: &str = "xl";

/// Runs a tool, and gives back what it printed.
fn tool(words: &[&str]) -> Result<String, Fault> {
    lab::ask(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), None, DEADLINE)
}

/// Values that `xl list` gives for a domain.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Listed {
    /// Memory of the domain, in MiB.
    pub(super) memory_mib: u64,
    /// Number of virtual CPUs.
    pub(super) cpus: u32,
    /// Such as `-b----`.
    pub(super) state: String,
    /// CPU time since it was made, in tenths of a second.
    pub(super) cpu_seconds: f64,
}

/// The lines of `xl info`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Info(BTreeMap<String, String>);

impl Info {
    /// Asks.
    ///
    /// # Errors
    /// `xl` is not there, or nothing of Xen's answers it.
    pub(super) fn ask() -> Result<Self, Fault> {
        Ok(Self::read(&tool(&[XL, "info"])?))
    }

    fn read(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        Self(lines.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect())
    }

    /// The value of a line; empty where there is none.
    pub(super) fn get(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }
}

/// Makes a domain, which waits for `unpause`, and says its number. Nobody stays behind to wait for
/// its end. Whoever gives a stack long to start gives `xl` as long.
///
/// # Errors
/// `xl` says why not.
pub(super) fn create(
    domain: &Domain,
    mount_namespace: Option<&OwnedFd>,
    room: &Room,
    start_deadline: Duration,
) -> Result<u16, Fault> {
    domain.require_plain()?;
    let file = room.directory().join("domain.cfg");
    fs::write(&file, domain.text()).doing(format_args!("write `{}`", file.display()))?;
    room.promise(Undo::XenDomain { name: domain.name.clone() })?;
    let program = lab::find(XL).unwrap_or_else(|| XL.into()).display().to_string();
    let file = file.display().to_string();
    let words = [program.as_str(), "create", "-p", "-e", "-q", &file];
    let deadline = start_deadline.max(CREATE_DEADLINE);
    ToolRun { mount_namespace, deadline, ..ToolRun::new(&words) }.run(room)?;
    let text = tool(&[XL, "domid", &domain.name])?;
    text.trim().parse().doing(format_args!("take `{}` for the number of a domain", text.trim()))
}

/// Lets a domain run.
///
/// # Errors
/// `xl` says why not.
pub(super) fn unpause(name: &str) -> Result<(), Fault> {
    tool(&[XL, "unpause", name]).map(drop)
}

/// Ends a domain at once, and takes away what we wrote of its channel, which the tool knows nothing
/// of.
///
/// # Errors
/// `xl` says why not.
pub(super) fn destroy(name: &str, id: u16) -> Result<(), Fault> {
    tool(&[XL, "destroy", name])?;
    lab::forget_consoles(id)
}

/// Looks at one domain.
///
/// # Errors
/// There is none of that name, or `xl` answers otherwise than it used to.
pub(super) fn list(name: &str) -> Result<Listed, Fault> {
    let text = tool(&[XL, "list", name])?;
    listed(&text, name)
        .ok_or_else(|| Fault::machine(format!("xen: `xl list` says `{}`", text.escape_debug())))
}

/// Name, number, memory, CPUs, state and time, in this order.
fn listed(text: &str, name: &str) -> Option<Listed> {
    let line = text.lines().find(|line| line.split_ascii_whitespace().next() == Some(name))?;
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, _, memory, cpus, state, seconds] = words.as_slice() else { return None };
    Some(Listed {
        memory_mib: memory.parse().ok()?,
        cpus: cpus.parse().ok()?,
        state: (*state).to_owned(),
        cpu_seconds: seconds.parse().ok()?,
    })
}

/// On which of this machine's CPUs each of a domain's may run, as a list such as `0-1,3`, or `all`.
///
/// # Errors
/// As [`list`]'s.
pub(super) fn affinity(name: &str) -> Result<Vec<String>, Fault> {
    Ok(affinities(&tool(&[XL, "vcpu-list", name])?, name))
}

/// Behind name, number, virtual CPU, CPU, state and time: where it must run, `/`, and where it
/// would.
fn affinities(text: &str, name: &str) -> Vec<String> {
    let of_domain = text.lines().filter(|line| line.split_ascii_whitespace().next() == Some(name));
    let hard = |line: &str| {
        let (before, _) = line.rsplit_once('/')?;
        Some(before.split_ascii_whitespace().next_back()?.to_owned())
    };
    of_domain.filter_map(hard).collect()
}

/// A domain's weight in the scheduler that Xen has by default.
///
/// # Errors
/// Xen has another scheduler, or no such domain.
pub(super) fn weight(name: &str) -> Result<u32, Fault> {
    let text = tool(&[XL, "sched-credit2", "-d", name])?;
    weight_in(&text, name).ok_or_else(|| {
        Fault::machine(format!("xen: `xl sched-credit2` says `{}`", text.escape_debug()))
    })
}

/// Name, number, weight, and more.
fn weight_in(text: &str, name: &str) -> Option<u32> {
    let mut lines = text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    lines.find(|words| words.first() == Some(&name))?.get(2)?.parse().ok()
}

/// Reads one entry of the store.
///
/// # Errors
/// It is not there.
pub(super) fn read(path: &str) -> Result<String, Fault> {
    let text = tool(&["xenstore-read", path])?;
    Ok(text.trim_end_matches('\n').to_owned())
}

/// Writes one entry of the store that is Dom0's.
///
/// # Errors
/// The store cannot be written.
pub(super) fn write(path: &str, value: &str) -> Result<(), Fault> {
    tool(&["xenstore-write", path, value]).map(drop)
}

/// Sees to it that the domain finds its channel.
///
/// `xl` of Xen 4.17 takes a channel for the first console and then refuses it, without an error,
/// though the QEMU that it starts has the other end. What it should have written is written here,
/// as it would be.
///
/// # Errors
/// The store cannot be written.
pub(super) fn require_channel(id: u16) -> Result<(), Fault> {
    let (front, back) = places(id);
    if read(&format!("{front}/backend")).is_ok() {
        return Ok(());
    }
    let entries = channel_entries(id);
    let mut argv = vec!["xenstore-write"];
    argv.extend(entries.iter().flat_map(|(path, value)| [path.as_str(), value.as_str()]));
    tool(&argv)?;
    let (owner, reader) = (format!("n{id}"), format!("r{id}"));
    tool(&["xenstore-chmod", "-r", &front, &owner, "r0"])?;
    tool(&["xenstore-chmod", "-r", &back, "n0", &reader]).map(drop)
}

/// Paths of a domain's second console in the store: its own half, and Dom0's.
fn places(id: u16) -> (String, String) {
    let front = format!("/local/domain/{id}/device/console/1");
    (front, format!("/local/domain/0/backend/console/{id}/1"))
}

fn channel_entries(id: u16) -> Vec<(String, String)> {
    let (front, back) = places(id);
    let number = id.to_string();
    let fronts = [
        ("backend", back.as_str()),
        ("backend-id", "0"),
        ("limit", "1048576"),
        ("type", "ioemu"),
        ("output", "chardev:libxl-channel0"),
        ("tty", ""),
        ("state", "1"),
    ];
    let backs = [
        ("frontend", front.as_str()),
        ("frontend-id", number.as_str()),
        ("online", "1"),
        ("state", "1"),
        ("protocol", "vt100"),
        ("name", CHANNEL),
        ("connection", "socket"),
    ];
    let under = |place: &str, entries: &[(&str, &str)]| -> Vec<(String, String)> {
        entries.iter().map(|(key, value)| (format!("{place}/{key}"), (*value).to_owned())).collect()
    };
    [under(&front, &fronts), under(&back, &backs)].concat()
}

/// The terminal on which the domain's first console is shown, and heard.
///
/// # Errors
/// Nobody keeps consoles.
pub(super) fn console(id: u16) -> Result<OwnedFd, Fault> {
    let path = read(&format!("/local/domain/{id}/console/tty"))
        .map_err(|fault| fault.hint("start `xenconsoled`"))?;
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).custom_flags(libc::O_NOCTTY).open(&path);
    let file: File = opened.doing(format_args!("open the console `{path}`"))?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_is_read_by_its_columns() {
        let text = "Name                     ID   Mem VCPUs\tState\tTime(s)\n\
                    surtax-7-trial            3   512     2     -b----       5.1\n";
        let listed = listed(text, "surtax-7-trial").unwrap();
        assert_eq!((listed.memory_mib, listed.cpus), (512, 2));
        assert_eq!((listed.state.as_str(), listed.cpu_seconds), ("-b----", 5.1));
        assert_eq!(super::listed(text, "surtax-7"), None);
    }

    #[test]
    fn where_a_domain_may_run_and_what_it_weighs_are_read_by_their_columns() {
        let text = "Name                ID  VCPU   CPU State   Time(s) Affinity (Hard / Soft)\n\
                    surtax-7-trial       3     0    1   -b-       1.2  0-1 / all\n\
                    surtax-7-trial       3     1    -   --p       0.0  all / all\n";
        assert_eq!(affinities(text, "surtax-7-trial"), ["0-1", "all"]);
        let text = "Name                                ID Weight  Cap\n\
                    surtax-7-trial                       3    512    0\n";
        assert_eq!(weight_in(text, "surtax-7-trial"), Some(512));
        assert_eq!(weight_in(text, "Domain-0"), None);
    }

    #[test]
    fn what_xl_says_of_xen_is_read_by_its_names() {
        let info =
            Info::read("xen_version            : 4.17.7\nvirt_caps              : pv hvm hap\n");
        assert_eq!((info.get("xen_version"), info.get("virt_caps")), ("4.17.7", "pv hvm hap"));
        assert_eq!(info.get("xen_scheduler"), "");
    }

    #[test]
    fn both_halves_of_a_channel_name_each_other() {
        let entries: BTreeMap<String, String> = channel_entries(3).into_iter().collect();
        let (front, back) = places(3);
        assert_eq!(entries[&format!("{front}/backend")], back);
        assert_eq!(entries[&format!("{back}/frontend")], front);
        assert_eq!(entries[&format!("{front}/output")], "chardev:libxl-channel0");
        assert_eq!(entries.len(), 14);
    }
}
