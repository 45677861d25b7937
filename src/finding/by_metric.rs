//! Grouping of what is told metric by metric, whatever arm it is of.

use std::collections::HashMap;

/// Groups things by their metric, in the order in which the metrics are first met; within one, as
/// they come.
pub(crate) fn by_metric<'a, T>(
    things: impl IntoIterator<Item = (&'a str, T)>,
) -> Vec<(&'a str, Vec<T>)> {
    let mut groups: Vec<(&str, Vec<T>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (metric, thing) in things {
        let place = *places.entry(metric).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, group)) => group.push(thing),
            None => groups.push((metric, vec![thing])),
        }
    }
    groups
}

/// One line for each metric: its name, and what is said of each stack.
pub(crate) fn lines<'a>(
    words: impl IntoIterator<Item = (&'a str, String)>,
) -> Vec<(String, String)> {
    let groups = by_metric(words).into_iter();
    groups.map(|(metric, stacks)| (metric.to_owned(), stacks.join("; "))).collect()
}

#[cfg(test)]
mod tests {
    use crate::finding::by_metric::*;

    #[test]
    fn metrics_keep_the_order_in_which_they_are_first_met() {
        let all = [("rate", 1), ("latency", 2), ("rate", 3)];
        assert_eq!(by_metric(all), [("rate", vec![1, 3]), ("latency", vec![2])]);
        let words = all.map(|(metric, number)| (metric, number.to_string()));
        let line = |metric: &str, text: &str| (metric.to_owned(), text.to_owned());
        assert_eq!(lines(words), [line("rate", "1; 3"), line("latency", "2")]);
    }
}
