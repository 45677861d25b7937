//! The head of the report: what was asked, where and when, what was found, and what to doubt.

use super::super::{Caution, Findings};
use super::legend::Arm;
use super::{details, escape, number};

/// As many facts of the machine make its one line.
const MACHINE_FACTS: usize = 6;
/// As many cautions are shown.
const CAUTIONS_MAX: usize = 60;

/// Title, command, run and machine.
pub fn heading(findings: &Findings) -> String {
    let run = &findings.run;
    let planned = match run.blocks_planned {
        Some(planned) if planned != run.blocks_done => {
            format!("{} of {planned} blocks", run.blocks_done)
        }
        _ => number::count(usize::try_from(run.blocks_done).unwrap_or(usize::MAX), "block"),
    };
    let trial_count = findings.arms.iter().map(|arm| arm.trials.len()).sum();
    let facts = [
        run.began_at.clone(),
        planned,
        number::count(trial_count, "trial"),
        number::span(run.wall_ns),
        run.state.clone(),
    ];
    let machine: Vec<String> = findings
        .machine
        .iter()
        .filter(|fact| !fact.value.is_empty())
        .take(MACHINE_FACTS)
        .map(|fact| escape::shortened(&fact.value, 60))
        .collect();
    format!(
        "<header>\n<p class=\"kind\">surtax report</p>\n<h1>{}</h1>\n\
         <p class=\"command\"><code>{}</code></p>\n<p class=\"facts\">{}</p>\n\
         <p class=\"facts\">{}</p>\n</header>\n",
        escape::line(&run.title),
        escape::line(&typed(&run.command)),
        escape::line(&facts.join(" · ")),
        escape::line(&machine.join(" · "))
    )
}

/// One sentence per arm.
pub fn verdicts(arms: &[Arm<'_>]) -> String {
    let items = arms.iter().fold(String::new(), |items, arm| {
        let remedy = arm.found.trouble.as_ref().and_then(|trouble| trouble.remedy.as_ref());
        let remedy = remedy.map_or_else(String::new, |remedy| {
            format!("<p class=\"advice\">{}</p>", escape::prose(remedy))
        });
        let item = format!(
            "<li><p class=\"who\">{} {}</p><p>{}</p>{remedy}</li>\n",
            arm.label(),
            arm.verdict(),
            escape::prose(&arm.found.because)
        );
        items + &item
    });
    format!(
        "<section id=\"verdicts\"><h2>What was found</h2>\n<ul class=\"verdicts\">\n{items}</ul>\
         </section>\n"
    )
}

/// What the reader must know before believing a number; `None` when there is nothing.
pub fn cautions(cautions: &[Caution]) -> Option<String> {
    if cautions.is_empty() {
        return None;
    }
    let mut items = cautions.iter().take(CAUTIONS_MAX).fold(String::new(), |items, caution| {
        let advice = match caution.advice.as_str() {
            "" => String::new(),
            advice => format!("<p class=\"advice\">{}</p>", escape::prose(advice)),
        };
        let (finding, code) = (escape::prose(&caution.finding), escape::line(&caution.code));
        items + &format!("<li><p>{finding} <code class=\"aside\">{code}</code></p>{advice}</li>\n")
    });
    if cautions.len() > CAUTIONS_MAX {
        let rest = number::count(cautions.len() - CAUTIONS_MAX, "more caution");
        items.push_str(&format!("<li><p>{rest}; the run file has them all.</p></li>\n"));
    }
    Some(format!(
        "<section id=\"cautions\"><h2>Before you believe a number</h2>\n\
         <ul class=\"cautions\">\n{items}</ul></section>\n"
    ))
}

/// The machine, and the line that repeats the run.
pub fn conditions(findings: &Findings) -> String {
    let run = &findings.run;
    format!(
        "<section id=\"machine\"><h2>Machine</h2>\n\
         <details><summary>{} about this machine</summary>{}</details></section>\n\
         <section id=\"repeat\"><h2>Repeat this run</h2>\n\
         <div class=\"copy\"><pre data-copy><code>{}</code></pre></div>\n\
         <p class=\"facts\">In <code>{}</code>, with seed <code>{}</code>.</p></section>\n\
         <footer><p>Run <code>{}</code>, computed by surtax {} (schema {}).</p></footer>\n",
        number::count(findings.machine.len(), "fact"),
        details::facts("Machine", &findings.machine),
        escape::lines(&run.repeat_with),
        escape::line(&run.cwd),
        run.seed,
        escape::line(&run.id),
        escape::line(&findings.surtax_version),
        findings.schema_version
    )
}

/// A command as one would type it: arguments that a shell would split are quoted.
fn typed(command: &[String]) -> String {
    let quoted: Vec<String> = command
        .iter()
        .map(|argument| {
            let is_plain = !argument.is_empty()
                && argument.chars().all(|c| c.is_alphanumeric() || "-_./=:,+@%".contains(c));
            if is_plain {
                argument.clone()
            } else {
                format!("'{}'", argument.replace('\'', "'\\''"))
            }
        })
        .collect();
    quoted.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_could_be_typed() {
        let command = ["sh", "-c", "echo it's", "", "a=b"].map(String::from);
        assert_eq!(typed(&command), "sh -c 'echo it'\\''s' '' a=b");
    }
}
