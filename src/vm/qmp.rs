//! QMP: how QEMU is asked what it runs, and told to end.
//!
//! One line of JSON each way. Every answer has a deadline and a longest length: QEMU shares a
//! process with what the guest can break.

use crate::fault::{Doing, Fault};
use crate::lab::Patient;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The longest line that is read from QEMU, in bytes.
const LINE_LIMIT: u64 = 1 << 20;

/// Largest number of events and late answers that are skipped before an answer.
const SKIP_LIMIT: usize = 1000;

/// Time that QEMU may take to answer. One that died is noticed at once; one inside a translated
/// guest on a crowded machine has taken more than 10 s to greet.
const DEADLINE: Duration = Duration::from_secs(40);

/// A conversation with one QEMU.
pub(crate) struct Qmp {
    lines: BufReader<Patient>,
    commands: UnixStream,
    version: String,
    last_id: u64,
}

/// One virtual CPU.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct VirtualCpu {
    /// Thread id of the virtual CPU, on the level where QEMU runs.
    #[serde(rename = "thread-id")]
    pub(crate) thread_id: u32,
    /// Path of the virtual CPU in QEMU's tree of objects.
    #[serde(rename = "qom-path")]
    pub(crate) path: String,
}

/// One thread for input and output of disks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct IoThread {
    /// Name of the thread.
    pub(crate) id: String,
    /// Itself, on the level where QEMU runs.
    #[serde(rename = "thread-id")]
    pub(crate) thread_id: u32,
}

/// One object that backs memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct MemoryBackend {
    /// Name of the object.
    pub(crate) id: String,
    /// KSM may merge it.
    pub(crate) merge: bool,
    /// It was allocated at once.
    pub(crate) prealloc: bool,
    /// Others may have it too.
    pub(crate) share: bool,
}

/// QEMU's answer about KVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct KvmState {
    /// This machine uses it.
    pub(crate) enabled: bool,
    /// This QEMU was built with it.
    pub(crate) present: bool,
}

/// One device for a disk, as QEMU has it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct BlockDevice {
    /// The `id` of the device.
    pub(crate) device: String,
    /// Disk in it, if there is one.
    pub(crate) inserted: Option<Inserted>,
}

/// A disk that is in its device.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Inserted {
    /// The driver of its format.
    pub(crate) drv: String,
    /// Cache mode of its file.
    pub(crate) cache: Cache,
    /// Disk as the guest sees it.
    pub(crate) image: Image,
    /// The file of which it begins as a copy.
    pub(crate) backing_file: Option<String>,
    /// Number of files below its own.
    pub(crate) backing_file_depth: u32,
}

/// A disk as the guest sees it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Image {
    /// Size of the disk, in bytes.
    #[serde(rename = "virtual-size")]
    pub(crate) virtual_size: u64,
}

/// Cache mode of a disk's file.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Cache {
    /// True if written data are safe only after a flush.
    pub(crate) writeback: bool,
    /// This level's page cache is passed by.
    pub(crate) direct: bool,
    /// A flush does nothing.
    #[serde(rename = "no-flush")]
    pub(crate) no_flush: bool,
}

impl Qmp {
    /// Waits for the greeting and leaves the negotiation.
    ///
    /// # Errors
    /// The machine's, when QEMU is gone or speaks something else.
    pub(crate) fn open(stream: UnixStream) -> Result<Self, Fault> {
        let commands = stream.try_clone().doing("duplicate the QMP socket")?;
        let stream = Patient::new(stream, DEADLINE).doing("set a deadline for QMP")?;
        let mut qmp =
            Self { lines: BufReader::new(stream), commands, version: String::new(), last_id: 0 };
        let greeting = qmp.read()?;
        let number = |part: &str| greeting.pointer(&format!("/QMP/version/qemu/{part}"))?.as_u64();
        let (Some(major), Some(minor), Some(micro)) =
            (number("major"), number("minor"), number("micro"))
        else {
            return Err(Fault::machine(format!("QMP: QEMU greets with `{greeting}`")));
        };
        qmp.version = format!("{major}.{minor}.{micro}");
        qmp.ask("qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    /// QEMU's version as it said in its greeting.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Asks whether the machine runs under KVM.
    pub(crate) fn kvm(&mut self) -> Result<KvmState, Fault> {
        self.ask_for("query-kvm", json!({}))
    }

    /// The virtual CPUs with their threads.
    pub(crate) fn cpus(&mut self) -> Result<Vec<VirtualCpu>, Fault> {
        self.ask_for("query-cpus-fast", json!({}))
    }

    /// The disks.
    pub(crate) fn block_devices(&mut self) -> Result<Vec<BlockDevice>, Fault> {
        self.ask_for("query-block", json!({}))
    }

    /// The memory that the guest was given, in bytes.
    pub(crate) fn memory_bytes(&mut self) -> Result<u64, Fault> {
        self.number("query-memory-size-summary", "base-memory")
    }

    /// Asks what backs the memory called `id`.
    pub(crate) fn memory(&mut self, id: &str) -> Result<MemoryBackend, Fault> {
        let all: Vec<MemoryBackend> = self.ask_for("query-memdev", json!({}))?;
        let found = all.into_iter().find(|backend| backend.id == id);
        found.ok_or_else(|| Fault::machine(format!("QMP lists no memory called `{id}`")))
    }

    /// Asks whether the memory called `id` is of huge pages.
    pub(crate) fn is_hugetlb(&mut self, id: &str) -> Result<bool, Fault> {
        let path = format!("/objects/{id}");
        self.ask_for("qom-get", json!({ "path": path, "property": "hugetlb" }))
    }

    /// Tells the balloon how many bytes to leave to the guest.
    pub(crate) fn balloon(&mut self, bytes: u64) -> Result<(), Fault> {
        self.ask("balloon", json!({ "value": bytes })).map(drop)
    }

    /// Asks for the number of bytes that the balloon leaves to the guest now.
    pub(crate) fn balloon_actual(&mut self) -> Result<u64, Fault> {
        self.number("query-balloon", "actual")
    }

    /// The threads for disks.
    pub(crate) fn iothreads(&mut self) -> Result<Vec<IoThread>, Fault> {
        self.ask_for("query-iothreads", json!({}))
    }

    /// The file of the firmware.
    pub(crate) fn firmware(&mut self) -> Result<String, Fault> {
        self.ask_for("qom-get", json!({ "path": "/machine", "property": "firmware" }))
    }

    /// A count that KVM keeps of each virtual CPU.
    pub(crate) fn vcpu_statistic(&mut self, name: &str) -> Result<Vec<u64>, Fault> {
        let providers = json!([{ "provider": "kvm", "names": [name] }]);
        let answer =
            self.ask("query-stats", json!({ "target": "vcpu", "providers": providers }))?;
        let count = |cpu: &Value| {
            let stats = cpu["stats"].as_array()?;
            stats.iter().find(|stat| stat["name"] == name)?["value"].as_u64()
        };
        let counts = answer.as_array().and_then(|cpus| cpus.iter().map(count).collect());
        let counts: Option<Vec<u64>> = counts;
        counts
            .filter(|counts| !counts.is_empty())
            .ok_or_else(|| Fault::machine(format!("QMP: KVM says nothing of `{name}`")))
    }

    /// The type of an object of QEMU's tree: which board, which CPU model.
    pub(crate) fn type_of(&mut self, path: &str) -> Result<String, Fault> {
        self.ask_for("qom-get", json!({ "path": path, "property": "type" }))
    }

    /// The network devices and what stands behind them, in the words of QEMU's own monitor: no
    /// command of QMP tells all of that.
    pub(crate) fn networks(&mut self) -> Result<String, Fault> {
        self.ask_for("human-monitor-command", json!({ "command-line": "info network" }))
    }

    /// `running`, `paused`, `shutdown`, …
    pub(crate) fn status(&mut self) -> Result<String, Fault> {
        let answer = self.ask("query-status", json!({}))?;
        Ok(answer["status"].as_str().unwrap_or("unknown").to_owned())
    }

    /// Lets a machine run that was made and stands still.
    pub(crate) fn resume(&mut self) -> Result<(), Fault> {
        self.ask("cont", json!({})).map(drop)
    }

    /// Returns a copy of its socket, to wait on for what QEMU says unasked.
    ///
    /// # Errors
    /// The machine's: there are no descriptors left.
    pub(crate) fn bell(&self) -> Result<UnixStream, Fault> {
        self.commands.try_clone().doing("duplicate the QMP socket")
    }

    /// Reads what QEMU has said unasked, without waiting for more; tells whether it said that the
    /// machine shut down.
    ///
    /// # Errors
    /// The machine's: QEMU is gone.
    pub(crate) fn has_shut_down(&mut self) -> Result<bool, Fault> {
        self.lines.get_mut().ask_anew();
        for _ in 0..SKIP_LIMIT {
            let is_said = is_readable(&self.commands).doing("look at the QMP socket")?;
            if self.lines.buffer().is_empty() && !is_said {
                return Ok(false);
            }
            if self.read()?["event"] == "SHUTDOWN" {
                return Ok(true);
            }
        }
        Err(Fault::machine(format!("QMP: QEMU said {SKIP_LIMIT} things that nobody asked for")))
    }

    /// Tells QEMU to end, and does not wait for an answer. That it is already gone is no error.
    pub(crate) fn quit(&mut self) {
        let _ = self.commands.write_all(b"{\"execute\": \"quit\"}\n");
    }

    /// A number in the answer to a question.
    fn number(&mut self, command: &str, field: &str) -> Result<u64, Fault> {
        let answer = self.ask(command, json!({}))?;
        let number = answer[field].as_u64();
        number.ok_or_else(|| Fault::machine(format!("QMP: `{command}` answers `{answer}`")))
    }

    fn ask_for<T: for<'de> Deserialize<'de>>(
        &mut self,
        command: &str,
        arguments: Value,
    ) -> Result<T, Fault> {
        let answer = self.ask(command, arguments)?;
        let text = answer.to_string();
        serde_json::from_value(answer)
            .map_err(|error| Fault::machine(format!("QMP: `{command}` answers `{text}`: {error}")))
    }

    fn ask(&mut self, command: &str, arguments: Value) -> Result<Value, Fault> {
        self.last_id += 1;
        self.lines.get_mut().ask_anew();
        let request = json!({ "execute": command, "arguments": arguments, "id": self.last_id });
        self.commands
            .write_all(format!("{request}\n").as_bytes())
            .map_err(|error| broken(&error).during(format_args!("`{command}`")))?;
        for _ in 0..SKIP_LIMIT {
            let mut line = self.read().map_err(|fault| fault.during(format!("`{command}`")))?;
            if line["id"].as_u64() != Some(self.last_id) {
                continue;
            }
            if let Some(error) = line.get("error") {
                let why = error["desc"].as_str().unwrap_or("no reason given");
                let refused = format!("QMP: QEMU refuses `{command}`: ");
                return Err(Fault::machine(refused).saying(why));
            }
            return Ok(line["return"].take());
        }
        Err(Fault::machine(format!("QMP: QEMU said {SKIP_LIMIT} other things than `{command}`")))
    }

    fn read(&mut self) -> Result<Value, Fault> {
        let mut line = Vec::new();
        let mut limited = self.lines.by_ref().take(LINE_LIMIT);
        limited.read_until(b'\n', &mut line).map_err(|error| broken(&error))?;
        if line.is_empty() {
            return Err(gone());
        }
        if line.last() != Some(&b'\n') {
            return Err(Fault::machine("QMP: QEMU's line has no end"));
        }
        serde_json::from_slice(&line).doing("read JSON from QEMU")
    }
}

/// Tells whether something can be read, or the end is reached, without waiting.
///
/// # Errors
/// The kernel's.
pub(crate) fn is_readable(socket: &UnixStream) -> std::io::Result<bool> {
    let mut socket = [PollFd::new(socket, PollFlags::IN)];
    Ok(poll(&mut socket, Some(&Timespec::default()))? > 0)
}

fn gone() -> Fault {
    Fault::machine("QMP: QEMU is gone")
}

/// A socket whose other end died says so in one of three ways.
fn broken(error: &std::io::Error) -> Fault {
    match error.kind() {
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => gone(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            Fault::machine(format!("QMP: QEMU does not answer within {} s", DEADLINE.as_secs()))
        }
        _ => Fault::machine(format!("QMP: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREETING: &str = r#"{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7},
        "package": "Debian"}, "capabilities": ["oob"]}}"#;

    /// A QEMU that answers each request with the next of `answers`, `ID` replaced.
    fn qemu(answers: Vec<&'static str>) -> UnixStream {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            theirs.write_all(format!("{}\n", GREETING.replace('\n', "")).as_bytes()).unwrap();
            let mut requests = BufReader::new(theirs.try_clone().unwrap()).lines();
            for answer in [r#"{"return": {}, "id": ID}"#].iter().chain(&answers) {
                let request: Value =
                    serde_json::from_str(&requests.next().unwrap().unwrap()).unwrap();
                let answer = answer.replace("ID", &request["id"].to_string());
                theirs.write_all(format!("{answer}\n").as_bytes()).unwrap();
            }
        });
        ours
    }

    #[test]
    fn the_threads_of_the_virtual_cpus_are_read() {
        let answer = "{\"return\": [{\"thread-id\": 4711, \"cpu-index\": 0, \
            \"qom-path\": \"/machine/unattached/device[0]\"}], \"id\": ID}";
        let mut qmp = Qmp::open(qemu(vec![answer])).unwrap();
        assert_eq!(qmp.version(), "7.2.22");
        let path = String::from("/machine/unattached/device[0]");
        assert_eq!(qmp.cpus().unwrap(), [VirtualCpu { thread_id: 4711, path }]);
    }

    #[test]
    fn events_between_question_and_answer_are_skipped() {
        let mut qmp = Qmp::open(qemu(vec![
            "{\"event\": \"RESUME\", \"data\": {}}\n\
            {\"return\": {\"enabled\": false, \"present\": true}, \"id\": ID}",
        ]))
        .unwrap();
        assert_eq!(qmp.kvm().unwrap(), KvmState { enabled: false, present: true });
    }

    #[test]
    fn a_refusal_is_told_in_qemu_s_words() {
        let mut qmp = Qmp::open(qemu(vec![
            r#"{"error": {"class": "GenericError", "desc": "no such object"}, "id": ID}"#,
        ]))
        .unwrap();
        let fault = qmp.type_of("/nowhere").unwrap_err();
        assert_eq!(fault.message, "QMP: QEMU refuses `qom-get`: no such object");
    }

    #[test]
    fn a_qemu_that_dies_is_said_to_be_gone() {
        let mut qmp = Qmp::open(qemu(vec![])).unwrap();
        let fault = qmp.status().unwrap_err();
        assert!(fault.message.ends_with("QEMU is gone"), "{fault}");
    }
}
