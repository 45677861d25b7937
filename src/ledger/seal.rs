//! Tells a run that was begun here from one that somebody handed over: its plan bears a seal of
//! this machine.
//!
//! To go on with a run is to execute what its file says, as root. So the plan is sealed when it is
//! made, with a key that only its owner can read: HMAC-SHA256 over the run's identifier and its
//! plan. A file that was made elsewhere, or whose plan was changed, has no such seal, whoever owns
//! it and wherever it lies.
//!
//! Source: RFC 2104 (HMAC), FIPS 180-4 (SHA-256).

use crate::fault::{Doing, Fault};
use crate::lab::exclusive;
use crate::lab::state;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use surtax_instrument::hex;

/// The key's file, beside the folder of journals.
const NAME: &str = "seal.key";

const KEY_BYTES: usize = 32;

/// Bytes that one step of SHA-256 takes.
const BLOCK_BYTES: usize = 64;

/// Key that only this machine, and this user of it, can seal with.
#[derive(Clone)]
pub struct Key([u8; KEY_BYTES]);

/// Without the key.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

impl Key {
    /// The key of this machine, made if there is none yet.
    ///
    /// # Errors
    /// The machine's: it cannot be made, or somebody else could have read or written it.
    pub fn of_this_machine() -> Result<Self, Fault> {
        match Self::read(&state::directory()?.join(NAME))? {
            Some(key) => Ok(key),
            None => Self::make(&state::ensured()?),
        }
    }

    /// The same where it is there already; reading makes nothing.
    #[must_use]
    pub fn known() -> Option<Self> {
        Self::read(&state::directory().ok()?.join(NAME)).ok()?
    }

    fn make(directory: &Path) -> Result<Self, Fault> {
        let path = directory.join(NAME);
        let doing = || format!("make the key `{}`", path.display());
        let mut key = [0; KEY_BYTES];
        exclusive::random_bytes(&mut key)?;
        let make = || -> std::io::Result<()> {
            let part = directory.join(format!("{NAME}.{}", std::process::id()));
            // What a process of this number left when it was killed here.
            let _ = std::fs::remove_file(&part);
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let mut file = File::from(rustix::fs::open(&part, flags, Mode::from_raw_mode(0o600))?);
            file.write_all(&key)?;
            file.sync_all()?;
            // Whoever is first makes the key; all others take it.
            let linked = rustix::fs::linkat(CWD, &part, CWD, &path, AtFlags::empty());
            std::fs::remove_file(&part)?;
            match linked {
                Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
                Err(error) => Err(error.into()),
            }
        };
        make().doing(doing())?;
        Self::read(&path)?.ok_or_else(|| {
            Fault::machine(format!("the key `{}` was gone as soon as it was made", path.display()))
        })
    }

    fn read(path: &Path) -> Result<Option<Self>, Fault> {
        let shown = path.display();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            result => result.doing(format_args!("open the key `{shown}`"))?,
        };
        let mut file = File::from(opened);
        let found = file.metadata().doing(format_args!("see whose the key `{shown}` is"))?;
        let us = rustix::process::geteuid().as_raw();
        if !found.is_file() || found.uid() != us || found.mode() & 0o077 != 0 || found.nlink() > 2 {
            return Err(Fault::machine(format!(
                "the key `{shown}` is not this user's alone, so it seals nothing"
            ))
            .hint(format!("remove it, and the next run makes another: rm {shown}")));
        }
        let mut key = [0; KEY_BYTES];
        file.read_exact(&mut key).doing(format_args!("read the key `{shown}`"))?;
        Ok(Some(Self(key)))
    }

    /// The seal of a plan, in hexadecimal.
    pub(super) fn seal(&self, run: &str, plan_json: &str) -> String {
        let run_length = u64::try_from(run.len()).unwrap_or(u64::MAX).to_be_bytes();
        let sealed = [b"surtax plan 1", &run_length[..], run.as_bytes(), plan_json.as_bytes()];
        hex::of(&hmac(&self.0, &sealed))
    }

    /// Tells whether a seal is that of this plan; takes as long for a wrong one.
    pub(super) fn holds(&self, seal: &str, run: &str, plan_json: &str) -> bool {
        let expected = self.seal(run, plan_json);
        let differing =
            expected.bytes().zip(seal.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
        expected.len() == seal.len() && differing == 0
    }
}

/// HMAC-SHA256 of the parts, one after the other. The key is shorter than a block.
fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let padded = |by: u8| {
        let bytes = key.iter().copied().chain(std::iter::repeat(0));
        bytes.take(BLOCK_BYTES).map(|byte| byte ^ by).collect::<Vec<u8>>()
    };
    let mut inner = Sha256::new();
    inner.update(padded(0x36));
    parts.iter().for_each(|part| inner.update(part));
    let mut outer = Sha256::new();
    outer.update(padded(0x5c));
    outer.update(inner.finalize());
    outer.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_code_is_that_of_the_standard() {
        // RFC 4231, test cases 1 and 2.
        let shown = |key: &[u8], text: &str| hex::of(&hmac(key, &[text.as_bytes()]));
        assert_eq!(
            shown(&[0x0b; 20], "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
        assert_eq!(
            shown(b"Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn a_seal_holds_for_its_own_plan_and_key_and_for_no_other() {
        let place = tempfile::tempdir().unwrap();
        let key = Key::make(place.path()).unwrap();
        let seal = key.seal("id", "{}");
        assert!(key.holds(&seal, "id", "{}"));
        assert!(!key.holds(&seal, "id", "{} ") && !key.holds(&seal, "i", "d{}"));
        assert!(!key.holds("", "id", "{}") && !key.holds(&seal[1..], "id", "{}"));
        let again = Key::make(place.path()).unwrap();
        assert!(again.holds(&seal, "id", "{}"), "the first key is everybody's");
        let elsewhere = tempfile::tempdir().unwrap();
        assert!(!Key::make(elsewhere.path()).unwrap().holds(&seal, "id", "{}"));
    }

    #[test]
    fn a_key_that_others_can_read_or_that_is_a_link_seals_nothing() {
        let place = tempfile::tempdir().unwrap();
        Key::make(place.path()).unwrap();
        let path = place.path().join(NAME);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let fault = Key::read(&path).unwrap_err();
        assert!(fault.message.contains("not this user's alone"), "{fault}");
        let link = place.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(Key::read(&link).is_err());
        assert!(Key::read(&place.path().join("none")).unwrap().is_none());
    }
}
