//! Trials with one side on another machine: two network namespaces with one cable, and a real
//! `sshd` in one of them.

use crate::answers::{arm, fact};
use crate::machine::{Machine, is_usable, text};
use crate::ssh::Sshd;
use serde_json::Value;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The ends of the cable, with their addresses: set aside for documentation (RFC 5737), so that
/// nobody has them.
const HERE: (&str, &str) = ("here0", "203.0.113.1");
const THERE: (&str, &str) = ("there0", "203.0.113.2");

/// A network namespace that ends with the process in it.
struct Namespace(Child);

impl Namespace {
    fn make() -> Self {
        let child = Command::new("unshare")
            .args(["--net", "sleep", "600"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let namespace = Self(child);
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        let began = Instant::now();
        while std::fs::read_link(namespace.path()).is_ok_and(|link| link == own) {
            assert!(began.elapsed() < Duration::from_secs(10), "no namespace was made");
            std::thread::sleep(Duration::from_millis(5));
        }
        namespace
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }

    /// Returns the command line that leads a command into it.
    fn way(&self) -> Vec<String> {
        vec![String::from("nsenter"), format!("--net={}", self.path())]
    }

    fn run(&self, line: &str) -> String {
        let way = self.way();
        let output = Command::new(&way[0]).args(&way[1..]).args(line.split(' ')).output().unwrap();
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        text(&output.stdout)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two machines, as far as their networks go.
struct Machines<'a> {
    machine: &'a Machine,
    here: Namespace,
    sshd: Sshd,
    _there: Namespace,
}

impl<'a> Machines<'a> {
    fn make(machine: &'a Machine) -> Option<Self> {
        Self::make_with(machine, "")
    }

    /// The same with further lines of the other one's configuration of `sshd`.
    fn make_with(machine: &'a Machine, lines: &str) -> Option<Self> {
        let (here, there) = (Namespace::make(), Namespace::make());
        let ends = format!("type veth peer name {} netns {}", THERE.0, there.0.id());
        here.run(&format!("ip link add {} {ends}", HERE.0));
        for (namespace, (link, address)) in [(&here, HERE), (&there, THERE)] {
            namespace.run("ip link set lo up");
            namespace.run(&format!("ip address add {address}/24 dev {link}"));
            namespace.run(&format!("ip link set {link} up"));
        }
        let sshd = Sshd::start_at(machine, THERE.1, &there.way(), lines)?;
        Some(Self { machine, here, sshd, _there: there })
    }

    /// Runs the binary on the one that is not there.
    fn surtax(&self, arguments: &[&str]) -> Output {
        let (inner, way) = (self.machine.command(arguments), self.here.way());
        let mut command = Command::new(&way[0]);
        command.args(&way[1..]).arg(inner.get_program()).args(inner.get_args());
        for (key, value) in inner.get_envs() {
            command.env(key, value.unwrap_or_default());
        }
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn compare(&self, stacks: &str, workload: &str) -> Value {
        let output = self.surtax(&[
            "compare", "--in", stacks, "--workload", workload, "--runs", "1", "--format", "json",
        ]);
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{stacks}, {workload}: {}", text(&output.stderr)))
    }

    /// Counts the packets that have come by the cable.
    fn packets(&self) -> u64 {
        let said = self.here.run("cat /proc/net/dev");
        let of_link =
            |line: &str| line.trim().strip_prefix(HERE.0)?.strip_prefix(':').map(str::to_owned);
        let counts = said.lines().find_map(of_link).unwrap_or_else(|| panic!("{said}"));
        // Bytes come first, then packets.
        counts.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

/// The evidence of the innermost level of an arm that has measured.
#[track_caller]
fn measured(arm: &Value) -> &Value {
    assert_eq!(arm["trial_count"], 1, "{}: {}", arm["stack"], arm["trouble"]);
    arm["evidence"].as_array().unwrap().last().unwrap()
}

fn transactions(arm: &Value) -> u64 {
    arm["histograms"][0]["value_count"].as_u64().unwrap()
}

#[test]
fn a_client_on_another_machine_calls_this_one_at_the_address_that_it_sees() {
    let machine = Machine::beside_one();
    if !is_usable(&machine, "runc") {
        return;
    }
    let Some(machines) = Machines::make(&machine) else { return };
    let client = machines.sshd.stack();
    let before = machines.packets();
    let stacks = "native,runc:net=host,runc:net=veth";
    let answer = machines.compare(stacks, &format!("net.tcp_rr:time=300,client={client}"));
    let came = machines.packets() - before;
    let mut called = 0;
    for stack in ["native", "runc:net=host"] {
        let arm = arm(&answer, stack);
        let innermost = measured(arm);
        let place = fact(innermost, "client_place");
        assert!(place.starts_with("in another stack, ssh:"), "{stack}: {place}");
        let address = fact(innermost, "server_address");
        assert_eq!(address, "this machine's own, as the other one sees it", "{stack}");
        assert_eq!(fact(innermost, "link_between_machines"), HERE.0, "{stack}");
        assert_eq!(fact(innermost, "client_clock"), "the host's", "both are one kernel here");
        called += transactions(arm);
    }
    assert!(called >= 8 && came >= called, "{called} requests, and {came} packets came");
    // A bridge of ours leads nowhere, and what would help is said before anything is started.
    let bridged = arm(&answer, "runc:net=veth");
    assert_eq!(bridged["trial_count"], 0);
    let said = bridged.to_string();
    assert!(said.contains("reaches none but this machine's own network"), "{said}");
    assert!(said.contains("`net=host` in every layer"), "{said}");
    assert!(
        !answer.to_string().contains(HERE.1),
        "an address of this machine is nobody's business"
    );
    assert_eq!(machines.sshd.left(), [""; 0]);
    drop(machines);
    machine.assert_as_before();
}

#[test]
fn a_server_on_another_machine_is_called_from_here_also_in_a_container_there() {
    let machine = Machine::beside_one();
    if !is_usable(&machine, "runc") {
        return;
    }
    let Some(machines) = Machines::make(&machine) else { return };
    let far = machines.sshd.stack();
    let stacks = format!("native,{far},{far}+runc");
    let (before, mut called) = (machines.packets(), 0);
    for (workload, address) in [
        ("net.tcp_rr:time=500", "the other machine's own"),
        ("net.tcp_rr:time=500,client=stack", "this machine's own, as the other one sees it"),
    ] {
        let answer = machines.compare(&stacks, workload);
        let arms = answer["arms"].as_array().unwrap();
        let far: Vec<&Value> =
            arms.iter().filter(|arm| arm["stack"].as_str().unwrap().starts_with("ssh:")).collect();
        assert_eq!(far.len(), 2, "{workload}");
        for arm in far {
            let innermost = measured(arm);
            assert_eq!(fact(innermost, "server_address"), address, "{workload}");
            assert_eq!(fact(innermost, "link_between_machines"), HERE.0, "{workload}");
            called += transactions(arm);
        }
        assert_eq!(fact(measured(arm(&answer, "native")), "server_address"), "127.0.0.1");
        assert!(!answer.to_string().contains(HERE.1), "{workload}");
    }
    let came = machines.packets() - before;
    assert!(called >= 8 && came >= called, "{called} requests, and {came} packets came");
    assert_eq!(machines.sshd.left(), [""; 0]);
    drop(machines);
    machine.assert_as_before();
}

/// Measures in a machine whose `sshd` has this setting, by which it lies, and judges its arm.
fn of_a_liar(lie: &str, judge: impl Fn(&Value)) {
    let machine = Machine::beside_one();
    let Some(machines) = Machines::make_with(&machine, lie) else { return };
    let far = machines.sshd.stack();
    let answer = machines.compare(&format!("native,{far}"), "net.tcp_rr:time=300");
    let mut arms = answer["arms"].as_array().unwrap().iter();
    judge(arms.find(|arm| arm["stack"].as_str().unwrap().starts_with("ssh:")).unwrap());
    assert_eq!(machines.sshd.left(), [""; 0]);
    drop(machines);
    machine.assert_as_before();
}

#[test]
fn a_machine_that_names_another_address_than_its_own_has_nobody_called_there() {
    // Its address is one of this machine's network, which it would have us flood.
    let lie = "ForceCommand SSH_CONNECTION=\"${SSH_CONNECTION% * *} 203.0.113.1 22\" \
               sh -c \"$SSH_ORIGINAL_COMMAND\"\n";
    of_a_liar(lie, |arm| {
        assert_eq!(arm["trial_count"], 0);
        let said = arm.to_string();
        assert!(said.contains("the stack has no way to the outside"), "{said}");
        let remedy = "another machine is reached directly, without `ProxyJump`";
        assert!(said.contains(remedy), "{said}");
    });
}

/// The client's words come from the client alone: what the shell there writes to its standard error
/// comes by the same connection.
#[test]
fn a_machine_does_not_say_by_itself_which_key_it_proved_to_have() {
    let lie = "ForceCommand case \"$SSH_ORIGINAL_COMMAND\" in *surtax-here*) \
               head -c 70000 /dev/zero | tr '\\000' x >&2; \
               printf '\\nServer host key: ssh-ed25519 SHA256:FORGED\\n' >&2;; esac; \
               sh -c \"$SSH_ORIGINAL_COMMAND\"\n";
    of_a_liar(lie, |arm| {
        let key = fact(measured(arm), "host_key");
        assert!(key.contains("SHA256:") && !key.contains("FORGED"), "{key}");
    });
}
