//! The flags that say what to measure and where results go, shared by `compare`, `plan` and `run`.

use super::completions::candidates;
use super::parameters::ParameterArguments;
use super::results::RunFlags;
use super::{Globals, count, place, within_reach};
use crate::driver::registered;
use crate::fault::{Doing, Fault};
use crate::layer::{Descriptor, StackSpec};
use crate::ledger;
use crate::meter::MeterSpec;
use crate::plan::{
    Cache, CheckedPlan, Defaults, Draft, Neighbour, Plan, TrialSettingsDraft, Word, duration,
    percentage,
};
use crate::workload::Workload;
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser as _};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::probe::cgroup::parse_cpus;

/// Flags that say what is measured. Every one is optional here; the plan refuses what is missing.
/// What a command declares after them gets their heading, unless it has its own.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "How often and how long")]
pub(super) struct MeasureArguments {
    /// Stacks to run the command in, such as `native,runc,qemu:memory=1G,accel=tcg+runc`.
    ///
    /// A stack is layers joined by `+`, outermost first; a layer takes options after a `:`. Commas
    /// separate stacks as well as options: a piece such as `accel=tcg`, which begins with a name
    /// and `=` and not with a layer, is one more option of the stack before it. The flag may be
    /// repeated. `surtax doctor` lists the layers, `surtax doctor --options` what each takes.
    #[arg(long = "in", value_name = "STACKS", help_heading = "What to measure", add = candidates::stacks())]
    stacks: Vec<String>,
    #[command(flatten)]
    parameters: ParameterArguments,
    /// The stack that the others are compared with [default: native].
    #[arg(long, value_name = "STACK", help_heading = "What to measure", add = candidates::stack())]
    baseline: Option<String>,
    /// Runs a workload instead of a command, with parameters as in
    /// `cpu.sysbench:threads=2,events=500`.
    ///
    /// A workload is a file that says what to run and how to read the numbers that it prints; each
    /// becomes a metric of the result, beside wall time. `surtax workload list` shows those that
    /// there are, `surtax workload show NAME` what one measures and its parameters. A file of your
    /// own is named by its path, such as `./mine.toml`.
    #[arg(long, value_name = "NAME", help_heading = "What to measure", add = candidates::workload())]
    workload: Option<String>,
    /// Runs this workload in a stack of its own meanwhile, such as
    /// `adversary.load:cpu=50@runc:cpus=1`; may be repeated.
    ///
    /// Every stack is then measured alone and beside such neighbours, in the same blocks, and what
    /// they cost it is said beside its overhead. A neighbour is started before the command and
    /// ended after it. A trial counts only where the neighbour used CPU time while the command ran,
    /// and had not ended before it. An adversary goes on until it is ended; give any other workload
    /// time enough.
    #[arg(long, value_name = "WORKLOAD@STACK", help_heading = "What to measure", add = candidates::neighbour())]
    beside: Vec<String>,
    /// Reads a meter of power all through the run, such as `snmp:host=pdu,preset=apc`; may be
    /// repeated.
    ///
    /// Kinds: battery, hwmon (a sensor of this machine), ipmi, rapl, redfish, snmp. Each is a
    /// metric of the result: the energy of a run of the command. Before the first trial the
    /// machine is idle and busy in turn for half a minute, to know what it takes idle and how late
    /// the meter is.
    #[arg(long, value_name = "METER", value_parser = MeterSpec::parse)]
    #[arg(help_heading = "What to measure", add = candidates::meter())]
    meter: Vec<MeterSpec>,
    /// Names the run in lists and reports [default: the command].
    #[arg(long, value_name = "TEXT", help_heading = "What to measure")]
    title: Option<String>,
    /// Keeps what the command writes below this directory; may be repeated.
    ///
    /// The command sees this machine's own files in every stack, and whatever it writes is thrown
    /// away after each trial, in `native` too. Directories named here are shared instead: a trial
    /// finds what the one before it left. Refused is one by which the command could change what
    /// root starts or obeys, this machine's settings, or results: `/etc`, all of `/var/lib`.
    #[arg(long, value_name = "PATH", help_heading = "What to measure")]
    writable: Vec<PathBuf>,
    /// Sets a variable of the command's environment; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = OsStringValueParser::new().try_map(variable), help_heading = "What \
        to measure")]
    env: Vec<(String, Word)>,
    /// Gives the command no variables but those of `--env` and surtax's own.
    ///
    /// Otherwise it gets the environment that surtax was called in, which is not written down.
    /// surtax's own are SURTAX_PEER, where a stack has an outside to talk to, and SURTAX_PADDING,
    /// which `--env-padding 0` leaves out: an environment that is always as short as this one has
    /// one place for the stack of the command, and only a random length averages over several.
    #[arg(long, help_heading = "What to measure")]
    clear_env: bool,
    /// Counts a run of the command whatever its exit status is.
    ///
    /// Otherwise a run counts that ends with 0, and where the command fails in the baseline before
    /// it has ever succeeded there, the measurement ends at once. One that is killed never counts.
    #[arg(short, long, help_heading = "What to measure")]
    ignore_failure: bool,
    /// Counts a disturbed trial, marked, and does not repeat it.
    ///
    /// Otherwise a trial beside which others used the CPUs, or that was held back, is repeated
    /// once: up to three of them, and a quarter of all, for as long as that helps.
    #[arg(long, help_heading = "How often and how long")]
    keep_disturbed: bool,
    /// Number of blocks; each runs every stack once, the baseline twice [default: 10].
    #[arg(short, long, value_name = "N", allow_negative_numbers = true, value_parser = count::some)]
    runs: Option<u32>,
    /// Starts no block that would end later than this, such as `90s`, `2m` or `1h30m`.
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    time: Option<Duration>,
    /// Goes on until half of every overhead's 95 % interval is this narrow, such as `2%`, as a
    /// share of the ratio.
    ///
    /// The end is decided by the width of the intervals and never by what they say. It comes sooner
    /// where `--runs` or `--time` is reached; without either after 200 blocks.
    #[arg(short, long, value_name = "PERCENT", value_parser = percentage::parse)]
    precision: Option<u32>,
    /// Runs the command this often in each started stack before the run that counts [default: 0].
    #[arg(short, long, value_name = "N", allow_negative_numbers = true, value_parser = count::any)]
    warmup: Option<u32>,
    /// Runs the command this often in each started stack and measures each run [default: 1].
    ///
    /// The start of a stack remains what is compared: it counts as the median of its iterations.
    /// How many of the first ones are not yet steady is found, and they are left out.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = count::some)]
    iterations: Option<u32>,
    /// Runs so many of the command at once in each started stack [default: 1].
    ///
    /// They begin together. Wall time is that of the slowest; of a workload's numbers, rates and
    /// sizes add up, times are their mean, and quantiles those of all values together; how far the
    /// instances are apart is shown beside that. A load that a workload is asked for, such as
    /// `rate=`, is split evenly among them, and each server has a port of its own.
    /// `SURTAX_INSTANCE` tells each its number, from 0.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = count::some)]
    instances: Option<u32>,
    /// Contents of the page caches when the command begins: `cold` or `warm`.
    ///
    /// With `cold` every kernel of the stack drops its caches before each run, this machine's too,
    /// which slows down everybody on it for a while; it takes root. With `warm` an uncounted run
    /// comes first in each started stack. Without it, a start finds what it finds: usually a warm
    /// cache of this machine, and a cold one of a virtual machine.
    #[arg(long, value_name = "STATE", value_parser = Cache::parse)]
    cache: Option<Cache>,
    /// Does nothing for this long before each trial [default: nothing].
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    settle: Option<Duration>,
    /// Looks this often at who uses what while the command runs, such as `100ms`; `off` for never
    /// [default: every second, of commands of more than 5 s].
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_interval)]
    watch: Option<Duration>,
    /// Adds a variable of random length up to this many bytes to the command's environment in each
    /// trial, 0 for none [default: 4096].
    ///
    /// Where its stack begins changes the speed of the same code by some per cent; over trials of
    /// random size the effect averages out, and no arm profits from it.
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true, value_parser = count::any)]
    env_padding: Option<u32>,
    /// Holds every stack to these CPUs, such as `1` or `0-1;3`, unless it names its own `cpuset`.
    ///
    /// The same as `cpuset=` in each stack's outermost layer: the command and all who work for it
    /// share these CPUs. surtax itself and the machine's other processes may use all.
    #[arg(long, value_name = "CPUS", help_heading = "What to measure")]
    pin: Option<String>,
    /// Kills the command after this long, and its trial fails [default: 30m].
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    deadline: Option<Duration>,
    /// Gives up on a layer that takes longer than this to start [default: 3m].
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    start_deadline: Option<Duration>,
    /// Calls a stack equivalent when its overhead surely lies within this [default: 3%].
    #[arg(long, value_name = "PERCENT", value_parser = percentage::parse)]
    margin: Option<u32>,
    /// Fixes the random order of trials, to repeat a run [default: fresh].
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

/// Flags that say where results go.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ResultArguments {
    /// Keeps the run in this file [default: a new one, which `surtax list` shows].
    #[arg(short, long, value_name = "FILE.surtax", help_heading = "Results")]
    output: Option<PathBuf>,
    #[command(flatten)]
    results: RunFlags,
}

/// A plan that is ready to run, and where its results go.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Plan of the measurement.
    pub plan: Plan,
    /// Path of the ledger; `None`: where `surtax list` finds it.
    pub output: Option<PathBuf>,
    /// Files that are written of it, and thresholds that fail it.
    pub results: RunFlags,
}

impl MeasureArguments {
    /// The workload that was named.
    pub(super) fn workload(&self) -> Option<&str> {
        self.workload.as_deref()
    }

    /// The same with a workload that was not named by a flag.
    pub(super) fn with_workload(&self, typed: String) -> Self {
        Self { workload: Some(typed), ..self.clone() }
    }

    /// Returns what was said, checked against the layers.
    pub(super) fn draft(
        &self,
        command: &[OsString],
        descriptors: &[&'static Descriptor],
    ) -> Result<Draft, Fault> {
        let typed = command.iter().map(|word| word.to_string_lossy().into_owned());
        let values = self.env.iter().map(|(_, value)| value.escaped());
        let others = self.workload.iter().chain(&self.baseline).chain(&self.beside).cloned();
        let elsewhere: Vec<String> = typed.chain(values).chain(others).collect();
        let stacks = self.parameters.stacks(&self.stacks, &elsewhere, descriptors)?;
        let baseline = self.baseline.as_deref().map(|text| {
            StackSpec::parse_with(text, descriptors).map_err(|fault| fault.during("`--baseline`"))
        });
        let neighbour = |text: &String| {
            Neighbour::parse_with(text, descriptors).map_err(|fault| fault.during("`--beside`"))
        };
        let workload = self
            .workload
            .as_deref()
            .map(|typed| Workload::find(typed).map_err(|fault| fault.during("`--workload`")));
        Ok(Draft {
            workload: workload.transpose()?,
            stacks,
            baseline: baseline.transpose()?,
            beside: self.beside.iter().map(neighbour).collect::<Result<_, _>>()?,
            meters: self.meter.clone(),
            command: command.iter().cloned().map(Word::from).collect(),
            title: self.title.clone(),
            environment: self.env.clone(),
            inherit_environment: self.clear_env.then_some(false),
            writable: self.writable.clone(),
            runs: self.runs,
            time: self.time,
            precision_ppm: self.precision,
            warm_up: self.warmup,
            conduct: TrialSettingsDraft {
                iterations: self.iterations,
                instances: self.instances,
                cache: self.cache,
                settle: self.settle,
                watch: self.watch,
                padding_limit_bytes: self.env_padding,
                ignore_failure: self.ignore_failure.then_some(true),
                keep_disturbed: self.keep_disturbed.then_some(true),
            },
            pin: self.pin.clone(),
            deadline: self.deadline,
            start_deadline: self.start_deadline,
            margin_ppm: self.margin,
            seed: self.seed,
            ..Draft::default()
        })
    }
}

impl ResultArguments {
    /// The question of a draft: its plan, with its notes said.
    pub(super) fn question(&self, draft: Draft, globals: &Globals) -> Result<Question, Fault> {
        self.check()?;
        let CheckedPlan { plan, notes } =
            complete(self.results.gate.over(draft), &defaults(&registered())?)?;
        self.results.gate.require_an_answer(&plan)?;
        notes.iter().for_each(|text| super::note(text, globals));
        let Self { output, results } = self.clone();
        Ok(Question { plan, output, results })
    }

    /// Refuses early what would fail after hours of measuring.
    fn check(&self) -> Result<(), Fault> {
        if let Some(output) = &self.output {
            place::require_name_for_a_run(output)?;
            if output.symlink_metadata().is_ok() {
                return Err(ledger::taken(output));
            }
        }
        self.results.require_places()?;
        if let Some(path) = &self.output {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
                let (parent, shown) = (parent.display(), path.display());
                return Err(Fault::user(format!(
                    "`{shown}` cannot be written: no directory `{parent}`"
                ))
                .hint(format!("mkdir -p {parent}")));
            }
        }
        Ok(())
    }
}

/// The plan of a draft, whose writable directories are judged by where they lie, be they there or
/// not: so no plan is shown that could not be run, and nobody is told to make one of those.
pub(super) fn complete(draft: Draft, around: &Defaults<'_>) -> Result<CheckedPlan, Fault> {
    within_reach::refuse_draft(&draft, &around.cwd)?;
    draft.complete(around)
}

/// The caller: working directory, a fresh seed.
pub(super) fn defaults<'a>(descriptors: &'a [&'static Descriptor]) -> Result<Defaults<'a>, Fault> {
    let cwd = std::env::current_dir().doing("find the working directory")?;
    // Six digits: enough to differ from the last run, and short enough to be typed again.
    let fresh_seed = clock::wall().0 / 1_000 % 1_000_000;
    let online = |what: &str| {
        let list = std::fs::read_to_string(format!("/sys/devices/system/{what}/online")).ok()?;
        parse_cpus(list.trim())
    };
    let (cpus, numa_nodes) = (online("cpu"), online("node"));
    Ok(Defaults { cwd, fresh_seed, descriptors, cpus, numa_nodes })
}

/// Reads `NAME=VALUE`.
pub(super) fn variable(typed: OsString) -> Result<(String, Word), Fault> {
    let word = Word::from(typed);
    let split = word.as_bytes().iter().position(|byte| *byte == b'=');
    let Some((name, value)) = split.filter(|at| *at > 0).map(|at| word.as_bytes().split_at(at))
    else {
        let shown = word.escaped();
        return Err(Fault::user(format!("`{shown}` is no variable with a value"))
            .hint(format!("write `{}=VALUE`", shown.trim_matches('='))));
    };
    let name = std::str::from_utf8(name).map_err(|_| {
        Fault::user(format!("the name of the variable `{}` is no text", word.escaped()))
            .hint("give it a name in UTF-8: its value may be any bytes")
    })?;
    let value = OsStr::from_bytes(value.get(1..).unwrap_or_default());
    Ok((name.to_owned(), value.to_owned().into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::parse_list_with;
    use crate::layer::tests::DESCRIPTORS;
    use crate::plan::tests::around;
    use std::os::unix::ffi::OsStringExt as _;

    #[test]
    fn flags_become_the_same_plan_as_a_file_that_says_the_same() {
        let arguments = MeasureArguments {
            stacks: vec![String::from("native,qemu:mem=1G,accel=tcg+runc"), String::from("runc")],
            env: vec![variable("A=b=c".into()).unwrap()],
            beside: vec![String::from("adversary.load:cpu=30@runc")],
            meter: vec![MeterSpec::parse("battery:every=2s").unwrap()],
            runs: Some(40),
            time: Some(Duration::from_secs(120)),
            precision: Some(15_000),
            iterations: Some(5),
            instances: Some(4),
            cache: Some(Cache::Cold),
            settle: Some(Duration::from_millis(200)),
            watch: Some(Duration::ZERO),
            env_padding: Some(0),
            margin: Some(20_000),
            seed: Some(5),
            ..MeasureArguments::default()
        };
        let draft = arguments.draft(&["make".into()], DESCRIPTORS).unwrap();
        let file = r#"
command = ["make"]
stacks = ["native", "qemu:memory=1G,accel=tcg+runc", "runc"]
environment = { A = "b=c" }
beside = ["adversary.load:cpu=30@runc"]
meters = ["battery:every=2s"]
runs = 40
time = "2m"
precision = "1.5%"
iterations = 5
instances = 4
cache = "cold"
settle = "200ms"
watch = "off"
env_padding = 0
margin = "2%"
seed = 5
"#;
        let read = crate::plan::file::parse(file, "p.toml", DESCRIPTORS).unwrap();
        assert_eq!(draft.complete(&around()), read.complete(&around()));
    }

    /// A draft in which nothing is as usual.
    fn rich() -> Draft {
        Draft {
            title: Some(String::from("a title")),
            stacks: parse_list_with("runc,qemu:mem=1G,accel=tcg+runc", DESCRIPTORS).unwrap(),
            baseline: Some(StackSpec::parse_with("runc", DESCRIPTORS).unwrap()),
            command: ["sh", "-c", "echo 'a b' $HOME; -- --runs"].map(Word::from).to_vec(),
            environment: vec![(String::from("A"), Word::from("b = c"))],
            inherit_environment: Some(false),
            writable: vec![PathBuf::from("/tmp")],
            beside: vec![Neighbour::parse_with("adversary.load@runc:cpus=1", DESCRIPTORS).unwrap()],
            meters: vec![MeterSpec::parse("ipmi").unwrap()],
            runs: Some(40),
            time: Some(Duration::from_millis(90_500)),
            precision_ppm: Some(20_000),
            warm_up: Some(2),
            conduct: TrialSettingsDraft {
                iterations: Some(3),
                instances: Some(2),
                cache: Some(Cache::Warm),
                settle: Some(Duration::from_millis(10)),
                watch: Some(Duration::from_millis(250)),
                padding_limit_bytes: Some(100),
                ignore_failure: Some(true),
                keep_disturbed: Some(true),
            },
            deadline: Some(Duration::from_secs(7)),
            start_deadline: Some(Duration::from_secs(70)),
            margin_ppm: Some(15_000),
            ..Draft::default()
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a real shell reads the line")]
    fn the_line_that_repeats_a_run_asks_for_the_same_plan() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            measure: MeasureArguments,
            #[arg(last = true)]
            command: Vec<OsString>,
        }
        let texts = |words: &[&str]| words.iter().map(|word| Word::from(*word)).collect();
        let plain = Draft {
            stacks: parse_list_with("native,runc", DESCRIPTORS).unwrap(),
            command: texts(&["make"]),
            ..Draft::default()
        };
        let workload = Some(Workload::find("cpu.sysbench:threads=2").unwrap());
        let with_one = Draft { command: Vec::new(), workload, ..plain.clone() };
        let no_text = Word::from(OsString::from_vec(b"\\caf\xe9 $'".to_vec()));
        let bytes = Draft {
            command: vec!["printf".into(), no_text.clone()],
            environment: vec![(String::from("A"), no_text)],
            ..plain.clone()
        };
        for draft in [plain, rich(), with_one, bytes] {
            let plan = draft.complete(&around()).unwrap().plan;
            let line = plan.repeat_with();
            // A shell splits the line into words, each ended by a zero byte.
            let (directory, compare) = line.split_once(" && surtax compare ").unwrap();
            assert_eq!(directory, format!("cd {}", plan.cwd.display()));
            let script = format!("printf '%s\\0' {compare}");
            // POSIX has no quotes for bytes before 2024, and Debian's `sh` not yet.
            let shell = if compare.contains("$'") { "bash" } else { "sh" };
            let output = std::process::Command::new(shell).args(["-c", &script]).output().unwrap();
            let words = output.stdout.split(|byte| *byte == 0);
            let words = words.map(|word| OsStr::from_bytes(word).to_owned());
            // The last zero byte ends a word, and begins none.
            let words: Vec<OsString> = std::iter::once("compare".into()).chain(words).collect();
            let said = <Line as clap::Parser>::parse_from(&words[..words.len() - 1]);
            let again = said.measure.draft(&said.command, DESCRIPTORS).unwrap();
            assert_eq!(again.complete(&around()).unwrap().plan, plan, "{line}");
        }
    }

    #[test]
    fn a_stack_that_is_refused_is_named_with_its_flag() {
        let arguments =
            MeasureArguments { stacks: vec![String::from("native,rnuc")], ..Default::default() };
        let fault = arguments.draft(&[], DESCRIPTORS).unwrap_err();
        assert!(fault.message.starts_with("`--in`: unknown layer `rnuc`\n"), "{fault}");
    }

    #[test]
    fn a_run_file_that_is_already_there_is_not_written_over() {
        let place = tempfile::tempdir().unwrap();
        let output = place.path().join("a.surtax");
        std::fs::write(&output, "something").unwrap();
        let output = Some(output);
        let results = ResultArguments { output: output.clone(), ..ResultArguments::default() };
        assert!(results.check().unwrap_err().to_string().contains("surtax resume"));
        std::fs::write(output.clone().unwrap(), "").unwrap();
        let results = ResultArguments { output, ..ResultArguments::default() };
        assert!(results.check().unwrap_err().to_string().contains("no run was ever begun in it"));
        let report = Some(place.path().join("nowhere/r.html"));
        let written = RunFlags { report, ..RunFlags::default() };
        let results = ResultArguments { results: written, ..ResultArguments::default() };
        assert!(results.check().unwrap_err().to_string().contains("mkdir -p"));
    }

    #[test]
    fn a_run_is_not_written_to_a_file_that_is_called_as_a_result() {
        for (name, told) in [
            ("x.html", "`--report x.html` writes the report"),
            ("x.JSON", "`--export json=x.JSON` writes the results"),
        ] {
            let output = Some(PathBuf::from(name));
            let fault = ResultArguments { output, ..ResultArguments::default() }.check();
            let fault = fault.unwrap_err();
            assert!(fault.message.contains("would write a run"), "{fault}");
            assert!(fault.hint.as_ref().is_some_and(|hint| hint.contains(told)), "{fault}");
        }
        for name in ["not-there.surtax", "not-there", "not-there.v2"] {
            let output = Some(PathBuf::from(name));
            let results = ResultArguments { output, ..ResultArguments::default() };
            assert_eq!(results.check().map_err(|it| it.message), Ok(()), "{name}");
        }
    }

    #[test]
    fn a_variable_needs_a_name_and_an_equals_sign() {
        assert_eq!(variable("A=".into()), Ok((String::from("A"), Word::default())));
        assert_eq!(variable("A".into()).unwrap_err().hint.as_deref(), Some("write `A=VALUE`"));
        assert!(variable("=1".into()).is_err());
        let bytes = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let (name, value) = variable(bytes(b"A=\xff=")).unwrap();
        assert_eq!((name.as_str(), value.as_bytes()), ("A", b"\xff=".as_slice()));
        assert!(variable(bytes(b"\xff=1")).unwrap_err().message.contains("`\\xff=1` is no text"));
    }
}
