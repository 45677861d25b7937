//! A domain's configuration, as `xl` reads it.
//!
//! Nothing is left to the tool's defaults that a measurement could depend on. What ends the domain
//! leaves it for us to look at and to destroy.
//!
//! Source: `xl.cfg(5)` of Xen 4.17, `docs/misc/channel.txt`.

use super::Kind;
use super::vif::Nic;
use crate::fault::Fault;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// The name of the channel, and of what is shared.
pub(super) const CHANNEL: &str = "surtax";
pub(super) const TAG: &str = "host";

/// The domain's own kernel's command line: its first console is for people.
pub(super) const COMMAND_LINE: &str = "console=hvc0 quiet panic=-1 cryptomgr.notests";

/// A domain, as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Domain {
    /// Carries our tag.
    pub(super) name: String,
    /// Virtualization type of the domain.
    pub(super) kind: Kind,
    /// Virtual CPUs.
    pub(super) cpus: u32,
    /// The CPUs of this machine on which they may run.
    pub(super) cpuset: Option<Vec<u32>>,
    /// Memory.
    pub(super) memory_mib: u64,
    /// CPU weight against other domains that want CPUs too: Xen's default is 256.
    pub(super) weight: Option<u32>,
    /// An ELF kernel.
    pub(super) kernel: PathBuf,
    /// Initramfs, or whatever the kernel takes for one.
    pub(super) initramfs: Option<PathBuf>,
    /// Command line of the kernel.
    pub(super) command_line: String,
    /// Directory served by 9p, if there is one.
    pub(super) export: Option<PathBuf>,
    /// Disk as Xen's tools write it, if there is one.
    pub(super) disk: Option<String>,
    /// Network device, if there is one.
    pub(super) nic: Option<Nic>,
    /// Path of the socket at the other end of the agent's channel, if there is an agent in it.
    pub(super) socket: Option<PathBuf>,
}

/// That no name of a file, nor the command line, ends a string of a configuration, which knows no
/// escapes: what follows could be any line of it, and some name programs.
///
/// # Errors
/// The user's: one does.
pub(in crate::driver) fn require_plain(
    files: &[Option<&Path>],
    command_line: &str,
) -> Result<(), Fault> {
    let files = files.iter().flatten().map(|path| path.to_string_lossy());
    let mut texts = files.chain([command_line.into()]);
    let ends = |text: &Cow<'_, str>| text.contains(|c: char| c == '"' || c.is_control());
    texts.find(ends).map_or(Ok(()), |text| {
        let shown = text.escape_debug();
        let why = format!("xen: `{shown}` has a quote or a control character in it");
        Err(Fault::user(why).hint("rename the file, or use `'` in a command line"))
    })
}

impl Domain {
    /// That its texts are plain: see [`require_plain`].
    ///
    /// # Errors
    /// As there.
    pub(super) fn require_plain(&self) -> Result<(), Fault> {
        let files = [Some(&self.kernel), self.initramfs.as_ref(), self.export.as_ref()];
        require_plain(&files.map(|file| file.map(PathBuf::as_path)), &self.command_line)
    }

    /// The text of the file, if its texts are plain.
    pub(super) fn text(&self) -> String {
        let text = |path: &Path| path.display().to_string();
        let mut lines = vec![
            format!("name = \"{}\"", self.name),
            format!("type = \"{}\"", self.kind.name()),
            format!("kernel = \"{}\"", text(&self.kernel)),
        ];
        let initramfs = self.initramfs.as_ref();
        lines.extend(initramfs.map(|path| format!("ramdisk = \"{}\"", text(path))));
        lines.extend([
            format!("cmdline = \"{}\"", self.command_line),
            format!("vcpus = {}", self.cpus),
            format!("maxvcpus = {}", self.cpus),
            format!("memory = {}", self.memory_mib),
            format!("maxmem = {}", self.memory_mib),
        ]);
        if let Some(cpuset) = &self.cpuset {
            let numbers: Vec<String> = cpuset.iter().map(u32::to_string).collect();
            lines.push(format!("cpus = \"{}\"", numbers.join(",")));
        }
        lines.extend(self.weight.map(|weight| format!("cpu_weight = {weight}")));
        for event in ["poweroff", "reboot", "crash", "watchdog"] {
            lines.push(format!("on_{event} = \"preserve\""));
        }
        if self.kind == Kind::Hvm {
            // No screen, no USB, and firmware that starts the kernel it is given.
            for line in ["bios = \"seabios\"", "nographic = 1", "vga = \"none\"", "usb = 0"] {
                lines.push(line.to_owned());
            }
        }
        if let Some(export) = &self.export {
            let export = text(export);
            lines.push(format!("p9 = [ \"tag={TAG},path={export},security_model=passthrough\" ]"));
        }
        lines.extend(self.disk.as_ref().map(|disk| format!("disk = [ \"{disk}\" ]")));
        lines.extend(self.nic.as_ref().map(|nic| format!("vif = [ \"{}\" ]", nic.text())));
        if let Some(socket) = &self.socket {
            let socket = text(socket);
            lines.push(format!("channel = [ \"name={CHANNEL},connection=socket,path={socket}\" ]"));
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_end_its_string_makes_no_domain() {
        assert_eq!(domain().require_plain(), Ok(()));
        let kernel = PathBuf::from("k\"\nvif = [\"script=/home/x/evil.sh\"]\n#");
        let initramfs = Some(PathBuf::from("i\nvif = []"));
        let command_line = String::from("a\" b");
        for domain in [
            Domain { kernel, ..domain() },
            Domain { initramfs, ..domain() },
            Domain { command_line, ..domain() },
        ] {
            let fault = domain.require_plain().unwrap_err();
            assert!(fault.message.contains("has a quote or a control character"), "{fault}");
        }
    }

    fn domain() -> Domain {
        Domain {
            name: "surtax-7-trial".into(),
            kind: Kind::Pv,
            cpus: 2,
            cpuset: None,
            memory_mib: 512,
            weight: None,
            kernel: "/cache/vmlinux".into(),
            initramfs: Some("/room/initramfs.cpio".into()),
            command_line: COMMAND_LINE.into(),
            export: Some("/room/served".into()),
            disk: None,
            nic: None,
            socket: Some("/room/agent.sock".into()),
        }
    }

    #[test]
    fn a_paravirtual_domain_has_its_files_by_9p_and_a_channel() {
        assert_eq!(
            domain().text(),
            r#"name = "surtax-7-trial"
type = "pv"
kernel = "/cache/vmlinux"
ramdisk = "/room/initramfs.cpio"
cmdline = "console=hvc0 quiet panic=-1 cryptomgr.notests"
vcpus = 2
maxvcpus = 2
memory = 512
maxmem = 512
on_poweroff = "preserve"
on_reboot = "preserve"
on_crash = "preserve"
on_watchdog = "preserve"
p9 = [ "tag=host,path=/room/served,security_model=passthrough" ]
channel = [ "name=surtax,connection=socket,path=/room/agent.sock" ]
"#
        );
    }

    #[test]
    fn a_domain_with_hardware_virtualization_has_no_screen_and_keeps_to_its_cpus() {
        let domain = Domain {
            kind: Kind::Hvm,
            cpuset: Some(vec![0, 3]),
            weight: Some(512),
            export: None,
            ..domain()
        };
        assert_eq!(
            domain.text(),
            r#"name = "surtax-7-trial"
type = "hvm"
kernel = "/cache/vmlinux"
ramdisk = "/room/initramfs.cpio"
cmdline = "console=hvc0 quiet panic=-1 cryptomgr.notests"
vcpus = 2
maxvcpus = 2
memory = 512
maxmem = 512
cpus = "0,3"
cpu_weight = 512
on_poweroff = "preserve"
on_reboot = "preserve"
on_crash = "preserve"
on_watchdog = "preserve"
bios = "seabios"
nographic = 1
vga = "none"
usb = 0
channel = [ "name=surtax,connection=socket,path=/room/agent.sock" ]
"#
        );
    }

    #[test]
    fn a_disk_is_served_by_qemu_and_a_network_device_set_up_by_nobody_else() {
        let nic = Nic { script: "/bin/true".into() };
        let plain = domain().text();
        let text = Domain { nic: Some(nic), ..domain() }.text();
        let added: Vec<&str> = text.lines().filter(|line| !plain.contains(line)).collect();
        assert_eq!(added, ["vif = [ \"mac=00:16:3e:12:34:56,script=/bin/true\" ]"]);
    }

    #[test]
    fn an_image_that_holds_no_agent_has_neither_channel_nor_files() {
        let alone = Domain { initramfs: None, export: None, socket: None, ..domain() };
        let text = Domain { command_line: "hello world".into(), ..alone }.text();
        assert!(text.contains("\ncmdline = \"hello world\"\n"), "{text}");
        for absent in ["ramdisk", "p9", "channel"] {
            assert!(!text.contains(absent), "{text}");
        }
    }

    #[test]
    fn pvh_differs_by_its_type_alone() {
        let text = Domain { kind: Kind::Pvh, ..domain() }.text();
        assert_eq!(text, domain().text().replace("type = \"pv\"", "type = \"pvh\""));
    }
}
