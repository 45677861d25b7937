//! Asks all layers at once, each with a deadline.

use crate::fault::Fault;
use crate::layer::{Descriptor, Unavailable, Usable};
use serde::Serialize;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use surtax_instrument::clock;
use surtax_instrument::wire::Fact;

/// One question to one layer.
pub struct Check {
    /// Text of the layer that is asked about: `runc`, `qemu:accel=kvm`.
    pub layer: String,
    /// The layer's descriptor.
    pub descriptor: &'static Descriptor,
    /// True if the authors ran this very variant on the hardware that it is made for.
    pub has_run: bool,
    /// Time limit of the answer: 5 s for most, 30 s where a reference guest must boot.
    pub deadline: Duration,
    /// Asks; runs in a thread of its own.
    pub ask: Box<dyn FnOnce() -> Result<Usable, Unavailable> + Send>,
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Finding {
    /// Text of the layer that was asked about.
    pub layer: String,
    /// Kind of the layer.
    pub kind: &'static str,
    /// One line about the layer.
    pub summary: &'static str,
    /// True if the layer can run here.
    pub usable: bool,
    /// Reason why it cannot run here; `None` if it can.
    pub why: Option<String>,
    /// The command that would make it usable, where one is known.
    pub remedy: Option<String>,
    /// True if the authors ran it on the hardware that it is made for.
    pub ran_on_hardware: bool,
    /// Facts that were found: programs with their versions, the accelerator, the daemon.
    pub facts: Vec<SeenFact>,
}

/// A [`Fact`], as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct SeenFact {
    /// Stable name.
    pub key: String,
    /// Value that was seen.
    pub value: String,
    /// Place where it was seen.
    pub source: String,
}

impl SeenFact {
    /// Paths and what tools say of themselves need no name before them.
    fn text(&self) -> String {
        let Self { key, value, .. } = self;
        let is_plain = value.starts_with('/') || value.contains(" version ");
        if is_plain { value.clone() } else { format!("{} {value}", key.replace('_', " ")) }
    }
}

impl Finding {
    /// The facts in one line.
    #[must_use]
    pub fn facts_text(&self) -> String {
        self.facts.iter().map(SeenFact::text).collect::<Vec<_>>().join(", ")
    }

    /// The first fact alone: in most layers the program and its version.
    #[must_use]
    pub fn first_fact(&self) -> String {
        self.facts.first().map(SeenFact::text).unwrap_or_default()
    }

    fn of(
        layer: String,
        (descriptor, has_run): (&'static Descriptor, bool),
        answer: Result<Usable, Unavailable>,
    ) -> Self {
        let (unusable, found) = match answer {
            Ok(found) => (None, found.facts),
            Err(unavailable) => (Some(unavailable), Vec::new()),
        };
        let facts =
            found.into_iter().map(|Fact { key, value, source }| SeenFact { key, value, source });
        Self {
            layer,
            kind: descriptor.kind,
            summary: descriptor.summary,
            usable: unusable.is_none(),
            remedy: unusable.as_ref().and_then(|unavailable| unavailable.remedy.clone()),
            why: unusable.map(|unavailable| unavailable.why),
            ran_on_hardware: has_run,
            facts: facts.collect(),
        }
    }
}

/// Asks every layer in a thread of its own and returns the answers in the order of the questions.
///
/// A thread that misses its deadline is left behind: the process ends soon and takes it along.
#[must_use]
pub fn run_all(checks: Vec<Check>) -> Vec<Finding> {
    let began_at = clock::monotonic_raw();
    let asked = checks.into_iter().map(|Check { layer, descriptor, has_run, deadline, ask }| {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            // The receiver is gone when the deadline has passed; then nobody waits for the answer.
            let _ = sender.send(ask());
        });
        (layer, (descriptor, has_run), deadline, receiver)
    });
    let asked: Vec<_> = asked.collect();
    let findings = asked.into_iter().map(|(layer, (descriptor, has_run), deadline, receiver)| {
        let passed: Duration = clock::monotonic_raw().since(began_at).into();
        let answer =
            receiver.recv_timeout(deadline.saturating_sub(passed)).unwrap_or_else(|error| {
                let fault = match error {
                    RecvTimeoutError::Timeout => {
                        Fault::machine(format!("gave no answer within {} s", deadline.as_secs()))
                    }
                    RecvTimeoutError::Disconnected => {
                        Fault::bug("its check broke: a bug in surtax")
                    }
                };
                Err(fault.into())
            });
        Finding::of(layer, (descriptor, has_run), answer)
    });
    findings.collect()
}
