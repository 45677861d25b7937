//! The bench: a lab in which run after run is made, each with a ledger in memory.

use super::notebook::{Notebook, Origin};
use super::selection::Selection;
use super::toil::TOIL;
use crate::campaign::interrupts::{Interrupts, Urgency};
use crate::campaign::{Campaign, GIVE_UP_AFTER, Observer, Undecided, counting};
use crate::driver::{self, NOISE_SHAPES, registered};
use crate::fault::{Doing, Fault};
use crate::finding::threshold::{Threshold, why_go_on};
use crate::finding::{ArmFindings, Findings, Interval, compare};
use crate::lab::{self, Lab, Process, Program, Room, environment};
use crate::ledger::{Ledger, PriceSample, RunState};
use crate::plan::{Arm, Defaults, Draft, Plan, TrialId};
use crate::stack::start::StartContext;
use crate::trial::Record;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;
use surtax_instrument::probe::cgroup::Version;

/// `TMPFS_MAGIC` of `linux/magic.h`.
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Number of trials of a run of one stack in which none succeeds: those after which an arm is given
/// up, of two arms.
pub(super) const TRIALS_OF_A_FAILED_RUN: u32 = 2 * GIVE_UP_AFTER;

/// The arm that is compared, in a plan of one stack beside its baseline.
const COMPARED: usize = 2;

/// Kind of noise of the unit with this number: each unit has another than the one before.
pub(super) fn noise_shape(unit: impl Into<u64>) -> &'static str {
    let at = usize::try_from(unit.into() % NOISE_SHAPES.len() as u64);
    NOISE_SHAPES[at.unwrap_or_default()]
}

/// Place where proofs make their runs.
pub struct Bench<'a> {
    lab: &'a Lab,
    agent: &'a Path,
    cache: &'a Path,
    interrupts: &'a Interrupts,
    /// Is told of every run that has ended.
    ended: &'a dyn Fn(),
    /// Results counted before, which are not counted again.
    notebook: &'a Notebook,
    selection: &'a Selection,
    /// Holds what the runs need beside their ledgers, and is gone with the bench.
    room: Room,
}

impl<'a> Bench<'a> {
    /// A bench in a room of this lab.
    ///
    /// # Errors
    /// The machine's: the room cannot be made.
    pub fn new(
        lab: &'a Lab,
        agent: &'a Path,
        cache: &'a Path,
        interrupts: &'a Interrupts,
        ended: &'a dyn Fn(),
        notebook: &'a Notebook,
        selection: &'a Selection,
    ) -> Result<Self, Fault> {
        let room = lab.room("prove")?;
        Ok(Self { lab, agent, cache, interrupts, ended, notebook, selection, room })
    }

    /// Tells whether a part of a campaign, such as `kills/runc`, is among those that are made. If
    /// not, `runs` of its runs are said to have ended.
    pub(super) fn takes(&self, part: &str, runs: u32) -> bool {
        let is_ours = self.selection.takes(part);
        if !is_ours {
            (0..runs).for_each(|_| (self.ended)());
        }
        is_ours
    }

    /// Those of so many units of a part that are in the share that is made; the others are said to
    /// have ended.
    pub(super) fn units(&self, count: u32) -> impl Iterator<Item = u32> {
        (0..count).filter(|unit| {
            let is_ours = self.selection.share.holds(*unit);
            if !is_ours {
                (self.ended)();
            }
            is_ours
        })
    }

    /// Makes those of a part's runs that are in the share, each a unit with a seed of its own, of
    /// which the last one was `seed`; counts them, and those in which it was found. The part's name
    /// must say all that they depend on but their seed.
    ///
    /// # Errors
    /// Those of a run, and the notebook's.
    pub(super) fn counts(
        &self,
        part: &str,
        seed: &mut u64,
        runs: u32,
        mut is_found: impl FnMut(u64) -> Result<bool, Fault>,
    ) -> Result<[u32; 2], Fault> {
        let (mut tried, mut found) = (0, 0);
        let first = *seed + 1;
        *seed += u64::from(runs);
        for number in self.units(runs) {
            let seed = first + u64::from(number);
            tried += 1;
            found += u32::from(self.unit(&format!("{part}/{seed}"), 1, || is_found(seed))?);
        }
        Ok([tried, found])
    }

    /// Does a unit of a campaign that makes `runs` runs, or takes its result from the notebook. Its
    /// name must say all that it depends on.
    ///
    /// # Errors
    /// The unit's, and the notebook's.
    pub(super) fn unit<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        runs: u32,
        work: impl FnOnce() -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let (result, origin) = self.notebook.unit(name, work)?;
        if origin == Origin::Remembered {
            (0..runs).for_each(|_| (self.ended)());
        }
        Ok(result)
    }

    /// Id of the lab in which all of it stands.
    pub(super) fn lab_id(&self) -> &str {
        self.lab.id()
    }

    /// A directory in memory, for ledgers and for what commands leave as proof.
    pub(super) fn directory(&self) -> Result<&Path, Fault> {
        self.room.memory_directory()
    }

    /// The group in which all of its stacks are, where this machine counts CPU time by groups.
    pub(super) fn cpu_group(&self) -> Option<(PathBuf, Version)> {
        let hierarchy = self.lab.hierarchies().of("cpu")?;
        let group = self.room.group().parent()?;
        Some((hierarchy.directory(group), hierarchy.version))
    }

    /// A directory beside the ledgers, on the disk that holds `/run`, if that is one.
    pub(super) fn disk_directory(&self) -> Option<&Path> {
        let directory = self.room.directory();
        let found = rustix::fs::statfs(directory).ok()?;
        (found.f_type != TMPFS_MAGIC).then_some(directory)
    }

    /// Starts a shell script that runs beside the trials until it is dropped.
    pub(super) fn beside(&self, script: &str) -> Result<Beside, Fault> {
        let room = self.lab.room("beside")?;
        let argv = ["sh", "-c", script].map(String::from).to_vec();
        let environment = Some(environment::ours());
        let process = room.spawn(Program { argv, environment, ..Program::default() })?;
        Ok(Beside { _process: process, _room: room })
    }

    /// Starts a program as another user, in a room of its own that ends what it leaves.
    pub(super) fn as_user(
        &self,
        argv: Vec<String>,
        user: u32,
        [input, output]: [Option<OwnedFd>; 2],
    ) -> Result<(Process, Room), Fault> {
        let room = self.lab.room("other-user")?;
        let stdio = [input, output, None];
        let environment = Some(environment::ours());
        let process = room.spawn(Program {
            argv,
            environment,
            stdio,
            user: Some(user),
            ..Program::default()
        })?;
        Ok((process, room))
    }

    /// Runs a program of its own to its end, in a room of its own, and gives what it printed.
    pub(super) fn other(
        &self,
        argv: &[&str],
        environment: Vec<(String, String)>,
        deadline: Duration,
    ) -> Result<String, Fault> {
        let room = self.lab.room("other")?;
        let (answer, output) = lab::pipe()?;
        let argv: Vec<String> = argv.iter().map(|word| (*word).to_owned()).collect();
        let mut process = room.spawn(Program {
            argv,
            environment: Some(environment),
            stdio: [None, Some(output), None],
            ..Program::default()
        })?;
        let mut text = String::new();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| File::from(answer).read_to_string(&mut text));
            let status = process.wait(deadline)?;
            if status.is_none() {
                process.kill()?;
            }
            let _ = reader.join();
            match status {
                Some(status) if status.success() => Ok(()),
                Some(status) => Err(Fault::machine(format!("another surtax ended with {status}"))),
                None => Err(Fault::machine("another surtax did not end in time")),
            }
        })?;
        Ok(text)
    }

    /// Runs a program with what it says in a file: how it ended, if it did so in time. It is killed
    /// otherwise.
    pub(super) fn answer(
        &self,
        argv: &[String],
        said: &Path,
        deadline: Duration,
    ) -> Result<Option<ExitStatus>, Fault> {
        let file = || File::options().append(true).create(true).open(said).map(OwnedFd::from);
        let doing = || format!("write what is said to `{}`", said.display());
        let stdio = [None, Some(file().doing(doing())?), Some(file().doing(doing())?)];
        let (argv, environment) = (argv.to_vec(), Some(environment::ours()));
        let mut process =
            self.room.spawn(Program { argv, environment, stdio, ..Program::default() })?;
        process.wait(deadline)
    }

    /// Says that one run of a proof has ended, unless it was made by [`Bench::findings`].
    ///
    /// # Errors
    /// The user's, who does not want to wait for the others.
    pub(super) fn told(&self) -> Result<(), Fault> {
        (self.ended)();
        match self.interrupts.urgency() {
            Urgency::None => Ok(()),
            _ => Err(Fault::user("the proof was interrupted between two of its runs")),
        }
    }

    /// Makes one run of a plan as `surtax run` does, and reads what was found from its file.
    pub(super) fn findings(&self, draft: Draft) -> Result<Findings, Fault> {
        self.read(draft, compare)
    }

    /// The same of a run that may look at these thresholds so often, and goes on where they are not
    /// decided.
    pub(super) fn findings_retried(
        &self,
        draft: Draft,
        looks: u32,
        thresholds: &[Threshold],
    ) -> Result<Findings, Fault> {
        let undecided = |ledger: &Ledger| Ok(why_go_on(thresholds, &compare(ledger)?.arms));
        self.read_asked(Draft { looks: Some(looks), ..draft }, &undecided, compare)
    }

    /// The same, and reads from it what is asked for.
    pub(super) fn read<T>(
        &self,
        draft: Draft,
        read: impl FnOnce(&Ledger) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.read_asked(draft, &|_| Ok(None), read)
    }

    /// The same, counted and explained by prices that are known.
    pub(super) fn explained(
        &self,
        draft: Draft,
        prices: impl Fn(&Arm) -> Vec<PriceSample>,
    ) -> Result<Findings, Fault> {
        let descriptors = registered();
        let plan = draft.complete(&Defaults::of_no_machine(&descriptors))?.plan;
        let file = self.directory()?.join("run.surtax");
        let explain = || -> Result<Findings, Fault> {
            self.run(&plan, &file, &|_| Ok(None))?;
            let mut ledger = Ledger::resume(&file)?;
            let arms = counting::arms(&plan, &ledger)?;
            let (counted, context) = ((arms.as_slice(), &mut ledger), self.context(&plan));
            counting::count(&plan, counted, &context, self.interrupts, |_| {})?;
            ledger.keep_prices(&arms.iter().flat_map(prices).collect::<Vec<_>>())?;
            ledger.finish(RunState::Finished)?;
            compare(&ledger)
        };
        let found = explain();
        let _ = std::fs::remove_file(&file);
        (self.ended)();
        found
    }

    fn read_asked<T>(
        &self,
        draft: Draft,
        undecided: &Undecided<'_>,
        read: impl FnOnce(&Ledger) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let descriptors = registered();
        let around = Defaults::of_no_machine(&descriptors);
        let plan = draft.complete(&around)?.plan;
        let file = self.directory()?.join("run.surtax");
        let found = self.run(&plan, &file, undecided).and_then(|()| read(&Ledger::open(&file)?));
        // A ledger that could not be removed would make the next run fail, and say so.
        let _ = std::fs::remove_file(&file);
        (self.ended)();
        found
    }

    fn context<'b>(&'b self, plan: &'b Plan) -> StartContext<'b> {
        StartContext {
            lab: self.lab,
            level: 0,
            agent: self.agent,
            cache: self.cache,
            writable: &plan.writable,
            cwd: &plan.cwd,
            command: None,
            network: None,
            start_deadline: plan.start_deadline(),
        }
    }

    fn run(&self, plan: &Plan, file: &Path, undecided: &Undecided<'_>) -> Result<(), Fault> {
        let context = self.context(plan);
        let mut ledger = Ledger::create(file, plan, &[])?;
        let mut observer = Silent;
        let campaign = Campaign::new(plan, &mut ledger, &context, &mut observer, self.interrupts);
        let state = campaign.beyond_failures().asking(undecided).run()?;
        drop(ledger);
        match state {
            RunState::Finished => Ok(()),
            RunState::Interrupted | RunState::Running => {
                Err(Fault::user("the proof was interrupted"))
            }
        }
    }
}

/// Something that runs beside the trials. Its room ends with it, and so do all of its processes.
pub(super) struct Beside {
    _process: Process,
    _room: Room,
}

struct Silent;

impl Observer for Silent {
    fn trial_begins(&mut self, _: TrialId, _: &Arm) {}
    fn trial_ended(&mut self, _: &Record, _: &Arm) {}
    fn arm_dropped(&mut self, _: &Arm, _: &str) {}
}

/// Findings of one run of several that are put side by side: of a simulated stack, `dear`, that
/// costs so much over its baseline, `native`, in this shape of noise.
///
/// Seed and cost are in a stack's name here; elsewhere the same stack has the same name.
pub(super) fn run_of_dear(
    bench: &Bench<'_>,
    (shape, seed): (&str, u64),
    cost: &str,
    blocks: u32,
) -> Result<Findings, Fault> {
    let mut findings = bench.findings(simulated(shape, cost, blocks, seed)?)?;
    findings.run.baseline = String::from("native");
    for arm in &mut findings.arms {
        arm.stack = String::from(if arm.is_compared() { "dear" } else { "native" });
    }
    Ok(findings)
}

/// The draft of a plan with a simulated stack in this shape of noise, and the same at such a cost.
pub(super) fn simulated(shape: &str, cost: &str, blocks: u32, seed: u64) -> Result<Draft, Fault> {
    let stack = format!("simulated:shape={shape},seed={seed}");
    draft(&stack, &[&format!("{stack},cost={cost}")], blocks, seed)
}

/// The draft of a plan with one baseline and one or more stacks that are compared with it.
pub(super) fn draft(
    baseline: &str,
    compared: &[&str],
    runs: u32,
    seed: u64,
) -> Result<Draft, Fault> {
    let baseline = driver::parse(baseline)?;
    let mut stacks = vec![baseline.clone()];
    for text in compared {
        stacks.push(driver::parse(text)?);
    }
    Ok(Draft {
        title: Some(String::from("a proof")),
        stacks,
        baseline: Some(baseline),
        command: vec!["true".into()],
        inherit_environment: Some(false),
        runs: Some(runs),
        seed: Some(seed),
        ..Draft::default()
    })
}

/// The same with this program's toil as its command.
pub(super) fn toil(draft: Draft) -> Result<Draft, Fault> {
    let exe = std::env::current_exe().doing("find the program that is to toil")?;
    let command = vec![exe.as_path().into(), TOIL.into()];
    Ok(Draft { command, ..draft })
}

/// The arms that are compared.
pub(super) fn compared(findings: &Findings) -> &[ArmFindings] {
    findings.arms.get(COMPARED..).unwrap_or_default()
}

/// The only arm that is compared, or the first.
///
/// # Errors
/// Ours: a plan compared nothing.
pub(super) fn one_compared(findings: &Findings) -> Result<&ArmFindings, Fault> {
    compared(findings)
        .first()
        .ok_or_else(|| Fault::bug("a proof compared its baseline with nothing"))
}

/// The overhead of an arm in wall time.
///
/// # Errors
/// Ours: a run whose every trial counts has one.
pub(super) fn overhead(arm: &ArmFindings) -> Result<Interval, Fault> {
    let wall = arm.metric("wall_ns");
    wall.and_then(|metric| metric.overhead).ok_or_else(|| {
        Fault::machine(format!("`{}` has no overhead to be proved: {}", arm.stack, arm.because))
    })
}
