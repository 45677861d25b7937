//! The stacks of a plan: each once, with absolute paths, held to the CPUs that the plan names.

use super::depth;
use super::networks::connected;
use super::refuse::{Defaults, Draft, is_native};
use crate::driver;
use crate::fault::{Blame, Fault};
use crate::layer::{Descriptor, Root, StackSpec, medium};
use std::path::Path;

/// Largest number of stacks in a plan.
pub const STACK_LIMIT: usize = 100;

/// The stacks of a plan, completed.
pub(super) struct Checked {
    /// All of them.
    pub(super) stacks: Vec<StackSpec>,
    /// The one that the others are compared with.
    pub(super) baseline: StackSpec,
    /// Those that have got a network, each as it was named and with it.
    pub(super) joined: Vec<(StackSpec, StackSpec)>,
}

impl Draft {
    /// The stacks, each once.
    ///
    /// # Errors
    /// The user's: a stack that cannot be, is listed twice, or has no place for what another one
    /// has.
    pub(super) fn checked_stacks(
        &self,
        cwd: &Path,
        around: &Defaults<'_>,
    ) -> Result<Checked, Fault> {
        let descriptors = around.descriptors;
        let has_two_sides = self.has_two_sides()?;
        let joined = |stack: &StackSpec| {
            if has_two_sides { connected(stack, descriptors) } else { stack.clone() }
        };
        let place = (cwd, descriptors);
        let adapted =
            |field, stack: &StackSpec| self.pinned(self.located(field, stack, place)?, descriptors);
        let mut changed = Vec::new();
        if self.stacks.is_empty() {
            return Err(self.refuse("stacks", "there is no stack to run the command in").hint(
                "name some, as in `--in native,runc` or `stacks = [\"native\", \"runc\"]`; `surtax \
                 doctor` lists them",
            ));
        }
        if self.stacks.len() > STACK_LIMIT {
            let count = self.stacks.len();
            return Err(self.refuse("stacks", format!("{count} stacks are above {STACK_LIMIT}")));
        }
        let mut stacks = Vec::with_capacity(self.stacks.len() + 1);
        for named in &self.stacks {
            let joined = joined(named);
            let stack = adapted("stacks", &joined)?;
            if joined != *named {
                changed.push((named.clone(), joined));
            }
            if stacks.contains(&stack) {
                return Err(self
                    .refuse("stacks", format!("the stack `{stack}` is listed twice"))
                    .hint("list it once; the baseline runs as two arms anyway"));
            }
            stacks.push(stack);
        }
        let baseline = match &self.baseline {
            Some(baseline) => adapted("baseline", &joined(baseline))?,
            None => match stacks.iter().find(|stack| is_native(stack)) {
                Some(native) => native.clone(),
                None => self.pinned(StackSpec::parse_with("native", descriptors)?, descriptors)?,
            },
        };
        if !stacks.contains(&baseline) {
            stacks.insert(0, baseline.clone());
        }
        for stack in &stacks {
            self.check_sense(stack, around)?;
        }
        if !stacks.iter().any(names_scratch) {
            return Ok(Checked { stacks, baseline, joined: changed });
        }
        let stacks: Vec<StackSpec> = stacks
            .into_iter()
            .map(|stack| self.scratched(stack, descriptors))
            .collect::<Result<_, _>>()?;
        let mut seen = stacks.iter().enumerate();
        if let Some((_, twice)) = seen.find(|(index, stack)| stacks[..*index].contains(stack)) {
            return Err(self
                .refuse("stacks", format!("`{twice}` is there twice, once without its `scratch=`"))
                .hint("list it once: where another stack names a medium, the default is `layer`"));
        }
        Ok(Checked { stacks, baseline: self.scratched(baseline, descriptors)?, joined: changed })
    }

    /// Refuses a stack that can be on no machine, and one that names CPUs or NUMA nodes that this
    /// machine has not.
    pub(super) fn check_sense(
        &self,
        stack: &StackSpec,
        around: &Defaults<'_>,
    ) -> Result<(), Fault> {
        let labelled = |fault: Fault| {
            let message = format!("`{stack}` cannot be: {}", fault.message);
            Fault { hint: fault.hint, ..self.refuse("stacks", message) }
        };
        for (depth, spec) in stack.layers.iter().enumerate() {
            let limits = spec.limits()?;
            if let Ok(driver) = driver::find(&spec.kind) {
                let inside = stack.layers.get(depth + 1);
                let inner = inside.and_then(driver::inner);
                let refused = driver.refuse(spec, &limits, inner).and_then(|()| {
                    let inner = inner.filter(|_| !driver::is_elsewhere(spec));
                    inner.map_or(Ok(()), |it| driver::refuse_inside(spec, it))
                });
                // What the machine lacks is found where the layer is started, and is a gap.
                refused.or_else(|fault| match fault.blame {
                    Blame::User => Err(labelled(fault)),
                    _ => Ok(()),
                })?;
            }
        }
        let pinned = |message| format!("`--pin`: {message}");
        depth::refuse(stack).map_err(labelled)?;
        let Some(outermost) = stack.layers.first() else { return Ok(()) };
        let limits = outermost.limits()?;
        for (name, asked, here) in
            [("CPU", limits.cpuset, &around.cpus), ("NUMA node", limits.numa, &around.numa_nodes)]
        {
            let (asked, Some(here)) = (asked.unwrap_or_default(), here) else { continue };
            if let Some(absent) = asked.iter().find(|number| !here.contains(number)) {
                let fault = Fault::user(format!("this machine has no {name} {absent}"));
                let all: Vec<String> = here.iter().map(u32::to_string).collect();
                let fault = fault.hint(format!("its {name}s are {}", all.join(", ")));
                let is_pin = name == "CPU" && self.pin.as_deref() == outermost.option("cpuset");
                return Err(match is_pin {
                    true => Fault { hint: fault.hint, ..self.refuse("pin", pinned(fault.message)) },
                    false => labelled(fault),
                });
            }
        }
        Ok(())
    }

    /// The stack with a scratch directory: where one stack names a medium for it, the command needs
    /// the directory in all of them.
    fn scratched(
        &self,
        mut stack: StackSpec,
        descriptors: &[&'static Descriptor],
    ) -> Result<StackSpec, Fault> {
        let named = stack.to_string();
        let Some(innermost) = stack.layers.last_mut() else { return Ok(stack) };
        if innermost.root()? == Root::Host {
            return Err(self
                .refuse("stacks", format!("`{named}` has no place for a scratch directory"))
                .hint("leave `root=host` out, or every `scratch=`"));
        }
        let descriptor = Descriptor::of_kind(&innermost.kind, descriptors);
        if !descriptor.is_some_and(|descriptor| {
            descriptor.options.iter().any(|choice| choice.key == medium::KEY)
        }) {
            let kind = &innermost.kind;
            let message = format!("`{kind}` has no scratch directory, and another stack has");
            let fault = self.refuse("stacks", message);
            return Err(fault.hint(format!("leave `{named}` out, or every `scratch=`")));
        }
        let medium = medium::Medium::Layer.name();
        innermost.options.entry(medium::KEY.to_owned()).or_insert_with(|| medium.to_owned());
        Ok(stack)
    }

    /// The stack, its outermost layer held to the CPUs of `pin` unless it names its own.
    fn pinned(
        &self,
        mut stack: StackSpec,
        descriptors: &[&'static Descriptor],
    ) -> Result<StackSpec, Fault> {
        let (Some(pin), Some(outermost)) = (&self.pin, stack.layers.first_mut()) else {
            return Ok(stack);
        };
        outermost.options.entry(String::from("cpuset")).or_insert_with(|| pin.clone());
        StackSpec::parse_with(&stack.to_string(), descriptors)
            .map_err(|fault| fault.during("`--pin`"))
    }

    /// The stack with absolute paths, the outermost of which must be there.
    pub(super) fn located(
        &self,
        field: &str,
        stack: &StackSpec,
        (cwd, descriptors): (&Path, &[&'static Descriptor]),
    ) -> Result<StackSpec, Fault> {
        let mut stack = stack.clone();
        stack.make_absolute(descriptors, cwd);
        for (depth, layer) in stack.layers.iter().enumerate() {
            let descriptor = Descriptor::of_kind(&layer.kind, descriptors);
            let paths = descriptor.into_iter().flat_map(Descriptor::paths);
            for (what, path) in paths.filter_map(|key| Some((key, layer.option(key)?))) {
                self.require_one_word(field, what, path)?;
            }
            let path = match layer.root()? {
                Root::Directory(path) | Root::Oci(path) | Root::Image(path) => path,
                Root::Registry(name) if depth > 0 => {
                    let message = format!(
                        "`{}` inside of another layer cannot fetch `{name}`: this machine does, and \
                         for its own level",
                        layer.kind
                    );
                    return Err(self.refuse(field, message).hint(format!(
                        "fetch it to a directory, `skopeo copy docker://{name} oci:DIRECTORY`, and \
                         write `root=oci:DIRECTORY`"
                    )));
                }
                Root::Overlay | Root::Host | Root::Packed | Root::Registry(_) => continue,
            };
            let shown = path.display().to_string();
            self.require_one_word(field, "root", &shown)?;
            if depth == 0 && !path.exists() {
                let message = format!("the root `{shown}` of `{}` is not there", layer.kind);
                return Err(self.refuse(field, message));
            }
        }
        Ok(stack)
    }

    /// That a path is read again as it was written, as a part of its stack.
    fn require_one_word(&self, field: &str, what: &str, path: &str) -> Result<(), Fault> {
        if !path.contains(['+', ',']) {
            return Ok(());
        }
        let message =
            format!("the {what} `{path}` holds `+` or `,`, which separate layers and options");
        let fault = self.refuse(field, message);
        Err(fault.hint("give it another name, for instance by a symbolic link"))
    }
}

/// Tells whether a stack names a medium for a scratch directory, which its innermost layer has.
pub(super) fn names_scratch(stack: &StackSpec) -> bool {
    stack.innermost().is_some_and(|layer| medium::of(layer).is_some())
}
