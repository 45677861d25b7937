//! The explanation of a stack's overhead in words: one sentence for each, and rows of a table.

use crate::finding::{
    ArmFindings, CauseFindings, CountedBy, Findings, Spread, WhyFindings, number,
};

/// As many causes are named in a sentence.
const NAMED_MAX: usize = 3;

/// A cause of less than this share of the extra time is not named in a sentence.
const NAMED_LEAST: f64 = 0.03;

/// Counts that differ by less than this share are alike.
const ALIKE: f64 = 0.01;

/// The heading of a table of causes; a `#` stands before columns of numbers.
pub(crate) const HEADINGS: [&str; 6] =
    ["Cause", "#Times", "#Each", "#In the baseline", "#Takes more", "#Points"];

/// Lists the arms that are explained, each with its explanation.
pub(crate) fn explained(findings: &Findings) -> impl Iterator<Item = (&ArmFindings, &WhyFindings)> {
    findings.arms.iter().filter_map(|arm| Some((arm, arm.why.as_ref()?)))
}

/// Says where the time goes that a stack takes more: its largest causes, and what nobody explains.
pub(crate) fn sentence(why: &WhyFindings) -> String {
    let named: Vec<&CauseFindings> = named(why).collect();
    let others: Vec<&Spread> =
        why.causes.iter().filter(|it| !named.contains(it)).map(|it| &it.extra).collect();
    let mut parts: Vec<String> = named.iter().map(|it| part(why, it)).collect();
    let rest: f64 = others.iter().map(|it| it.ns).sum();
    if !others.is_empty() {
        let count = number::count(others.len(), "other cause");
        parts.push(format!("{} {count}", amount(why, rest)));
    }
    parts.push(unexplained(why));
    format!("{}: {}", more(why), parts.join(", "))
}

/// The time that a stack takes more: `+0.42 s (+12 %)`.
fn more(why: &WhyFindings) -> String {
    let share = why.extra.ns / why.baseline_ns;
    format!("{} ({})", signed(why.extra.ns), number::short(1.0 + share))
}

/// The causes that a sentence names.
pub(crate) fn named(why: &WhyFindings) -> impl Iterator<Item = &CauseFindings> {
    let least = NAMED_LEAST * why.extra.ns.abs();
    why.causes.iter().filter(move |it| it.extra.ns.abs() >= least).take(NAMED_MAX)
}

fn part(why: &WhyFindings, cause: &CauseFindings) -> String {
    let Spread { low_ns, high_ns, .. } = cause.extra;
    let what = &cause.what;
    let range = range(why, low_ns, high_ns);
    match (cause.count, cause.price_ns) {
        (Some(count), Some(price)) => {
            format!("{range} {what} ({} at {})", counted(count), number::price(price))
        }
        _ => format!("{range} {what}"),
    }
}

/// Says what is left, also where the causes explain more than there is.
fn unexplained(why: &WhyFindings) -> String {
    let left = &why.unexplained;
    let amount = range(why, left.low_ns, left.high_ns);
    match left.low_ns <= 0.0 && left.high_ns >= 0.0 {
        true => format!("{amount} unexplained, which may be none"),
        false if left.ns < 0.0 => format!("{amount} explained twice"),
        false => format!("{amount} unexplained"),
    }
}

/// An amount of time in points of the baseline's, or as it is where those were too many to read.
fn amount(why: &WhyFindings, ns: f64) -> String {
    match is_in_points(why) {
        true => format!("{} points", points(why, ns)),
        false => signed(ns),
    }
}

fn range(why: &WhyFindings, low: f64, high: f64) -> String {
    match is_in_points(why) {
        true => {
            let (low, high) = (points(why, low), points(why, high));
            if low == high { format!("{low} points") } else { format!("{low} to {high} points") }
        }
        false => format!("{} to {}", signed(low), signed(high)),
    }
}

fn is_in_points(why: &WhyFindings) -> bool {
    why.extra.ns.abs() < 2.0 * why.baseline_ns
}

/// Hundredths of the baseline's time.
fn points(why: &WhyFindings, ns: f64) -> String {
    let points = 100.0 * ns / why.baseline_ns;
    let decimals = usize::from(points.abs() < 10.0);
    minus(&number::trimmed(points, decimals))
}

fn signed(ns: f64) -> String {
    match ns < 0.0 {
        true => format!("−{}", number::price(-ns)),
        false => number::price(ns),
    }
}

fn minus(number: &str) -> String {
    number.replace('-', "−")
}

/// A count in groups of three digits.
fn counted(count: f64) -> String {
    let digits = format!("{count:.0}");
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// The rows of a table of causes, the remainder the last before the sum.
pub(crate) fn rows(why: &WhyFindings) -> Vec<[String; 6]> {
    let each = |ns: Option<f64>| ns.map_or_else(String::new, number::price);
    let row = |what: &str, [count, own, baseline]: [String; 3], spread: Spread| {
        let points = range_of_points(why, &spread);
        [what.to_owned(), count, own, baseline, signed(spread.ns), points]
    };
    let nothing = || [String::new(), String::new(), String::new()];
    let cause = |it: &CauseFindings| {
        let count = it.count.map_or_else(String::new, |count| {
            let baseline = it.baseline_count.unwrap_or(count);
            let is_alike = (count - baseline).abs() <= ALIKE * count.max(baseline);
            let more = if is_alike { String::new() } else { format!(" ({})", counted(baseline)) };
            counted(count) + &more
        });
        row(&it.what, [count, each(it.price_ns), each(it.baseline_price_ns)], it.extra)
    };
    let mut all: Vec<[String; 6]> = why.causes.iter().map(cause).collect();
    all.push(row("unexplained", nothing(), why.unexplained));
    all.push(row("all", nothing(), why.extra));
    all
}

fn range_of_points(why: &WhyFindings, spread: &Spread) -> String {
    let [own, low, high] = [spread.ns, spread.low_ns, spread.high_ns].map(|ns| points(why, ns));
    format!("{own} [{low}, {high}]")
}

/// Says whose count it is, and over how many CPUs the work is spread.
pub(crate) fn source(why: &WhyFindings, baseline: &str) -> String {
    let whose = match why.counted_by {
        CountedBy::ThisMachine => {
            String::from("System calls were counted by this machine's kernel")
        }
        CountedBy::Inside => {
            String::from("System calls were counted by the kernel inside, whose word it is")
        }
        CountedBy::Baseline => {
            let why_not = why.why_not_own.as_ref().map_or_else(String::new, |it| format!(": {it}"));
            format!(
                "System calls are those of the same command in `{baseline}`, which stands \
                 in{why_not}"
            )
        }
    };
    let spread = match why.spread_over > 1.05 {
        true => format!("; costs are spread over {:.1} CPUs", why.spread_over),
        false => String::new(),
    };
    format!(
        "{whose}, in a run that is in no time; where the baseline's number is another one, it is in \
         brackets{spread}"
    )
}
