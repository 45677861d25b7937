//! The head of the report: what was asked, where and when, what was found, and what to doubt.

use super::legend::Arm;
use super::{details, escape, joined};
use crate::finding::answer::Answer;
use crate::finding::emulation;
use crate::finding::kept::is_that_nobody_vouches;
use crate::finding::number;
use crate::finding::prices::List;
use crate::finding::stacks::grouped;
use crate::finding::{ArmFindings, Caution, Findings, KeyValue, RunFacts};
use crate::plan::shell_line;
use crate::table::rows;
use maud::{Markup, html};
use surtax_instrument::quantity::Bytes;

/// From this length on an answer is set smaller.
const LONG_FROM: usize = 140;
/// Beyond this length it is cut: the rows have all of it.
const HEADLINE_MAX: usize = 600;
/// Facts of the machine that stand above an answer.
const HEAD_FACTS: [&str; 3] = ["cpu_model", "cpus_online", "virtualised"];
/// As many lines of a command's last words are shown.
const LAST_LINES: usize = 6;
/// As much is told of what a workload measures.
const ABOUT_MAX: usize = 120;
/// As many cautions are named before they are opened.
const CHIPS_MAX: usize = 10;
/// A caution that names more stacks than these has them where it is opened.
const CHIP_STACKS_MAX: usize = 2;
/// Codes of cautions that say too little to whoever does not know them, and what is shown.
const CHIPS: &str = include_str!("chips.tsv");
/// As few cautions are shown without being opened.
const OPEN_MAX: usize = 1;
/// As many cautions are shown.
const CAUTIONS_MAX: usize = 60;

/// Head of a page of prices: in what surroundings, the answer, and to which question.
pub fn of_prices(findings: &Findings, list: &List<'_>) -> Markup {
    header(findings, &list.headline(), question(findings))
}

/// Head of a page that answers: in what surroundings, the answer, and to which question.
pub fn answered(findings: &Findings, answer: &Answer<'_>) -> Markup {
    let run = &findings.run;
    let mut facts = question(findings);
    let of_both = if findings.noise_floor.is_some() { " (it is measured twice)" } else { "" };
    facts.extend(answer.baseline.as_ref().map(|number| {
        let words = match answer.metric {
            Some(metric) => {
                let better = if answer.is_more_better { "more" } else { "less" };
                format!(
                    "{metric} (of which {better} is better) in {} is {number}{of_both}",
                    run.baseline
                )
            }
            None => format!("{} takes {number}{of_both}", run.baseline),
        };
        escape::line(&words)
    }));
    facts.extend(
        answer.smallest().map(|share| {
            escape::line(&format!("differences below {share} are not told from noise"))
        }),
    );
    header(findings, &answer.headline(), facts)
}

/// The head of a page.
fn header(findings: &Findings, headline: &str, facts: Vec<Markup>) -> Markup {
    let headline = escape::shortened(headline, HEADLINE_MAX);
    let is_long = headline.chars().count() > LONG_FROM;
    html! {
        header {
            p.kind { (escape::line(&around(findings).join(" · "))) }
            h1 class=[is_long.then_some("long")] { (escape::line(&headline)) }
            p.facts { (joined(facts, " · ")) }
        }
    }
}

/// Facts of a run: its title, when it was, how much of it is done, and on which machine.
fn around(findings: &Findings) -> Vec<String> {
    let run = &findings.run;
    let command = shell_line(&run.command);
    let question = run.workload.as_ref().unwrap_or(&command);
    // A title that nobody gave is the question, or as much of it as fits.
    let is_usual = |text: &String| match run.title.strip_suffix('…') {
        Some(begin) => text.starts_with(begin),
        None => *text == run.title,
    };
    let is_given = ![&command, question].into_iter().any(is_usual);
    let title = is_given.then(|| run.title.clone());
    let machine = findings.machine.iter().filter(|fact| HEAD_FACTS.contains(&fact.key.as_str()));
    [Some(String::from("surtax")), title, Some(date(run))]
        .into_iter()
        .flatten()
        .chain([blocks(run)])
        .chain(machine.filter_map(said))
        .chain(emulation::is_all(findings).then(|| String::from("virtual machines are emulated")))
        .collect()
}

/// The question of a run, and what it measures.
fn question(findings: &Findings) -> Vec<Markup> {
    let run = &findings.run;
    let asked = run.workload.clone().unwrap_or_else(|| shell_line(&run.command));
    let about = escape::shortened(&run.about, ABOUT_MAX);
    let about = (!about.is_empty()).then(|| escape::line(&about));
    [html! { code { (escape::line(&asked)) } }].into_iter().chain(about).collect()
}

/// Says how many blocks there are, and where that is not what was planned, of how many.
fn blocks(run: &RunFacts) -> String {
    let done = run.blocks_done;
    let runs = match run.blocks_planned {
        // What was begun is told stack by stack.
        Some(_) if done == 0 => String::from("no run completed"),
        Some(planned) if planned != run.blocks_done => format!("at least {done} of {planned} runs"),
        _ => number::count(done, "run"),
    };
    let whose = if done == 0 { "" } else { " of each stack" };
    match run.state.as_str() {
        "finished" => runs + whose,
        state => format!("{runs}{whose}, {state}"),
    }
}

/// The day and the minute at which a run began, in UTC.
fn date(run: &RunFacts) -> String {
    let minute = run.began_at.get(..16).unwrap_or(&run.began_at);
    minute.replace('T', " ") + " UTC"
}

/// A fact of the machine as a person would say it; `None` for what nobody knows.
fn said(fact: &KeyValue) -> Option<String> {
    let value = escape::shortened(&fact.value, 60);
    let whole = || fact.value.parse::<u64>().ok();
    Some(match (fact.key.as_str(), value.as_str()) {
        (_, "" | "unknown") | ("virtualised", "no") => return None,
        ("virtualised", _) => String::from("itself a virtual machine"),
        ("kernel_release", _) => format!("Linux {value}"),
        ("cpus_online", _) => number::count(whole()?, "CPU"),
        ("memory_total_bytes", _) => Bytes(whole()?).to_string(),
        _ => value,
    })
}

/// Reason of a verdict as it is shown; stacks with equal ones are named together.
struct Reason {
    verdict: Markup,
    /// Paragraphs below the names and the verdict.
    told: Markup,
}

impl PartialEq for Reason {
    fn eq(&self, other: &Self) -> bool {
        (&self.verdict.0, &self.told.0) == (&other.verdict.0, &other.told.0)
    }
}

/// One sentence for all stacks of which it is true, about the metric of the answer; `None` where
/// there is none to say. Closed where the answer has the numbers, and open where the reasons are
/// all that there is.
pub fn verdicts(arms: &[Arm<'_>], answer: &Answer<'_>, has_numbers: bool) -> Option<Markup> {
    let groups = grouped(arms.iter().filter_map(|arm| Some((reason(arm, answer)?, arm.label()))));
    let is_open = !has_numbers || !answer.has_baseline();
    (!groups.is_empty()).then(|| {
        html! {
            section #verdicts aria-label="Why each verdict is what it is" {
                details data-paper open[is_open] {
                    summary { "Why each verdict is what it is" }
                    ul.verdicts {
                        @for (reason, labels) in groups {
                            li {
                                p.who {
                                    span.names { (joined(labels, " ")) }
                                    " "
                                    (reason.verdict)
                                }
                                (reason.told)
                            }
                            "\n"
                        }
                    }
                }
            }
        }
    })
}

/// An arm's verdict in its class, and its reason: on the metric of the answer, or of a baseline on
/// wall time.
fn reason(arm: &Arm<'_>, answer: &Answer<'_>) -> Option<Reason> {
    let row = answer.rows.iter().find(|row| std::ptr::eq(row.arm, arm.found));
    let (verdict, because) = match row {
        Some(row) => (arm.said(row), &row.because),
        None if arm.is_judged() => (arm.verdict(), &arm.found.because),
        None => return None,
    };
    let remedy = arm.found.trouble.as_ref().and_then(|trouble| trouble.remedy.as_deref());
    let told = html! {
        p { (escape::prose(because)) }
        @if let Some(remedy) = remedy { (advice(remedy)) }
        (last_words(arm))
    };
    Some(Reason { verdict, told })
}

/// The last lines that a command said in an arm of which nothing counts; all that is kept of them
/// is among the details.
fn last_words(arm: &Arm<'_>) -> Markup {
    let trouble = arm.found.trouble.as_ref().filter(|_| arm.found.trial_count == 0);
    let Some(said) = trouble.and_then(|trouble| trouble.stderr.as_ref()) else {
        return Markup::default();
    };
    let lines: Vec<&str> = said.lines().collect();
    let last = lines.get(lines.len().saturating_sub(LAST_LINES)..).unwrap_or_default();
    let whose = escape::line(&arm.found.name);
    html! {
        p { "Its standard error ended with" }
        pre role="region" aria-label={ "Last words of the command in " (whose) } tabindex="0" {
            (escape::lines(&last.join("\n")))
        }
    }
}

/// Shows what somebody should do.
pub fn advice(text: &str) -> Markup {
    html! { p.advice { (escape::prose(text)) } }
}

/// Shows what the reader must know before believing a number; `None` when there is nothing.
pub fn cautions(cautions: &[Caution], arms: &[Arm<'_>]) -> Option<Markup> {
    // What is unavailable is among the verdicts, with the remedy.
    let cautions: Vec<&Caution> =
        cautions.iter().filter(|caution| caution.code != "layer-unavailable").collect();
    // That nobody vouches for the run is said before all that it says, and few are read at once.
    let is_open =
        cautions.len() <= OPEN_MAX || cautions.iter().any(|it| is_that_nobody_vouches(it));
    let [unnamed, untold] =
        [CHIPS_MAX, CAUTIONS_MAX].map(|most| cautions.len().saturating_sub(most));
    (!cautions.is_empty()).then(|| {
        html! {
            section #cautions aria-label="Cautions" {
                details data-paper open[is_open] {
                    summary {
                        "Before you believe a number: "
                        @for caution in cautions.iter().take(CHIPS_MAX) {
                            span.chip { (escape::line(&chip(caution, arms))) }
                            " "
                        }
                        @if unnamed > 0 { "and " (unnamed) " more" }
                    }
                    ul.cautions {
                        @for caution in cautions.iter().take(CAUTIONS_MAX) {
                            li { (told(caution)) }
                            "\n"
                        }
                        @if untold > 0 {
                            li {
                                p {
                                    (number::count(untold, "more caution"))
                                    "; the run file has them all."
                                }
                            }
                        }
                    }
                }
            }
        }
    })
}

/// Shows a caution, its code, and what somebody should do.
fn told(caution: &Caution) -> Markup {
    html! {
        p {
            (escape::prose(&caution.finding))
            " "
            code.aside { (escape::line(&caution.code)) }
        }
        @if !caution.advice.is_empty() { (advice(&caution.advice)) }
    }
}

/// Returns the words of a caution's chip: those of its code or plainer ones, and the compared
/// stacks that it names where they are few.
fn chip(caution: &Caution, arms: &[Arm<'_>]) -> String {
    let code = &caution.code;
    let plainer = rows(CHIPS).find(|[of, _]| of == code);
    let words = plainer.map_or_else(|| code.replace('-', " "), |[_, words]| words.to_owned());
    let compared = arms.iter().map(|arm| arm.found).filter(|found| found.is_compared());
    let is_named = |found: &&ArmFindings| caution.stacks.contains(&found.stack);
    let named: Vec<&str> = compared.filter(is_named).map(|found| found.stack.as_str()).collect();
    match named.len() {
        1..=CHIP_STACKS_MAX => format!("{words}: {}", named.join(", ")),
        _ => words,
    }
}

/// The machine, and the line that repeats the run.
pub fn conditions(findings: &Findings) -> Markup {
    let run = &findings.run;
    html! {
        section #machine {
            h2 { "Machine" }
            details {
                summary { (number::count(findings.machine.len(), "fact")) " about this machine" }
                (details::facts("Machine", &findings.machine))
            }
        }
        "\n"
        section #repeat {
            h2 { "Repeat this run" }
            div.copy { pre tabindex="0" data-copy { code { (escape::lines(&run.repeat_with)) } } }
            p.facts {
                "In "
                code { (escape::line(&run.cwd)) }
                ", with seed "
                code { (run.seed) }
                // How each trial was carried out, where that is not the usual way.
                @if !run.conduct.is_empty() { "; " (escape::line(&run.conduct)) }
                "."
            }
        }
        "\n"
        footer {
            p {
                "Run "
                code { (escape::line(&run.id)) }
                ", computed by surtax "
                (escape::line(&findings.surtax_version))
                " (schema "
                (findings.schema_version)
                ")."
            }
        }
    }
}
