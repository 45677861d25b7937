//! Tests of what libvirt's driver refuses, and what it has a guest do.

use super::*;

fn spec(options: &[(&str, &str)]) -> LayerSpec {
    let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    LayerSpec { kind: "libvirt".into(), options: options.collect() }
}

#[test]
fn a_libvirt_of_another_machine_or_another_hypervisor_is_refused() {
    for uri in ["qemu+ssh://lab7/system", "qemu://lab7/system", "lxc:///system", "xen:///"] {
        let fault = DomainOptions::read(&spec(&[("domain", "web"), ("uri", uri)])).err().unwrap();
        assert_eq!(fault.exit_code(), 2, "{uri}");
        assert!(fault.hint.is_some_and(|hint| hint.contains("`ssh:HOST+libvirt:DOMAIN`")), "{uri}");
    }
    let asked =
        DomainOptions::read(&spec(&[("domain", "web"), ("uri", "qemu:///session")])).unwrap();
    assert_eq!(asked.uri, "qemu:///session");
}

#[test]
fn a_name_that_could_be_an_option_is_refused() {
    let fault =
        DomainOptions::read(&spec(&[("domain", "--help"), ("uri", DEFAULT_URI)])).err().unwrap();
    assert!(fault.message.contains("`--help`"), "{fault}");
}

#[test]
fn the_shell_in_the_guest_opens_the_port_that_has_the_channels_name() {
    let script = guest::shell("surtax-1-enter", 3, Duration::from_secs(5));
    assert!(script.contains("= surtax-1-enter ]"), "{script}");
    assert!(script.contains("exec <>\"$port\" >&0; exec sh -c '"), "{script}");
    let (channel, here) = ("surtax-1-none", ["sh", "-n", "-c"]);
    let argv: Vec<String> =
        here.map(String::from).into_iter().chain([guest::shell(channel, 3, LEASE)]).collect();
    assert_eq!(lab::ask(&argv, None, LEASE).unwrap(), "", "a shell can read it");
}

#[test]
fn two_that_do_not_agree_are_quoted() {
    assert_eq!(agree("its CPUs", ("domstats", "2"), "2").ok(), Some(()));
    let fault = agree("its CPUs", ("domstats", "2"), "1").unwrap_err();
    assert_eq!(fault.message, "libvirt: of its CPUs domstats says `2`, and the agent `1`");
    assert_eq!(stat("Domain: 'x'\n  vcpu.current=2\n", "vcpu.current").unwrap(), "2");
    assert!(stat("Domain: 'x'\n", "vcpu.current").is_err());
}
