//! Reads a ledger, also while a run writes it: reading never waits and never changes the file, or
//! anything beside it.

use super::hold::Hold;
use super::record::Cached;
use super::row::{
    Names, add_reading, disturbance, memory_of_7, natural, reading, reading_of_7, sample,
    unknown_word, words,
};
use super::schema::QUANTITIES_SINCE;
use super::seal::Key;
use super::stranger::{self, Opened};
use super::{Ledger, Proofs, Run, RunState, StoredTrial, Stream, TrialState, refused, shelf};
use crate::fault::Fault;
use crate::plan::{Plan, TITLE_MAX, TrialId};
use rusqlite::{Params, Row, params};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;
use std::path::Path;
use surtax_instrument::quantity::Nanoseconds;
use surtax_instrument::wire::{Fact, LevelFacts};

/// One kind of what hangs on a trial.
struct Part {
    /// The formats that have it.
    formats: RangeInclusive<i32>,
    /// Query of its rows, the trial's number first.
    query: &'static str,
    /// Adds what one row says to the trial that it belongs to.
    add: Add,
}

/// The first format in which a run may be sealed.
const SEALED_SINCE: i32 = 6;

/// As many arms as a plan has, at most.
const ARMS_MAX: usize = 1_000;

type Add = fn(&Row, &mut StoredTrial, &mut Names) -> rusqlite::Result<()>;

const PARTS: [Part; 9] = [
    Part {
        formats: 1..=i32::MAX,
        query: "SELECT trial, metric, unit, value, CAST(value AS INTEGER) FROM samples",
        add: |row, trial, names| sample(row, names).map(|it| trial.samples.push(it)),
    },
    Part {
        formats: QUANTITIES_SINCE..=i32::MAX,
        query: "SELECT trial, name, role, level, carries_workload, is_shared, amount_map
                FROM readings JOIN payers USING (payer) ORDER BY trial, readings.position",
        add: |row, trial, _| add_reading(trial, reading(row)?),
    },
    Part {
        formats: 1..=7,
        query: "SELECT trial, name, role, level, carries_workload, 0, cpu_user_ns, cpu_system_ns,
                       memory_peak_bytes
                FROM readings JOIN payers USING (payer) ORDER BY trial, readings.position",
        add: |row, trial, _| add_reading(trial, reading_of_7(row)?),
    },
    Part {
        formats: 7..=7,
        query: "SELECT trial, position, is_shared, anon_bytes, page_cache_bytes, shmem_bytes, kernel_bytes
                FROM memory ORDER BY trial, position",
        add: |row, trial, _| memory_of_7(row, trial),
    },
    Part {
        formats: 1..=i32::MAX,
        query: "SELECT trial, xxh3_hex FROM outputs WHERE stream = 'stdout'",
        add: |row, trial, _| row.get(1).map(|it| trial.stdout_hash = Some(it)),
    },
    Part {
        formats: 3..=i32::MAX,
        query: "SELECT trial, CAST(wall_ns AS REAL) FROM iterations ORDER BY trial, iteration",
        add: |row, trial, _| row.get(1).map(|it| trial.iterations.push(it)),
    },
    Part {
        formats: 5..=i32::MAX,
        query: "SELECT trial, metric, unit, value, CAST(value AS INTEGER) FROM instances
                ORDER BY trial, instance",
        add: |row, trial, names| sample(row, names).map(|it| trial.instances.push(it)),
    },
    Part {
        formats: 2..=i32::MAX,
        query: "SELECT trial, key, value, limit_value FROM disturbances ORDER BY trial, position",
        add: |row, trial, _| disturbance(row).map(|it| trial.disturbances.push(it)),
    },
    Part {
        formats: 1..=i32::MAX,
        query: "SELECT trial, what FROM leftovers ORDER BY trial, position",
        add: |row, trial, _| row.get(1).map(|it| trial.leftovers.push(it)),
    },
];

impl Ledger {
    /// Opens a ledger to read it.
    ///
    /// # Errors
    /// The user's when there is none, it is something else, or a newer surtax wrote it.
    pub fn open(path: &Path) -> Result<Self, Fault> {
        let Opened { connection, files, format, budget, is_own } = stranger::open(path)?;
        let known = Cached::default();
        let ledger = Self {
            connection,
            path: path.into(),
            known,
            hold: Hold::of_nobody(files),
            format,
            budget,
            is_made_here: false,
        };
        // The seal is on the plan alone: who owns the file may have changed everything else.
        let is_made_here = is_own && ledger.is_sealed_here()?;
        if is_made_here || shelf::is_of_sudo(path) {
            ledger.budget.widen();
        }
        Ok(Self { is_made_here, ..ledger })
    }

    /// Tells whether the run was begun here, by this user, with the plan that it has now.
    #[must_use]
    pub fn is_made_here(&self) -> bool {
        self.is_made_here
    }

    /// Demands that nobody else can write to the run, or to what lies beside it: any other is not
    /// gone on with.
    ///
    /// # Errors
    /// The user's, with the file.
    pub fn require_own(&self) -> Result<(), Fault> {
        self.hold.files().require_own()
    }

    fn is_sealed_here(&self) -> Result<bool, Fault> {
        let (Some(key), SEALED_SINCE..) = (Key::known(), self.format) else { return Ok(false) };
        let query = "SELECT id, plan_json, seal FROM run";
        let read = |row: &Row| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let (id, plan, seal): (String, String, Option<String>) =
            self.one("read the seal", query, [], read)?;
        Ok(seal.is_some_and(|seal| key.holds(&seal, &id, &plan)))
    }

    /// Returns the path of the ledger.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells whether its name still leads to it: somebody may have removed the file meanwhile, or
    /// put another there.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.hold.files().is_named()
    }

    /// The run as such. A `running` one that no process holds was interrupted.
    ///
    /// # Errors
    /// The machine's.
    pub fn run(&self) -> Result<Run, Fault> {
        let read = |row: &Row| {
            let state: String = row.get(4)?;
            Ok(Run {
                id: row.get(0)?,
                title: row.get(1)?,
                surtax_version: row.get(2)?,
                began_at: Nanoseconds(natural(row.get(3)?)),
                state: match state.as_str() {
                    "finished" => RunState::Finished,
                    "running" if self.hold.is_held() => RunState::Running,
                    _ => RunState::Interrupted,
                },
            })
        };
        let query = "SELECT id, title, surtax_version, began_at_ns, state FROM run";
        self.one("read the run", query, [], read)
    }

    /// Host time from the first trial's begin to the last one's end; none before one has ended.
    ///
    /// # Errors
    /// The machine's.
    pub fn took(&self) -> Result<Option<Nanoseconds>, Fault> {
        let query = "SELECT max(ended_at_ns) - min(began_at_ns) FROM trials";
        let read = |row: &Row| Ok(row.get::<_, Option<i64>>(0)?.map(|ns| Nanoseconds(natural(ns))));
        self.one("read how long it took", query, [], read)
    }

    /// Returns how many trials count.
    ///
    /// # Errors
    /// The machine's.
    pub fn counted_trial_count(&self) -> Result<u64, Fault> {
        let query = "SELECT count(*) FROM trials WHERE state = ?1";
        let state = [TrialState::Done.word()];
        self.one("count the trials", query, state, |row| Ok(natural(row.get(0)?)))
    }

    /// The plan, as it was when the run began.
    ///
    /// # Errors
    /// The machine's; also when the plan names what this surtax does not know.
    pub fn plan(&self) -> Result<Plan, Fault> {
        let query = "SELECT plan_json FROM run";
        let json: String = self.one("read the plan", query, [], |row| row.get(0))?;
        let plan: Plan = serde_json::from_str(&json).map_err(|error| {
            Fault::machine(format!("cannot read the plan in `{}`: {error}", self.path.display()))
                .hint("use the surtax that wrote it; `surtax_version` in table `run` names it")
        })?;
        let shown = self.path.display();
        if plan.title.len() > TITLE_MAX {
            let length = plan.title.len();
            return Err(Fault::user(format!(
                "the plan in `{shown}` has a title of {length} bytes"
            ))
            .hint("ask for the file as surtax made it"));
        }
        if plan.stacks.len() + plan.beside.len() > ARMS_MAX {
            return Err(Fault::user(format!(
                "the plan in `{shown}` has more than {ARMS_MAX} stacks"
            ))
            .hint("split the question into several runs"));
        }
        Ok(plan)
    }

    /// Returns what the host was when the run began, in order of interest.
    ///
    /// # Errors
    /// The machine's.
    pub fn machine(&self) -> Result<Vec<Fact>, Fault> {
        let read =
            |row: &Row| Ok(Fact { key: row.get(0)?, value: row.get(1)?, source: row.get(2)? });
        let query = "SELECT key, value, source FROM machine_facts ORDER BY position";
        self.all("read the machine", query, read)
    }

    /// The trials that need not be run again: all that ended, however they ended. One that was
    /// disturbed has ended when its repeat has.
    ///
    /// # Errors
    /// The machine's.
    pub fn done(&self) -> Result<HashSet<TrialId>, Fault> {
        let query = "SELECT DISTINCT block, position, arm FROM trials
                     WHERE state NOT IN ('running', 'void', 'disturbed')";
        Ok(self.all("read what is done", query, trial_id)?.into_iter().collect())
    }

    /// The arms of which a run of the command ended well, whether or not the trial was repeated.
    ///
    /// # Errors
    /// The machine's.
    pub fn arms_that_succeeded(&self) -> Result<Vec<u32>, Fault> {
        let query = "SELECT DISTINCT arm FROM trials WHERE state IN ('done', 'disturbed')";
        self.all("read which arms succeeded", query, |row| row.get(0))
    }

    /// The trials that were disturbed and repeated, or would have been if surtax had not ended.
    ///
    /// # Errors
    /// The machine's.
    pub fn repeated(&self) -> Result<HashSet<TrialId>, Fault> {
        let query = "SELECT DISTINCT block, position, arm FROM trials WHERE state = 'disturbed'";
        Ok(self.all("read what was repeated", query, trial_id)?.into_iter().collect())
    }

    /// Every attempt at every trial, in time order.
    ///
    /// # Errors
    /// The machine's.
    pub fn trials(&self) -> Result<Vec<StoredTrial>, Fault> {
        self.read_trials().map_err(|error| refused(&self.path, "read the trials", &error))
    }

    /// Every distinct proof, by the number that trials refer to.
    ///
    /// # Errors
    /// The machine's.
    pub fn evidence(&self) -> Result<Proofs, Fault> {
        self.read_evidence().map_err(|error| refused(&self.path, "read the evidence", &error))
    }

    /// The end of a stream of the latest trial of an arm in this state, where it was kept; raw.
    ///
    /// # Errors
    /// The machine's.
    pub fn tail(
        &self,
        arm: u32,
        state: TrialState,
        stream: Stream,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let query = "SELECT tail FROM outputs JOIN trials USING (trial)
                     WHERE arm = ?1 AND state = ?2 AND stream = ?3 AND tail IS NOT NULL
                     ORDER BY trial DESC LIMIT 1";
        let of = params![arm, state.word(), stream.word()];
        let found = self.collect(query, of, |row| row.get(0)).map(|mut found| found.pop());
        found.map_err(|error| refused(&self.path, "read an output", &error))
    }

    /// One condition of every trial that has it, by its key; of several attempts the last.
    ///
    /// # Errors
    /// The machine's.
    pub fn conditions_of(&self, key: &str) -> Result<HashMap<TrialId, f64>, Fault> {
        let query = "SELECT block, position, arm, value FROM conditions JOIN trials USING (trial)
                     WHERE key = ?1 ORDER BY attempt";
        let rows = self.collect(query, [key], |row| Ok((trial_id(row)?, row.get(3)?)));
        let rows =
            rows.map_err(|error| refused(&self.path, "read a condition of all trials", &error))?;
        Ok(rows.into_iter().collect())
    }

    /// One condition of the latest trial of an arm in this state; `None` where it has none.
    ///
    /// # Errors
    /// The machine's.
    pub fn last_condition(
        &self,
        arm: u32,
        state: TrialState,
        key: &str,
    ) -> Result<Option<f64>, Fault> {
        let query = "SELECT value FROM conditions WHERE key = ?3 AND trial =
                     (SELECT max(trial) FROM trials WHERE arm = ?1 AND state = ?2)";
        let of = params![arm, state.word(), key];
        let found = self.collect(query, of, |row| row.get(0)).map(|mut found| found.pop());
        found.map_err(|error| refused(&self.path, "read a condition of a trial", &error))
    }

    /// Every row of a query; a fault says what could not be done.
    pub(super) fn all<T>(
        &self,
        doing: &str,
        query: &str,
        read: impl FnMut(&Row) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Fault> {
        self.collect(query, [], read).map_err(|error| refused(&self.path, doing, &error))
    }

    /// The one row of a query.
    fn one<T>(
        &self,
        doing: &str,
        query: &str,
        of: impl Params,
        read: impl FnOnce(&Row) -> rusqlite::Result<T>,
    ) -> Result<T, Fault> {
        let paid = |row: &Row| {
            self.budget.pay(row)?;
            read(row)
        };
        let found = self.connection.query_row(query, of, paid);
        found.map_err(|error| refused(&self.path, doing, &error))
    }

    pub(super) fn collect<T>(
        &self,
        query: &str,
        of: impl Params,
        mut read: impl FnMut(&Row) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        let paid = |row: &Row| {
            self.budget.pay(row)?;
            read(row)
        };
        self.connection.prepare(query)?.query_map(of, paid)?.collect()
    }

    fn read_trials(&self) -> rusqlite::Result<Vec<StoredTrial>> {
        let query = "SELECT block, position, arm, attempt, state, began_at_ns, ended_at_ns,
                            exit_status, why, remedy, evidence, trial
                     FROM trials ORDER BY began_at_ns, trial";
        let rows = self.collect(query, [], |row| Ok((row.get(11)?, stored_trial(row)?)))?;
        let places: HashMap<i64, usize> =
            rows.iter().enumerate().map(|(place, (number, _))| (*number, place)).collect();
        let mut trials: Vec<StoredTrial> = rows.into_iter().map(|(_, trial)| trial).collect();
        let mut names = Names::default();
        let mut each = |query: &str, add: Add| -> rusqlite::Result<()> {
            let mut statement = self.connection.prepare(query)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                self.budget.pay(row)?;
                let trial = places.get(&row.get(0)?).and_then(|place| trials.get_mut(*place));
                trial.map_or(Ok(()), |trial| add(row, trial, &mut names))?;
            }
            Ok(())
        };
        for part in PARTS.iter().filter(|part| part.formats.contains(&self.format)) {
            each(part.query, part.add)?;
        }
        trials.iter_mut().for_each(super::samples::hold_against_outside);
        Ok(trials)
    }

    fn read_evidence(&self) -> rusqlite::Result<Proofs> {
        let query = "SELECT evidence, level, layer, f.key, f.value, source
                     FROM evidence JOIN json_each(fact_list) listed
                     JOIN facts f ON f.fact = listed.value ORDER BY evidence, listed.key";
        let rows = self.collect(query, [], |row| {
            let fact = Fact { key: row.get(3)?, value: row.get(4)?, source: row.get(5)? };
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?, fact))
        })?;
        let mut proofs: HashMap<i64, BTreeMap<i64, LevelFacts>> = HashMap::new();
        for (evidence, level, layer, fact) in rows {
            let levels = proofs.entry(evidence).or_default();
            let empty = || LevelFacts { layer, facts: Vec::new() };
            levels.entry(level).or_insert_with(empty).facts.push(fact);
        }
        Ok(proofs.into_iter().map(|(number, it)| (number, it.into_values().collect())).collect())
    }
}

/// Reads a trial's name from the first three columns.
pub(super) fn trial_id(row: &Row) -> rusqlite::Result<TrialId> {
    Ok(TrialId { block: row.get(0)?, position: row.get(1)?, arm: row.get(2)? })
}

pub(super) fn stored_trial(row: &Row) -> rusqlite::Result<StoredTrial> {
    let word: String = row.get(4)?;
    let state = TrialState::of_word(&word).ok_or_else(|| unknown_word(4, &word))?;
    let began_at = Nanoseconds(natural(row.get(5)?));
    let why = words(row, 8)?.unwrap_or_default();
    // Of earlier runs the advice stands behind the reason.
    let (why, behind) = match why.split_once("\n  hint: ") {
        Some((why, advice)) => (String::from(why), Some(String::from(advice))),
        None => (why, None),
    };
    Ok(StoredTrial {
        ended_at: row.get::<_, Option<i64>>(6)?.map(|at| Nanoseconds(natural(at))),
        exit_status: words(row, 7)?,
        why,
        remedy: words(row, 9)?.or(behind),
        evidence: row.get(10)?,
        ..StoredTrial::begun(trial_id(row)?, row.get(3)?, state, began_at)
    })
}
