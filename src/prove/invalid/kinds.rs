//! The faults, each as a script: what the command does, and what somebody outside does to it.

use super::super::place::TryDirectory;
use super::caught::Sign;
use super::{Actor, Kind, often, seldom};
use crate::driver;
use crate::fault::Fault;
use crate::plan::{Draft, shell_line};
use crate::prove::Bench;
use std::path::PathBuf;
use surtax_instrument::probe::cgroup::Version;

/// A kind of which all that matters is said in its script.
const PLAIN: Kind = Kind {
    name: "",
    layer: "native",
    blocks: 3,
    often,
    run_ms: 300,
    script: "",
    change: |_, _, _| Ok(()),
    actor: None,
    sign: Sign::Any,
    not_caught: None,
};

pub(super) const KINDS: [Kind; 19] = [
    Kind {
        name: "less work, and less is printed",
        script: "n=300; [ $FAULT ] && n=150 && mark; seq $n",
        sign: Sign::Caution("outputs-differ"),
        ..PLAIN
    },
    Kind {
        name: "exit status 3",
        script: "seq 300; [ $FAULT ] && mark && exit 3; :",
        sign: Sign::Invalid,
        ..PLAIN
    },
    Kind {
        name: "exit status 3 in one block",
        script: "seq 300; [ $FAULT ] && [ ! -s $MARK ] && mark && exit 3; :",
        sign: Sign::Caution("trials-lost"),
        ..PLAIN
    },
    Kind {
        name: "output truncated",
        script: "n=9999; [ $FAULT ] && n=500 && mark; seq 300 | head -c $n",
        sign: Sign::Caution("outputs-differ"),
        ..PLAIN
    },
    Kind {
        name: "output in another order",
        script: "order=cat; [ $FAULT ] && order=tac && mark; seq 300 | $order",
        sign: Sign::Caution("outputs-differ"),
        ..PLAIN
    },
    Kind {
        name: "a variable that changes the result",
        script: "[ $FAULT ] && mark; echo $((HOURS * 60))",
        change: |_, _, draft| add_variable(draft, "HOURS=7", "HOURS=5"),
        sign: Sign::Caution("outputs-differ"),
        ..PLAIN
    },
    Kind {
        name: "another program of that name, with another result",
        change: |_, place, draft| two_programs(place, draft, "seq 2000 | tail -n 1", "echo 2001"),
        sign: Sign::InvalidWith("another-program"),
        ..PLAIN
    },
    Kind {
        name: "another program of that name, with the same result",
        change: |_, place, draft| two_programs(place, draft, "seq 2000 | tail -n 1", "echo 2000"),
        sign: Sign::InvalidWith("another-program"),
        ..PLAIN
    },
    Kind {
        name: "the command stopped for 100 ms",
        script: "[ $FAULT ] && mark && { (sleep 0.1; kill -CONT $$) & kill -STOP $$; wait; }; :",
        sign: Sign::OnlyThere("command_stopped_ns"),
        ..PLAIN
    },
    Kind {
        name: "its agent stopped for 100 ms",
        script: "[ $FAULT ] && mark && { kill -STOP $PPID; sleep 0.1; kill -CONT $PPID; }; :",
        sign: Sign::OnlyThere("command_stopped_count"),
        ..PLAIN
    },
    Kind {
        name: "QEMU stopped for 100 ms",
        layer: "qemu:accel=tcg",
        blocks: 1,
        often: seldom,
        run_ms: 15_000,
        script: "[ $FAULT ] && fault_on && fault_off; :",
        actor: Some(Actor { script: STOPS_QEMU, knows: |_| Some(our_id()) }),
        sign: Sign::OnlyThere("stack_stopped_count"),
        ..PLAIN
    },
    Kind {
        name: "a busy neighbour",
        run_ms: 3_000,
        script: WORKS,
        actor: Some(Actor { script: KEEPS_BUSY, knows: |_| Some(String::new()) }),
        sign: Sign::Everywhere("others_cpu_ratio"),
        ..PLAIN
    },
    Kind {
        name: "a CPU quota on the group above",
        run_ms: 3_000,
        script: WORKS,
        actor: Some(Actor { script: SETS_A_QUOTA, knows: quota }),
        sign: Sign::OnlyThere("throttled_count"),
        ..PLAIN
    },
    Kind {
        name: "a cold cache",
        run_ms: 1_000,
        script: READS,
        change: add_cold_file,
        actor: Some(Actor { script: DROPS_ITS_PAGES, knows: cold_file }),
        sign: Sign::Caution("unequal-cache"),
        ..PLAIN
    },
    Kind {
        name: "a guest clock that runs wrong",
        layer: "qemu:accel=tcg,cpus=1",
        blocks: 1,
        often: seldom,
        run_ms: 15_000,
        script: TIMES_ITSELF,
        change: count_instructions,
        actor: Some(Actor { script: TIMES_IT, knows: |_| Some(String::new()) }),
        sign: Sign::Caution("guest-clock"),
        ..PLAIN
    },
    Kind {
        name: "processes that a limit refused, and exit status 0",
        layer: "native:pids=12",
        script: "n=1; [ $FAULT ] && n=30 && mark; sh -c \"i=0; while [ \\$i -lt $n ]; do \
                 sleep 0.1 & i=\\$((i+1)); done; wait\" 2> /dev/null; echo done",
        sign: Sign::Invalid,
        ..PLAIN
    },
    Kind {
        name: "less work, and the same is printed",
        script: "n=50000; [ $FAULT ] && n=1000 && mark; \
                 i=0; while [ $i -lt $n ]; do i=$((i+1)); done; echo done",
        not_caught: Some("work that leaves no trace in the output cannot be told from speed"),
        ..PLAIN
    },
    Kind {
        name: "another program in a shell, with the same result",
        script: "program() { seq 2000 | tail -n 1; }; \
                 [ $FAULT ] && mark && program() { echo 2000; }; program",
        not_caught: Some("of what a command starts in turn, the files are not looked at"),
        ..PLAIN
    },
    Kind {
        name: "a child of the command stopped for 100 ms",
        script: "sleep 0.2 & [ $FAULT ] && mark && \
                 { kill -STOP $!; sleep 0.1; kill -CONT $!; }; wait",
        not_caught: Some("the kernel tells of a stop to nobody but the parent"),
        ..PLAIN
    },
];

/// Works for a tenth of a second or two, while the actor acts in the compared stack.
const WORKS: &str = "\
[ $FAULT ] && fault_on
i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done
[ $FAULT ] && fault_off; :";

const STOPS_QEMU: &str = "
begin() {
  for pid in $(cat /proc/$OURS/task/*/children); do
    case $(cat /proc/$pid/comm) in qemu-system*)
      kill -STOP $pid; sleep 0.1
      grep -q '^State:.T' /proc/$pid/status && mark
      kill -CONT $pid ;;
    esac
  done
}
end() { :; }
";

const KEEPS_BUSY: &str = "
burn() { while [ -e $PLACE/asked ]; do i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done; done; }
begin() { (burn; mark) & (burn; mark) & }
end() { wait; }
";

const SETS_A_QUOTA: &str = "
throttled() { sed -n 's/^nr_throttled //p' $GROUP/cpu.stat; }
begin() { before=$(throttled); echo $HELD > $GROUP/$FILE; }
end() { echo $FREE > $GROUP/$FILE; [ $(throttled) -gt $before ] && mark; }
";

/// Reads the file, and leaves a mark if that took a disk.
const READS: &str = "\
read_kib() { sed -n 's/^pgpgin //p' /proc/vmstat; }
[ $FAULT ] && fault_on
before=$(read_kib); cksum < $COLD; after=$(read_kib)
[ $FAULT ] && [ $((after-before)) -gt 16000 ] && mark
[ $FAULT ] && fault_off; :";

const DROPS_ITS_PAGES: &str = "
begin() { dd if=$COLD iflag=nocache count=0 2> /dev/null; }
end() { :; }
";

/// Works for a second or so, and says how many hundredths that took by the clock over there.
const TIMES_ITSELF: &str = "\
time_is() { read up rest < /proc/uptime; up=${up%.*}${up#*.}; echo ${up#0}; }
began=$(time_is)
[ $FAULT ] && fault_on
i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done
[ $FAULT ] && echo $(($(time_is)-began)) > $PLACE/took && fault_off; :";

/// Does the same by this machine's clock, and leaves a mark if the two are a tenth apart.
const TIMES_IT: &str = "
time_is() { read up rest < /proc/uptime; up=${up%.*}${up#*.}; echo ${up#0}; }
begin() { began=$(time_is); }
end() {
  here=$(($(time_is)-began)); there=$(cat $PLACE/took)
  if [ $((there*10)) -gt $((here*11)) ] || [ $((here*10)) -gt $((there*11)) ]; then mark; fi
}
";

/// Size of the file that is read from a disk, or from memory, in bytes.
const COLD_BYTES: usize = 32 << 20;

/// The process whose children the stacks are.
fn our_id() -> String {
    format!("OURS={}", std::process::id())
}

/// The group in which all stacks are, and how it is held to a third of a CPU, and let go.
fn quota(bench: &Bench<'_>) -> Option<String> {
    let (group, version) = bench.cpu_group()?;
    let [file, held, free] = match version {
        Version::One => ["cpu.cfs_quota_us", "30000", "-1"],
        Version::Two => ["cpu.max", "'30000 100000'", "'max 100000'"],
    };
    if !group.join(file).exists() {
        return None;
    }
    let group = group.to_string_lossy();
    let group = shell_line([group.as_ref()]);
    Some(format!("GROUP={group}; FILE={file}; HELD={held}; FREE={free}"))
}

/// The file that is read, made and written to its disk if it is not there.
fn cold_file(bench: &Bench<'_>) -> Option<String> {
    let path = cold_path(bench)?;
    let make = || -> std::io::Result<()> {
        let mut file = std::fs::File::create_new(&path)?;
        std::io::Write::write_all(&mut file, &vec![b'x'; COLD_BYTES])?;
        file.sync_all()
    };
    if !path.exists() {
        make().ok()?;
    }
    Some(format!("COLD={}", shell_line([path.to_string_lossy().as_ref()])))
}

fn cold_path(bench: &Bench<'_>) -> Option<PathBuf> {
    Some(bench.disk_directory()?.join("cold"))
}

fn add_cold_file(bench: &Bench<'_>, _: &TryDirectory, draft: &mut Draft) -> Result<(), Fault> {
    let path = cold_path(bench).unwrap_or_default();
    draft.environment.push((String::from("COLD"), path.as_path().into()));
    Ok(())
}

/// The compared guest's clock counts instructions, 32 nanoseconds each: an emulator takes a tenth
/// of that on any machine.
fn count_instructions(_: &Bench<'_>, _: &TryDirectory, draft: &mut Draft) -> Result<(), Fault> {
    if let Some(compared) = draft.stacks.last_mut() {
        *compared = driver::parse("qemu:icount=5,cpus=1,env.FAULT=1")?;
    }
    Ok(())
}

/// Gives the baseline one value of a variable, and the compared stack another.
fn add_variable(draft: &mut Draft, baseline: &str, compared: &str) -> Result<(), Fault> {
    let [first, other] = [("", baseline), (",env.FAULT=1", compared)]
        .map(|(fault, variable)| driver::parse(&format!("native:env.{variable}{fault}")));
    let first = first?;
    draft.stacks = vec![first.clone(), other?];
    draft.baseline = Some(first);
    Ok(())
}

/// The command is `program`, which is one file in the baseline and another in the compared stack.
fn two_programs(
    place: &TryDirectory,
    draft: &mut Draft,
    one: &str,
    other: &str,
) -> Result<(), Fault> {
    let text = |does: &str| format!("#!/bin/sh\n[ $FAULT ] && echo x >> $MARK\n{does}\n");
    let usual = "/usr/bin:/bin";
    let first = place.program("one", &text(one))?;
    let second = place.program("other", &text(other))?;
    draft.command = vec!["program".into()];
    add_variable(draft, &format!("PATH={first}:{usual}"), &format!("PATH={second}:{usual}"))
}
