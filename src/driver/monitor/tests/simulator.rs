//! Simulators of the two APIs: they take what the published specifications allow, in the states in
//! which they allow it, and refuse all else in the monitors' way. In place of a guest's, the real
//! agent calls.
//!
//! Source: `cloud-hypervisor.yaml` of v53.0, `firecracker.yaml` of v1.16.1.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command};
use std::sync::mpsc;

pub(super) const KIND: &str = "SURTAX_SIMULATED_MONITOR";
pub(super) const SOCKET: &str = "SURTAX_SIMULATED_SOCKET";
pub(super) const AGENT: &str = "SURTAX_SIMULATED_AGENT";

/// Answer to a request: a status, and perhaps a body.
type Answer = (u16, Option<Value>);

/// A monitor that runs no machine.
#[derive(Default)]
struct Simulated {
    /// Bodies that were put, by path.
    put: std::collections::BTreeMap<String, Value>,
    guest: Option<Child>,
}

/// A request and its body are what a schema of the API says.
struct Schema {
    required: &'static [&'static str],
    optional: &'static [&'static str],
}

impl Schema {
    fn holds(&self, value: &Value) -> Result<(), String> {
        let object = value.as_object().ok_or("not an object")?;
        let all = [self.required, self.optional].concat();
        match (
            self.required.iter().find(|key| !object.contains_key(**key)),
            object.keys().find(|key| !all.contains(&key.as_str())),
        ) {
            (Some(missing), _) => Err(format!("missing field `{missing}`")),
            (_, Some(unknown)) => Err(format!("unknown field `{unknown}`")),
            _ => Ok(()),
        }
    }
}

pub(super) fn main(kind: &str) -> ! {
    let socket = std::env::var(SOCKET).unwrap();
    let (stream, _) = UnixListener::bind(socket).unwrap().accept().unwrap();
    let mut simulated = Simulated::default();
    if kind == "firecracker" {
        // It ends when its guest does, in the midst of its silence.
        stream.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
    }
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some((method, path, body)) = request(&mut reader, &mut simulated) {
        let (status, answer) = match kind {
            "firecracker" => simulated.firecracker(&method, &path, body),
            _ => simulated.cloud_hypervisor(&method, &path, body),
        };
        reply(&stream, status, answer);
        if path == "/api/v1/vmm.shutdown" {
            break;
        }
    }
    if let Some(mut guest) = simulated.guest {
        let _ = guest.kill();
        let _ = guest.wait();
    }
    std::process::exit(0);
}

/// The next request; none when the client has hung up, or the guest has ended.
fn request(
    reader: &mut BufReader<UnixStream>,
    simulated: &mut Simulated,
) -> Option<(String, String, Option<Value>)> {
    let mut first = String::new();
    while let Err(error) = reader.read_line(&mut first) {
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        if simulated.guest.as_mut().is_some_and(|guest| guest.try_wait().unwrap().is_some()) {
            return None;
        }
    }
    let mut words = first.split_ascii_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    assert_eq!(words.next(), Some("HTTP/1.1"));
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        if name == "Content-Length" {
            length = value.parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Some((method, path, (length > 0).then(|| serde_json::from_slice(&body).unwrap())))
}

fn reply(mut stream: &UnixStream, status: u16, body: Option<Value>) {
    let body = body.map(|body| body.to_string());
    let length = body.as_ref().map_or(String::new(), |body| {
        format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len())
    });
    let head = format!(
        "HTTP/1.1 {status} \r\nServer: simulated\r\nConnection: keep-alive\r\n{length}\r\n"
    );
    stream.write_all((head + &body.unwrap_or_default()).as_bytes()).unwrap();
}

fn at_least(value: &Value, pointer: &str, least: u64) -> Result<u64, String> {
    let number = value.pointer(pointer).and_then(Value::as_u64);
    number.filter(|number| *number >= least).ok_or(format!("`{pointer}` is not {least} or more"))
}

fn file(value: &Value, pointer: &str) -> Result<String, String> {
    let path = value.pointer(pointer).and_then(Value::as_str).ok_or(format!("no `{pointer}`"))?;
    let is_there = std::fs::metadata(path).is_ok_and(|about| about.is_file());
    is_there.then(|| path.to_owned()).ok_or(format!("cannot open `{path}`"))
}

impl Simulated {
    /// Starts threads by the names of the monitor's, and the agent, which calls the port that its
    /// script says.
    #[expect(clippy::disallowed_methods, reason = "a monitor's guest is not the lab's")]
    fn start(&mut self, vcpus: u64, prefix: &str, initramfs: &str, vsock: &str) {
        let script = std::fs::read_to_string(initramfs).unwrap();
        let port = script.lines().find_map(|line| line.strip_prefix("hello ")).unwrap();
        for number in 0..vcpus {
            let (ready, wait) = mpsc::channel();
            let thread = std::thread::Builder::new().name(format!("{prefix}{number}"));
            let run = move || {
                ready.send(()).unwrap();
                loop {
                    std::thread::park();
                }
            };
            thread.spawn(run).unwrap();
            wait.recv().unwrap();
        }
        let mut agent = Command::new(std::env::var(AGENT).unwrap());
        self.guest = Some(agent.args(["dial", &format!("{vsock}_{port}")]).spawn().unwrap());
    }

    fn cloud_hypervisor(&mut self, method: &str, path: &str, body: Option<Value>) -> Answer {
        let config = self.put.get("/api/v1/vm.create").cloned();
        match (method, path, config) {
            ("GET", "/api/v1/vmm.ping", _) => {
                let version = json!({"build_version": "v53.0", "version": "53.0.0", "pid": 1, "features": []});
                (200, Some(version))
            }
            ("PUT", "/api/v1/vm.create", None) => {
                let body = body.unwrap_or_default();
                match vm_config(&body) {
                    Ok(()) => {
                        self.put.insert(path.to_owned(), body);
                        (204, None)
                    }
                    Err(why) => (500, Some(json!(["Error from API", why]))),
                }
            }
            ("PUT", "/api/v1/vm.boot", Some(config)) if self.guest.is_none() => {
                let text = |pointer| config.pointer(pointer).unwrap().as_str().unwrap();
                let vcpus = at_least(&config, "/cpus/boot_vcpus", 1).unwrap();
                self.start(vcpus, "vcpu", text("/payload/initramfs"), text("/vsock/socket"));
                (204, None)
            }
            ("GET", "/api/v1/vm.info", Some(config)) => {
                let state = if self.guest.is_some() { "Running" } else { "Created" };
                (200, Some(json!({"config": config, "state": state})))
            }
            ("PUT", "/api/v1/vmm.shutdown", _) => (204, None),
            (_, "/api/v1/vm.boot" | "/api/v1/vm.info", None) => (404, None),
            _ => (500, Some(json!([format!("{method} {path} is not allowed now")]))),
        }
    }

    /// Lists the bodies that were put below a path.
    fn all(&self, below: &str) -> Vec<Value> {
        let found = self.put.iter().filter(|(path, _)| path.starts_with(below));
        found.map(|(_, body)| body.clone()).collect()
    }

    fn firecracker(&mut self, method: &str, path: &str, body: Option<Value>) -> Answer {
        let refused = |why: String| (400, Some(json!({"fault_message": why})));
        let running = self.guest.is_some();
        match (method, path, body) {
            ("GET", "/version", None) => (200, Some(json!({"firecracker_version": "1.16.1"}))),
            ("GET", "/", None) => {
                let state = if running { "Running" } else { "Not started" };
                let about = json!({"app_name": "Firecracker", "id": "surtax", "state": state, "vmm_version": "1.16.1"});
                (200, Some(about))
            }
            ("GET", "/machine-config", None) => (200, self.put.get(path).cloned()),
            ("GET", "/vm/config", None) => {
                let boot = self.put.get("/boot-source").cloned();
                (
                    200,
                    Some(json!({
                        "boot-source": boot,
                        "machine-config": self.put.get("/machine-config"),
                        "network-interfaces": self.all("/network-interfaces/"),
                        "drives": self.all("/drives/"),
                    })),
                )
            }
            ("PUT", _, Some(_)) if running => {
                refused("not supported after starting the microVM".into())
            }
            ("PUT", "/actions", Some(body)) => {
                if body != json!({"action_type": "InstanceStart"}) {
                    return refused(format!("no such action: {body}"));
                }
                let (Some(boot), Some(vsock)) =
                    (self.put.get("/boot-source"), self.put.get("/vsock"))
                else {
                    return refused("no boot source, or nowhere to call".into());
                };
                let initrd = boot["initrd_path"].as_str().unwrap().to_owned();
                let socket = vsock["uds_path"].as_str().unwrap().to_owned();
                let config = self.put.get("/machine-config").cloned().unwrap_or_default();
                let vcpus = config["vcpu_count"].as_u64().unwrap_or(1);
                self.start(vcpus, "fc_vcpu ", &initrd, &socket);
                (204, None)
            }
            ("PUT", _, Some(body)) => match firecracker_body(path, &body) {
                Ok(()) => {
                    self.put.insert(path.to_owned(), body);
                    (204, None)
                }
                Err(why) => refused(why),
            },
            _ => refused(format!("invalid request: {method} {path}")),
        }
    }
}

fn firecracker_body(path: &str, body: &Value) -> Result<(), String> {
    match path {
        "/boot-source" => {
            Schema { required: &["kernel_image_path"], optional: &["boot_args", "initrd_path"] }
                .holds(body)?;
            file(body, "/kernel_image_path")?;
            file(body, "/initrd_path").map(drop)
        }
        "/machine-config" => {
            let optional = &["cpu_template", "smt", "track_dirty_pages", "huge_pages"];
            Schema { required: &["mem_size_mib", "vcpu_count"], optional }.holds(body)?;
            at_least(body, "/mem_size_mib", 1)?;
            let vcpus = at_least(body, "/vcpu_count", 1)?;
            (vcpus <= 32).then_some(()).ok_or("`/vcpu_count` is more than 32".into())
        }
        "/vsock" => {
            Schema { required: &["guest_cid", "uds_path"], optional: &["vsock_id"] }.holds(body)?;
            at_least(body, "/guest_cid", 3).map(drop)
        }
        "/network-interfaces/eth0" => {
            let optional = &["guest_mac", "mtu", "rx_rate_limiter", "tx_rate_limiter"];
            Schema { required: &["host_dev_name", "iface_id"], optional }.holds(body)?;
            link(&body["host_dev_name"])
        }
        "/drives/scratch" => {
            let optional = &[
                "partuuid", "cache_type", "socket", "is_read_only", "path_on_host", "rate_limiter",
                "io_engine",
            ];
            Schema { required: &["drive_id", "is_root_device"], optional }.holds(body)?;
            one_of(&body["cache_type"], &["Unsafe", "Writeback"])?;
            one_of(&body["io_engine"], &["Sync", "Async"])?;
            file(body, "/path_on_host").map(drop)
        }
        _ => Err(format!("no such path: {path}")),
    }
}

fn one_of(value: &Value, words: &[&str]) -> Result<(), String> {
    let is_one = value.as_str().is_some_and(|word| words.contains(&word));
    is_one.then_some(()).ok_or(format!("{value} is none of {words:?}"))
}

/// A link of the namespace in which this runs. A tap that is there is opened by its name.
fn link(name: &Value) -> Result<(), String> {
    let name = name.as_str().unwrap_or_default();
    let links = std::fs::read_to_string("/proc/self/net/dev").unwrap();
    let is_there = links.lines().any(|line| line.trim_start().starts_with(&format!("{name}:")));
    is_there.then_some(()).ok_or(format!("no `{name}` among the links"))
}

const NET: [&str; 14] = [
    "id", "tap", "ip", "mask", "mac", "host_mac", "mtu", "iommu", "num_queues", "queue_size",
    "vhost_user", "vhost_socket", "vhost_mode", "pci_segment",
];

const DISK: [&str; 12] = [
    "id", "path", "readonly", "direct", "iommu", "num_queues", "queue_size", "vhost_user",
    "vhost_socket", "pci_segment", "rate_limit_group", "serial",
];

fn vm_config(body: &Value) -> Result<(), String> {
    let optional = &["cpus", "memory", "fs", "serial", "console", "vsock", "net", "disks"];
    Schema { required: &["payload"], optional }.holds(body)?;
    let part = |key: &str| body.get(key).cloned().ok_or(format!("no `{key}`"));
    let optional = &["firmware", "kernel", "cmdline", "initramfs"];
    Schema { required: &[], optional }.holds(&part("payload")?)?;
    file(body, "/payload/kernel")?;
    file(body, "/payload/initramfs")?;
    Schema { required: &["boot_vcpus", "max_vcpus"], optional: &[] }.holds(&part("cpus")?)?;
    at_least(body, "/cpus/boot_vcpus", 1)?;
    at_least(body, "/cpus/max_vcpus", 1)?;
    Schema { required: &["size"], optional: &["shared"] }.holds(&part("memory")?)?;
    for one in body["fs"].as_array().ok_or("`fs` is no array")? {
        let required = &["num_queues", "queue_size", "socket", "tag"];
        Schema { required, optional: &["id", "pci_segment"] }.holds(one)?;
        if body.pointer("/memory/shared") != Some(&json!(true)) {
            return Err("vhost-user needs shared memory".into());
        }
    }
    for one in body["net"].as_array().into_iter().flatten() {
        Schema { required: &[], optional: &NET }.holds(one)?;
        at_least(one, "/num_queues", 2)?;
        link(&one["tap"])?;
    }
    for one in body["disks"].as_array().into_iter().flatten() {
        Schema { required: &[], optional: &DISK }.holds(one)?;
        file(one, "/path")?;
    }
    Schema { required: &["cid", "socket"], optional: &["id"] }.holds(&part("vsock")?)?;
    at_least(body, "/vsock/cid", 3)?;
    for key in ["serial", "console"] {
        Schema { required: &["mode"], optional: &["file", "socket"] }.holds(&part(key)?)?;
        let modes = ["Off", "Pty", "Tty", "File", "Socket", "Null"];
        let mode = body[key]["mode"].as_str().unwrap_or_default();
        modes.contains(&mode).then_some(()).ok_or(format!("`{key}` has no mode `{mode}`"))?;
    }
    Ok(())
}
