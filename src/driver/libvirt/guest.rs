//! The guest agent of a domain: asked whether it is there, and to start one program.
//!
//! What it says comes from the guest, and is never trusted: an answer is bounded, and only single
//! fields of it are looked at.
//!
//! Source: QEMU, `interop/qemu-ga-ref.html`.

use crate::agent::ssh_bootstrap;
use crate::agent::ssh_bootstrap::LEASE;
use crate::fault::last_words::quoted;
use crate::fault::{Doing, Fault};
use crate::lab::Domain;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::time::Duration;
use surtax_instrument::clock::{look_until, monotonic_raw};

/// Time between two questions to an agent: whether it is there, and whether its program has ended.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Time that the agent may take to answer, in seconds: virsh waits so long.
const ANSWER_SECONDS: &str = "5";

/// Largest part of a program's last words that is kept, in bytes.
const WORDS_LIMIT: usize = 4096;

/// A program that the guest agent has started.
#[derive(Clone, Debug)]
pub(super) struct GuestProgram {
    pid: u64,
}

/// Asks the guest agent to do something.
fn ask(domain: &Domain, request: &Value) -> Result<Value, Fault> {
    let words = ["--timeout", ANSWER_SECONDS, "--cmd", &request.to_string()];
    let answer = domain.question("qemu-agent-command", &words)?;
    let mut answer: Value =
        serde_json::from_str(&answer).doing("read what the guest agent answered")?;
    Ok(answer["return"].take())
}

/// Waits until the guest agent answers.
///
/// # Errors
/// The machine's: it did not in time.
pub(super) fn awaited(domain: &Domain, deadline: Duration) -> Result<(), Fault> {
    let begin = monotonic_raw();
    loop {
        let Err(fault) = ask(domain, &json!({"execute": "guest-ping"})) else { return Ok(()) };
        if Duration::from(monotonic_raw().since(begin)) >= deadline {
            let seconds = deadline.as_secs_f64();
            let what = format!("libvirt: its guest agent did not answer within {seconds:.1} s");
            return Err(fault.during(what).hint(
                "install `qemu-guest-agent` in the guest and start its service; allow a slow one \
                 more with `--start-deadline`",
            ));
        }
        std::thread::sleep(ASK_AGAIN);
    }
}

/// The guest agent's version, if it may start programs.
///
/// # Errors
/// The machine's: it does not answer, or may not.
pub(super) fn version(domain: &Domain) -> Result<String, Fault> {
    let said = ask(domain, &json!({"execute": "guest-info"}))?;
    let commands = said["supported_commands"].as_array();
    let is_enabled =
        |command: &Value| command["name"] == "guest-exec" && command["enabled"] == true;
    if !commands.is_some_and(|commands| commands.iter().any(is_enabled)) {
        return Err(Fault::machine("libvirt: the domain's guest agent may not start programs").hint(
            "take `guest-exec` and `guest-exec-status` off the list of what the agent in the guest \
             refuses (`/etc/qemu/qemu-ga.conf`, `/etc/sysconfig/qemu-ga`), and restart it",
        ));
    }
    Ok(said["version"].as_str().unwrap_or("unknown").chars().take(64).collect())
}

/// Has the guest agent start a shell with this script; what that says on its standard error is
/// kept.
///
/// # Errors
/// The machine's: it would not.
pub(super) fn start(domain: &Domain, script: &str) -> Result<GuestProgram, Fault> {
    let arguments = json!({"path": "/bin/sh", "arg": ["-c", script], "capture-output": true});
    let said = ask(domain, &json!({"execute": "guest-exec", "arguments": arguments}))?;
    let pid = said["pid"].as_u64();
    pid.map(|pid| GuestProgram { pid })
        .ok_or_else(|| Fault::machine("libvirt: the guest agent named no process that it started"))
}

impl GuestProgram {
    /// Waits up to this time for its end, and returns its code and its last words. `None` where it
    /// has not ended, or the agent does not answer. Asked for, the agent forgets it.
    pub(super) fn end(&self, domain: &Domain, deadline: Duration) -> Option<(i64, String)> {
        let request = json!({"execute": "guest-exec-status", "arguments": {"pid": self.pid}});
        let ended = look_until(deadline, ASK_AGAIN, || match ask(domain, &request) {
            Ok(said) if said["exited"] == true => {
                let code = said["exitcode"].as_i64().unwrap_or(-1);
                Some(Some((code, last_words(said["err-data"].as_str().unwrap_or_default()))))
            }
            Ok(_) => None,
            Err(_) => Some(None),
        });
        ended.flatten()
    }
}

/// A shell in the guest that opens the channel, once and for both directions, and becomes our
/// agent. The device may come a moment later than the channel.
pub(super) fn shell(channel: &str, length: usize, deadline: Duration) -> String {
    let script = ssh_bootstrap::script(length, deadline, LEASE);
    format!(
        "port=; for i in 1 2 3 4 5 6 7 8 9 10; do for p in /sys/class/virtio-ports/*; do if [ \
         \"$(cat \"$p/name\" 2>/dev/null)\" = {channel} ]; then port=/dev/${{p##*/}}; fi; done; if \
         [ -c \"$port\" ]; then break; fi; sleep 1; done; [ -c \"$port\" ] || {{ echo \"no port \
         has the name {channel}\" >&2; exit 75; }}; exec <>\"$port\" >&0; {script}"
    )
}

/// Adds to a fault why no agent came up, in the words of the shell in the guest.
pub(super) fn explained(
    domain: &Domain,
    name: &str,
    started: &GuestProgram,
    fault: Fault,
) -> Fault {
    let fault = fault.during(format_args!("libvirt: no agent in `{name}`"));
    match started.end(domain, Duration::ZERO) {
        Some((code, words)) => {
            let said: String = words.lines().map(quoted).collect();
            Fault {
                message: format!("{} (its shell ended with {code}){said}", fault.message),
                ..fault
            }
        }
        None => fault,
    }
}

fn last_words(encoded: &str) -> String {
    let bytes = STANDARD.decode(encoded.trim()).unwrap_or_default();
    let kept = &bytes[bytes.len().saturating_sub(WORDS_LIMIT)..];
    String::from_utf8_lossy(kept).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_decoded_and_bounded() {
        assert_eq!(last_words("bm8gcG9ydAo="), "no port\n");
        assert_eq!(last_words("%%%"), "");
        assert_eq!(last_words(&STANDARD.encode(vec![b'x'; 10_000])).len(), WORDS_LIMIT);
    }
}
