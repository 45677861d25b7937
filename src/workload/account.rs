//! Account of what is read from an output, one by one: for the person who writes a workload file,
//! in the units that the tool prints.

use super::definition::Definition;
use super::extract::Printed;
use super::metric::quantiles;

/// One thing that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountLine {
    /// Kind of thing: `check`, `metric`, `quantile` or `setting`.
    pub kind: &'static str,
    /// Name of it; for a check, what it shows.
    pub name: String,
    /// Value that was read: a number, a word, or why there is none.
    pub value: String,
    /// As the file says it, where it has one.
    pub unit: &'static str,
    /// Value that it must have, for people; empty where the file says nothing of it.
    pub wanted: String,
}

impl Definition {
    /// Everything that is read from what the command printed on standard output, in the order of
    /// the file.
    ///
    /// # Errors
    /// As [`Definition::read`]: one sentence.
    pub fn account(&self, stdout: &str) -> Result<Vec<AccountLine>, String> {
        let reading = self.read(stdout)?;
        let printed = Printed::of(stdout);
        let mut lines = Vec::new();
        let mut add = |kind, name: &str, value: String, unit, wanted| {
            lines.push(AccountLine { kind, name: name.to_owned(), value, unit, wanted });
        };
        for check in &self.checks {
            let value = check.extract.number(&printed)?.to_string();
            add("check", &check.about, value, "", check.limits.words());
        }
        for rule in &self.metrics {
            let absence = reading.absences.iter().find(|absence| absence.metric == rule.name);
            let value = match absence {
                Some(absence) => format!("none: {}", absence.why),
                None => rule.extract.number(&printed)?.to_string(),
            };
            add("metric", &rule.name, value, rule.unit.printed, rule.limits.words());
        }
        for (rule, found) in self.histograms.iter().zip(&reading.histograms) {
            for metric in quantiles(&rule.name, &found.histogram) {
                let value = rounded(metric.value / rule.unit.factor).to_string();
                add("quantile", &metric.name, value, rule.unit.printed, String::new());
            }
        }
        for (name, value) in reading.settings {
            add("setting", &name, value, "", String::new());
        }
        Ok(lines)
    }
}

/// To the six digits of which a histogram's bins leave less.
fn rounded(number: f64) -> f64 {
    format!("{number:.5e}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
about = "x"
command = ["x"]
[[check]]
about = "it ended"
regex = 'done (\d+)'
min = 1
[[metric]]
name = "took"
unit = "s"
better = "lower"
regex = 'took ([0-9.]+) s'
[[histogram]]
name = "latency"
unit = "us"
jsonpath = "$.bins"
[[setting]]
name = "place"
jsonpath = "$.place"
"#;

    #[test]
    fn all_that_is_read_is_told_in_the_units_of_the_file() {
        let definition = Definition::parse(FILE, "x.toml").unwrap();
        let stdout =
            "done 3\ntook 0.25 s\n{\"place\": \"CPU 1\", \"bins\": [[10, 30], [40, 10]]}\n";
        let lines = definition.account(stdout).unwrap();
        let of = |line: &AccountLine| {
            format!("{} {} {} {}", line.kind, line.name, line.value, line.unit)
        };
        assert_eq!(of(&lines[0]), "check it ended 3 ");
        assert_eq!(lines[0].wanted, "at least 1");
        assert_eq!(of(&lines[1]), "metric took 0.25 s");
        assert_eq!((lines[2].kind, lines[2].unit), ("quantile", "us"));
        let median: f64 = lines[2].value.parse().unwrap();
        assert!((9.9..10.1).contains(&median), "{median}");
        assert_eq!(of(&lines[3]), "setting place CPU 1 ");
        assert!(definition.account("done 0\n").is_err());
    }
}
