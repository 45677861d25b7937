//! Engines: what is measured by code of our own, because measuring it well is the point.
//!
//! Each is a file or a directory. It runs as a process of its own, in every stack the same, as
//! `@surtax engine NAME …`, prints one line of JSON, and says nothing else. [`ENGINES`] is what
//! there is.

mod adversary;
mod answer;
pub mod cpu;
mod disk;
mod kv;
mod net;
mod noise;
mod options;
pub mod price;
mod recording;
pub mod region;
mod stream;
mod threads;
mod timer;

pub use adversary::forge;
pub use answer::Answer;
use options::option;
pub use options::{OptionSpec, Options};

use std::fmt;

/// The word that a command begins with when its program is the agent itself.
pub const OURSELVES: &str = "@surtax";

/// One engine.
pub struct Engine {
    /// The word after `@surtax engine`.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Options that it takes, beside its name.
    pub options: &'static [OptionSpec],
    /// Measures, and answers with numbers.
    pub run: fn(&Options) -> Result<Answer, Refused>,
}

/// Reason why an engine has no numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// True where the question was wrong, and not the place.
    pub is_users: bool,
    /// Message that says what failed, and why.
    pub what: String,
    /// Advice that would help; empty where nothing is known.
    pub hint: String,
}

impl Refused {
    /// The question makes no sense.
    pub fn user(what: impl Into<String>) -> Self {
        Self { is_users: true, what: what.into(), hint: String::new() }
    }

    /// It could not be measured here.
    pub fn machine(what: impl Into<String>) -> Self {
        Self { is_users: false, what: what.into(), hint: String::new() }
    }

    /// The same, with what would help.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, "\nhint: {}", self.hint) }
    }
}

/// Every engine, by the part of a machine that it measures.
pub static ENGINES: &[Engine] = &[
    recording::ENGINE,
    disk::ENGINE,
    timer::ENGINE,
    noise::ENGINE,
    stream::ENGINE,
    price::ENGINE,
    net::serve::ENGINE,
    net::rr::TCP_RR,
    net::rr::UDP_RR,
    net::crr::ENGINE,
    net::stream::TCP_STREAM,
    net::stream::TCP_MAERTS,
    net::udp_stream::ENGINE,
    kv::ENGINE,
    adversary::load::ENGINE,
    adversary::forkbomb::ENGINE,
    adversary::allocbomb::ENGINE,
    adversary::thrash::ENGINE,
    adversary::synflood::ENGINE,
    adversary::logflood::ENGINE,
    forge::ENGINE,
];

/// Runs the engine that `words` name, with what follows it.
///
/// # Errors
/// There is no such engine, it takes no such option, or it could not measure.
pub fn run(words: &[String]) -> Result<Answer, Refused> {
    let known = || ENGINES.iter().map(|engine| engine.name).collect::<Vec<_>>().join(", ");
    let Some((name, words)) = words.split_first() else {
        return Err(Refused::user("no engine is named").hint(format!("name one of {}", known())));
    };
    let Some(engine) = ENGINES.iter().find(|engine| engine.name == name) else {
        let shown = name.escape_debug();
        return Err(Refused::user(format!("there is no engine `{shown}`"))
            .hint(format!("name one of {}", known())));
    };
    let options = Options::read(engine, words)?;
    (engine.run)(&options)
}

/// Returns an engine's answer to a line of words, as it is printed.
#[cfg(test)]
fn answer_to(line: &str) -> Result<String, Refused> {
    let words: Vec<String> = line.split_whitespace().map(String::from).collect();
    run(&words).map(Answer::finish)
}
