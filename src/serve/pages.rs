//! Pages beside the report: the list of runs, two of them, and all of one question.

use super::library::ListRow;
use super::live::Now;
use crate::finding::diff::Diff;
use crate::finding::history::History;
use crate::report::html::{escape, served_page};
use crate::report::{diff as diff_text, history as history_text, list as list_text, rows::Rows};
use maud::{Markup, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use surtax_instrument::quantity::Nanoseconds;

/// A name as a part of an address.
fn encoded(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

/// A text that stays on one line. These spaces are ours, and put in when all others are shown.
fn unbroken(text: &str) -> Markup {
    html! { (escape::plain(text).replace(' ', "\u{a0}")) }
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
    let faults: Vec<_> = rows.iter().filter_map(|row| row.clone().err()).collect();
    let asked: Vec<_> = runs.iter().map(|run| (run.name.as_str(), run.title.as_str())).collect();
    let body = html! {
        (head("Runs", None))
        @if runs.is_empty() { p { "No run is kept yet." } } @else { div.runs { (table) } }
        @if runs.len() > 1 { (choice(&asked)) }
        @if !faults.is_empty() {
            section { h2 { "Files that cannot be read" } (list_of(&faults)) }
        }
    };
    served_page("Runs", &body)
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
fn choice(runs: &[(&str, &str)]) -> Markup {
    let chosen = of_one_title(runs);
    let select = |key: &str, label: &str, chosen: Option<usize>| {
        html! {
            label {
                (label)
                select name=(key) required {
                    @if chosen.is_none() { option value="" { "choose a run" } }
                    @for (place, (name, _)) in runs.iter().enumerate() {
                        // The value is sent as it is: nobody reads it.
                        option value=(name) selected[chosen == Some(place)] { (escape::line(name)) }
                    }
                }
            }
        }
    };
    html! {
        section {
            h2 { "What two runs differ in" }
            form.choose action="diff" {
                (select("before", "Before", chosen.map(|(before, _)| before)))
                (select("after", "After", chosen.map(|(_, after)| after)))
                button.act { "Compare" }
            }
        }
    }
}

/// Permission to end a run from its page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Nobody may, or somebody has asked for it already.
    NotOffered,
    Allowed,
}

/// Head above a report: where to go, and what runs now.
pub(super) fn above(name: &str, now: Option<&Now>, stop: Stop) -> Markup {
    html! {
        div.above {
            nav aria-label="Runs" {
                a href="../../" { "All runs" }
                a href={ "../../history?run=" (encoded(name)) } { "All runs of this question" }
                a href="answer.json" { "As JSON" }
            }
            @if let Some(now) = now.filter(|it| it.is_running) {
                div.now data-events="events" data-ended=(now.ended) {
                    div {
                        p data-line { (escape::line(&now.line)) }
                        p.facts data-machine { (escape::line(&now.machine)) }
                    }
                    @if stop == Stop::Allowed {
                        form data-stop method="post" action="stop" {
                            button.act { "Stop after this trial" }
                        }
                    }
                }
            }
        }
    }
}

/// The difference of two runs.
pub(super) fn diff(found: &Diff, before: &str, after: &str) -> String {
    let about = html! { "from " (link(before)) " to " (link(after)) };
    let body = html! {
        (head("What two runs differ in", Some(about)))
        (list_of(&diff_text::said(found)))
        (diff_text::rows(found).html("Changes", cell))
    };
    served_page("What two runs differ in", &body)
}

/// All runs of one question.
pub(super) fn history(found: &History, notes: &[String], of: &str) -> String {
    let about = html! { "all runs of the question that " (link(of)) " asks" };
    let body = html! {
        (head("What each stack cost", Some(about)))
        (list_of(&[notes, &history_text::said(found)].concat()))
        @for series in &found.series {
            section {
                h2 { (escape::line(&history_text::series_name(series))) }
                (history_text::series_rows(found, series).html("Costs in each run", cell))
            }
        }
    };
    served_page("What each stack cost", &body)
}

/// A page that says why there is nothing else, and leads back to `root`, where all runs are.
pub(super) fn refused(title: &str, why: &str, remedy: Option<&str>, root: &str) -> String {
    let body = html! {
        (head(title, None))
        p { (escape::prose(why)) }
        @if let Some(remedy) = remedy { p { (escape::prose(remedy)) } }
        p.facts { a href=(root) { "All runs" } }
    };
    served_page(title, &body)
}

/// Head of a page, and what it is about.
fn head(title: &str, about: Option<Markup>) -> Markup {
    html! {
        header {
            p.kind { "surtax" }
            h1 { (escape::line(title)) }
            @if let Some(about) = about {
                p.facts { (about) " · " a href="./" { "all runs" } }
            }
        }
    }
}

fn link(name: &str) -> Markup {
    html! { a href={ "runs/" (encoded(name)) "/" } { (escape::line(name)) } }
}

fn list_of(lines: &[impl AsRef<str>]) -> Markup {
    html! {
        ul.told {
            @for line in lines {
                li { (escape::prose(line.as_ref())) }
                "\n"
            }
        }
    }
}

fn cell(column: usize, text: &str) -> Markup {
    if column == 0 { escape::name(text) } else { escape::line(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_an_address_and_a_text_and_neither_acts() {
        let name = "a\"><script>b</script>/../é";
        let above = above(name, None, Stop::Allowed).into_string();
        assert!(!above.contains("<script>") && above.contains("%22%3E%3Cscript%3E"), "{above}");
        let link = link(name).into_string();
        assert!(!link.contains("<script>"), "{link}");
        let page = refused("no", "there is no run `<img src=x>`", Some("see `<b>`"), "/secret/");
        assert!(page.contains("<a href=\"/secret/\">All runs</a>"), "{page}");
        assert!(!page.contains("<img") && !page.contains("<b>"), "{page}");
    }

    #[test]
    fn a_short_text_is_not_broken_and_no_space_in_it_is_an_escape() {
        assert_eq!(unbroken("3 min\u{a0}<20 s").0, "3\u{a0}min\\u{a0}&lt;20\u{a0}s");
    }

    #[test]
    fn two_runs_are_chosen_that_can_be_compared_or_none() {
        let runs = [("d", "ls"), ("c", "make"), ("b", "true"), ("a", "make")];
        assert_eq!(of_one_title(&runs), Some((3, 1)));
        let chosen = choice(&runs).into_string();
        assert!(chosen.contains("<option value=\"a\" selected>"), "{chosen}");
        assert!(!choice(&runs[..3]).into_string().contains("selected"));
    }

    #[test]
    fn what_runs_now_is_told_while_it_runs_and_stopped_only_where_that_is_allowed() {
        let mut now =
            Now { is_running: true, ended: 3, line: "run 2 of 4".into(), machine: String::new() };
        let above = |now: &Now, stop| above("a", Some(now), stop).into_string();
        // By these attributes the page's script knows them.
        let line = "<div class=\"now\" data-events=\"events\" data-ended=\"3\"><div><p data-line>run 2 \
                    of 4</p><p class=\"facts\" data-machine></p></div>";
        let stop = "<form data-stop method=\"post\" action=\"stop\"><button class=\"act\">Stop after \
                    this trial</button></form></div>";
        assert!(above(&now, Stop::Allowed).contains(&[line, stop].concat()));
        assert!(!above(&now, Stop::NotOffered).contains("<form"));
        assert!(above(&now, Stop::NotOffered).contains(line));
        now.is_running = false;
        assert!(!above(&now, Stop::Allowed).contains("data-events"));
    }
}
