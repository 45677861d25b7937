//! Forms of the results for other programs, beside those for people: what runs tests, what draws
//! histories, what collects numbers.
//!
//! A form is a file of its own and a line of [`FORMS`]. Names and units are those that the other
//! program reads, by its own documentation; what it has no place for is left out.

mod bencher;
mod brief;
mod github;
mod hyperfine;
mod junit;
mod openmetrics;
#[cfg(feature = "parquet")]
pub(super) mod parquet;

use super::{export, html, markdown, terminal};
use crate::finding::{ArmFindings, Findings, TrialPoint};

/// A form of the results.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The word for it.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Endings of the names of its files.
    pub endings: &'static [&'static str],
    /// It is what such an ending alone means.
    pub is_usual: bool,
    write: Write,
}

/// Way of writing findings in a form.
#[derive(Clone, Copy, Debug)]
enum Write {
    /// As text, ended by a line feed.
    Text(fn(&Findings) -> String),
    /// As bytes that are for programs alone.
    #[cfg(feature = "parquet")]
    Bytes(fn(&Findings) -> Vec<u8>),
}

/// Every form, by name.
pub static FORMS: &[Form] = &[
    Form::of("benchmark-action", &["json"], bencher::benchmark_action)
        .about("github-action-benchmark, `customSmallerIsBetter`: each cost as a ratio to native"),
    Form::of("bmf", &["json"], bencher::metric_format)
        .about("Bencher Metric Format: every metric of every stack, and what it costs"),
    Form::of("brief", &["md"], brief::brief).about("Markdown for a pull request, 30 lines at most"),
    Form::usual("csv", &["csv"], export::csv).about("a row for each stack and metric"),
    Form::of("github", &["txt"], github::annotations)
        .about("annotations of GitHub Actions: what is crossed or not decided, and the answer"),
    Form::usual("html", &["html", "htm"], html::html).about("the report, one file"),
    Form::of("hyperfine", &["json"], hyperfine::json)
        .about("what `hyperfine --export-json` writes, a command for each stack"),
    Form::usual("json", &["json"], export::json)
        .about("all findings, as `--format json` prints them"),
    Form::usual("junit", &["xml"], junit::xml)
        .about("JUnit XML: a test for each threshold and stack"),
    Form::usual("markdown", &["md", "markdown"], markdown::markdown)
        .about("the whole report as Markdown"),
    Form::usual("openmetrics", &["prom"], openmetrics::text)
        .about("OpenMetrics text, for a collector of text files"),
    #[cfg(feature = "parquet")]
    Form {
        write: Write::Bytes(parquet::bytes),
        ..Form::usual("parquet", &["parquet"], export::csv_trials)
            .about("Apache Parquet with a row for each trial, those that do not count included")
    },
    Form::usual("table", &["txt"], |findings| terminal::render(findings, terminal::PLAIN))
        .about("the table of the terminal"),
    Form::of("trials", &["csv"], export::csv_trials)
        .about("CSV with a row for each trial, those that do not count included"),
];

impl Form {
    const fn of(
        name: &'static str,
        endings: &'static [&'static str],
        write: fn(&Findings) -> String,
    ) -> Self {
        Self { name, about: "", endings, is_usual: false, write: Write::Text(write) }
    }

    /// The same of a form that its endings alone mean.
    const fn usual(
        name: &'static str,
        endings: &'static [&'static str],
        write: fn(&Findings) -> String,
    ) -> Self {
        Self { is_usual: true, ..Self::of(name, endings, write) }
    }

    const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    /// Writes findings in it.
    #[must_use]
    pub fn write(&self, findings: &Findings) -> Vec<u8> {
        match self.write {
            Write::Text(write) => write(findings).into_bytes(),
            #[cfg(feature = "parquet")]
            Write::Bytes(write) => write(findings),
        }
    }

    /// Tells whether people can read it.
    #[must_use]
    pub fn is_text(&self) -> bool {
        matches!(self.write, Write::Text(_))
    }

    /// The form of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        FORMS.iter().find(|form| form.name == name)
    }

    /// The form that the ending of a file's name means.
    #[must_use]
    pub fn of_ending(ending: &str) -> Option<&'static Self> {
        let is_it = |known: &&'static str| known.eq_ignore_ascii_case(ending);
        FORMS.iter().find(|form| form.is_usual && form.endings.iter().any(is_it))
    }
}

/// A stack, with its arms: both of the baseline are one.
struct Stack<'a> {
    name: &'a str,
    arms: Vec<&'a ArmFindings>,
}

impl<'a> Stack<'a> {
    fn all(findings: &'a Findings) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for arm in &findings.arms {
            match all.first_mut() {
                Some(baseline) if !arm.is_compared() => baseline.arms.push(arm),
                _ => all.push(Self { name: &arm.name, arms: vec![arm] }),
            }
        }
        all
    }

    /// The trials that count, in the order of arms and time.
    fn counted(&self) -> impl Iterator<Item = &'a TrialPoint> {
        let trials = self.arms.iter().copied().flat_map(|arm| &arm.trials);
        trials.filter(|trial| trial.is_counted())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::compare::tests::example;

    #[test]
    fn forms_are_in_order_and_each_is_told_by_its_name_and_its_ending() {
        let is_less = |pair: &[Form]| pair[0].name < pair[1].name;
        assert!(FORMS.windows(2).all(is_less));
        let usual = FORMS.iter().filter(|form| form.is_usual).flat_map(|form| form.endings);
        let endings: Vec<&&str> = usual.collect();
        assert_eq!(endings.iter().collect::<std::collections::BTreeSet<_>>().len(), endings.len());
        for form in FORMS {
            assert_eq!(Form::named(form.name).map(|it| it.about), Some(form.about));
            assert!(!form.about.is_empty(), "{} says nothing", form.name);
            assert!(form.endings.iter().all(|ending| Form::of_ending(ending).is_some()));
        }
        assert_eq!(Form::of_ending("XML").map(|form| form.name), Some("junit"));
    }

    #[test]
    fn every_form_is_whole_and_nothing_in_it_acts() {
        let mut findings = example(6, |_| {});
        findings.run.title = String::from("a\u{1b}]0;title\u{7}<b>\u{202e}");
        findings.arms[2].name = String::from("runc\u{1b}[31m");
        for form in FORMS {
            if !form.is_text() {
                continue;
            }
            let text = String::from_utf8(form.write(&findings)).unwrap();
            assert!(text.ends_with('\n'), "{}", form.name);
            let acting = text.chars().find(|it| crate::finding::foreign::acts(*it));
            assert_eq!(acting.filter(|it| !matches!(it, '\n' | '\r')), None, "{}", form.name);
        }
    }

    #[test]
    fn both_arms_of_the_baseline_are_one_stack() {
        let findings = example(6, |_| {});
        let all = Stack::all(&findings);
        let names: Vec<(&str, usize)> =
            all.iter().map(|stack| (stack.name, stack.counted().count())).collect();
        assert_eq!(names, [("native", 12), ("runc", 6), ("qemu", 0)]);
    }
}
