//! Workloads that are too long, too deep or too many, and those that come with surtax.

use super::*;
use crate::workload::file::{outline, parse};
use crate::workload::shelf::READY;
use crate::workload::{Definition, Workload};

/// A workload of a fixed time with one metric, and with this at its end.
fn with(end: &str) -> String {
    format!(
        "about = \"x\"\ncommand = [\"x\"]\nfixed_time = true\n[[metric]]\nname = \"rate\"\nunit = \
         \"1/s\"\nbetter = \"higher\"\njsonpath = '$.rate'\n{end}"
    )
}

fn with_check(place: &str) -> String {
    with(&format!("[[check]]\nabout = \"done\"\n{place}\n"))
}

/// Says why a text is refused.
#[track_caller]
fn refusal(text: &str) -> String {
    parse(text, "mine.toml").unwrap_err().message
}

/// Checks that findings learn from a text what they need, whatever else it holds.
#[track_caller]
fn assert_outlined(text: &str) {
    let read = outline(text, "mine.toml").unwrap();
    assert!(read.is_of_fixed_time);
    assert_eq!(read.main_metric().as_deref(), Some("rate"));
}

/// A path of filters, each within another.
fn nested(depth: usize) -> String {
    format!("${}.a{}", "[?@".repeat(depth), "]".repeat(depth))
}

#[test]
fn a_path_of_forty_filters_in_each_other_is_refused_before_it_is_read() {
    let text = with_check(&format!("jsonpath = '{}'", nested(40)));
    assert_eq!(
        refusal(&text),
        "mine.toml:11: `$[?@[?@[?@[?@[?@[?@[?@[?@[?@[?@[?@[?@[?@…` cannot be read as a JSONPath: \
         40 of its brackets and parentheses stand one within another, and 8 at most are read"
    );
    assert_outlined(&text);
    // The reason of a metric is found by a path, too.
    let why = with(&format!("optional = true\nwhy = '{}'\n", nested(40)));
    assert!(refusal(&why).contains("cannot be read as a JSONPath: 40 of its"), "{}", refusal(&why));
    assert!(outline(&why, "mine.toml").unwrap().is_of_fixed_time);
}

#[test]
fn three_thousand_parentheses_are_refused_before_they_are_read() {
    let within = |count: usize| {
        let (open, shut) = ("(".repeat(count), ")".repeat(count));
        with_check(&format!("jsonpath = '$[?{open}@.a{shut}]'"))
    };
    let long = within(3_000);
    let why = refusal(&long);
    assert!(why.ends_with("it is 6007 bytes long, and 512 at most are read"), "{why}");
    assert_outlined(&long);
    let why = refusal(&within(200));
    assert!(why.contains(": 201 of its brackets and parentheses stand"), "{why}");
    assert!(parse(&within(3), "mine.toml").is_ok());
}

#[test]
fn what_is_in_quotes_is_no_bracket_and_shuts_none() {
    for (path, expected) in [
        ("$", (0, 0)),
        ("$.jobs[0].read", (1, 0)),
        ("$['((((((((((']['[[[[[[[[[[?']", (1, 0)),
        (r#"$["a\"[[[[[[[[[["]"#, (1, 0)),
        (r"$['a\\'][?(@.b)]", (2, 1)),
        ("$[?@[']])'][?@[\")]\"]]]", (3, 2)),
        ("$.a[?@.b == 1 && length(@.c[?(@.d)]) > 2].e", (4, 2)),
    ] {
        assert_eq!(nesting_and_filters(path), expected, "{path}");
    }
    let quoted = format!("${}", "[?@[']']".repeat(9));
    assert_eq!(nesting_and_filters(&quoted), (10, 9));
}

#[test]
fn a_path_has_a_few_filters() {
    let text = |count: usize| with_check(&format!("jsonpath = '${}'", "[?@.a]".repeat(count)));
    assert!(parse(&text(4), "mine.toml").is_ok());
    let why = refusal(&text(5));
    assert!(why.ends_with("it has 5 filters, and 4 at most are read"), "{why}");
}

#[test]
fn a_hundred_and_twenty_large_regexes_are_not_compiled() {
    let large = r"regex = '(\pL{99})'";
    let all = with(&format!("[[check]]\nabout = \"done\"\n{large}\n").repeat(120));
    assert_eq!(refusal(&all), "mine.toml:1: it has 120 regexes, and 64 at most are read");
    assert_outlined(&all);
    assert_eq!(
        refusal(&with_check(large)),
        "mine.toml:11: `(\\pL{99})` takes more than 512 KiB once it is compiled, and no more is \
         read"
    );
    let pattern = r"a = { about = 'x', default = 'b', pattern = '\pL{99}' }";
    let why = refusal(&with(&format!("[parameters]\n{pattern}\n")));
    assert!(why.contains("takes more than 512 KiB"), "{why}");
    let long = with_check(&format!("regex = '({})'", "a".repeat(PATTERN_LENGTH)));
    let why = refusal(&long);
    assert!(why.ends_with("is 1026 bytes long, and a regex has 1024 at most"), "{why}");
}

#[test]
fn patterns_of_parameters_are_counted_with_the_other_regexes() {
    let patterns = |count: usize| {
        let one =
            |number| format!("a{number} = {{ about = 'x', default = 'b', pattern = '[a-z]' }}\n");
        with(&format!("[parameters]\n{}", (0..count).map(one).collect::<String>()))
    };
    assert!(parse(&patterns(64), "mine.toml").is_ok());
    let why = refusal(&patterns(65));
    assert!(why.ends_with("it has 65 regexes, and 64 at most are read"), "{why}");
}

#[test]
fn a_text_that_no_file_could_have_is_refused_wherever_it_comes_from() {
    let long = with(&format!("# {}\n", "x".repeat(150_000)));
    let length = long.len();
    let expected = format!("mine.toml: it is {length} bytes long, and 65536 at most are read");
    assert_eq!(refusal(&long), expected);
    assert_eq!(outline(&long, "mine.toml").unwrap_err().message, expected);
    let workload = Workload { name: "x".into(), parameters: Vec::new(), text: long };
    assert!(workload.resolve().is_err() && workload.outline().is_err());
}

#[test]
fn more_rules_and_parameters_than_anybody_needs_are_refused() {
    let rules = with(&"[[check]]\nabout = \"done\"\njsonpath = '$.a'\n".repeat(256));
    let expected = "mine.toml:1: it has 257 checks, metrics, histograms and settings, and 256 at \
                    most are read";
    assert_eq!(refusal(&rules), expected);
    assert_eq!(outline(&rules, "mine.toml").unwrap_err().message, expected);
    let one = |number| format!("a{number} = {{ about = 'x', default = 1 }}\n");
    let parameters: String = (0..257).map(one).collect();
    let why = refusal(&with(&format!("[parameters]\n{parameters}")));
    assert!(why.ends_with("it has 257 parameters, and 256 at most are read"), "{why}");
}

#[test]
fn parameters_that_a_ledger_gives_are_few_and_short() {
    let given = |parameters: Vec<(String, String)>| {
        let text = with("[parameters]\na = { about = 'x', default = 'b', pattern = '.*' }\n");
        Workload { name: "x".into(), parameters, text }
    };
    let a = |value: String| (String::from("a"), value);
    assert!(given(vec![a("c".repeat(VALUE_LENGTH))]).resolve().is_ok());
    let many = given(vec![a("c".into()); 100_000]);
    let why = many.resolve().unwrap_err().message;
    assert_eq!(why, "`x` is given 100000 parameters, and 256 at most are read");
    assert!(many.outline().is_ok());
    let why = given(vec![a("c".repeat(5_000))]).resolve().unwrap_err().message;
    assert_eq!(why, "the value of `a` is 5000 bytes long, and 4096 at most are read");
}

#[test]
fn those_that_come_with_surtax_keep_far_from_every_bound_and_are_outlined() {
    for (name, text) in READY {
        assert!(text.len() < TEXT_MAX / 4, "{name}");
        let whole = Definition::parse(text, name).unwrap_or_else(|why| panic!("{name}: {why}"));
        let outline = outline(text, name).unwrap();
        assert_eq!(outline.metric_names(), whole.metric_names(), "{name}");
        assert_eq!(outline.main_metric(), whole.main_metric(), "{name}");
        assert_eq!(outline.is_of_fixed_time, whole.is_of_fixed_time, "{name}");
        let rules = whole.checks.len() + whole.metrics.len() + whole.histograms.len();
        assert!(rules + whole.settings.len() < RULES_MAX / 4, "{name}");
    }
}

#[test]
fn an_outline_reads_no_output() {
    let why = outline(&with(""), "mine.toml").unwrap().read("{\"rate\": 1}").unwrap_err();
    assert!(why.starts_with("no metric `rate`: "), "{why}");
}
