//! The OpenSSH client: what was asked of it as its command line, and what its last words mean.
//!
//! Every setting that could change a number or leave something behind is named, since the first
//! value of a setting counts and the user's configuration comes after the command line. All else is
//! theirs: aliases of hosts, jumps, agents that hold keys.
//!
//! Source: `ssh(1)`, `ssh_config(5)`.

use crate::agent::ssh_bootstrap::SYSTEM;
use crate::fault::Fault;
use crate::layer::LayerSpec;
use std::path::Path;

/// The client's program.
pub(super) const PROGRAM: &str = "ssh";

/// The command that installs it.
pub(super) const REMEDY: &str = "apt-get install openssh-client";

/// The settings of every connection.
const SETTINGS: &[&str] = &[
    "BatchMode=yes", "StrictHostKeyChecking=yes", "UpdateHostKeys=no", "ConnectTimeout=10",
    "ConnectionAttempts=1", "ServerAliveInterval=5", "ServerAliveCountMax=3",
    "ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no",
    "RemoteCommand=none", "RequestTTY=no", "ControlMaster=no", "ControlPath=none",
    "LogLevel=ERROR",
];

/// Has the client say one thing more: the key that the host proved to have.
const SAY_HOST_KEY: &str = "LogVerbose=*:verify_host_key():*";

/// Words that stand before the host's key in the client's output.
const HOST_KEY: &str = "Server host key: ";

/// Host to connect to, with the user and the options of the login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Client {
    /// The machine.
    pub(super) host: String,
    /// User who logs in; `None` where the spec names none.
    pub(super) user: Option<String>,
    port: Option<u16>,
    identity: Option<String>,
    known_hosts: Option<String>,
    config: Option<String>,
}

impl Client {
    /// Reads the options of a spec.
    ///
    /// # Errors
    /// The user's: a port that is none, a user that could be an option, a path that is not
    /// absolute.
    pub(super) fn read(spec: &LayerSpec) -> Result<Self, Fault> {
        let path = |key: &str| spec.option(key).map(|value| absolute(key, value)).transpose();
        let host =
            spec.option("host").ok_or_else(|| Fault::bug("`ssh` was asked without a host"))?;
        Ok(Self {
            host: host.to_owned(),
            user: spec.option("user").map(user).transpose()?,
            port: spec.option("port").map(port).transpose()?,
            identity: path("identity")?,
            known_hosts: path("known-hosts")?,
            config: path("config")?,
        })
    }

    /// The command line that has a shell on the host do something. What the client itself says goes
    /// to this log, if there is one: the shell there writes to its standard error, too. Only
    /// clients that know the setting are told to say the host's key.
    pub(super) fn run(&self, log: Option<&Path>, says_key: bool, script: &str) -> Vec<String> {
        let mut words = vec![String::from(PROGRAM), String::from("-T")];
        let log = log.map(|file| ["-E".to_owned(), file.display().to_string()]);
        words.extend(log.into_iter().flatten());
        let settings = SETTINGS.iter().copied().chain(says_key.then_some(SAY_HOST_KEY));
        words.extend(settings.flat_map(|setting| ["-o".to_owned(), setting.to_owned()]));
        words.extend(self.own());
        words.extend(["--".to_owned(), self.host.clone(), script.to_owned()]);
        words
    }

    /// Returns the command that a person would type to get there.
    pub(super) fn by_hand(&self) -> String {
        let words = [vec![PROGRAM.to_owned()], self.own(), vec![self.host.clone()]];
        words.concat().join(" ")
    }

    /// The options that the user named.
    fn own(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut add = |flag: &str, value: Option<String>| {
            words.extend(value.into_iter().flat_map(|value| [flag.to_owned(), value]));
        };
        add("-F", self.config.clone());
        add("-l", self.user.clone());
        add("-p", self.port.map(|port| port.to_string()));
        add("-i", self.identity.clone());
        add("-o", self.identity.as_ref().map(|_| "IdentitiesOnly=yes".to_owned()));
        let known = self.known_hosts.as_ref();
        add("-o", known.map(|file| format!("UserKnownHostsFile={file}")));
        add("-o", known.map(|_| "GlobalKnownHostsFile=none".to_owned()));
        words
    }

    /// Explains on one line why a login failed: our own command line says nothing to the user, what
    /// the client said below it does.
    pub(super) fn refusal(&self, message: &str) -> String {
        let said = message.lines().skip(1).map(|line| line.trim_start_matches([' ', '|']).trim());
        let words: Vec<&str> = said.filter(|line| !line.starts_with("@@")).collect();
        match words.as_slice() {
            [] => message.to_owned(),
            words => format!("`{}` cannot be reached: {}", self.host, words.join(" ")),
        }
    }

    /// Suggests what would help against what the client said last. `None` where nothing is known.
    pub(super) fn remedy(&self, words: &str) -> Option<String> {
        let (host, by_hand) = (&self.host, self.by_hand());
        let says = |any: &[&str]| any.iter().any(|part| words.contains(part));
        if says(&["IDENTIFICATION HAS CHANGED"]) {
            return Some(format!(
                "ask whoever runs `{host}` whether its key was renewed, and only then forget the \
                 old one with `ssh-keygen -R`"
            ));
        }
        if says(&["Host key verification failed"]) {
            return Some(format!(
                "connect once by hand and compare the fingerprint that is shown: {by_hand}"
            ));
        }
        if says(&["Permission denied"]) {
            return Some(format!(
                "let a key in that needs no password, until this asks for none: {by_hand}"
            ));
        }
        says(&["refused", "timed out", "Could not resolve", "No route", "unreachable"])
            .then(|| format!("correct the host or its port until this gets there: {by_hand}"))
    }

    /// A machine on which the agent does not run.
    pub(super) fn wrong_system(&self, system: &str) -> Fault {
        let (host, shown) = (&self.host, system.escape_debug());
        Fault::machine(format!("`{host}` is `{shown}`, and the agent runs on `{SYSTEM}` only"))
    }
}

/// Tells whether a client of this version knows the setting with which it says the host's key:
/// since 8.5.
pub(super) fn tells_its_key(version: &str) -> bool {
    let number = version.strip_prefix("OpenSSH_").unwrap_or_default();
    let mut parts =
        number.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (8, 5)
}

/// The kind and fingerprint of the host's key, if the client said them.
pub(super) fn host_key(said: &str) -> &str {
    let line = said.lines().find_map(|line| line.split_once(HOST_KEY));
    line.map_or("unknown", |(_, key)| key.trim())
}

/// Lists the lines that the client says unasked.
pub(super) fn without_key(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter(|line| !line.contains(HOST_KEY))
}

fn user(name: &str) -> Result<String, Fault> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._@-".contains(c);
    if name.chars().all(is_plain) && !name.starts_with('-') {
        return Ok(name.to_owned());
    }
    let shown = name.escape_debug();
    Err(Fault::user(format!("ssh: `{shown}` is not the name of a user"))
        .hint("use letters, digits and `.`, `_`, `@`, `-`, and no `-` first"))
}

fn port(text: &str) -> Result<u16, Fault> {
    match text.parse() {
        Ok(port @ 1..) => Ok(port),
        _ => Err(Fault::user(format!("ssh: `{text}` is not a port"))
            .hint("write a number from 1 to 65535")),
    }
}

/// Client and configuration would look for a relative path in different places. A quote or a `%` in
/// it would mean something to the client.
fn absolute(key: &str, path: &str) -> Result<String, Fault> {
    let is_plain = !path.contains(['%', '"', '\'', '\\', ' ']);
    if Path::new(path).is_absolute() && is_plain {
        return Ok(path.to_owned());
    }
    Err(Fault::user(format!("ssh: `{key}={path}` is not a plain absolute path"))
        .hint("write it from `/` on, without spaces, quotes and `%`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(options: &[(&str, &str)]) -> Result<Client, Fault> {
        Client::read(&LayerSpec::of("ssh", options))
    }

    const FULL: [(&str, &str); 6] = [
        ("host", "lab7"),
        ("user", "me"),
        ("port", "2222"),
        ("identity", "/keys/id"),
        ("known-hosts", "/keys/known"),
        ("config", "/keys/config"),
    ];

    #[test]
    fn the_command_line_names_every_setting_that_could_leave_something_or_change_a_number() {
        let line = client(&FULL)
            .unwrap()
            .run(Some(Path::new("/room/ssh.log")), true, "uname -sm")
            .join(" ");
        let golden = "ssh -T -E /room/ssh.log -o BatchMode=yes -o StrictHostKeyChecking=yes -o \
                      UpdateHostKeys=no -o ConnectTimeout=10 -o ConnectionAttempts=1 -o \
                      ServerAliveInterval=5 -o ServerAliveCountMax=3 -o ClearAllForwardings=yes -o ForwardAgent=no -o \
                      ForwardX11=no -o PermitLocalCommand=no -o RemoteCommand=none -o \
                      RequestTTY=no -o ControlMaster=no -o ControlPath=none -o LogLevel=ERROR -o \
                      LogVerbose=*:verify_host_key():* -F /keys/config -l me -p 2222 -i /keys/id \
                      -o IdentitiesOnly=yes -o UserKnownHostsFile=/keys/known -o \
                      GlobalKnownHostsFile=none -- lab7 uname -sm";
        assert_eq!(line, golden);
    }

    #[test]
    fn without_options_all_but_the_settings_is_the_users_own_configuration() {
        let client = client(&FULL[..1]).unwrap();
        let words = client.run(None, false, "true");
        assert_eq!(words.len(), 2 + 2 * SETTINGS.len() + 3, "{words:?}");
        assert_eq!(words[words.len() - 3..], ["--", "lab7", "true"]);
        assert_eq!(client.by_hand(), "ssh lab7");
    }

    #[test]
    fn values_that_mean_something_else_to_the_client_are_refused() {
        for (key, value) in [
            ("user", "-oProxyCommand"),
            ("user", "a b"),
            ("user", "$(reboot)"),
            ("port", "0"),
            ("port", "65536"),
            ("port", "ssh"),
            ("identity", "key"),
            ("known-hosts", "~/known"),
            ("config", "/a b"),
            ("identity", "/keys/%h"),
        ] {
            let fault = client(&[("host", "lab7"), (key, value)]).unwrap_err();
            assert_eq!((fault.exit_code(), fault.hint.is_some()), (2, true), "{key}={value}");
        }
    }

    #[test]
    fn what_the_client_says_last_leads_to_what_would_help() {
        let client = client(&[("host", "lab7"), ("port", "2222")]).unwrap();
        for (words, part) in [
            ("Host key verification failed.", "fingerprint that is shown: ssh -p 2222 lab7"),
            (
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification \
                 failed.",
                "ssh-keygen -R",
            ),
            ("me@lab7: Permission denied (publickey).", "needs no password"),
            ("ssh: connect to host lab7 port 2222: Connection refused", "host or its port"),
            ("ssh: Could not resolve hostname lab7: Name or service not known", "host or its port"),
        ] {
            let remedy = client.remedy(words).unwrap();
            assert!(remedy.contains(part), "{words}: {remedy}");
        }
        assert_eq!(client.remedy("Killed"), None);
    }

    #[test]
    fn a_refusal_is_one_line_in_the_clients_own_words() {
        let client = client(&[("host", "lab7")]).unwrap();
        let asked =
            "`ssh -T lab7 uname -sm` failed with exit status: 255\n  | @@@@@@\n  | No route";
        assert_eq!(client.refusal(asked), "`lab7` cannot be reached: No route");
        assert_eq!(client.refusal("`ssh` did not end"), "`ssh` did not end");
    }

    #[test]
    fn the_host_key_is_read_from_what_a_client_that_knows_how_says() {
        let said = "debug1: sshconnect.c:verify_host_key():1477 (pid=9): Server host key: \
                    ssh-ed25519 SHA256:i+N\n";
        assert_eq!(host_key(said), "ssh-ed25519 SHA256:i+N");
        assert_eq!(host_key(""), "unknown");
        assert!(tells_its_key("OpenSSH_9.2p1 Debian-2+deb12u10, OpenSSL 3.0.19"));
        assert!(tells_its_key("OpenSSH_8.5p1") && tells_its_key("OpenSSH_10.0p2"));
        assert!(!tells_its_key("OpenSSH_8.4p1") && !tells_its_key("dropbear"));
    }
}
