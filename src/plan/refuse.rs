//! Turns a draft into a plan: fills in what was not said, and refuses what contradicts itself.
//!
//! The command line and a plan file both end here, so that neither can ask for what the other
//! cannot. What was decided for the user and might surprise is returned as a note.

use super::expand::BLOCK_LIMIT;
use super::stacks::{Checked, names_scratch};
use super::{Neighbour, Plan, SCHEMA_VERSION, TrialSettingsDraft, Word, budget, looks, shell};
use crate::driver;
use crate::fault::Fault;
use crate::layer::{Descriptor, Root, StackSpec};
use crate::meter::{self, MeterSpec};
use crate::workload::Workload;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::quantity::Nanoseconds;

/// Blocks of a plan that names neither a count nor a time.
const DEFAULT_RUNS: u32 = 10;

/// Blocks after which a plan that names a precision, and neither a count nor a time, gives up.
pub(super) const PRECISION_RUNS: u32 = 200;
pub(super) const DEFAULT_DEADLINE: Duration = Duration::from_secs(30 * 60);
pub(super) const DEFAULT_START_DEADLINE: Duration = Duration::from_secs(180);
pub(super) const DEFAULT_MARGIN_PPM: u32 = 30_000;
const WARM_UP_LIMIT: u32 = 1_000;
const TITLE_LIMIT: usize = 72;

/// Length in bytes of the longest title: some formats have it beside every number.
pub const TITLE_MAX: usize = 1_000;

/// A plan of which not everything has been said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Draft {
    /// See [`Plan::title`]; by default the command.
    pub title: Option<String>,
    /// See [`Plan::stacks`].
    pub stacks: Vec<StackSpec>,
    /// The CPUs to which stacks are held that name none themselves, as after `cpuset=`.
    pub pin: Option<String>,
    /// See [`Plan::baseline`]; by default the first `native`, added if there is none.
    pub baseline: Option<StackSpec>,
    /// See [`Plan::beside`].
    pub beside: Vec<Neighbour>,
    /// See [`Plan::meters`].
    pub meters: Vec<MeterSpec>,
    /// See [`Plan::command`].
    pub command: Vec<Word>,
    /// Workload to run instead of a command.
    pub workload: Option<Workload>,
    /// See [`Plan::cwd`]; by default where surtax was called.
    pub cwd: Option<PathBuf>,
    /// True if the command also gets the caller's environment; by default it does.
    pub inherit_environment: Option<bool>,
    /// Variables set over the inherited ones; the last of equal names counts.
    pub environment: Vec<(String, Word)>,
    /// See [`Plan::writable`]; relative paths are seen from `cwd`.
    pub writable: Vec<PathBuf>,
    /// See [`Plan::runs`].
    pub runs: Option<u32>,
    /// See [`Plan::time_budget_ns`].
    pub time: Option<Duration>,
    /// See [`Plan::precision_ppm`]; by default the count or the time decides alone.
    pub precision_ppm: Option<u32>,
    /// See [`Plan::looks`]; by default one.
    pub looks: Option<u32>,
    /// See [`Plan::warm_up`]; by default none.
    pub warm_up: Option<u32>,
    /// See [`Plan::conduct`].
    pub conduct: TrialSettingsDraft,
    /// See [`Plan::command_deadline_ns`]; by default 30 minutes.
    pub deadline: Option<Duration>,
    /// See [`Plan::start_deadline_ns`]; by default 3 minutes.
    pub start_deadline: Option<Duration>,
    /// See [`Plan::equivalence_margin_ppm`]; by default 3 %.
    pub margin_ppm: Option<u32>,
    /// See [`Plan::seed`]; by default a fresh one.
    pub seed: Option<u64>,
    /// Place where a field was said, as in `plans/io.toml:14`, for errors.
    pub places: BTreeMap<&'static str, String>,
}

/// Defaults from where the caller is, which fill the gaps of a draft.
#[derive(Clone, Debug)]
pub struct Defaults<'a> {
    /// The caller's working directory.
    pub cwd: PathBuf,
    /// Seed for a plan that names none.
    pub fresh_seed: u64,
    /// The layers that are known.
    pub descriptors: &'a [&'static Descriptor],
    /// The CPUs of this machine, where they can be told.
    pub cpus: Option<Vec<u32>>,
    /// The NUMA nodes of this machine, where it has any and they can be told.
    pub numa_nodes: Option<Vec<u32>>,
}

impl<'a> Defaults<'a> {
    /// Returns those of a caller in `/` on a machine of which nothing is known, with a fixed seed:
    /// for a plan that no person wrote.
    #[must_use]
    pub fn of_no_machine(descriptors: &'a [&'static Descriptor]) -> Self {
        Self { cwd: "/".into(), fresh_seed: 0, descriptors, cpus: None, numa_nodes: None }
    }
}

/// A plan, and what the user should know about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedPlan {
    /// Complete and free of contradictions.
    pub plan: Plan,
    /// Sentences, most important first.
    pub notes: Vec<String>,
}

impl Draft {
    /// Lays another draft over this one: what the other says counts, what it leaves out stays.
    #[must_use]
    pub fn overlaid_by(mut self, other: Self) -> Self {
        self.places.retain(|field, _| !other.says(field));
        self.places.extend(other.places);
        self.environment.extend(other.environment);
        let is_other_a_workload = other.workload.is_some();
        Self {
            title: other.title.or(self.title),
            stacks: list_over(other.stacks, self.stacks),
            pin: other.pin.or(self.pin),
            baseline: other.baseline.or(self.baseline),
            beside: list_over(other.beside, self.beside),
            meters: list_over(other.meters, self.meters),
            // What is run is said once: as a command, or as a workload.
            workload: if other.command.is_empty() {
                other.workload.or(self.workload)
            } else {
                other.workload
            },
            command: if is_other_a_workload {
                other.command
            } else {
                list_over(other.command, self.command)
            },
            cwd: other.cwd.or(self.cwd),
            inherit_environment: other.inherit_environment.or(self.inherit_environment),
            environment: self.environment,
            writable: list_over(other.writable, self.writable),
            runs: other.runs.or(self.runs),
            time: other.time.or(self.time),
            precision_ppm: other.precision_ppm.or(self.precision_ppm),
            looks: other.looks.or(self.looks),
            warm_up: other.warm_up.or(self.warm_up),
            conduct: self.conduct.overlaid_by(other.conduct),
            deadline: other.deadline.or(self.deadline),
            start_deadline: other.start_deadline.or(self.start_deadline),
            margin_ppm: other.margin_ppm.or(self.margin_ppm),
            seed: other.seed.or(self.seed),
            places: self.places,
        }
    }

    /// Tells whether a field with a place has been said.
    fn says(&self, field: &str) -> bool {
        match field {
            "stacks" => !self.stacks.is_empty(),
            "baseline" => self.baseline.is_some(),
            "beside" => !self.beside.is_empty(),
            "meters" => !self.meters.is_empty(),
            "command" | "workload" => !self.command.is_empty() || self.workload.is_some(),
            "cwd" => self.cwd.is_some(),
            "writable" => !self.writable.is_empty(),
            "runs" => self.runs.is_some(),
            "precision" => self.precision_ppm.is_some(),
            "looks" => self.looks.is_some(),
            "warm_up" => self.warm_up.is_some(),
            "iterations" => self.conduct.iterations.is_some(),
            "instances" => self.conduct.instances.is_some(),
            "cache" => self.conduct.cache.is_some(),
            "settle" => self.conduct.settle.is_some(),
            "env_padding" => self.conduct.padding_limit_bytes.is_some(),
            "ignore_failure" => self.conduct.ignore_failure.is_some(),
            "watch" => self.conduct.watch.is_some(),
            "keep_disturbed" => self.conduct.keep_disturbed.is_some(),
            "seed" => self.seed.is_some(),
            _ => false,
        }
    }

    /// Completes the draft. Looks at the directories that it names, and changes nothing.
    ///
    /// # Errors
    /// The user's: what is missing, contradicts itself, or is not there.
    pub fn complete(self, around: &Defaults<'_>) -> Result<CheckedPlan, Fault> {
        let command = self.checked_command()?;
        self.check_counts()?;
        self.check_precision()?;
        self.check_looks()?;
        meter::check_all(&self.meters)?;
        let cwd = self.checked_cwd(&around.cwd)?;
        let writable = self.checked_writable(&cwd)?;
        let links: Vec<String> = self.links_note(&cwd).collect();
        let environment = self.checked_environment()?;
        let (conduct, warm_up) = self.checked_conduct()?;
        let Checked { stacks, baseline, joined } = self.checked_stacks(&cwd, around)?;
        self.check_scratch(&stacks)?;
        let beside = self.checked_neighbours(&cwd, around)?;
        let added = added_baseline(&self, &stacks, &baseline);
        let connected = self.network_note(&joined);
        let usual = if self.precision_ppm.is_some() { PRECISION_RUNS } else { DEFAULT_RUNS };
        let looks = self.looks.unwrap_or(looks::one());
        let is_told = self.time.is_some() && looks::is_one(&looks);
        let runs = if is_told { self.runs } else { self.runs.or(Some(usual)) };
        let deadline = Nanoseconds::from(self.deadline.unwrap_or(DEFAULT_DEADLINE));
        let start_deadline =
            Nanoseconds::from(self.start_deadline.unwrap_or(DEFAULT_START_DEADLINE));
        let plan = Plan {
            schema_version: SCHEMA_VERSION,
            title: self.title.unwrap_or_else(|| usual_title(&command, self.workload.as_ref())),
            stacks,
            baseline,
            beside,
            meters: self.meters,
            command,
            workload: self.workload,
            cwd,
            environment,
            inherit_environment: self.inherit_environment.unwrap_or(true),
            writable,
            runs,
            time_budget_ns: self.time.map(|time| Nanoseconds::from(time).0),
            precision_ppm: self.precision_ppm,
            looks,
            warm_up,
            conduct,
            command_deadline_ns: deadline.0,
            start_deadline_ns: start_deadline.0,
            equivalence_margin_ppm: self.margin_ppm.unwrap_or(DEFAULT_MARGIN_PPM),
            seed: self.seed.unwrap_or(around.fresh_seed),
        };
        let mut notes = notes(&plan);
        notes.extend(links.into_iter().chain(added).chain(connected));
        Ok(CheckedPlan { plan, notes })
    }

    /// The user's fault about one field, with the place where it was said.
    pub(super) fn refuse(&self, field: &str, message: impl std::fmt::Display) -> Fault {
        match self.places.get(field) {
            Some(place) => Fault::user(format!("{place}: {message}")),
            None => Fault::user(message.to_string()),
        }
    }

    /// The command, be it that of a workload.
    fn checked_command(&self) -> Result<Vec<Word>, Fault> {
        let command = match &self.workload {
            None => self.command.clone(),
            Some(workload) if self.command.is_empty() => {
                workload.resolve()?.command.into_iter().map(Word::from).collect()
            }
            Some(workload) => {
                let name = workload.name.escape_debug();
                return Err(self
                    .refuse("command", format!("there are a command and the workload `{name}`"))
                    .hint("leave out one of them: a workload brings its command along"));
            }
        };
        let Some(program) = command.first() else {
            return Err(self.refuse("command", "there is no command to measure").hint(
                "write it after `--`, as in `surtax compare --in native,runc -- make -j4`, \
                 or as `command = [\"make\", \"-j4\"]` in a plan; `--workload NAME` brings its own",
            ));
        };
        if program.as_bytes().is_empty() {
            return Err(self.refuse("command", "the command's program is an empty word"));
        }
        if let Some(word) = command.iter().find(|word| word.as_bytes().contains(&0)) {
            let shown = word.escaped();
            return Err(self.refuse("command", format!("the word `{shown}` holds a zero byte")));
        }
        Ok(command)
    }

    /// Refuses a stack without a scratch directory for a workload that works there.
    fn check_scratch(&self, stacks: &[StackSpec]) -> Result<(), Fault> {
        let Some(workload) = &self.workload else { return Ok(()) };
        if !workload.resolve()?.scratch {
            return Ok(());
        }
        let Some(stack) = stacks.iter().find(|stack| !names_scratch(stack)) else { return Ok(()) };
        let (name, kinds) = (workload.name.escape_debug(), stack.to_string());
        let mark =
            if stack.layers.last().is_some_and(|last| last.options.is_empty()) { ":" } else { "," };
        let message =
            format!("`{name}` works in the stack's scratch directory, and `{kinds}` has none");
        let fault = self.refuse("workload", message);
        Err(fault.hint(format!("say on what its data lies, as in `{kinds}{mark}scratch=layer`")))
    }

    fn check_counts(&self) -> Result<(), Fault> {
        match self.runs {
            Some(0) => {
                return Err(self
                    .refuse("runs", "`runs = 0` measures nothing")
                    .hint("ask for at least 1, or leave it out"));
            }
            Some(runs) if runs > BLOCK_LIMIT => {
                return Err(self.refuse("runs", format!("`runs = {runs}` is above {BLOCK_LIMIT}")));
            }
            _ => {}
        }
        if let Some(warm_up) = self.warm_up.filter(|&count| count > WARM_UP_LIMIT) {
            let message = format!("`warm_up = {warm_up}` is above {WARM_UP_LIMIT}");
            return Err(self.refuse("warm_up", message));
        }
        if let Some(seed) = self.seed.filter(|&seed| i64::try_from(seed).is_err()) {
            let message = format!("`seed = {seed}` is above {}, the limit of TOML", i64::MAX);
            return Err(self.refuse("seed", message));
        }
        if let Some(length) = self.title.as_ref().map(String::len).filter(|it| *it > TITLE_MAX) {
            let message = format!("a title of {length} bytes is longer than {TITLE_MAX}");
            return Err(self.refuse("title", message));
        }
        Ok(())
    }

    fn checked_cwd(&self, around: &Path) -> Result<PathBuf, Fault> {
        let cwd = self.cwd.as_ref().map_or_else(|| around.to_path_buf(), |cwd| around.join(cwd));
        self.check_directory("cwd", "the working directory", &cwd)?;
        Ok(cwd)
    }

    pub(super) fn check_directory(
        &self,
        field: &str,
        what: &str,
        path: &Path,
    ) -> Result<(), Fault> {
        // As it was typed, without the `.` in the middle that a relative one brings.
        let path: &Path = &path.components().collect::<PathBuf>();
        let shown = Word::from(path);
        let shown = shown.shown();
        let shown = shown.escape_debug();
        match path.metadata() {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) => Err(self.refuse(field, format!("{what} `{shown}` is not a directory"))),
            Err(error) => Err(self
                .refuse(field, format!("{what} `{shown}` cannot be used: {error}"))
                .hint(format!("make it: `mkdir -p {}`", shell::line([Word::from(path)])))),
        }
    }

    fn checked_environment(&self) -> Result<Vec<(String, Word)>, Fault> {
        let mut variables = BTreeMap::new();
        for (name, value) in &self.environment {
            if name.is_empty() || name.contains(['=', '\0']) || value.as_bytes().contains(&0) {
                let shown = name.escape_debug();
                let message = format!(
                    "`{shown}` cannot be the name of a variable, or its value holds a zero byte"
                );
                return Err(self.refuse("environment", message));
            }
            variables.insert(name.clone(), value.clone());
        }
        Ok(variables.into_iter().collect())
    }
}

fn list_over<T>(over: Vec<T>, under: Vec<T>) -> Vec<T> {
    if over.is_empty() { under } else { over }
}

pub(super) fn is_native(stack: &StackSpec) -> bool {
    matches!(stack.layers.as_slice(), [only] if only.kind == "native")
}

pub(super) fn title_of(command: &[Word]) -> String {
    let on_one_line = |word: &Word| match word.text() {
        Some(text) => Word::from(text.replace(char::is_control, " ")),
        None => word.clone(),
    };
    let line = shell::line(command.iter().map(on_one_line));
    match line.char_indices().nth(TITLE_LIMIT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Returns the title of a run that was given none: what it runs.
pub(super) fn usual_title(command: &[Word], workload: Option<&Workload>) -> String {
    workload.map_or_else(|| title_of(command), |workload| title_of(&[workload.typed().into()]))
}

/// Says that a baseline is measured that was not among the stacks.
fn added_baseline(draft: &Draft, stacks: &[StackSpec], baseline: &StackSpec) -> Option<String> {
    let other = if draft.baseline.is_some() { "" } else { "; `--baseline STACK` names another" };
    let is_added = stacks.len() > draft.stacks.len();
    is_added.then(|| format!("`{baseline}` is measured too, as the baseline{other}"))
}

fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = Vec::new();
    for stack in plan.stacks.iter().filter(|stack| driver::writes_stay_elsewhere(stack)) {
        notes.push(format!(
            "`{stack}` writes to the other machine's own files: what a trial writes stays there, \
             and the next trial finds it"
        ));
    }
    for stack in plan.stacks.iter().filter(|stack| is_native(stack)) {
        if stack.layers.iter().any(|layer| layer.root() == Ok(Root::Host)) {
            notes.push(format!(
                "`{stack}` writes to this machine's own files: what a trial writes stays, and the \
                 next trial finds it"
            ));
        }
    }
    if let (Some(_), Some(runs), None) =
        (plan.precision_ppm, plan.runs.filter(|&runs| runs == PRECISION_RUNS), plan.time_budget_ns)
    {
        notes.push(format!(
            "ends after {runs} blocks at the latest, as narrow or not; `--time` or `--runs` sets \
             another end"
        ));
    }
    notes.extend(looks::notes(plan));
    notes.extend(budget::notes(plan));
    let shell_words = ["|", "||", "&&", ";", "<", ">", ">>", "2>&1", "&"];
    let mut texts = plan.command.iter().filter_map(Word::text);
    if let Some(word) = texts.find(|word| shell_words.contains(word)) {
        notes.push(format!(
            "`{word}` is given to the command as it is; for a line of the shell write `-- sh -c \
             '…'`"
        ));
    }
    if plan.stacks.len() == 1 && plan.beside.is_empty() {
        notes.push(format!(
            "only `{}` is measured: its two arms show the noise and nothing else",
            plan.baseline
        ));
    }
    notes
}

#[cfg(test)]
mod tests;
