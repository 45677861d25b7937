//! Instances: how many of the command run at once in each stack, and what of that cannot be.

use super::Draft;
use crate::fault::Fault;
use std::collections::BTreeSet;
use surtax_instrument::wire::INSTANCES_LIMIT;

/// Instances of a plan that names none.
pub(super) const DEFAULT_INSTANCES: u32 = 1;

impl Draft {
    /// Checks how many instances run at once, and returns that number.
    pub(super) fn checked_instances(&self) -> Result<u32, Fault> {
        let count = self.conduct.instances.unwrap_or(DEFAULT_INSTANCES);
        let limit = u32::try_from(INSTANCES_LIMIT).unwrap_or(u32::MAX);
        if !(1..=limit).contains(&count) {
            let message = format!("`instances = {count}` is not from 1 to {limit}");
            return Err(self
                .refuse("instances", message)
                .hint("more at once are threads of one command, or several stacks"));
        }
        let Some(workload) = self.workload.as_ref().filter(|_| count > 1) else { return Ok(count) };
        let name = workload.name.escape_debug();
        if workload.resolve()?.is_alone {
            return Err(self
                .refuse("instances", format!("only one `{name}` can run at a time in a stack"))
                .hint("leave `--instances` out; many workloads have a parameter for threads"));
        }
        let all = workload.instances(count).map_err(|fault| Fault {
            hint: fault.hint,
            ..self.refuse("instances", fault.message)
        })?;
        let servers: Vec<_> = all.iter().filter_map(|it| it.server.as_ref()).collect();
        // What never listens, such as the other side of a ping, may be there several times; it has
        // no place to name.
        let listens =
            servers.iter().any(|words| words.iter().any(|word| word.contains("{address}")));
        if listens && servers.iter().collect::<BTreeSet<_>>().len() < servers.len() {
            let message =
                format!("the servers of {count} instances of `{name}` would listen at one port");
            return Err(self.refuse("instances", message).hint(
                "let its file give each the next one: a parameter with `instances = \"next\"`, \
                 named in `server` and `command`",
            ));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{around, draft};
    use super::*;
    use crate::plan::TrialSettingsDraft;
    use crate::workload::Workload;

    fn refused(workload: Option<Workload>, instances: u32) -> Option<String> {
        let conduct =
            TrialSettingsDraft { instances: Some(instances), ..TrialSettingsDraft::default() };
        let mut asked = Draft { conduct, ..draft(&["native"]) };
        if workload.is_some() {
            asked.command = Vec::new();
        }
        asked.workload = workload;
        asked.complete(&around()).err().map(|fault| fault.message)
    }

    #[test]
    fn a_plain_command_may_run_several_times_at_once_and_not_too_often() {
        assert_eq!(refused(None, 4), None);
        for count in [0, 65] {
            let said = format!("`instances = {count}` is not from 1 to 64");
            assert_eq!(refused(None, count), Some(said));
        }
    }

    #[test]
    fn a_workload_that_must_be_alone_or_whose_servers_would_meet_is_refused() {
        let ready = |typed| Some(Workload::find(typed).unwrap());
        assert_eq!(refused(ready("net.tcp_rr_rate"), 4), None);
        let alone = "only one `prices` can run at a time in a stack";
        assert_eq!(refused(ready("prices"), 2).as_deref(), Some(alone));
        assert_eq!(refused(ready("prices"), 1), None);
        let text = "about = \"x\"\ncommand = [\"x\", \"{address}\"]\nserver = [\"y\", \
                    \"{address}:80\"]\n[[check]]\nabout = \"a\"\nregex = '(\\d)'\n";
        let own = Workload::of("./x.toml", String::from(text), Vec::new()).unwrap();
        let said = "the servers of 3 instances of `./x.toml` would listen at one port";
        assert_eq!(refused(Some(own), 3).as_deref(), Some(said));
        let fault = refused(ready("net.tcp_rr_rate:rate=3"), 4).unwrap();
        assert!(fault.starts_with("instance 3 of 4 would have `rate=0`"), "{fault}");
    }
}
