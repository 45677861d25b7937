//! Annotations of GitHub Actions: a line on standard output that the runner shows beside the run.
//!
//! Source: GitHub Docs, "Workflow commands for GitHub Actions", "Setting a notice message" and
//! `@actions/core`, `command.ts`, for what is escaped.

use crate::finding::answer::Answer;
use crate::finding::findings::Gap;
use crate::finding::reasons::no_numbers;
use crate::finding::{Findings, Verdict, foreign};

/// Number of annotations of a kind that a step shows.
const SHOWN: usize = 10;

/// Findings as commands to the runner.
pub(super) fn annotations(findings: &Findings) -> String {
    let answer = match findings.has_numbers() {
        true => Answer::of(findings).headline() + ".",
        false => no_numbers(findings),
    };
    let mut found = Vec::new();
    for arm in &findings.arms {
        let Verdict::Invalid { gap, reason } = &arm.verdict else { continue };
        let level = match gap {
            Gap::NotRun => continue,
            Gap::NotAvailable => "warning",
            Gap::CommandFailed | Gap::Broken | Gap::Rejected => "error",
        };
        found.push((level, command(level, &arm.name, reason)));
    }
    for held in &findings.thresholds {
        // What is not decided ends the step as well, unless it was let pass.
        if !held.passes {
            found.push(("error", command("error", &held.threshold, &held.to_string())));
        }
    }
    for caution in &findings.cautions {
        let text = format!("{}; {}", caution.finding, caution.advice);
        found.push(("warning", command("warning", &caution.code, &text)));
    }
    let mut text = command("notice", &findings.run.title, &answer);
    for level in ["error", "warning"] {
        let of_it = found.iter().filter(|(its, _)| *its == level).take(SHOWN);
        text.extend(of_it.map(|(_, line)| line.as_str()));
    }
    text
}

fn command(level: &str, title: &str, message: &str) -> String {
    let title = escaped(&format!("surtax: {}", foreign::line(title)));
    let title = title.replace(':', "%3A").replace(',', "%2C");
    format!("::{level} title={title}::{}\n", escaped(&foreign::line(message)))
}

fn escaped(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::compare::tests::example;
    use crate::finding::threshold::{Standing, held};

    #[test]
    fn what_does_not_pass_is_annotated_and_no_text_is_another_command() {
        let mut findings = example(6, |_| {});
        findings.run.title = String::from("100 %\n::error::forged, or: not");
        let limits = ["wall > +900%", "wall > -90%"].map(|text| text.parse().unwrap());
        findings.thresholds = held(&limits, &findings.arms);
        findings.thresholds.retain(|held| held.name == "runc");
        (findings.thresholds[1].standing, findings.thresholds[1].passes) =
            (Standing::Crossed, false);
        let text = annotations(&findings);
        let lines: Vec<&str> = text.lines().collect();
        let begin = "::notice title=surtax%3A 100 %25\\n%3A%3Aerror%3A%3Aforged%2C or%3A not::";
        assert!(lines[0].starts_with(begin), "{text}");
        assert!(lines[1].starts_with("::error title=surtax%3A wall > -90%25::`wall"), "{text}");
        assert!(lines[1..].iter().all(|line| !line.contains("+900")), "{text}");
        assert!(lines.iter().all(|line| line.starts_with("::")), "{text}");
        findings.thresholds[1].standing = Standing::Undecided;
        assert!(annotations(&findings).lines().nth(1).unwrap().starts_with("::error"));
    }
}
