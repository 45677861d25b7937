//! Errors: what failed, why, and what to do about it.
//!
//! Four kinds with three exit codes: the user's (2), the machine's and that of somebody inside a
//! stack (3), and ours (70). One level says one thing; the chain is joined in one place, here.

pub mod last_words;

use std::any::Any;
use std::fmt;
use surtax_instrument::wire::Cause;

/// Whose mistake it was; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// Something that was typed: exit 2.
    User,
    /// Something this machine lacks or refuses: exit 3.
    Machine,
    /// Somebody inside of a stack who lies, or wrote where only surtax does: exit 3. What was
    /// measured is invalid.
    Inside,
    /// A bug in surtax: exit 70.
    Surtax,
}

/// An error that can be shown to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Whose it is.
    pub blame: Blame,
    /// Text of what failed and why; lowercase, no final period, the outermost cause first, joined
    /// by `: `.
    pub message: String,
    /// Cause that somebody decides by, where there is one.
    pub cause: Option<Cause>,
    /// An imperative that is likely to help.
    pub hint: Option<String>,
}

impl Fault {
    /// The user's mistake.
    pub fn user(message: impl Into<String>) -> Self {
        Self::of(Blame::User, message)
    }

    /// The machine's.
    pub fn machine(message: impl Into<String>) -> Self {
        Self::of(Blame::Machine, message)
    }

    /// That of somebody inside of a stack: what comes from there cannot be believed.
    pub fn inside(message: impl Into<String>) -> Self {
        Self::of(Blame::Inside, message)
    }

    /// Ours.
    pub fn bug(message: impl Into<String>) -> Self {
        Self::of(Blame::Surtax, message)
    }

    fn of(blame: Blame, message: impl Into<String>) -> Self {
        Self { blame, cause: None, message: message.into(), hint: None }
    }

    /// Adds what somebody decides by.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Option<Cause>>) -> Self {
        self.cause = cause.into();
        self
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Puts what was being done in front of what failed.
    #[must_use]
    pub fn during(mut self, doing: impl fmt::Display) -> Self {
        self.message = format!("{doing}: {}", self.message);
        self
    }

    /// Adds what somebody else said of it, as it is; and as its cause, where it has none, that
    /// there was too little memory, if these words tell so.
    #[must_use]
    pub fn saying(mut self, words: &str) -> Self {
        self.message += words;
        self.cause = self.cause.or_else(|| last_words::lack_of_memory(words));
        self
    }

    /// The exit code of the process.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.blame {
            Blame::User => 2,
            Blame::Machine | Blame::Inside => 3,
            Blame::Surtax => 70,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.blame == Blame::Surtax {
            write!(f, "bug in surtax: ")?;
        }
        write!(f, "{}", self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}

/// Hint where too many files are open: the soft limit is raised as far as it may be when surtax
/// begins.
const OPEN_MORE: &str = "let this process have more files open: as root `ulimit -n 65536`";

/// Turns a foreign error into the machine's [`Fault`], saying what was being done.
pub trait Doing<T> {
    /// `file.read().doing("read `x`")` becomes "cannot read `x`: Permission denied (os error 13)".
    ///
    /// # Errors
    /// The fault, if there was an error.
    fn doing(self, what: impl fmt::Display) -> Result<T, Fault>;
}

impl<T, E: fmt::Display + 'static> Doing<T> for Result<T, E> {
    fn doing(self, what: impl fmt::Display) -> Result<T, Fault> {
        self.map_err(|error| {
            let cause = cause_of(&error);
            let fault = Fault::machine(format!("cannot {what}: {error}")).because(cause);
            // Whatever was to be opened, the remedy is the same.
            if cause == Some(Cause::TooManyOpen) { fault.hint(OPEN_MORE) } else { fault }
        })
    }
}

/// The cause that the number of a system call's error tells of.
fn cause_of(error: &dyn Any) -> Option<Cause> {
    let of_std = || Cause::of(error.downcast_ref::<std::io::Error>()?);
    let of_rustix = || Cause::of_errno(error.downcast_ref::<rustix::io::Errno>()?.raw_os_error());
    of_std().or_else(of_rustix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_open_files_are_told_with_what_raises_their_limit() {
        let error = std::io::Error::from_raw_os_error(24);
        let fault = Err::<(), _>(error).doing("make a pipe").unwrap_err();
        assert_eq!(fault.hint.as_deref(), Some(OPEN_MORE));
        let error = rustix::io::Errno::NOSPC;
        let full = Err::<(), _>(error).doing("write").unwrap_err();
        assert_eq!((full.cause, full.hint), (Some(Cause::NoSpace), None));
        assert_eq!(Err::<(), _>("no").doing("try").unwrap_err().hint, None);
    }
}
