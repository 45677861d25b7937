//! Parameters of stacks: `-L cpus 1,2,4` and `--sweep cpus=1..4` beside `--in 'runc:cpus={cpus}'`.
//!
//! A stack with `{NAME}` in it becomes one stack for each value, so that all of them stand in the
//! same blocks. One command is measured in a run: in it a parameter has no place.

use crate::fault::Fault;
use crate::layer::{Descriptor, StackSpec, split_list};
use crate::plan::STACK_LIMIT;
use clap::Args;

/// As many decimal places as a step may have.
const PLACES_MAX: usize = 6;
/// A number beyond this is not told from the next.
const NUMBER_MAX: f64 = 1e12;
/// As many values as one parameter may have: each makes a stack at least.
const VALUES_MAX: usize = STACK_LIMIT;
/// As long may a value be, and a stack in which one stands, in bytes.
const VALUE_MAX: usize = 4_096;

/// Flags that name parameters.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ParameterArguments {
    /// Makes one stack of each of these values, in the place of `{NAME}` in `--in`; may be
    /// repeated.
    ///
    /// As in `-L cpus 1,2,4 --in 'native,runc:cpus={cpus}'`. Of several parameters each value
    /// meets each of the others.
    #[arg(short = 'L', long = "parameter-list", num_args = 2, allow_hyphen_values = true, value_names = ["NAME", "VALUES"],
          action = clap::ArgAction::Append, help_heading = "What to measure")]
    lists: Vec<String>,
    /// Does the same with the numbers from one to another, such as `cpus=1..4` or, in steps,
    /// `memory=512..2048:512`.
    #[arg(
        long = "sweep",
        value_name = "NAME=FIRST..LAST[:STEP]",
        help_heading = "What to measure"
    )]
    sweeps: Vec<String>,
}

/// A name and what stands for it.
struct Parameter {
    name: String,
    values: Vec<String>,
}

impl Parameter {
    /// Place that it has in a stack.
    fn place(&self) -> String {
        format!("{{{}}}", self.name)
    }
}

impl ParameterArguments {
    /// Reads the stacks of `--in`, each once for every value of the parameters in it. `elsewhere`
    /// is what else was typed, where a parameter has no place.
    ///
    /// # Errors
    /// The user's: a stack or a parameter that is none, or one that stands in no stack.
    pub(super) fn stacks(
        &self,
        texts: &[String],
        elsewhere: &[String],
        descriptors: &[&'static Descriptor],
    ) -> Result<Vec<StackSpec>, Fault> {
        let parameters = self.parameters()?;
        for parameter in &parameters {
            let stands_in = |texts: &[String]| {
                let place = parameter.place();
                texts.iter().any(|text| text.contains(&place))
            };
            if !stands_in(texts) || stands_in(elsewhere) {
                return Err(without_a_place(&parameter.name, stands_in(elsewhere)));
            }
        }
        let mut stacks = Vec::new();
        for text in texts {
            for stack in split_list(text, descriptors).map_err(|fault| fault.during("`--in`"))? {
                // One that is too long is refused as it is.
                let known = if stack.len() > VALUE_MAX { &[] } else { parameters.as_slice() };
                for filled in filled(stack, known)? {
                    let stack = StackSpec::parse_with(&filled, descriptors);
                    stacks.push(stack.map_err(|fault| fault.during("`--in`"))?);
                }
            }
        }
        Ok(stacks)
    }

    fn parameters(&self) -> Result<Vec<Parameter>, Fault> {
        let mut found: Vec<Parameter> = Vec::new();
        let lists = self.lists.chunks(2).map(|pair| match pair {
            [name, values] => listed(name, values).map_err(|fault| fault.during("`-L`")),
            _ => Err(Fault::bug("clap gave a parameter without its values")),
        });
        let sweeps =
            self.sweeps.iter().map(|it| swept(it).map_err(|fault| fault.during("`--sweep`")));
        for parameter in lists.chain(sweeps) {
            let parameter = parameter?;
            let name = &parameter.name;
            if found.iter().any(|known| known.name == *name) {
                return Err(Fault::user(format!("the parameter `{name}` is given twice"))
                    .hint("give all its values in one list"));
            }
            found.push(parameter);
        }
        Ok(found)
    }
}

/// Refuses a parameter that nothing in `--in` uses, or something else.
fn without_a_place(name: &str, is_elsewhere: bool) -> Fault {
    if is_elsewhere {
        return Fault::user(format!("the parameter `{name}` has a place in `--in` alone")).hint(
            "one command is measured in a run: for its variants, type one run for each, with \
             `--title`; if the braces are the command's own, name the parameter otherwise",
        );
    }
    Fault::user(format!("the parameter `{name}` stands in no stack of `--in`")).hint(format!(
        "write `{{{name}}}` where its values go, as in `--in 'native,runc:cpus={{{name}}}'`"
    ))
}

/// Returns a text once for every value of the parameters that stand in it.
///
/// # Errors
/// The user's: more stacks than a run may have.
fn filled(text: &str, parameters: &[Parameter]) -> Result<Vec<String>, Fault> {
    let mut texts = vec![text.to_owned()];
    for parameter in parameters.iter().filter(|it| text.contains(&it.place())) {
        let Parameter { name, values } = parameter;
        if texts.len() * values.len() > STACK_LIMIT {
            return Err(Fault::user(format!(
                "with the values of `{name}` there would be more than {STACK_LIMIT} stacks"
            ))
            .hint("give fewer values, or measure them in several runs"));
        }
        let place = parameter.place();
        let longest = values.iter().map(String::len).max().unwrap_or(0);
        let is_long = |it: &String| it.matches(&place).count() * longest + it.len() > VALUE_MAX;
        if texts.iter().any(is_long) {
            return Err(Fault::user(format!(
                "with the values of `{name}` a stack would have more than {VALUE_MAX} bytes"
            ))
            .hint("name what is long in a file, or shorten it"));
        }
        let with_each = |text: &String| {
            let with = |value: &String| text.replace(&place, value);
            values.iter().map(with).collect::<Vec<_>>()
        };
        texts = texts.iter().flat_map(with_each).collect();
    }
    Ok(texts)
}

fn listed(name: &str, values: &str) -> Result<Parameter, Fault> {
    let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
    if values.iter().any(String::is_empty) {
        return Err(Fault::user(format!("a value of `{name}` is missing between the commas"))
            .hint(format!("write `-L {name} A,B`")));
    }
    parameter(name, values)
}

fn swept(typed: &str) -> Result<Parameter, Fault> {
    let refused = |why: &str| {
        Fault::user(format!("`{typed}`: {why}"))
            .hint("write `NAME=FIRST..LAST` or `NAME=FIRST..LAST:STEP`, such as `cpus=1..4`")
    };
    let halves = typed.split_once('=').and_then(|(name, it)| Some((name, it.split_once("..")?)));
    let (name, (first, rest)) = halves.ok_or_else(|| refused("no numbers from one to another"))?;
    let (last, step) = rest.split_once(':').unwrap_or((rest, "1"));
    let number = |text: &str| {
        let places = text.split_once('.').map_or(0, |(_, places)| places.len());
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        let is_plain = digits.starts_with(|it: char| it.is_ascii_digit())
            && digits.chars().all(|it| it.is_ascii_digit() || it == '.');
        let is_told = |it: &f64| is_plain && it.abs() <= NUMBER_MAX && places <= PLACES_MAX;
        let value = text.parse::<f64>().ok().filter(is_told);
        value.map(|it| (it, places)).ok_or_else(|| refused(&format!("`{text}` is no number")))
    };
    let ((first, a), (last, b), (step, c)) = (number(first)?, number(last)?, number(step)?);
    if step <= 0.0 || last < first {
        return Err(refused("it goes upwards, in steps above 0"));
    }
    // A sum of decimal steps may be a little more than it should.
    let end = last + step * 1e-6;
    let values = (0_u32..).take(VALUES_MAX + 1).map(|at| first + f64::from(at) * step);
    let places = a.max(b).max(c);
    let shown = values.take_while(|value| *value <= end).map(|value| format!("{value:.places$}"));
    parameter(name, shown.collect())
}

fn parameter(name: &str, values: Vec<String>) -> Result<Parameter, Fault> {
    let is_mark = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    if name.is_empty() || !name.chars().all(is_mark) {
        return Err(Fault::user(format!("`{}` is no name of a parameter", name.escape_debug()))
            .hint("a name has letters, digits, `_` and `-`"));
    }
    if values.len() > VALUES_MAX {
        return Err(Fault::user(format!("`{name}` has more than {VALUES_MAX} values"))
            .hint("measure them in several runs"));
    }
    if let Some(value) = values.iter().find(|it| it.contains(['{', '}']) || it.len() > VALUE_MAX) {
        let shown: String = value.chars().take(60).collect();
        return Err(Fault::user(format!("`{}` is no value of `{name}`", shown.escape_debug()))
            .hint(format!("a value has no braces, and at most {VALUE_MAX} bytes")));
    }
    Ok(Parameter { name: name.to_owned(), values })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::tests::DESCRIPTORS;

    fn stacks(lists: &[&str], sweeps: &[&str], typed: &str) -> Result<Vec<String>, String> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let arguments = ParameterArguments { lists: owned(lists), sweeps: owned(sweeps) };
        let found =
            arguments.stacks(&[typed.to_owned()], &[String::from("sh -c {c}")], DESCRIPTORS);
        let shown = |stacks: Vec<StackSpec>| stacks.iter().map(ToString::to_string).collect();
        found.map(shown).map_err(|fault| fault.to_string())
    }

    #[test]
    fn a_stack_stands_once_for_each_value_and_another_once() {
        let found = stacks(&["n", "1,2"], &[], "native,runc:cpus={n},memory=1G,qemu").unwrap();
        assert_eq!(found, ["native", "runc:cpus=1,memory=1G", "runc:cpus=2,memory=1G", "qemu"]);
    }

    #[test]
    fn a_parameter_that_the_command_has_too_is_refused() {
        let said = stacks(&["c", "1,2"], &[], "runc:cpus={c}").unwrap_err();
        assert!(said.contains("has a place in `--in` alone"), "{said}");
    }

    #[test]
    fn a_parameter_may_be_the_layer_and_each_value_meets_each_of_the_others() {
        let found = stacks(&["l", "runc,docker"], &["n=1..2"], "{l}:cpus={n}").unwrap();
        assert_eq!(found, ["runc:cpus=1", "runc:cpus=2", "docker:cpus=1", "docker:cpus=2"]);
    }

    #[test]
    fn no_more_stacks_are_made_than_a_run_may_have() {
        let many: Vec<String> = (1..=60).map(|value| value.to_string()).collect();
        let many = many.join(",");
        let said = stacks(&["a", &many, "b", &many], &[], "runc:env.A={a},env.B={b}").unwrap_err();
        assert!(said.starts_with("with the values of `b` there would be more than 100"), "{said}");
        let said = stacks(&["a", &"y".repeat(4_000)], &[], "runc:env.A={a}{a}").unwrap_err();
        assert!(said.contains("would have more than 4096 bytes"), "{said}");
        let long = format!("runc:env.A={}", "{a}".repeat(20_000));
        let said = stacks(&["a", &"y".repeat(4_000)], &[], &long).unwrap_err();
        assert!(said.contains("4096 are the limit"), "{}", &said[..200]);
    }

    #[test]
    fn a_sweep_has_both_ends_and_decimal_steps() {
        let found = stacks(&[], &["n=0.1..0.4:0.1"], "runc:cpus={n}").unwrap();
        assert_eq!(found, ["runc:cpus=0.1", "runc:cpus=0.2", "runc:cpus=0.3", "runc:cpus=0.4"]);
        let found = stacks(&[], &["n=1..4:2"], "runc:cpus={n}").unwrap();
        assert_eq!(found, ["runc:cpus=1", "runc:cpus=3"], "the last step would go beyond");
    }

    #[test]
    fn what_is_no_parameter_is_refused_with_what_to_write() {
        for (lists, sweeps, wanted) in [
            (vec!["n", "1,,2"], vec![], "missing between the commas"),
            (vec!["n", "1"], vec!["n=1..2"], "given twice"),
            (vec!["m", "1"], vec![], "\n  hint: write `{m}` where"),
            (vec!["c", "1"], vec![], "has a place in `--in` alone"),
            (vec!["a b", "1"], vec![], "is no name of a parameter"),
            (vec![], vec!["n"], "no numbers from one to another"),
            (vec![], vec!["n=1..x"], "`x` is no number"),
            (vec![], vec!["n=1...4"], "`.4` is no number"),
            (vec![], vec!["n=4..1"], "goes upwards"),
            (vec![], vec!["n=1..4:0"], "goes upwards"),
            (vec![], vec!["n=0..1000000"], "has more than 100 values"),
            (vec![], vec!["n=1..3:14e-1"], "`14e-1` is no number"),
            (vec![], vec!["n=9007199254740993..9007199254740993"], "is no number"),
            (vec!["n", "{m},1"], vec![], "`{m}` is no value of `n`"),
            (vec![], vec!["n=0..nan"], "`nan` is no number"),
        ] {
            let said = stacks(&lists, &sweeps, "runc:cpus={n}").unwrap_err();
            assert!(said.contains(wanted), "{lists:?} {sweeps:?}: {said}");
        }
    }
}
