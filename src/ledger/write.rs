//! Writes a ledger: creates it, begins and ends trials, each in a transaction of its own.
//!
//! A trial is written down before anything of it happens, so that a crash cannot hide one. No
//! rollback journal is ever used: a file changes between its two modes by the one write of its
//! first page.

use super::files::Beside;
use super::hold::{self, Hold};
use super::insert::integer;
use super::record::{Cached, insert_quantities, insert_record};
use super::schema::SCHEMA;
use super::seal::Key;
use super::stranger::{self, Budget};
use super::{
    APPLICATION_ID, FORMAT_VERSION, Ledger, RunState, Severity, birth, journalless, refused, shelf,
};
use crate::fault::Fault;
use crate::lab::sudoer;
use crate::plan::{Plan, TrialId};
use crate::trial::{Record, TrialResult};
use rusqlite::config::DbConfig;
use rusqlite::{
    Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params,
};
use std::path::{Path, PathBuf};
use surtax_instrument::clock;
use surtax_instrument::wire::Fact;

impl Ledger {
    /// Creates the ledger of a new run, and holds it. Its plan is not sealed: to go on with it is
    /// to be confirmed.
    ///
    /// # Errors
    /// The user's when `path` exists, the machine's when it cannot be written.
    pub fn create(path: &Path, plan: &Plan, machine: &[Fact]) -> Result<Self, Fault> {
        Self::create_first([path.to_path_buf()], plan, machine, None)
    }

    /// The same at the first of these paths, all of one directory, that nobody has taken; sealed if
    /// there is a key.
    ///
    /// # Errors
    /// As [`Ledger::create`].
    pub fn create_first(
        paths: impl IntoIterator<Item = PathBuf>,
        plan: &Plan,
        machine: &[Fact],
        key: Option<&Key>,
    ) -> Result<Self, Fault> {
        let plan_json = serde_json::to_string(plan)
            .map_err(|error| Fault::bug(format!("the plan cannot be written as JSON: {error}")))?;
        stranger::require_readable(&plan_json)?;
        let image = image(plan, &plan_json, machine, key)
            .map_err(|error| Fault::bug(format!("a run cannot be begun in memory: {error}")))?;
        let (hold, connection) = open_to_write(birth::publish(&image, paths)?, "begin the run")?;
        let path = hold.files().path().to_path_buf();
        let (known, format, budget) = (Cached::default(), FORMAT_VERSION, Budget::of_our_own());
        let is_made_here = key.is_some();
        Ok(Self { connection, path, known, hold, format, budget, is_made_here })
    }

    /// Opens an interrupted run to go on with it, and holds it.
    ///
    /// # Errors
    /// As [`Ledger::amend`].
    pub fn resume(path: &Path) -> Result<Self, Fault> {
        let ledger = Self::amend(path)?;
        let begun = ledger.connection.execute("UPDATE run SET state = 'running'", []);
        begun.map_err(|error| refused(path, "go on with the trials", &error))?;
        Ok(ledger)
    }

    /// Opens a run to add to what explains it, and holds it: its state stays as it is, whatever
    /// becomes of us.
    ///
    /// # Errors
    /// As [`Ledger::open`]; also the user's when a running surtax works on it, or an older one made
    /// it.
    pub fn amend(path: &Path) -> Result<Self, Fault> {
        let reader = Self::open(path)?;
        let (format, is_made_here) = (reader.format, reader.is_made_here);
        if format < FORMAT_VERSION {
            return Err(Fault::user(format!(
                "the run in `{}` was begun by an older surtax, in format {format} of now \
                 {FORMAT_VERSION}",
                path.display()
            ))
            .hint(
                "repeat it: `surtax show` has the line; to go on, use the surtax that began it",
            ));
        }
        let hold = hold::take(path)?;
        hold.require_same(&reader.hold)?;
        // Its descriptor is closed before a connection has a lock to lose.
        drop(reader);
        let (hold, connection) = open_to_write(hold, "go on with the run")?;
        let known = Cached::of(&connection)
            .map_err(|error| refused(path, "see what is in the run", &error))?;
        let (path, budget) = (path.to_path_buf(), Budget::of_our_own());
        Ok(Self { connection, path, known, hold, format, budget, is_made_here })
    }

    /// Writes down that a trial begins, before anything of it happens.
    ///
    /// # Errors
    /// Ours when the trial already counts or runs; the machine's when it cannot be written.
    pub fn begin_trial(&mut self, trial: TrialId) -> Result<(), Fault> {
        let insert = "INSERT INTO trials (block, position, arm, attempt, state, began_at_ns)
                      SELECT ?1, ?2, ?3, 1 + coalesce(max(attempt), 0), 'running', ?4
                      FROM trials WHERE block = ?1 AND position = ?2 AND arm = ?3";
        let row = params![trial.block, trial.position, trial.arm, integer(clock::wall().0)];
        let prepared = self.connection.prepare_cached(insert);
        let inserted = prepared.and_then(|mut statement| statement.execute(row));
        match inserted {
            Err(error) if is_constraint(&error) => Err(Fault::bug(format!(
                "{} begins though it already runs or counts, or is not in the plan",
                named(trial)
            ))),
            result => result
                .map(drop)
                .map_err(|error| refused(&self.path, &format!("begin {}", named(trial)), &error)),
        }
    }

    /// Writes down everything that is kept of a trial that was begun, in one transaction.
    ///
    /// # Errors
    /// Ours when the trial was not begun; the machine's when it cannot be written, and then the
    /// trial is as if it were still running: `void` when the run is resumed.
    pub fn end_trial(&mut self, record: &Record) -> Result<(), Fault> {
        let written = self.write_record(record);
        self.require_ended(record.trial, written)
    }

    /// The same; what no ledger can hold is no reason to end the run: it may be what the inside
    /// said, and the trial is invalid. The log says so, and nothing that was read beside the
    /// command is kept: part of it may be what was refused.
    ///
    /// # Errors
    /// As [`Ledger::end_trial`]'s.
    pub fn end_trial_or_refuse(&mut self, record: &mut Record) -> Result<(), Fault> {
        let mut written = self.write_record(record);
        if written.as_ref().is_err_and(is_of_what_is_written) && record.timeline.take().is_some() {
            // No number rests on a timeline.
            written = self.write_record(record);
            if written.is_ok() {
                let line = format!("the timeline of {} cannot be kept", named(record.trial));
                self.log(Severity::Warning, &line)?;
            }
        }
        let error = match written {
            Err(error) if is_of_what_is_written(&error) => error,
            written => return self.require_ended(record.trial, written),
        };
        let why = format!("what the trial said cannot be written down: {error}");
        let line = format!("{} is invalid: {why}", named(record.trial));
        record.result = TrialResult::Invalid { reason: why.into(), measured: None };
        record.conditions.clear();
        record.disturbances.clear();
        self.end_trial(record)?;
        self.log(Severity::Warning, &line)
    }

    fn require_ended(&self, trial: TrialId, written: rusqlite::Result<bool>) -> Result<(), Fault> {
        let doing = format!("end {}", named(trial));
        match written {
            Ok(true) => Ok(()),
            Ok(false) => Err(Fault::bug(format!("cannot {doing}: it was never begun"))),
            Err(error) => Err(refused(&self.path, &doing, &error)),
        }
    }

    /// Writes a record if its trial was begun.
    fn write_record(&mut self, record: &Record) -> rusqlite::Result<bool> {
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let Some(trial) = running(&transaction, record.trial)? else { return Ok(false) };
        let kept = insert_record(&transaction, trial, record, &self.known)?;
        transaction.commit()?;
        self.known.keep(kept);
        Ok(true)
    }

    /// Marks what is in flight as void: an earlier process died in it, or it was cut short.
    ///
    /// # Errors
    /// The machine's.
    pub fn void_unfinished(&mut self) -> Result<(), Fault> {
        self.connection
            .execute(
                "UPDATE trials SET state = 'void', ended_at_ns = max(began_at_ns, ?1),
                        why = 'surtax ended while it ran' WHERE state = 'running'",
                [integer(clock::wall().0)],
            )
            .map(drop)
            .map_err(|error| refused(&self.path, "void lost trials", &error))
    }

    /// Adds a line to the log.
    ///
    /// # Errors
    /// The machine's.
    pub fn log(&mut self, severity: Severity, message: &str) -> Result<(), Fault> {
        let row = params![integer(clock::wall().0), severity.word(), message];
        self.connection
            .execute("INSERT INTO logs (at_ns, severity, message) VALUES (?1, ?2, ?3)", row)
            .map(drop)
            .map_err(|error| refused(&self.path, "add to the log", &error))
    }

    /// Ends the run, lets go of it, and makes the ledger one file again.
    ///
    /// # Errors
    /// The machine's.
    pub fn finish(&mut self, state: RunState) -> Result<(), Fault> {
        self.connection
            .execute("UPDATE run SET state = ?1", [state.word()])
            .map_err(|error| refused(&self.path, "end the run", &error))?;
        // Only possible when nobody reads just now; the ledger is as complete with its `-wal` file.
        // The log is taken into the file and removed, and then one write of the first page says
        // that there is none.
        let single_file = self.connection.pragma_update(None, "journal_mode", "MEMORY");
        drop(single_file);
        if state == RunState::Running { Ok(()) } else { self.hold.release() }
    }
}

/// The whole database of a run that has no trial yet.
fn image(
    plan: &Plan,
    plan_json: &str,
    machine: &[Fact],
    key: Option<&Key>,
) -> rusqlite::Result<Vec<u8>> {
    let mut connection = Connection::open_in_memory()?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(SCHEMA)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", FORMAT_VERSION)?;
    insert_run(&transaction, plan, plan_json)?;
    if let Some(key) = key {
        let id: String = transaction.query_row("SELECT id FROM run", [], |row| row.get(0))?;
        transaction.execute("UPDATE run SET seal = ?1", [key.seal(&id, plan_json)])?;
    }
    insert_machine(&transaction, machine)?;
    insert_quantities(&transaction)?;
    transaction.commit()?;
    Ok(connection.serialize("main")?.to_vec())
}

/// A connection by which one ended trial survives a power cut: the log is synced at every commit.
/// What it writes to is what is held, and nobody else's; the hold comes first, so that it is
/// dropped last.
fn open_to_write(hold: Hold, doing: &str) -> Result<(Hold, Connection), Fault> {
    let hold = birth::require_recovered(hold)?;
    let path = hold.files().path();
    let require_ours = || hold.require_named().and_then(|()| hold.files().require_own());
    require_ours()?;
    birth::require_no_strange_log(hold.files())?;
    // What SQLite was not given is what somebody has laid there, as a rule.
    let connection = durable(path, doing).map_err(|fault| require_ours().err().unwrap_or(fault))?;
    // SQLite opened all of them by their names.
    require_ours()?;
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
        .map_err(|error| refused(path, "have the log taken in at the end", &error))?;
    if let Some(user) = shelf::reader_of(birth::directory_of(path)) {
        // The log alone: a lock on its index, for which reading is enough, would stop us.
        let _ = sudoer::let_read_at(&hold.files().path_of(Beside::Log), user);
    }
    Ok((hold, connection))
}

/// A connection to a ledger that writes down at once what is committed, and at its end leaves the
/// log as it is.
fn durable(path: &Path, doing: &str) -> Result<Connection, Fault> {
    let mut connection = connected(path).map_err(|error| refused(path, doing, &error))?;
    stranger::require(&connection, path)?;
    let mut durable = || {
        // A run may take days: only reading is bounded in time.
        connection.progress_handler(0, None::<fn() -> bool>)?;
        let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        if mode != "wal" {
            connection.pragma_update(None, "journal_mode", "MEMORY")?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
        }
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", "ON")
    };
    durable().map_err(|error| refused(path, "make durable what is written", &error))?;
    // Once more, of all that was taken in by now.
    stranger::require(&connection, path)?;
    Ok(connection)
}

/// A connection that has read nothing. To close it takes no log into the file: whose it is is not
/// known yet.
pub(super) fn connected(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags_and_vfs(path, flags, journalless::name()?)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    stranger::guard(&mut connection, &Budget::of_our_own())?;
    Ok(connection)
}

fn insert_run(transaction: &Transaction, plan: &Plan, plan_json: &str) -> rusqlite::Result<()> {
    transaction.execute(
        "INSERT INTO run (one, id, title, plan_json, surtax_version, began_at_ns, state)
         SELECT 1, substr(h, 1, 8) || '-' || substr(h, 9, 4) || '-4' || substr(h, 14, 3) || '-8'
                || substr(h, 18, 3) || '-' || substr(h, 21, 12), ?1, ?2, ?3, ?4, 'running'
         FROM (SELECT lower(hex(randomblob(16))) AS h)",
        params![plan.title, plan_json, env!("CARGO_PKG_VERSION"), integer(clock::wall().0)],
    )?;
    for arm in plan.arms() {
        transaction.execute(
            "INSERT INTO arms (arm, stack, part) VALUES (?1, ?2, ?3)",
            params![arm.index, arm.to_string(), arm.part().word()],
        )?;
    }
    Ok(())
}

fn insert_machine(transaction: &Transaction, machine: &[Fact]) -> rusqlite::Result<()> {
    for fact in machine {
        transaction.execute(
            "INSERT INTO machine_facts (key, value, source) VALUES (?1, ?2, ?3)",
            params![fact.key, fact.value, fact.source],
        )?;
    }
    Ok(())
}

fn running(transaction: &Transaction, trial: TrialId) -> rusqlite::Result<Option<i64>> {
    let select = "SELECT trial FROM trials
                  WHERE block = ?1 AND position = ?2 AND arm = ?3 AND state = 'running'";
    let of = params![trial.block, trial.position, trial.arm];
    transaction.prepare_cached(select)?.query_row(of, |row| row.get(0)).optional()
}

fn is_constraint(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
}

/// Tells whether what was to be written is at fault, and neither disk nor file.
fn is_of_what_is_written(error: &rusqlite::Error) -> bool {
    is_constraint(error)
        || error.sqlite_error_code() == Some(rusqlite::ErrorCode::TooBig)
        || matches!(error, rusqlite::Error::ToSqlConversionFailure(_))
}

/// A trial for people, counted from 1.
fn named(trial: TrialId) -> String {
    format!("trial {}.{} of arm {}", trial.block + 1, trial.position + 1, trial.arm)
}
