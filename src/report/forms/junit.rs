//! JUnit XML: a test for each threshold and stack; without thresholds one for each stack, which
//! holds where something was found out about it, and is skipped where nothing is decided.
//!
//! Source: the schema of Apache Ant's `junit` task as Jenkins and GitLab read it
//! (<https://github.com/testmoapp/junitxml>).

use crate::finding::answer::{Answer, Said};
use crate::finding::findings::Gap;
use crate::finding::threshold::{Standing, ThresholdFindings};
use crate::finding::{ArmFindings, Findings, Verdict, foreign};
use std::collections::BTreeSet;

/// Outcome of a test that does not hold.
struct Miss {
    element: &'static str,
    kind: &'static str,
    message: String,
}

/// Findings as one document.
pub(super) fn xml(findings: &Findings) -> String {
    let answer = Answer::of(findings);
    let mut failed_baseline = BTreeSet::new();
    let of_stacks = findings.arms.iter().filter_map(|arm| {
        let miss = miss_of_a_stack(arm, &answer);
        // A baseline is a test of its own where it failed: then nothing is answered.
        let is_one = match arm.is_compared() {
            true => findings.thresholds.is_empty(),
            false => miss.as_ref().is_some_and(|miss| miss.element == "error"),
        };
        // Its two arms are one stack, which is named once.
        let name = if arm.is_compared() { &arm.name } else { &arm.stack };
        let is_told = is_one && (arm.is_compared() || failed_baseline.insert(name));
        is_told.then(|| (name.clone(), miss))
    });
    let tests: Vec<(String, Option<Miss>)> =
        of_stacks.chain(findings.thresholds.iter().map(of_a_threshold)).collect();
    let count = |element: &str| {
        let misses = tests.iter().filter_map(|(_, miss)| miss.as_ref());
        misses.filter(|miss| miss.element == element).count()
    };
    let seconds = std::time::Duration::from_nanos(findings.run.wall_ns).as_secs_f64();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{seconds:.3}\"",
        tests.len(),
        count("failure"),
        count("error"),
        count("skipped")
    );
    let title = attribute(&findings.run.title);
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    text += &format!("<testsuites name=\"surtax\" {counts}>\n");
    text += &format!(
        "  <testsuite name=\"{title}\" {counts} timestamp=\"{}\">\n",
        attribute(findings.run.began_at.trim_end_matches('Z'))
    );
    text += "    <properties>\n";
    for (name, value) in [
        ("surtax", &findings.surtax_version),
        ("run", &findings.run.id),
        ("repeat", &findings.run.repeat_with),
    ] {
        text += &format!("      <property name=\"{name}\" value=\"{}\"/>\n", attribute(value));
    }
    text += "    </properties>\n";
    for (name, miss) in &tests {
        let opened = format!("    <testcase classname=\"surtax\" name=\"{}\"", attribute(name));
        let Some(Miss { element, kind, message }) = miss else {
            text += &format!("{opened}/>\n");
            continue;
        };
        // What is skipped has no type there.
        let kind = match *element {
            "skipped" => String::new(),
            _ => format!(" type=\"{kind}\""),
        };
        let message = attribute(message);
        text += &format!(
            "{opened}>\n      <{element}{kind} message=\"{message}\"/>\n    </testcase>\n"
        );
    }
    text + "  </testsuite>\n</testsuites>\n"
}

fn of_a_threshold(held: &ThresholdFindings) -> (String, Option<Miss>) {
    let miss = |element, kind| Some(Miss { element, kind, message: held.to_string() });
    let found = match held.standing {
        _ if held.passes => None,
        Standing::Kept => None,
        Standing::Crossed => miss("failure", "crossed"),
        Standing::Undecided => miss("failure", "undecided"),
        Standing::Unknown => miss("error", "unknown"),
    };
    // One threshold may be of several stacks, also where it names a layer.
    let own = format!("{}: ", held.name);
    let limit = held.threshold.strip_prefix(&own).unwrap_or(&held.threshold);
    (own + limit, found)
}

fn miss_of_a_stack(arm: &ArmFindings, answer: &Answer<'_>) -> Option<Miss> {
    let Verdict::Invalid { gap, reason } = &arm.verdict else {
        let row = answer.rows.iter().find(|row| std::ptr::eq(row.arm, arm))?;
        let message = format!("not decided: {}", row.because);
        let undecided = Miss { element: "skipped", kind: "undecided", message };
        return (row.said == Said::Open).then_some(undecided);
    };
    let (element, kind) = match gap {
        Gap::NotAvailable | Gap::NotRun => ("skipped", "unavailable"),
        Gap::CommandFailed | Gap::Broken | Gap::Rejected => ("error", "no-number"),
    };
    Some(Miss { element, kind, message: reason.clone() })
}

/// Text within the quotes of an attribute.
fn attribute(text: &str) -> String {
    // No document may have these, and they are nobody's text.
    let text = foreign::line(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
    // The ampersand first: the others become references that have one.
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::compare::tests::example;
    use crate::finding::threshold::held;
    use crate::trial::TrialResult;

    /// Name, element and type of each test of a document.
    fn tests(findings: &Findings) -> Vec<(String, Option<(String, String)>)> {
        let text = xml(findings);
        let document = roxmltree::Document::parse(&text).unwrap();
        let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
        let of = |node: roxmltree::Node<'_, '_>| {
            let miss = node.children().find(roxmltree::Node::is_element);
            let kind =
                |node: roxmltree::Node<'_, '_>| node.attribute("type").unwrap_or("").to_owned();
            let miss = miss.map(|node| (node.tag_name().name().to_owned(), kind(node)));
            (node.attribute("name").unwrap().to_owned(), miss)
        };
        cases.map(of).collect()
    }

    #[test]
    fn a_test_fails_where_its_threshold_is_crossed_or_not_decided_and_not_where_that_passes() {
        let mut findings = example(6, |_| {});
        let limits = ["wall > +900%", "wall > -90%"].map(|text| text.parse().unwrap());
        findings.thresholds = held(&limits, &findings.arms);
        let found = tests(&findings);
        assert_eq!(found[0], (String::from("runc: wall > +900%"), None));
        assert_eq!(found.len(), 4);
        for (standing, miss) in [
            (Standing::Crossed, Some(("failure", "crossed"))),
            (Standing::Undecided, Some(("failure", "undecided"))),
            (Standing::Unknown, Some(("error", "unknown"))),
            (Standing::Kept, None),
        ] {
            findings.thresholds[0].standing = standing;
            findings.thresholds[0].passes = standing == Standing::Kept;
            let miss = miss.map(|(element, kind)| (element.to_owned(), kind.to_owned()));
            assert_eq!(tests(&findings)[0].1, miss, "{standing:?}");
        }
        findings.thresholds[0].standing = Standing::Undecided;
        findings.thresholds[0].passes = true;
        assert_eq!(tests(&findings)[0].1, None);
    }

    #[test]
    fn without_thresholds_a_stack_is_a_test_that_has_a_number_or_says_why_not() {
        let gap = Some((String::from("skipped"), String::new()));
        let expected = [(String::from("runc"), None), (String::from("qemu"), gap)];
        assert_eq!(tests(&example(6, |_| {})), expected);
        // Of two blocks there is no interval, and a green test would be one that passed.
        let text = xml(&example(2, |_| {}));
        assert!(text.contains("<skipped message=\"not decided: an interval takes"), "{text}");
        let lost = |result: TrialResult| {
            let findings = example(6, move |record| {
                if record.trial.arm == 2 {
                    record.result = result.clone();
                }
            });
            tests(&findings).remove(0).1.map(|(element, _)| element)
        };
        let why = || String::from("a \"reason\" & <more>");
        let gone = TrialResult::Unavailable(why().into());
        assert_eq!(lost(gone).as_deref(), Some("skipped"));
        assert_eq!(lost(TrialResult::Broken(why().into())).as_deref(), Some("error"));
        // A baseline that failed is one, whatever is asked of the others.
        let mut findings = example(6, |_| {});
        let limits = ["wall > +900%".parse().unwrap()];
        findings.thresholds = held(&limits, &findings.arms);
        let (gap, reason) = (Gap::CommandFailed, why());
        findings.arms[0].verdict = Verdict::Invalid { gap, reason };
        let miss = tests(&findings).remove(0);
        assert_eq!((miss.0.as_str(), miss.1.unwrap().0.as_str()), ("native", "error"));
        // Both of its arms are one stack, whichever failed.
        findings.arms[1].verdict = findings.arms[0].verdict.clone();
        let named = |findings: &Findings| {
            let names = tests(findings).into_iter().map(|(name, _)| name);
            names.filter(|name| name.starts_with("native")).collect::<Vec<_>>()
        };
        assert_eq!(named(&findings), ["native"]);
        findings.arms[0].verdict = Verdict::Baseline;
        assert_eq!(named(&findings), ["native"]);
    }

    #[test]
    fn a_threshold_of_a_stack_names_it_once() {
        let mut findings = example(6, |_| {});
        let limits = ["runc: wall > +900%".parse().unwrap()];
        findings.thresholds = held(&limits, &findings.arms);
        assert_eq!(tests(&findings), [(String::from("runc: wall > +900%"), None)]);
    }
}
