//! Pages beside the report: the list of runs, two of them, and all of one question.

use super::library::ListRow;
use super::live::Now;
use crate::finding::diff::Diff;
use crate::finding::history::History;
use crate::report::html::{escape, served_page};
use crate::report::{diff as diff_text, history as history_text, list as list_text, rows::Rows};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use surtax_instrument::quantity::Nanoseconds;

/// A name as a part of an address.
fn encoded(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

/// A text that stays on one line. These spaces are ours, and put in when all else is escaped.
fn unbroken(text: &str) -> String {
    escape::line(text).replace(' ', "\u{a0}")
}

/// The list of runs.
pub(super) fn list(rows: &[ListRow], now: Nanoseconds) -> String {
    let runs: Vec<_> = rows.iter().filter_map(|row| row.as_ref().ok()).collect();
    let mut table = Rows::new(&list_text::HEADER);
    for run in &runs {
        table.push(list_text::cells(run, run.ago(now)));
    }
    let table = table.html("Runs", |column, text| match column {
        0 => link(text),
        // `just now`, `3 min 20 s`: short enough for one line.
        1..=3 => unbroken(text),
        4 => escape::name(text),
        _ => escape::line(text),
    });
    let table = format!("<div class=\"runs\">{table}</div>\n");
    let faults: Vec<_> = rows.iter().filter_map(|row| row.clone().err()).collect();
    let unread = match faults.is_empty() {
        true => String::new(),
        false => {
            format!("<section><h2>Files that cannot be read</h2>{}</section>\n", list_of(&faults))
        }
    };
    let (table, choice) = match runs.len() {
        0 => (String::from("<p>No run is kept yet.</p>\n"), String::new()),
        1 => (table, String::new()),
        _ => {
            let asked = runs.iter().map(|run| (run.name.as_str(), run.title.as_str()));
            (table, choice(&asked.collect::<Vec<_>>()))
        }
    };
    served_page("Runs", &format!("{}{table}{choice}{unread}", head("Runs", "")))
}

/// The latest two runs of one title, the earlier first: those of two questions are refused.
fn of_one_title(runs: &[(&str, &str)]) -> Option<(usize, usize)> {
    runs.iter().enumerate().find_map(|(after, (_, title))| {
        let is_same = |(_, other): &(&str, &str)| other == title;
        let older = runs.get(after + 1..)?.iter().position(is_same)?;
        Some((after + 1 + older, after))
    })
}

/// A choice of two runs by name and title. Chosen are two that can be compared, or none.
fn choice(runs: &[(&str, &str)]) -> String {
    let chosen = of_one_title(runs);
    let select = |key: &str, label: &str, chosen: Option<usize>| {
        let option = |(place, (name, _)): (usize, &(&str, &str))| {
            let mark = if chosen == Some(place) { " selected" } else { "" };
            let value = escape::markup(name);
            format!("<option value=\"{value}\"{mark}>{}</option>", escape::line(name))
        };
        let none = if chosen.is_none() { "<option value=\"\">choose a run</option>" } else { "" };
        let options: String = runs.iter().enumerate().map(option).collect();
        format!("<label>{label}<select name=\"{key}\" required>{none}{options}</select></label>")
    };
    format!(
        "<section><h2>What two runs differ in</h2><form class=\"choose\" \
         action=\"diff\">{}{}<button class=\"act\">Compare</button></form></section>\n",
        select("before", "Before", chosen.map(|(before, _)| before)),
        select("after", "After", chosen.map(|(_, after)| after))
    )
}

/// Permission to end a run from its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Nobody may, or somebody has asked for it already.
    NotOffered,
    Allowed,
}

/// Markup above a report: where to go, and what runs now.
pub(super) fn above(name: &str, now: Option<&Now>, stop: Stop) -> String {
    let of_question = format!("../../history?run={}", encoded(name));
    let links = [
        ("../../", "All runs"),
        (of_question.as_str(), "All runs of this question"),
        ("answer.json", "As JSON"),
    ];
    let links = links.map(|(to, text)| format!("<a href=\"{to}\">{text}</a>")).concat();
    let stop = match stop {
        Stop::NotOffered => "",
        Stop::Allowed => {
            "<form data-stop method=\"post\" action=\"stop\"><button class=\"act\">Stop after this \
             trial</button></form>"
        }
    };
    let now = now.filter(|it| it.is_running).map_or_else(String::new, |now| {
        format!(
            "<div class=\"now\" data-events=\"events\" data-ended=\"{}\"><div><p data-line>{}</p>\
             <p class=\"facts\" data-machine>{}</p></div>{stop}</div>\n",
            now.ended,
            escape::line(&now.line),
            escape::line(&now.machine)
        )
    });
    format!("<div class=\"above\"><nav aria-label=\"Runs\">{links}</nav>\n{now}</div>\n")
}

/// The difference of two runs.
pub(super) fn diff(found: &Diff, before: &str, after: &str) -> String {
    let about = format!("from {} to {}", link(before), link(after));
    let table = diff_text::rows(found).html("Changes", cell);
    let body = head("What two runs differ in", &about) + &list_of(&diff_text::said(found)) + &table;
    served_page("What two runs differ in", &body)
}

/// All runs of one question.
pub(super) fn history(found: &History, notes: &[String], of: &str) -> String {
    let about = format!("all runs of the question that {} asks", link(of));
    let mut body = head("What each stack cost", &about)
        + &list_of(&[notes, &history_text::said(found)].concat());
    for series in &found.series {
        let name = escape::line(&history_text::series_name(series));
        let rows = history_text::series_rows(found, series);
        body += &format!(
            "<section><h2>{name}</h2>{}</section>\n",
            rows.html("Costs in each run", cell)
        );
    }
    served_page("What each stack cost", &body)
}

/// A page that says why there is nothing else, and leads back to `root`, where all runs are.
pub(super) fn refused(title: &str, why: &str, remedy: Option<&str>, root: &str) -> String {
    let remedy = remedy.map_or_else(String::new, |it| format!("<p>{}</p>", escape::prose(it)));
    let back = format!("<p class=\"facts\"><a href=\"{}\">All runs</a></p>", escape::markup(root));
    let body = format!("{}<p>{}</p>{remedy}{back}\n", head(title, ""), escape::prose(why));
    served_page(title, &body)
}

/// Head of a page. `about` is markup.
fn head(title: &str, about: &str) -> String {
    let about = match about.is_empty() {
        true => String::new(),
        false => format!("<p class=\"facts\">{about} · <a href=\"./\">all runs</a></p>"),
    };
    let title = escape::line(title);
    format!("<header>\n<p class=\"kind\">surtax</p>\n<h1>{title}</h1>\n{about}</header>\n")
}

fn link(name: &str) -> String {
    format!("<a href=\"runs/{}/\">{}</a>", encoded(name), escape::line(name))
}

fn list_of(lines: &[impl AsRef<str>]) -> String {
    let items = lines.iter().map(|line| format!("<li>{}</li>\n", escape::prose(line.as_ref())));
    format!("<ul class=\"told\">{}</ul>\n", items.collect::<String>())
}

fn cell(column: usize, text: &str) -> String {
    if column == 0 { escape::name(text) } else { escape::line(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_an_address_and_a_text_and_neither_acts() {
        let name = "a\"><script>b</script>/../é";
        let above = above(name, None, Stop::Allowed);
        assert!(!above.contains("<script>") && above.contains("%22%3E%3Cscript%3E"), "{above}");
        assert!(!link(name).contains("<script>"), "{}", link(name));
        let page = refused("no", "there is no run `<img src=x>`", Some("see `<b>`"), "/secret/");
        assert!(page.contains("<a href=\"/secret/\">All runs</a>"), "{page}");
        assert!(!page.contains("<img") && !page.contains("<b>"), "{page}");
    }

    #[test]
    fn a_short_text_is_not_broken_and_no_space_in_it_is_an_escape() {
        assert_eq!(unbroken("3 min\u{a0}<20 s"), "3\u{a0}min\\u{a0}&lt;20\u{a0}s");
    }

    #[test]
    fn two_runs_are_chosen_that_can_be_compared_or_none() {
        let runs = [("d", "ls"), ("c", "make"), ("b", "true"), ("a", "make")];
        assert_eq!(of_one_title(&runs), Some((3, 1)));
        let chosen = choice(&runs);
        assert!(chosen.contains("<option value=\"a\" selected>"), "{chosen}");
        assert!(!choice(&runs[..3]).contains("selected"));
    }

    #[test]
    fn what_runs_now_is_told_while_it_runs_and_stopped_only_where_that_is_allowed() {
        let mut now =
            Now { is_running: true, ended: 3, line: "run 2 of 4".into(), machine: String::new() };
        assert!(above("a", Some(&now), Stop::Allowed).contains("action=\"stop\""));
        assert!(!above("a", Some(&now), Stop::NotOffered).contains("<form"));
        assert!(above("a", Some(&now), Stop::NotOffered).contains("run 2 of 4"));
        now.is_running = false;
        assert!(!above("a", Some(&now), Stop::Allowed).contains("data-events"));
    }
}
