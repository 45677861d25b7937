//! Reads one stack: from its text to layers that are checked against the registry.
//!
//! Every refusal points into the text, says what is valid, and names the nearest word to what was
//! typed. What comes out prints as a text that reads as the same stack again.

mod choice;
mod image;

use crate::fault::Fault;
use crate::layer::common_options::{
    ALIASES, ANY_VARIABLE, COMMON, instead_of_huge_machine, instead_of_outer, refuse_name,
    refuse_value, variable,
};
use crate::layer::nearest::instead;
use crate::layer::{Descriptor, LayerSpec, StackSpec, medium};
use std::collections::BTreeMap;

/// The most layers in one stack.
pub const DEPTH_LIMIT: usize = 8;

/// The root that holds a command and nothing else.
const PACKED: &str = "packed";

/// Reason why such a root is none for a layer with others inside.
const PACKED_OUTSIDE: &str =
    "a packed root holds the command alone, and nothing to start a layer with";

/// The longest text of a stack, in bytes.
const TEXT_LIMIT: usize = 4096;

impl StackSpec {
    /// Reads a stack and checks it against these descriptors.
    ///
    /// # Errors
    /// The user's: what is wrong, with a line that points at it and the valid words.
    pub fn parse_with(text: &str, descriptors: &[&'static Descriptor]) -> Result<Self, Fault> {
        let source = Source::new(text)?;
        let layers = source.layers(descriptors)?;
        let mut specs = Vec::with_capacity(layers.len());
        for (index, layer) in layers.iter().enumerate() {
            let descriptor = source.descriptor(layer, descriptors)?;
            source.check_place(descriptor, layer, index, &layers)?;
            let innermost = layers.last().unwrap_or(layer);
            specs.push(source.check_options(descriptor, layer, innermost, descriptors)?);
        }
        Ok(Self { layers: specs })
    }

    /// Variables that the command gets in this stack beside the plan's: name and value.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.innermost().into_iter().flat_map(LayerSpec::variables)
    }

    /// The innermost layer, in which the command runs.
    #[must_use]
    pub fn innermost(&self) -> Option<&LayerSpec> {
        self.layers.last()
    }
}

/// Reads the form only, not the words: a ledger from a surtax that knew other layers stays legible.
/// Every option has its key there, as it is printed. What a person typed is read by
/// [`StackSpec::parse_with`].
impl TryFrom<String> for StackSpec {
    type Error = Fault;
    fn try_from(text: String) -> Result<Self, Fault> {
        let source = Source::new(&text)?;
        let layers = source.layers(&[])?;
        let of = |layer: LayerText<'_>| LayerSpec::of(layer.kind, &layer.options);
        Ok(Self { layers: layers.into_iter().map(of).collect() })
    }
}

/// A text that is being read. All parts are slices of it, so that an error can point at them.
struct Source<'a> {
    text: &'a str,
}

/// One layer as it stands in the text.
struct LayerText<'a> {
    whole: &'a str,
    kind: &'a str,
    options: Vec<(&'a str, &'a str)>,
}

/// Returns the kind that a word means, and the option that it means beside it: its own, unless it
/// is an alias.
#[must_use]
pub fn meaning<'a>(
    word: &'a str,
    descriptors: &[&'static Descriptor],
) -> (&'a str, Option<(&'static str, &'static str)>) {
    let mut aliases =
        descriptors.iter().flat_map(|it| it.aliases.iter().map(|alias| (it.kind, *alias)));
    let found = aliases.find(|(_, (alias, _))| *alias == word);
    found.map_or((word, None), |(kind, (_, option))| (kind, option.split_once('=')))
}

/// The word of a layer before its options.
fn alias(whole: &str) -> &str {
    whole.split(':').next().unwrap_or(whole).trim()
}

impl<'a> Source<'a> {
    fn new(text: &'a str) -> Result<Self, Fault> {
        if text.trim().is_empty() {
            return Err(Fault::user("the stack is empty").hint("write a layer, such as `native`"));
        }
        if text.len() > TEXT_LIMIT {
            let length = text.len();
            return Err(Fault::user(format!(
                "the stack is {length} bytes long, and {TEXT_LIMIT} are the limit"
            )));
        }
        if text.chars().any(char::is_control) {
            let shown = text.escape_debug();
            return Err(Fault::user(format!("the stack `{shown}` holds a control character")));
        }
        Ok(Self { text })
    }

    /// The user's fault, with a line of carets under `part`.
    fn refuse(&self, part: &str, message: impl std::fmt::Display) -> Fault {
        let offset = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let before = self.text.get(..offset).map_or(0, |text| text.chars().count());
        let width = part.chars().count().max(1);
        let (gap, carets) = (" ".repeat(before), "^".repeat(width));
        Fault::user(format!("{message}\n    {}\n    {gap}{carets}", self.text))
    }

    fn layers(&self, descriptors: &[&'static Descriptor]) -> Result<Vec<LayerText<'a>>, Fault> {
        let parts: Vec<&str> = self.text.split('+').map(str::trim).collect();
        if let Some(surplus) = parts.get(DEPTH_LIMIT) {
            let depth = parts.len();
            let message = format!("{depth} layers are too many");
            return Err(self.refuse(surplus, message).hint(format!("nest at most {DEPTH_LIMIT}")));
        }
        parts.into_iter().map(|part| self.layer(part, descriptors)).collect()
    }

    fn layer(
        &self,
        whole: &'a str,
        descriptors: &[&'static Descriptor],
    ) -> Result<LayerText<'a>, Fault> {
        let (kind, options) = match whole.split_once(':') {
            Some((kind, options)) => (kind.trim(), Some(options)),
            None => (whole, None),
        };
        let (kind, meant) = meaning(kind, descriptors);
        self.require_name(kind, descriptors)?;
        let subject = Descriptor::of_kind(kind, descriptors).and_then(|it| it.subject);
        let mut layer = LayerText { whole, kind, options: Vec::new() };
        for option in options.into_iter().flat_map(|options| options.split(',')) {
            let option = option.trim();
            let is_bare = layer.options.is_empty() && !option.is_empty() && !option.contains('=');
            let (key, value) = match subject {
                Some(subject) if is_bare => (subject, option),
                _ => self.option(kind, option).map_err(|fault| {
                    match after_comma(option, layer.options.last(), descriptors) {
                        Some(hint) => fault.hint(hint),
                        None if image::is_an_image(kind, option, descriptors) => {
                            fault.hint(format!("write `{kind}:image={option}`"))
                        }
                        None => fault,
                    }
                })?,
            };
            if layer.options.iter().any(|&(earlier, _)| canonical(earlier) == canonical(key)) {
                let message = format!("option `{key}` of `{kind}` is given twice");
                return Err(self.refuse(key, message).hint("keep one of them"));
            }
            layer.options.push((key, value));
        }
        let Some((key, value)) = meant else { return Ok(layer) };
        match layer.options.iter().find(|&&(earlier, _)| canonical(earlier) == key) {
            Some((earlier, _)) => {
                let message = format!("`{}` says `{key}={value}` already", alias(whole));
                Err(self.refuse(earlier, message).hint(format!("write `{kind}` in its place")))
            }
            None => {
                layer.options.push((key, value));
                Ok(layer)
            }
        }
    }

    /// Refuses what cannot be the name of a layer.
    fn require_name(&self, kind: &str, descriptors: &[&'static Descriptor]) -> Result<(), Fault> {
        if kind.is_empty() {
            return Err(self
                .refuse(kind, "a layer is missing here")
                .hint("name one, or drop the `+`"));
        }
        if let Some(at) = kind.find([',', '=']) {
            let (name, rest) = kind.split_at(at);
            let options = rest.strip_prefix(',').map_or("KEY=VALUE", str::trim);
            if !is_layer(options, descriptors) {
                return Err(self
                    .refuse(rest, "options without a `:` after the layer's name")
                    .hint(format!("write `{name}:{options}`")));
            }
            let outer = Descriptor::of_kind(name, descriptors);
            let hint = match outer.is_some_and(|outer| outer.holds_layers) {
                true => format!("write `{name}+{options}` for a layer in a layer"),
                false => format!("write `{name}` or `{options}` alone"),
            };
            return Err(self.refuse(rest, "one stack is asked for at a time here").hint(hint));
        }
        if let Some(at) = kind.find([';', '|', ' ']) {
            let (name, rest) = kind.split_at(at);
            let other = rest.trim_start_matches([';', '|', ' ']);
            return Err(self
                .refuse(kind, format!("`{kind}` is not the name of a layer"))
                .hint(format!("divide stacks by a comma: `{name},{other}`")));
        }
        Ok(())
    }

    fn option(&self, kind: &str, option: &'a str) -> Result<(&'a str, &'a str), Fault> {
        if option.is_empty() {
            return Err(self
                .refuse(option, format!("an option of `{kind}` is missing here"))
                .hint("write `KEY=VALUE`, or drop the `:` or `,`"));
        }
        let Some((key, value)) = option.split_once('=') else {
            return Err(self
                .refuse(option, format!("`{option}` is not an option with a value"))
                .hint(format!("write `{option}=VALUE`")));
        };
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() {
            return Err(self.refuse(option, "an option without a name before `=`"));
        }
        if value.is_empty() {
            return Err(self.refuse(option, format!("option `{key}` of `{kind}` has no value")));
        }
        Ok((key, value))
    }

    fn descriptor(
        &self,
        layer: &LayerText<'_>,
        descriptors: &[&'static Descriptor],
    ) -> Result<&'static Descriptor, Fault> {
        Descriptor::of_kind(layer.kind, descriptors).ok_or_else(|| {
            let kinds = descriptors.iter().map(|descriptor| descriptor.kind);
            let fault = self.refuse(layer.kind, format!("unknown layer `{}`", layer.kind));
            match is_cpus(layer.kind) {
                true => fault.hint("divide CPUs by a semicolon, as in `cpuset=0;1`"),
                false => fault.hint(instead(layer.kind, "layers", kinds)),
            }
        })
    }

    /// Refuses a layer that cannot be where it stands.
    fn check_place(
        &self,
        descriptor: &Descriptor,
        layer: &LayerText<'_>,
        index: usize,
        layers: &[LayerText<'_>],
    ) -> Result<(), Fault> {
        let kind = descriptor.kind;
        let inner = layers.get(index + 1);
        if kind == "native" && layers.len() > 1 {
            let rest: Vec<&str> = layers
                .iter()
                .filter(|other| other.kind != "native")
                .map(|other| other.whole)
                .collect();
            let fault =
                self.refuse(layer.whole, "`native` is the absence of layers and stands alone");
            return Err(match rest.as_slice() {
                [] => fault.hint("write `native`"),
                rest => fault.hint(format!("write `{}`", rest.join("+"))),
            });
        }
        match inner {
            Some(inner) if !descriptor.holds_layers => {
                let message = format!("`{kind}` cannot hold `{}` or any other layer", inner.kind);
                Err(self.refuse(layer.whole, message).hint(format!("put `{kind}` last")))
            }
            _ => Ok(()),
        }
    }

    fn check_options(
        &self,
        descriptor: &Descriptor,
        layer: &LayerText<'_>,
        innermost: &LayerText<'_>,
        descriptors: &[&'static Descriptor],
    ) -> Result<LayerSpec, Fault> {
        let mut options = BTreeMap::new();
        for &(key, value) in &layer.options {
            let own = descriptor.options.iter().find(|choice| choice.key == key);
            match own {
                Some(choice) if descriptor.is_remote && descriptor.subject == Some(key) => {
                    self.check_subject(choice, value)?;
                }
                Some(choice) => {
                    if key == medium::KEY {
                        self.check_innermost(layer, innermost, (key, value), descriptors)?;
                    }
                    self.check_choice(descriptor, choice, value)?;
                }
                None if COMMON.contains(&canonical(key)) => {
                    let key_means_nothing = !descriptor.takes(canonical(key));
                    let wrong = if key_means_nothing { key } else { value };
                    refuse_value(descriptor, canonical(key), value, descriptors).map_err(
                        |fault| Fault { hint: fault.hint, ..self.refuse(wrong, fault.message) },
                    )?;
                    if value == PACKED && !std::ptr::eq(layer, innermost) {
                        return Err(self.refuse(value, PACKED_OUTSIDE).hint(format!(
                            "leave `root=` out of `{}`, or every layer behind it",
                            descriptor.kind
                        )));
                    }
                }
                None if image::is_image_of(descriptor, key) => {
                    let root = self.image(descriptor, layer, (key, value), descriptors)?;
                    options.insert(String::from("root"), root);
                    continue;
                }
                None if variable(key).is_some() => {
                    self.check_variable(layer, innermost, (key, value), descriptors)?;
                }
                None => return Err(self.unknown_option(descriptor, key)),
            }
            let key = if own.is_some() { key } else { canonical(key) };
            options.insert(key.to_owned(), value.to_owned());
        }
        if let Some(subject) = descriptor.subject.filter(|subject| !options.contains_key(*subject))
        {
            let kind = descriptor.kind;
            return Err(self
                .refuse(layer.whole, format!("`{kind}` means nothing without its `{subject}`"))
                .hint(format!("write `{kind}:{}`", subject.to_uppercase())));
        }
        if options.contains_key("partition") && !options.contains_key("cpuset") {
            return Err(self
                .refuse(
                    layer.whole,
                    "`partition` keeps CPUs from others, and no `cpuset` says which",
                )
                .hint("add it, as in `cpuset=1,partition=isolated`"));
        }
        Ok(LayerSpec { kind: descriptor.kind.to_owned(), options })
    }

    /// Refuses what is for the command on a layer in which it does not run.
    fn check_innermost(
        &self,
        layer: &LayerText<'_>,
        innermost: &LayerText<'_>,
        (key, value): (&str, &str),
        descriptors: &[&'static Descriptor],
    ) -> Result<(), Fault> {
        if std::ptr::eq(layer, innermost) {
            return Ok(());
        }
        let (kind, inner) = (layer.kind, innermost.kind);
        let message = format!("`{key}` is for the command, which runs in `{inner}`");
        let hint = instead_of_outer((kind, inner), (key, value), descriptors);
        Err(self.refuse(key, message).hint(hint))
    }

    /// Refuses a variable that no command would get.
    fn check_variable(
        &self,
        layer: &LayerText<'_>,
        innermost: &LayerText<'_>,
        (key, value): (&str, &str),
        descriptors: &[&'static Descriptor],
    ) -> Result<(), Fault> {
        self.check_innermost(layer, innermost, (key, value), descriptors)?;
        refuse_name(variable(key).unwrap_or_default())
            .map_err(|fault| Fault { hint: fault.hint, ..self.refuse(key, fault.message) })
    }

    fn unknown_option(&self, descriptor: &Descriptor, key: &str) -> Fault {
        let kind = descriptor.kind;
        if let Some(hint) = instead_of_huge_machine(descriptor, key) {
            return self.refuse(key, format!("unknown option `{key}` of `{kind}`")).hint(hint);
        }
        let own = descriptor.options.iter().map(|choice| choice.key);
        let common = COMMON.iter().copied().filter(|key| descriptor.takes(key));
        self.refuse(key, format!("unknown option `{key}` of `{kind}`")).hint(instead(
            key,
            &format!("options of `{kind}`"),
            own.chain(common).chain([ANY_VARIABLE]),
        ))
    }
}

/// Says what was meant by a word behind a comma that is no option: another CPU, or another layer.
fn after_comma(
    word: &str,
    before: Option<&(&str, &str)>,
    descriptors: &[&'static Descriptor],
) -> Option<String> {
    match before {
        Some((key, first)) if *key == "cpuset" && is_cpus(word) => {
            Some(format!("divide CPUs by a semicolon: `cpuset={first};{word}`"))
        }
        _ => is_layer(word, descriptors).then(|| format!("put a `+` before a layer: `+{word}`")),
    }
}

/// Tells whether a text begins with the name of a layer.
fn is_layer(text: &str, descriptors: &[&'static Descriptor]) -> bool {
    let kind = text.split([',', ':', '+']).next().unwrap_or_default().trim();
    descriptors.iter().any(|descriptor| descriptor.kind == kind)
}

/// Tells whether a text is a number of a CPU, or a range of them.
fn is_cpus(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_digit())
        && text.chars().all(|letter| letter.is_ascii_digit() || matches!(letter, '-' | ';'))
}

/// The one spelling of a key that may be spelt in two ways.
fn canonical(key: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, canonical)| canonical)
}

#[cfg(test)]
pub(crate) mod tests;
