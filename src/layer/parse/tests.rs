//! Texts that the grammar accepts, and the words with which it refuses.

use crate::layer::parse::*;
use crate::layer::{Limit, OptionSpec, RootKind, option};
use proptest::prelude::*;

const fn descriptor(
    kind: &'static str,
    options: &'static [OptionSpec],
    limits: &'static [Limit],
) -> Descriptor {
    Descriptor { kind, options, limits, holds_layers: true, ..Descriptor::CONTAINER }
}

const ALL: &[Limit] = &[Limit::Cpus, Limit::Cpuset, Limit::Memory, Limit::Pids];
const ACCEL: OptionSpec = option("accel", &["kvm", "tcg"]);
const KERNEL: OptionSpec = option("kernel", &[]).path();
const NET: OptionSpec = option("net", &["none", "host"]);

static NATIVE: Descriptor = Descriptor {
    roots: &[RootKind::Overlay, RootKind::Host, RootKind::Directory, RootKind::Oci],
    ..descriptor("native", &[], ALL)
};
static RUNC: Descriptor = descriptor("runc", &[], ALL);
static DOCKER: Descriptor = descriptor("docker", &[NET], ALL);
static GVISOR: Descriptor = descriptor("gvisor", &[], &[Limit::Cpus, Limit::Memory]);
static QEMU: Descriptor = Descriptor {
    roots: &[RootKind::Overlay, RootKind::Directory, RootKind::Image, RootKind::Packed],
    aliases: &[("vm", ""), ("kvm", "accel=kvm")],
    ..descriptor("qemu", &[ACCEL, KERNEL], &[Limit::Cpus, Limit::Memory])
};
static SIMULATED: Descriptor =
    Descriptor { holds_layers: false, ..descriptor("simulated", &[], &[]) };

/// The layers of the tests of this folder and of `plan/`.
pub(crate) const DESCRIPTORS: &[&Descriptor] =
    &[&NATIVE, &RUNC, &DOCKER, &GVISOR, &QEMU, &SIMULATED];

/// A layer with a subject, on another machine.
static SSH: Descriptor = Descriptor {
    subject: Some("host"),
    is_remote: true,
    ..descriptor("ssh", &[HOST, OptionSpec { key: "user", ..HOST }], &[])
};
const HOST: OptionSpec = option("host", &[]);

/// A container and a machine whose data may lie in different places.
static BOX: Descriptor = descriptor("runc", &[medium::CHOICE], ALL);
static MACHINE: Descriptor = descriptor("qemu", &[ON_A_DISK], ALL);
const ON_A_DISK: OptionSpec = medium::choice(&["layer", "virtio-blk"]);

fn parsed(text: &str) -> StackSpec {
    StackSpec::parse_with(text, DESCRIPTORS).unwrap_or_else(|fault| panic!("{fault}"))
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    refused_with(text, DESCRIPTORS, expected);
}

#[track_caller]
fn refused_with(text: &str, descriptors: &[&'static Descriptor], expected: &str) {
    let fault = StackSpec::parse_with(text, descriptors).expect_err(text);
    assert_eq!(fault.exit_code(), 2);
    assert_eq!(fault.to_string(), expected.trim_start_matches('\n'));
}

#[test]
fn an_alias_means_a_kind_and_may_mean_an_option_and_no_stack_is_printed_with_it() {
    for (text, printed) in [
        ("vm", "qemu"),
        ("kvm", "qemu:accel=kvm"),
        ("kvm:mem=2G+vm:accel=tcg", "qemu:accel=kvm,memory=2G+qemu:accel=tcg"),
    ] {
        assert_eq!(parsed(text).to_string(), printed);
    }
    refused(
        "kvm:accel=tcg",
        "
`kvm` says `accel=kvm` already
    kvm:accel=tcg
        ^^^^^
  hint: write `qemu` in its place",
    );
}

#[test]
fn stacks_that_something_else_than_a_comma_divides_are_told_apart() {
    refused(
        "docker; qemu",
        "
`docker; qemu` is not the name of a layer
    docker; qemu
    ^^^^^^^^^^^^
  hint: divide stacks by a comma: `docker,qemu`",
    );
}

#[test]
fn a_stack_is_read_outermost_layer_first() {
    let stack = parsed("qemu:mem=2G,accel=tcg+docker:net=host+runc");
    let kinds: Vec<&str> = stack.layers.iter().map(|layer| layer.kind.as_str()).collect();
    assert_eq!(kinds, ["qemu", "docker", "runc"]);
    assert_eq!(stack.layers[0].options["memory"], "2G");
    assert_eq!(stack.layers[1].options["net"], "host");
    assert_eq!(stack.to_string(), "qemu:accel=tcg,memory=2G+docker:net=host+runc");
}

#[test]
fn spaces_around_words_do_not_matter() {
    assert_eq!(
        parsed(" qemu : mem = 2G , accel=tcg + runc "),
        parsed("qemu:mem=2G,accel=tcg+runc")
    );
}

#[test]
fn an_unknown_layer_is_answered_with_the_nearest() {
    refused(
        "qemu:mem=1G+dokcer:net=host",
        "
unknown layer `dokcer`
    qemu:mem=1G+dokcer:net=host
                ^^^^^^
  hint: use `docker`; the layers are `native`, `runc`, `docker`, `gvisor`, `qemu`, `simulated`",
    );
}

#[test]
fn an_unknown_option_is_answered_with_the_nearest() {
    refused(
        "qemu:acel=tcg",
        "
unknown option `acel` of `qemu`
    qemu:acel=tcg
         ^^^^
  hint: use `accel`; the options of `qemu` are `accel`, `kernel`, `cpus`, `memory`, `root`, `secrets`, `env.NAME`",
    );
}

#[test]
fn a_value_that_is_not_on_the_list_is_answered_with_the_list() {
    refused(
        "qemu:accel=hvf",
        "
`hvf` is not a value of option `accel` of `qemu`
    qemu:accel=hvf
               ^^^
  hint: use one of the values of `accel`: `kvm`, `tcg`",
    );
    refused(
        "runc:memory=lots",
        "
`lots` is not a size such as `512M` or `2G`
    runc:memory=lots
                ^^^^",
    );
}

#[test]
fn a_limit_that_a_driver_does_not_map_is_refused_aloud() {
    refused(
        "gvisor:pids=100",
        "
`gvisor` cannot limit `pids`: its limits are `cpus`, `memory`
    gvisor:pids=100
           ^^^^
  hint: leave `pids` out, or give it to a layer that has it: `native`, `runc`, `docker`",
    );
    refused(
        "simulated:mem=1G",
        "
`simulated` cannot limit `memory`: it has no limits at all
    simulated:mem=1G
              ^^^
  hint: leave `memory` out, or give it to a layer that has it: `native`, `runc`, `docker`, `gvisor`, `qemu`",
    );
}

#[test]
fn a_variable_of_the_command_is_an_option_of_the_innermost_layer_alone() {
    let stack = parsed("qemu:mem=2G+runc:env.THREADS=2,env.A=x=y");
    assert_eq!(stack.to_string(), "qemu:memory=2G+runc:env.A=x=y,env.THREADS=2");
    assert_eq!(stack.variables().collect::<Vec<_>>(), [("A", "x=y"), ("THREADS", "2")]);
    assert!(parsed("simulated:env.A=1") != parsed("simulated"));
    refused(
        "qemu:env.A=1+runc",
        "
`env.A` is for the command, which runs in `runc`
    qemu:env.A=1+runc
         ^^^^^
  hint: take it from `qemu` and write `runc:env.A=1`",
    );
    refused(
        "runc:env.2A=1",
        "
`2A` is not the name of a variable
    runc:env.2A=1
         ^^^^^^
  hint: use letters, digits and `_`, as in `env.THREADS=2`",
    );
    refused(
        "simulated:evn.A=1",
        "
unknown option `evn.A` of `simulated`
    simulated:evn.A=1
              ^^^^^
  hint: use one of the options of `simulated`: `root`, `secrets`, `env.NAME`",
    );
}

#[test]
fn only_native_may_write_to_the_hosts_root() {
    assert!(StackSpec::parse_with("native:root=host", DESCRIPTORS).is_ok());
    refused(
        "runc:root=host",
        "
`runc` cannot take `host` as its root: writes would reach this machine's files
    runc:root=host
              ^^^^
  hint: use `root=overlay`, and `--writable PATH` for what must be kept",
    );
}

#[test]
fn the_subject_of_a_layer_may_be_written_first_without_its_key() {
    let parse = |text: &str| StackSpec::parse_with(text, &[&SSH, &RUNC]).unwrap();
    let stack = parse("ssh:lab7,user=me+runc");
    assert_eq!(stack.to_string(), "ssh:host=lab7,user=me+runc");
    assert_eq!(stack, parse("ssh:user=me,host=lab7+runc"));
    assert_eq!(stack, parse(&stack.to_string()));
    assert_eq!(stack, StackSpec::try_from(stack.to_string()).unwrap());
    let address = parse(" ssh : me@fe80::1%eth0 ");
    assert_eq!(address.layers[0].options["host"], "me@fe80::1%eth0");

    let list = super::super::parse_list_with("runc,ssh:lab7,user=me,ssh:lab8", &[&SSH, &RUNC]);
    let texts: Vec<String> = list.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["runc", "ssh:host=lab7,user=me", "ssh:host=lab8"]);
}

#[test]
fn a_layer_without_its_subject_is_refused_with_the_form() {
    let missing = |text: &str, carets: &str| {
        let expected = format!(
            "`ssh` means nothing without its `host`\n    {text}\n    {carets}\n  hint: write \
             `ssh:HOST`"
        );
        refused_with(text, &[&SSH, &RUNC], &expected);
    };
    missing("ssh", "^^^");
    missing("ssh:user=me", "^^^^^^^^^^^");
    refused_with(
        "ssh:user=me,lab7",
        &[&SSH],
        "
`lab7` is not an option with a value
    ssh:user=me,lab7
                ^^^^
  hint: write `lab7=VALUE`",
    );
}

#[test]
fn a_bare_word_of_an_engine_is_probably_an_image() {
    let hint = |text: &str| crate::driver::parse(text).unwrap_err().hint.unwrap();
    assert_eq!(hint("docker:alpine"), "write `docker:image=alpine`");
    assert_eq!(hint("docker:alpine:3"), "write `docker:image=alpine:3`");
    assert_eq!(hint("docker:memory"), "write `memory=VALUE`");
    assert_eq!(hint("docker:net"), "write `net=VALUE`");
}

#[test]
fn a_subject_that_a_tool_could_take_for_an_option_is_refused() {
    for host in ["-oProxyCommand", "me@-v", "@lab7", "lab7@", "a b", "a;b", "$(a)", "lab/7", "ä"] {
        let fault = StackSpec::parse_with(&format!("ssh:{host}"), &[&SSH]).unwrap_err();
        assert!(fault.message.starts_with(&format!("`{host}` is not a `host`\n")), "{fault}");
        assert!(StackSpec::parse_with(&format!("ssh:host={host}"), &[&SSH]).is_err(), "{host}");
    }
    refused_with(
        "ssh:-oProxyCommand=reboot",
        &[&SSH],
        "
unknown option `-oProxyCommand` of `ssh`
    ssh:-oProxyCommand=reboot
        ^^^^^^^^^^^^^^
  hint: use one of the options of `ssh`: `host`, `user`, `root`, `env.NAME`",
    );
}

#[test]
fn another_machine_has_its_own_root_and_takes_no_other() {
    assert!(StackSpec::parse_with("ssh:lab7,root=host", &[&SSH]).is_ok());
    refused_with(
        "ssh:lab7,root=overlay",
        &[&SSH],
        "
`ssh` shows the other machine's files as they are, and not `overlay`
    ssh:lab7,root=overlay
                  ^^^^^^^
  hint: drop `root=`, or give it to a layer behind it, as in `ssh:…+runc`",
    );
}

#[test]
fn native_stands_alone() {
    refused(
        "native+runc",
        "
`native` is the absence of layers and stands alone
    native+runc
    ^^^^^^
  hint: write `runc`",
    );
    refused(
        "qemu+native",
        "
`native` is the absence of layers and stands alone
    qemu+native
         ^^^^^^
  hint: write `qemu`",
    );
}

#[test]
fn a_layer_that_holds_nothing_must_be_last() {
    refused(
        "simulated+runc",
        "
`simulated` cannot hold `runc` or any other layer
    simulated+runc
    ^^^^^^^^^
  hint: put `simulated` last",
    );
}

#[test]
fn what_is_missing_is_pointed_at() {
    refused("", "the stack is empty\n  hint: write a layer, such as `native`");
    refused(
        "qemu++runc",
        "
a layer is missing here
    qemu++runc
         ^
  hint: name one, or drop the `+`",
    );
    refused(
        "runc:",
        "
an option of `runc` is missing here
    runc:
         ^
  hint: write `KEY=VALUE`, or drop the `:` or `,`",
    );
    refused(
        "docker:net",
        "
`net` is not an option with a value
    docker:net
           ^^^
  hint: write `net=VALUE`",
    );
    refused(
        "docker:cpuset=0,1",
        "
`1` is not an option with a value
    docker:cpuset=0,1
                    ^
  hint: divide CPUs by a semicolon: `cpuset=0;1`",
    );
    refused(
        "docker,runc",
        "
one stack is asked for at a time here
    docker,runc
          ^^^^^
  hint: write `docker+runc` for a layer in a layer",
    );
    refused(
        "simulated,runc",
        "
one stack is asked for at a time here
    simulated,runc
             ^^^^^
  hint: write `simulated` or `runc` alone",
    );
    refused(
        "docker:net=",
        "
option `net` of `docker` has no value
    docker:net=
           ^^^^",
    );
}

#[test]
fn an_option_given_twice_is_refused_also_under_its_other_name() {
    refused(
        "runc:memory=1G,mem=2G",
        "
option `mem` of `runc` is given twice
    runc:memory=1G,mem=2G
                   ^^^
  hint: keep one of them",
    );
}

#[test]
fn carets_count_characters_and_control_characters_never_reach_the_terminal() {
    refused(
        "qemu:kernel=/bööt/k+xenn",
        "
unknown layer `xenn`
    qemu:kernel=/bööt/k+xenn
                        ^^^^
  hint: use one of the layers: `native`, `runc`, `docker`, `gvisor`, `qemu`, `simulated`",
    );
    refused("runc\x1b[31m", r"the stack `runc\u{1b}[31m` holds a control character");
}

#[test]
fn nine_layers_are_too_many() {
    let text = ["qemu"; 9].join("+");
    let message = StackSpec::parse_with(&text, DESCRIPTORS).unwrap_err().to_string();
    assert!(message.starts_with("9 layers are too many\n"), "{message}");
    assert!(StackSpec::parse_with(&["qemu"; 8].join("+"), DESCRIPTORS).is_ok());
}

#[test]
fn a_ledger_of_another_surtax_stays_legible() {
    let stack = StackSpec::try_from(String::from("bhyve:cpus=2+jail")).unwrap();
    assert_eq!(stack.to_string(), "bhyve:cpus=2+jail");
    let read: StackSpec = serde_json::from_str("\"bhyve:cpus=2+jail\"").unwrap();
    assert_eq!(read, stack);
    assert!(serde_json::from_str::<StackSpec>("\"bhyve:cpus\"").is_err());
}

fn any_layer() -> impl Strategy<Value = String> {
    let option = prop_oneof![
        (1u32..9000).prop_map(|n| format!("cpus={}.{:03}", n / 1000 + 1, n % 1000)),
        (1u32..4096).prop_map(|n| format!("memory={n}M")),
        (1u32..64).prop_map(|n| format!("mem={n}G")),
        "root=dir:/[a-z/.:=]{0,12}",
        "kernel=[a-zA-Z0-9/._:=-]{1,12}",
        prop_oneof![Just(String::from("accel=kvm")), Just(String::from("accel=tcg"))],
    ];
    (proptest::sample::select(vec!["runc", "qemu"]), proptest::collection::vec(option, 0..4))
        .prop_map(|(kind, options)| match options.len() {
            0 => kind.to_owned(),
            _ => format!("{kind}:{}", options.join(",")),
        })
}

proptest! {
    #[test]
    fn what_is_printed_reads_as_the_same_stack(
        layers in proptest::collection::vec(any_layer(), 1..5)
    ) {
        if let Ok(stack) = StackSpec::parse_with(&layers.join("+"), DESCRIPTORS) {
            let printed = stack.to_string();
            prop_assert_eq!(&StackSpec::parse_with(&printed, DESCRIPTORS).unwrap(), &stack);
            prop_assert_eq!(&StackSpec::try_from(printed).unwrap(), &stack);
            for layer in &stack.layers {
                prop_assert!(layer.limits().is_ok() && layer.root().is_ok());
            }
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,60}") {
        let _ = StackSpec::parse_with(&text, DESCRIPTORS);
        let _ = super::super::parse_list_with(&text, DESCRIPTORS);
    }

    #[test]
    fn no_sequence_of_the_grammars_own_signs_makes_the_reader_panic(text in "[a-c:+,= é]{0,24}") {
        let _ = StackSpec::parse_with(&text, DESCRIPTORS);
        let _ = super::super::parse_list_with(&text, DESCRIPTORS);
    }
}

#[test]
fn advice_where_data_may_lie_names_what_the_layer_has() {
    let descriptors: &[&Descriptor] = &[&BOX, &MACHINE, &SIMULATED];
    refused_with(
        "runc:scratch=virtio-blk",
        descriptors,
        "
`virtio-blk` is not a value of option `scratch` of `runc`
    runc:scratch=virtio-blk
                 ^^^^^^^^^^
  hint: use one of the values of `scratch`: `layer`, `bind`, `tmpfs`",
    );
    refused_with(
        "qemu:scratch=virtio-blk+runc",
        descriptors,
        "
`scratch` is for the command, which runs in `runc`
    qemu:scratch=virtio-blk+runc
         ^^^^^^^
  hint: take it from `qemu` and write one of `runc:scratch=layer`, `runc:scratch=bind`, \
         `runc:scratch=tmpfs`",
    );
    let advice = |text| StackSpec::parse_with(text, descriptors).unwrap_err().hint.unwrap();
    assert_eq!(
        advice("qemu:scratch=layer+runc"),
        "take it from `qemu` and write `runc:scratch=layer`"
    );
    assert_eq!(
        advice("runc:scratch=bind+simulated"),
        "take it from `runc`: `simulated` has no `scratch`"
    );
}
