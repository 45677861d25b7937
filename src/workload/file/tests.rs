//! Workload files that are right, wrong, and described by the schema.

use super::*;
use crate::workload::Workload;
use crate::workload::keys::{CHECK_KEYS, HISTOGRAM_KEYS, METRIC_KEYS, SETTING_KEYS, VERSION_KEYS};
use crate::workload::metric::Better;
use crate::workload::unit::UNITS;
use serde_json::Value as Json;
use std::collections::BTreeSet;

const SMALL: &str = r#"
about = "numbers"
command = ["seq", "{from}", "--x={{y}}", "${HOME}"]
[parameters]
from = { about = "the first", default = 3, min = 1, max = 9 }
kind = { about = "which", default = "a", words = ["a", "b"] }
[[metric]]
name = "rate"
unit = "MB/s"
better = "higher"
regex = 'rate (\d+)'
max = 100
"#;

fn refused(text: &str, expected: &str) {
    let fault = parse(text, "mine.toml").expect_err(text);
    assert_eq!(fault.to_string(), expected, "{text}");
}

/// The small file with one text in it replaced.
fn with(old: &str, new: &str) -> String {
    assert!(SMALL.contains(old), "{old}");
    SMALL.replace(old, new)
}

#[test]
fn a_file_with_a_server_has_a_client_that_can_be_placed_and_an_address_that_is_not_known_yet() {
    let command = r#"command = ["seq", "{from}", "--x={{y}}", "${HOME}"]"#;
    let two = r#"command = ["seq", "{address}"]
server = ["listen", "{address}:{from}"]"#;
    let text = with(command, two);
    let of = |given: &[(&str, &str)]| {
        let given = given.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        Workload::of("mine", text.clone(), given).map(|workload| workload.resolve().unwrap())
    };
    let plain = of(&[]).unwrap();
    assert_eq!(plain.client, Client::Native);
    let turned = of(&[("from", "7"), ("client", "stack")]).unwrap();
    assert_eq!(turned.client, Client::Stack);
    assert_eq!(turned.command, ["seq", "{address}"]);
    assert_eq!(turned.server.unwrap(), ["listen", "{address}:7"]);
    let fault = of(&[("client", "moon")]).unwrap_err();
    assert_eq!(
        fault.hint.unwrap(),
        "`client` is `native`, `stack`, or another stack such as `runc:net=veth`, `qemu:net=tap` \
         or `ssh:HOST`"
    );
    // With one side neither means anything.
    let one = Workload::of("mine", SMALL.into(), vec![("client".into(), "stack".into())]);
    assert!(one.unwrap_err().message.contains("has no parameter `client`"));
    let fault = parse(&with("{from}", "{address}"), "mine.toml").unwrap_err();
    assert!(fault.message.contains("`{address}` in `command` is no parameter"), "{fault}");
}

#[test]
fn a_file_becomes_a_command_with_its_parameters_and_a_reading_in_the_ledgers_units() {
    let given = vec![(String::from("from"), String::from("5"))];
    let workload = Workload::of("mine", SMALL.into(), given).unwrap();
    assert_eq!(workload.typed(), "mine:from=5");
    let definition = workload.resolve().unwrap();
    assert_eq!(definition.command, ["seq", "5", "--x={y}", "${HOME}"]);
    let read = definition.read("a\nrate 12\n").unwrap();
    assert_eq!((read.metrics[0].name.as_str(), read.metrics[0].unit), ("rate", "bytes/s"));
    assert!((read.metrics[0].value - 12e6).abs() < 1e-6);
    assert_eq!(
        definition.read("rate").unwrap_err(),
        r"no metric `rate`: `rate (\d+)` matches nothing on standard output, which ends with `rate`"
    );
    assert_eq!(
        definition.read("rate 101").unwrap_err(),
        "`rate` is said to be 101 MB/s, and at most 100 is plausible"
    );
    let signed = SMALL.replace(r"rate (\d+)", r"rate (-?\d+)");
    assert_eq!(
        parse(&signed, "mine.toml").unwrap().read("rate -5").unwrap_err(),
        "`rate` is said to be -5 MB/s, and what is compared by its ratio is at least zero"
    );
}

#[test]
fn a_parameter_that_cannot_be_is_refused_with_what_it_may_be() {
    let of = |key: &str, value: &str| {
        let given = vec![(String::from(key), String::from(value))];
        Workload::of("mine", SMALL.into(), given).unwrap_err().to_string()
    };
    assert_eq!(
        of("form", "1"),
        "`mine` has no parameter `form`\n  hint: use `from`; the parameters are `from`, `kind`"
    );
    assert_eq!(
        of("from", "10"),
        "`from=10` cannot be a parameter of `mine`\n  hint: `from` is a whole number from 1 to 9"
    );
    assert_eq!(
        of("kind", "c"),
        "`kind=c` cannot be a parameter of `mine`\n  hint: `kind` is one of `a`, `b`"
    );
}

#[test]
fn a_setting_is_a_text_a_number_or_a_truth_that_must_be_there() {
    let text = "about = \"x\"\ncommand = [\"x\"]\n[[check]]\nabout = \"done\"\njsonpath = \"$.n\"\n\
                [[setting]]\nname = \"place\"\njsonpath = \"$.place\"\n";
    let two = format!("{text}[[setting]]\nname = \"gso\"\njsonpath = \"$.gso\"\n");
    let definition = parse(&two, "mine.toml").unwrap();
    let read = definition.read("{\"n\": 1, \"place\": \"CPU 1\", \"gso\": false}").unwrap();
    let pair = |name: &str, value: &str| (String::from(name), String::from(value));
    assert_eq!(read.settings, [pair("place", "CPU 1"), pair("gso", "false")]);
    let why = definition.read("{\"n\": 1, \"place\": \"CPU 1\"}").unwrap_err();
    assert_eq!(why, "no setting `gso`: `$.gso` finds nothing");
    let twice = two.replace("name = \"gso\"", "name = \"place\"");
    refused(&twice, "mine.toml:1: two of its settings are called `place`");
    let odd = two.replace("name = \"gso\"", "name = \"GSO\"");
    refused(
        &odd,
        "mine.toml:9: `GSO` cannot be the name of a setting\n  hint: use small letters, digits and \
         `_`, beginning with a letter, as in `placement`",
    );
}

#[test]
fn a_file_that_says_that_its_command_listens_says_where_and_has_no_other_server() {
    let listens = with("\nabout", "\nlistens = true\nabout");
    refused(
        &listens,
        "mine.toml:1: it listens, and has no parameter that says at which port\n  hint: add `port \
         = { about = \"…\", default = …, min = 1, max = 65535 }` to `[parameters]`",
    );
    refused(
        &listens.replace("\nabout", "\nserver = [\"x\"]\nabout"),
        "mine.toml:1: `listens` is said of a workload whose own command does, and this one has a \
         `server`\n  hint: leave `listens` out: a server is known to",
    );
}

#[test]
fn a_slip_in_a_file_is_told_with_its_line_and_the_nearest_key() {
    refused(
        &with("about =", "abuot ="),
        "mine.toml:2: a workload has no key `abuot`\n  hint: use `about`; the keys are `about`, \
         `command`, `beside`, `server`, `stop_server`, `udp`, `listens`, `setup`, `cleanup`, \
         `packages`, `scratch`, `alone`, `fixed_time`, `parameters`, `version`, `check`, `metric`, \
         `histogram`, `setting`",
    );
    refused(
        &with("\nabout", "\nudp = true\nabout"),
        "mine.toml:1: `udp` says how its server is called, and it has none\n  hint: add `server = \
         [\"…\"]`",
    );
    refused(
        &with("MB/s", "Mb/s"),
        &format!(
            "mine.toml:7: `Mb/s` is no unit\n  hint: use one of the units: {}",
            UNITS.iter().map(|it| format!("`{}`", it.printed)).collect::<Vec<_>>().join(", ")
        ),
    );
    refused(
        &with("{from}", "{form}"),
        "mine.toml:3: `{form}` in `command` is no parameter of this file\n  hint: use `from`; the \
         parameters are `from`, `kind`, `instance`; braces that mean themselves are written \
         `{{form}}`",
    );
    refused(
        &with("(\\d+)", "\\d+"),
        "mine.toml:11: `rate \\d+` has not exactly one group\n  hint: put the number into \
         parentheses `( )`; where only a text shows it, let the command print a number: `cmp a b \
         && echo same 1`",
    );
}

#[test]
fn a_value_that_cannot_be_is_told_with_its_line_and_what_may_be() {
    refused(
        &with("better = \"higher\"", "better = \"more\""),
        "mine.toml:7: `more` is no direction in which a metric is better\n  hint: use one of the \
         directions: `lower`, `higher`",
    );
    refused(
        &with("name = \"rate\"", "name = \"wall\""),
        "mine.toml:7: `wall` cannot be a metric: surtax measures something of that name itself",
    );
    refused(
        &with("max = 100", "max = \"100\""),
        "mine.toml:12: `max` is a decimal number, and not of type string",
    );
    refused(
        &with("regex =", "jsonpath = '$.a'\nregex ="),
        "mine.toml:7: it takes either `jsonpath` or `regex`",
    );
    refused(
        &with("default = 3", "default = 30"),
        "mine.toml:5: the default `30` of `from` is not a whole number from 1 to 9",
    );
    refused(
        "about = \"x\"\ncommand = \"make\"",
        "mine.toml:2: `command` is a list of strings, and not of type string\n  hint: write one \
         word per string: `command = [\"…\", \"…\"]`",
    );
    refused(
        "command = [\"make\"]",
        "mine.toml:1: a workload has no `about`\n  hint: add `about = …`",
    );
    let fault = parse("about = \"x\"\ncommand = [\"make\"]", "mine.toml").unwrap_err();
    assert!(fault.message.ends_with("it measures nothing and checks nothing"), "{fault}");
    let fault = parse("about = \"x\"\ncommand = [", "mine.toml").unwrap_err();
    assert!(fault.message.starts_with("mine.toml:2: "), "{fault}");
}

#[test]
fn what_strangers_write_first_is_answered_with_what_to_write() {
    refused(
        &with("(\\d+)", "(a|b)(\\d+)"),
        "mine.toml:11: `rate (a|b)(\\d+)` has not exactly one group\n  hint: keep the parentheses \
         around the number, and write other groups as `(?:…)`",
    );
    refused(&with("MB/s", "req/s"), "mine.toml:7: `req/s` is no unit\n  hint: use `1/s`");
    let fault = parse(&with("'rate (\\d+)'", "\"rate (\\d+)\""), "mine.toml").unwrap_err();
    assert!(fault.message.starts_with("mine.toml:11: "), "{fault}");
    assert_eq!(fault.hint.unwrap(), "write regexes in single quotes: `regex = '(\\d+)'`");
    let fault = parse(&with("default = 3", "default = 0.5"), "mine.toml").unwrap_err();
    assert!(fault.hint.unwrap().starts_with("write another number as text"), "{}", fault.message);
    let fault = parse(&with("\"{from}\"", "'{ if (x) { print }}'"), "mine.toml").unwrap_err();
    assert!(fault.message.starts_with("mine.toml:3: two braces together are one"), "{fault}");
}

#[test]
fn numbers_of_a_clock_that_ran_wrong_are_gaps_with_that_reason() {
    let read = parse(SMALL, "mine.toml").unwrap().read("rate 12\n").unwrap();
    let lost = read.without_numbers("the clock ran wrong");
    assert!(lost.metrics.is_empty() && lost.histograms.is_empty());
    let absence = &lost.absences[0];
    assert_eq!((absence.metric.as_str(), absence.why.as_str()), ("rate", "the clock ran wrong"));
}

#[test]
fn a_number_that_is_none_in_the_unit_that_is_kept_is_refused() {
    let text = "about = \"x\"\ncommand = [\"x\"]\n[[metric]]\nname = \"lat\"\n";
    let text = format!("{text}unit = \"s\"\nbetter = \"lower\"\njsonpath = \"$.lat\"\n");
    let definition = parse(&text, "x.toml").unwrap();
    assert!(definition.read("{\"lat\": 1e290}").is_ok());
    for number in ["1e308", "-1e308", "1e292"] {
        let why = definition.read(&format!("{{\"lat\": {number}}}")).unwrap_err();
        assert!(
            why.starts_with("`lat` is said to be") && why.ends_with("s, and nothing is"),
            "{why}"
        );
    }
}

#[test]
fn a_file_that_measures_more_than_is_read_again_is_refused() {
    let mut text = String::from("about = \"x\"\ncommand = [\"x\"]\n");
    let add = |text: &mut String, name: &str| {
        text.push_str(&format!(
            "[[histogram]]\nname = \"{name}\"\nunit = \"us\"\njsonpath = \"$\"\n"
        ));
    };
    let of_one = {
        add(&mut text, "h");
        parse(&text, "x.toml").unwrap().metric_names().len()
    };
    let most = super::METRICS_MAX / of_one;
    (1..most).for_each(|number| add(&mut text, &format!("h{number}")));
    assert!(parse(&text, "x.toml").is_ok());
    add(&mut text, "more");
    let fault = parse(&text, "x.toml").unwrap_err();
    assert!(fault.message.ends_with("things, and 1000 at most are read"), "{fault}");
}

#[test]
fn a_histogram_becomes_quantiles_and_must_hold_something() {
    let text = "about = \"x\"\ncommand = [\"x\"]\n[[histogram]]\nname = \"latency\"\nunit = \
                \"us\"\njsonpath = \"$.bins\"\nmax = 50\n";
    let definition = parse(text, "x.toml").unwrap();
    let list = definition.read("{\"bins\": [[10, 30], [40, 10], [50, 0]]}").unwrap();
    let object = definition.read("{\"bins\": {\"10\": 30, \"40\": 10, \"900\": 0}}").unwrap();
    assert_eq!(list, object);
    assert_eq!(list.metrics.len(), 1);
    assert_eq!((list.metrics[0].name.as_str(), list.metrics[0].unit), ("latency_p50", "ns"));
    assert!((list.metrics[0].value - 10_000.0).abs() < 11.0, "{list:?}");
    assert_eq!(list.histograms[0].histogram.count(), 40);
    for (printed, why) in [
        ("{\"bins\": []}", "no histogram `latency`: `latency` holds no time at all"),
        (
            "{\"bins\": [[51, 1]]}",
            "no histogram `latency`: `latency` holds 51, and at most 50 is plausible",
        ),
        (
            "{\"bins\": [[1, -1]]}",
            "no histogram `latency`: `$.bins` finds no list of times with counts",
        ),
        (
            "{\"bins\": [[-10, 1]]}",
            "no histogram `latency`: `latency` holds -10 us, and no time is below a nanosecond",
        ),
        (
            "{\"bins\": [[10, 281474976710657]]}",
            "no histogram `latency`: `latency`: a time of 10000 ns was counted more often than \
             anyone can have",
        ),
        (
            "{\"bins\": [[0, 1]]}",
            "no histogram `latency`: `latency` holds 0 us, and no time is below a nanosecond",
        ),
    ] {
        let found = definition.read(printed).unwrap_err();
        assert_eq!(found.replace("['bins']", ".bins"), why, "{printed}");
    }
    assert_eq!(definition.metric_names().len(), 10);
}

#[test]
fn a_number_that_may_be_absent_is_left_out_where_the_tool_says_null_and_missed_where_it_says_nothing()
 {
    let text = "about = \"x\"\ncommand = [\"x\"]\n[[metric]]\nname = \"price\"\nunit = \"ns\"\n\
                better = \"lower\"\njsonpath = \"$.price\"\n";
    let strict = parse(text, "x.toml").unwrap();
    refused(
        &format!("{text}why = \"$.why\"\n"),
        "mine.toml:3: it says where the reason is, and not that there may be one\n  hint: add \
         `optional = true`, or leave `why` out",
    );
    let lenient = parse(&format!("{text}optional = true\n"), "x.toml").unwrap();
    assert!(strict.read("{\"price\": null}").is_err());
    assert_eq!(lenient.read("{\"price\": null}").unwrap().metrics, []);
    assert_eq!(lenient.read("{\"price\": 5}").unwrap().metrics.len(), 1);
    assert!(lenient.read("{}").is_err());
}

#[test]
fn the_example_of_the_manual_reads_what_gzip_prints() {
    let manual = include_str!("../../../workloads/README.md");
    let (_, from) = manual.split_once("```toml\n").unwrap();
    let (text, _) = from.split_once("```").unwrap();
    let workload = Workload::of("./gzip.toml", text.into(), Vec::new()).unwrap();
    let definition = workload.resolve().unwrap();
    let printed = "         compressed        uncompressed  ratio uncompressed_name\n             \
                   610024             1265648  51.8% /tmp/bash\n";
    let read = definition.read(printed).unwrap();
    assert!((read.metrics[0].value - 0.518).abs() < 1e-9, "{read:?}");
    let version = definition.version.unwrap().read("gzip 1.12\nCopyright (C) 2018\n").unwrap();
    assert_eq!(version, "1.12");
}

fn keys(schema: &Json, pointer: &str) -> BTreeSet<String> {
    let object = schema.pointer(pointer).and_then(Json::as_object);
    object.unwrap_or_else(|| panic!("{pointer}")).keys().cloned().collect()
}

fn set<'a>(words: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    words.into_iter().map(String::from).collect()
}

#[test]
fn the_schema_for_editors_knows_the_same_keys_and_words() {
    let schema = include_str!("../../../workloads/workload.schema.json");
    let schema: Json = serde_json::from_str(schema).unwrap();
    for (pointer, known) in [
        ("/properties", &KEYS[..]),
        ("/properties/parameters/additionalProperties/properties", &PARAMETER_KEYS),
        ("/properties/version/properties", &VERSION_KEYS),
        ("/properties/check/items/properties", &CHECK_KEYS),
        ("/properties/metric/items/properties", &METRIC_KEYS),
        ("/properties/histogram/items/properties", &HISTOGRAM_KEYS),
        ("/properties/setting/items/properties", &SETTING_KEYS),
    ] {
        assert_eq!(keys(&schema, pointer), set(known.iter().copied()), "{pointer}");
    }
    let words = |pointer: &str| -> BTreeSet<String> {
        let list = schema.pointer(pointer).unwrap().as_array().unwrap();
        list.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let of_metric = "/properties/metric/items/properties";
    assert_eq!(words(&format!("{of_metric}/unit/enum")), set(UNITS.iter().map(|it| it.printed)));
    assert_eq!(words(&format!("{of_metric}/better/enum")), set(Better::ALL.map(Better::word)));
    let times = UNITS.iter().filter(|unit| unit.kept == "ns").map(|unit| unit.printed);
    assert_eq!(words("/properties/histogram/items/properties/unit/enum"), set(times));
}
