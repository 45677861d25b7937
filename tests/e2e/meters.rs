//! Meters of power against simulators: sensors of this machine in a mount namespace of the test's,
//! a distribution unit by net-snmp's agent, a management controller by OpenIPMI's simulator, and
//! one that answers as Redfish does. All say 12.5 W, and 37.5 W while the planted command runs or
//! all CPUs are busy.

use crate::machine::{Machine, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Power that is planted, in milliwatts: of an idle machine, and of one with the command.
const POWER: [u64; 2] = [12_500, 37_500];

/// The command, known by its second word, and for how long it runs.
const COMMAND: [&str; 2] = ["sleep", "6.0625"];

/// Energy of one run of it, in joules.
const JOULES: f64 = 37.5 * 6.0625;

/// Ports of the simulators, on this machine's loopback.
const SNMP: u16 = 9161;
const IPMI: u16 = 9623;
const REDFISH: u16 = 9700;

/// Looks for the planted command among the processes of this machine: those that are older than a
/// second are known.
#[derive(Default)]
struct Look(BTreeMap<OsString, (Instant, bool)>);

impl Look {
    fn runs(&mut self) -> bool {
        let wanted = [COMMAND[0], COMMAND[1], ""].join("\0");
        let pids = std::fs::read_dir("/proc").unwrap().flatten().map(|it| it.file_name());
        let pids = pids.filter(|pid| pid.as_encoded_bytes()[0].is_ascii_digit());
        let before = std::mem::take(&mut self.0);
        for pid in pids {
            let (since, is_it) = *before.get(&pid).unwrap_or(&(Instant::now(), false));
            let is_known = since.elapsed() > Duration::from_secs(1) && !is_it;
            let line = || std::fs::read(Path::new("/proc").join(&pid).join("cmdline"));
            let is_it = !is_known && line().is_ok_and(|line| line == wanted.as_bytes());
            self.0.insert(pid, (since, is_it));
        }
        self.0.values().any(|(_, is_it)| *is_it)
    }
}

/// Returns whether a process keeps all CPUs busy for its meters.
fn loads(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    let name = |thread: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(thread.ok()?.path().join("comm")).ok()
    };
    threads.filter_map(name).any(|name| name == "meter-load\n")
}

/// Plants the power of the moment: as a number, in the files of this machine's sensors, and in one
/// that simulators read, in whole half watts.
struct Planted {
    place: PathBuf,
    power_mw: AtomicU64,
    /// Process of surtax.
    surtax: AtomicU32,
    is_over: AtomicBool,
}

impl Planted {
    fn new(place: PathBuf) -> Self {
        let class = |path: &str, text: &str| {
            let path = place.join("class").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        class("hwmon/hwmon7/name", "planted\n");
        class("hwmon/hwmon7/power1_input", "");
        class("power_supply/BAT7/type", "Battery\n");
        class("power_supply/BAT7/status", "Discharging\n");
        class("power_supply/BAT7/power_now", "");
        class("powercap/intel-rapl:0/name", "package-0\n");
        class("powercap/intel-rapl:0/max_energy_range_uj", "262143328850\n");
        class("powercap/intel-rapl:0/energy_uj", "");
        class("powercap/intel-rapl:0:0/name", "core\n");
        class("powercap/intel-rapl:0:0/max_energy_range_uj", "262143328850\n");
        class("powercap/intel-rapl:0:0/energy_uj", "");
        let planted = Self {
            place,
            power_mw: AtomicU64::new(POWER[0]),
            surtax: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
        };
        planted.write(POWER[0], 0);
        planted
    }

    /// Writes the power, and the energy since the beginning; half of it is the cores'.
    fn write(&self, mw: u64, energy_uj: u64) {
        self.power_mw.store(mw, Ordering::Relaxed);
        for (path, number) in [
            ("hwmon/hwmon7/power1_input", mw * 1000),
            ("power_supply/BAT7/power_now", mw * 1000),
            ("powercap/intel-rapl:0/energy_uj", energy_uj),
            ("powercap/intel-rapl:0:0/energy_uj", energy_uj / 2),
        ] {
            // In one piece and in place: the files are held open.
            let file = OpenOptions::new().write(true).open(self.place.join("class").join(path));
            file.unwrap().write_all_at(format!("{number:015}\n").as_bytes(), 0).unwrap();
        }
        let new = self.place.join("halves.new");
        std::fs::write(&new, format!("{}\n", mw / 500)).unwrap();
        std::fs::rename(new, self.place.join("halves")).unwrap();
    }

    /// Plants until it is told to end.
    fn plant(&self) {
        let (mut energy_nj, mut at, mut look) = (0, Instant::now(), Look::default());
        while !self.is_over.load(Ordering::Relaxed) {
            let is_busy = loads(self.surtax.load(Ordering::Relaxed)) || look.runs();
            let mw = POWER[usize::from(is_busy)];
            let now = Instant::now();
            // Milliwatts times microseconds.
            energy_nj += mw * u64::try_from(now.duration_since(at).as_micros()).unwrap();
            at = now;
            self.write(mw, energy_nj / 1000);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The meters that see it.
    fn meters(&self) -> [String; 6] {
        let password = self.place.join("password");
        [
            String::from("hwmon:chip=planted,every=50ms"),
            String::from("battery:name=BAT7,every=50ms"),
            String::from("rapl:every=50ms"),
            format!("snmp:host=127.0.0.1:{SNMP},oid=1.3.6.1.4.1.99999.1.0,scale=0.5,every=50ms"),
            format!(
                "ipmi:host=127.0.0.1,port={IPMI},user=admin,password-file={},cipher=3,\
                 sensor=Sys_power,every=100ms",
                password.display()
            ),
            format!("redfish:url=http://127.0.0.1:{REDFISH}/redfish/v1/Chassis/1/Power,every=50ms"),
        ]
    }
}

/// Answers as a management controller's Redfish does, until it is told to end.
fn redfish(listener: &TcpListener, planted: &Planted) {
    listener.set_nonblocking(true).unwrap();
    while !planted.is_over.load(Ordering::Relaxed) {
        let Ok((mut client, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        };
        client.set_nonblocking(false).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let _ = client.read(&mut [0; 4096]);
        let watts = planted.power_mw.load(Ordering::Relaxed) as f64 / 1e3;
        let body = format!(
            "{{\"@odata.type\": \"#Power.v1_7_1.Power\", \
             \"PowerControl\": [{{\"PowerConsumedWatts\": {watts}}}]}}"
        );
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
        let _ = write!(client, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    }
}

/// A simulator, which ends with the test.
struct Simulator(Child);

impl Simulator {
    fn start(place: &Path, program: &str, arguments: &[&str], environment: (&str, &Path)) -> Self {
        let log = std::fs::File::create(place.join(format!("{program}.log"))).unwrap();
        let mut command = Command::new(program);
        command.args(arguments).current_dir(place).env(environment.0, environment.1);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Self(command.spawn().unwrap_or_else(|error| panic!("{program}: {error}")))
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts net-snmp's agent, which asks a script for the power in half watts.
fn distribution_unit(place: &Path) -> Simulator {
    let script = place.join("pdu.sh");
    let text = format!(
        "#!/bin/sh\nwhile read -r word; do\n  [ $word = PING ] && {{ echo PONG; continue; }}\n  \
         read -r object\n  [ $word = get ] && {{ echo $object; echo integer; cat {}/halves; }} || \
         echo NONE\ndone\n",
        place.display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let settings = format!(
        "rocommunity public 127.0.0.1\npass_persist .1.3.6.1.4.1.99999 {}\nagentaddress \
         udp:127.0.0.1:{SNMP}\n",
        script.display()
    );
    std::fs::write(place.join("snmpd.conf"), settings).unwrap();
    let flags = ["-f", "-Lo", "-C", "-c", "snmpd.conf", "-p", "snmpd.pid"];
    Simulator::start(place, "snmpd", &flags, ("SNMP_PERSISTENT_DIR", place))
}

/// Starts OpenIPMI's simulator with a sensor in watts, of which each step is half a watt.
fn management_controller(place: &Path) -> Simulator {
    let settings = format!(
        "name \"sim\"\nset_working_mc 0x20\n  startlan 1\n    addr 127.0.0.1 {IPMI}\n    \
         priv_limit \
         admin\n    allowed_auths_admin none md2 md5 straight\n    guid \
         a123456789abcdefa123456789abcdef\n  endlan\n  startnow false\n  user 2 true \"admin\" \
         \"secret\" admin 10 none md2 md5 straight\n"
    );
    std::fs::write(place.join("lan.conf"), settings).unwrap();
    // A full record of a threshold sensor: unit watt, M = 5, exponent -1, so each step is 0.5 W.
    let record = "0x00 0x00 0x51 0x01 0x34 0x20 0x00 0x01 0x07 0x01 0x67 0x40 0x0b 0x01 0x00 0x00 \
                  0x00 0x00 0x00 0x00 0x00 0x06 0x00 0x00 0x05 0x00 0x00 0x00 0x00 0xf0 0x00 0x00 \
                  0x00 0x00 0x00 0xff 0x00 0x00 0x00 0x00 0x00 0x00 0x00 0x00 0x00 0x00 0xff 0xc9 \
                  0x53 0x79 0x73 0x5f 0x70 0x6f 0x77 0x65 0x72";
    let zeroes = ["000000000000000"; 4].join(" ");
    let emulated = format!(
        "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\n\
         sel_enable 0x20 1000 0x0a\n\
         sensor_add 0x20 0 1 0x0b 0x01 poll 20 file \"{}/halves\" div=1\n\
         sensor_set_event_support 0x20 0 1 enable scanning per-state {zeroes}\nmain_sdr_add 0x20 \
         {record}\nmc_enable 0x20\n",
        place.display()
    );
    std::fs::write(place.join("sim.emu"), emulated).unwrap();
    std::fs::create_dir_all(place.join("state")).unwrap();
    std::fs::write(place.join("password"), "secret\n").unwrap();
    let flags = ["-n", "-c", "lan.conf", "-f", "sim.emu", "-s", "state"];
    Simulator::start(place, "ipmi_sim", &flags, ("IPMI_SIM", place))
}

/// Runs surtax where `/sys/class` has the planted sensor.
fn answer(machine: &Machine, planted: &Planted, arguments: &[&str]) -> Value {
    let surtax = machine.command(arguments);
    let mut command = Command::new("unshare");
    command.args(["-m", "--propagation", "private", "sh", "-c"]);
    let lower = format!("lowerdir={}/class:/sys/class", planted.place.display());
    command.arg(format!("mount -t overlay overlay -o {lower} /sys/class && exec \"$@\"")).arg("sh");
    command.arg(surtax.get_program()).args(surtax.get_args());
    for (name, value) in surtax.get_envs() {
        command.env(name, value.unwrap());
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // Each of them becomes the next.
    planted.surtax.store(child.id(), Ordering::Relaxed);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Measures the planted command with all meters while all simulators run.
fn measured(machine: &Machine, planted: &Planted) -> Value {
    let listener = TcpListener::bind(("127.0.0.1", REDFISH)).unwrap();
    let found = std::thread::scope(|scope| {
        scope.spawn(|| planted.plant());
        scope.spawn(|| redfish(&listener, planted));
        let simulators = (distribution_unit(&planted.place), management_controller(&planted.place));
        std::thread::sleep(Duration::from_secs(3));
        let meters = planted.meters();
        let flags = "compare --in native,runc --runs 3 --quiet --format json";
        let mut arguments: Vec<&str> = flags.split(' ').collect();
        arguments.extend(meters.iter().flat_map(|meter| ["--meter", meter]));
        arguments.push("--");
        arguments.extend(COMMAND);
        let found = std::panic::catch_unwind(|| answer(machine, planted, &arguments));
        planted.is_over.store(true, Ordering::Relaxed);
        drop(simulators);
        found
    });
    found.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[test]
fn every_meter_finds_the_planted_joules_and_what_is_attributed_sums_to_them() {
    let machine = Machine::alone();
    let planted = Planted::new(machine.path("meters"));
    let found = measured(&machine, &planted);
    for typed in planted.meters() {
        let metric = format!("energy_{}_uj", typed.split(':').next().unwrap());
        let mut meters = found["meters"].as_array().unwrap().iter();
        let meter = meters.find(|it| it["metric"] == metric.as_str()).unwrap();
        let idle = meter["idle_uw"].as_f64().unwrap() / 1e6;
        let step = meter["step_uw"].as_f64().unwrap() / 1e6;
        assert!((idle - 12.5).abs() < 0.8 && (step - 25.0).abs() < 1.0, "{meter}");
        assert!(meter["doubt"].is_null(), "{meter}");
        let count = |key: &str| meter[key].as_u64().unwrap();
        assert!(count("read_count") > 300 && count("failed_count") < 10, "{meter}");
        let joules = [0, 1, 2].map(|arm| {
            let energies = found["arms"][arm]["energies"].as_array().unwrap();
            let of = energies.iter().find(|it| it["meter"] == meter["meter"]).unwrap();
            assert!(found["arms"][arm]["absences"].as_array().unwrap().is_empty());
            let joules = of["energy_uj"].as_f64().unwrap() / 1e6;
            let dynamic = of["dynamic_uj"].as_f64().unwrap();
            let parts = of["attributed"].as_array().unwrap().iter();
            let sum: f64 = parts.map(|it| it["energy_uj"].as_f64().unwrap()).sum();
            assert!((sum / dynamic - 1.0).abs() < 1e-6, "{of}");
            joules
        });
        let mean = joules.iter().sum::<f64>() / 3.0;
        assert!((mean / JOULES - 1.0).abs() < 0.01, "{typed}: {joules:?} J of {JOULES}");
        let mut metrics = found["arms"][2]["metrics"].as_array().unwrap().iter();
        assert!(metrics.any(|it| it["metric"] == metric.as_str() && !it["overhead"].is_null()));
    }
    for format in ["markdown", "table", "html"] {
        let output = machine.surtax(&["export", "--as", format]);
        assert!(text(&output.stdout).contains("12.5 W idle"), "{format}: {}", text(&output.stdout));
    }
    machine.assert_as_before();
}

#[test]
fn a_meter_that_does_not_answer_is_told_before_anything_runs() {
    let machine = Machine::take();
    let said = |meter: &str| {
        let flags = ["compare", "--in", "native", "--runs", "1", "--meter", meter, "--", "true"];
        let output = machine.surtax(&flags);
        assert!(!output.status.success());
        text(&output.stderr)
    };
    assert!(said("hwmon:chip=nothing").contains("no chip `nothing` has such a sensor"));
    assert!(said("snmp:host=127.0.0.1:9,oid=1.3.6.1").contains("does not say its power"));
    assert!(said("redfish:url=http://127.0.0.1:9/").contains("curl"));
    assert!(said("snmp:hots=x").contains("has no option `hots`"));
    let listed = text(&machine.surtax(&["list"]).stdout);
    assert!(!listed.contains("true"), "no run was begun: {listed}");
    machine.assert_as_before();
}
