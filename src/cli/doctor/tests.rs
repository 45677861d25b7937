//! Tests of what doctor prints.

use super::*;
use crate::layer::tests::DESCRIPTORS;
use crate::layer::{Unavailable, Usable};
use crate::report::terminal::PLAIN;
use disturbance::State;
use surtax_instrument::wire::Fact;

fn check(layer: &str, ask: impl FnOnce() -> Result<Usable, Unavailable> + Send + 'static) -> Check {
    let descriptor =
        DESCRIPTORS.iter().find(|descriptor| layer.starts_with(descriptor.kind)).unwrap();
    Check {
        layer: layer.to_owned(),
        descriptor,
        has_run: descriptor.ran_on_hardware,
        deadline: Duration::from_millis(200),
        ask: Box::new(ask),
    }
}

fn usable() -> Result<Usable, Unavailable> {
    Ok(Usable { facts: vec![Fact::new("runc", "1.1.5", "runc --version")] })
}

fn missing() -> Result<Usable, Unavailable> {
    let (why, remedy) =
        ("no `dockerd` answers, and none is installed", "apt-get install docker.io");
    Err(Unavailable::new(why, remedy))
}

fn diagnosis() -> Diagnosis {
    let layers = run_all(vec![check("runc", usable), check("docker", missing)]);
    let host = vec![Disturbance {
        code: "load",
        state: State::Disturbs,
        finding: String::from("load average 3 on 2 CPUs"),
        advice: Some(String::from("stop what else runs")),
    }];
    Diagnosis { schema_version: 1, surtax_version: "0", layers, host: Some(host) }
}

#[test]
fn the_answers_keep_the_order_of_the_questions() {
    let slow = || {
        std::thread::sleep(Duration::from_millis(30));
        usable()
    };
    let findings = run_all(vec![check("runc", slow), check("docker", missing)]);
    assert_eq!((findings[0].layer.as_str(), findings[0].usable), ("runc", true));
    assert_eq!((findings[1].layer.as_str(), findings[1].usable), ("docker", false));
}

#[test]
fn a_layer_that_hangs_or_breaks_is_a_named_gap() {
    let hangs = || {
        std::thread::sleep(Duration::from_secs(5));
        usable()
    };
    let breaks =
        Check { deadline: Duration::from_secs(60), ..check("runc", || panic!("on purpose")) };
    let findings = run_all(vec![breaks, check("docker", hangs)]);
    assert_eq!(findings[0].why.as_deref(), Some("its check broke: a bug in surtax"));
    assert_eq!(findings[1].why.as_deref(), Some("gave no answer within 0 s"));
}

#[test]
fn the_table_holds_why_and_remedy() {
    let text = text(&diagnosis(), false, Format::Table, PLAIN).unwrap();
    for expected in [
        "  ✓ runc    runc 1.1.5\n",
        "  ✗ docker  no `dockerd` answers",
        "            → apt-get install docker.io\n",
        "  ! load    load average 3 on 2 CPUs\n            → stop what else runs\n",
        "1 of 2 forms are usable",
    ] {
        assert!(text.contains(expected), "{expected} is missing in\n{text}");
    }
    assert!(!text.contains('\x1b'));
    let colourful = Look { colour: Colour::Yes, ..PLAIN };
    let text = super::text(&diagnosis(), false, Format::Table, colourful).unwrap();
    assert!(text.contains("  \x1b[32m✓\x1b[0m runc") && text.contains("\x1b[31m✗"), "{text}");
}

#[test]
fn in_short_there_is_a_line_for_each_layer() {
    let mut diagnosis = diagnosis();
    let form = |layer: &str, why: Option<&str>| Finding {
        layer: layer.to_owned(),
        usable: why.is_none(),
        why: why.map(String::from),
        ..diagnosis.layers[0].clone()
    };
    let forms = [form("runc", Some("no such kernel")), form("runc:net=veth", None)];
    diagnosis.layers.splice(0..1, forms);
    let text = text(&diagnosis, true, Format::Table, PLAIN).unwrap();
    for expected in [
        "  ✓ runc    runc 1.1.5; 1 of 2 forms\n            not `runc`: no such kernel\n",
        "  ✗ docker  no `dockerd` answers",
        "1 of 2 layers are usable",
    ] {
        assert!(text.contains(expected), "{expected} is missing in\n{text}");
    }
}

#[test]
fn no_line_of_the_answer_is_wider_than_the_terminal_but_a_remedy() {
    let mut diagnosis = diagnosis();
    diagnosis.layers[1].why = Some("a long story ".repeat(20));
    let text = text(&diagnosis, false, Format::Table, Look { width: 60, ..PLAIN }).unwrap();
    assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
}

#[test]
fn json_has_the_same_and_stable_names() {
    let text = text(&diagnosis(), false, Format::Json, PLAIN).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["layers"][0]["usable"], true);
    assert_eq!(json["layers"][0]["facts"][0]["value"], "1.1.5");
    assert_eq!(json["layers"][1]["remedy"], "apt-get install docker.io");
    assert_eq!(json["layers"][1]["ran_on_hardware"], true);
    assert_eq!(json["host"][0]["state"], "disturbs");
}

#[test]
fn options_are_listed_once_per_layer() {
    let text = options::text(&[DESCRIPTORS[4], DESCRIPTORS[4]], Format::Csv, PLAIN);
    assert_eq!(text.matches("qemu,accel,kvm tcg").count(), 1, "{text}");
    assert!(text.contains("qemu,memory,") && !text.contains("pids"), "{text}");
    let text = options::text(&[DESCRIPTORS[4], DESCRIPTORS[4]], Format::Table, PLAIN);
    assert!(text.contains("  accel=kvm|tcg "), "{text}");
}

#[test]
fn where_layers_are_named_nothing_is_said_of_what_disturbs() {
    let diagnosis = Diagnosis { host: None, ..diagnosis() };
    for format in [Format::Table, Format::Json, Format::Csv, Format::Markdown] {
        let said = text(&diagnosis, false, format, PLAIN).unwrap();
        assert!(said.contains("docker") && !said.contains("disturbs"), "{said}");
        assert!(!said.contains("host") && !said.contains("Host"), "{said}");
    }
}

#[test]
fn a_layer_is_named_as_it_is_typed_and_a_test_double_only_by_its_name() {
    let kinds = |named: &[&str]| -> Vec<&str> {
        let named: Vec<String> = named.iter().map(|it| String::from(*it)).collect();
        questions::asked(&named).unwrap().iter().map(|it| it.kind).collect()
    };
    assert_eq!(kinds(&["runsc"]), kinds(&["gvisor"]));
    assert_eq!(kinds(&["qemu:accel=kvm", "runc"]), kinds(&["runc", "qemu"]));
    assert_eq!(kinds(&["ssh"]).len(), 1, "it needs no host to be asked about");
    let all = kinds(&[]);
    assert!(all.len() > 10 && !all.contains(&"simulated"), "{all:?}");
    assert_eq!(kinds(&["simulated"]), ["simulated"]);
    let fault = questions::asked(&[String::from("gvisr")]).unwrap_err();
    assert!(fault.hint.as_deref().is_some_and(|hint| hint.contains("gvisor")), "{fault:?}");
}
