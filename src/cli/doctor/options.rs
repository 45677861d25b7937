//! The options that each layer takes, as its descriptor and the grammar have them.

use crate::cli::Format;
use crate::cli::rows::Rows;
use crate::layer::{Descriptor, Limit};
use crate::report::page::Page;
use crate::report::terminal::Look;

/// Indentation of an option's help, in columns.
const INDENT: usize = 30;

/// One option as a person reads it.
struct OptionRow {
    key: &'static str,
    values: String,
    help: &'static str,
}

/// Every layer once, with its options.
pub(super) fn text(descriptors: &[&'static Descriptor], format: Format, look: Look) -> String {
    let mut known: Vec<&'static Descriptor> = Vec::new();
    for descriptor in descriptors {
        if known.iter().all(|other| other.kind != descriptor.kind) {
            known.push(descriptor);
        }
    }
    if format == Format::Table || format == Format::Json {
        return known
            .iter()
            .map(|descriptor| shown(descriptor, look.width))
            .collect::<Vec<_>>()
            .join("\n");
    }
    let mut rows = Rows::new(&["Layer", "Option", "Values", "What it does"]);
    for descriptor in known {
        let kind = || descriptor.kind.to_owned();
        rows.push(vec![kind(), String::new(), String::new(), descriptor.summary.to_owned()]);
        for choice in choices(descriptor) {
            rows.push(vec![kind(), choice.key.into(), choice.values, choice.help.into()]);
        }
    }
    rows.text(format, None)
}

fn shown(descriptor: &Descriptor, width: u16) -> String {
    let mut page = Page::new(width);
    page.paragraph(&format!("{}: ", descriptor.kind), descriptor.summary, 2);
    for OptionRow { key, values, help } in choices(descriptor) {
        let option = format!("  {key}={}", values.replace(' ', "|"));
        if option.chars().count() + 2 > INDENT {
            page.unbroken(&option, "");
            page.paragraph(&" ".repeat(INDENT), help, INDENT);
        } else {
            page.paragraph(&format!("{option:INDENT$}"), help, INDENT);
        }
    }
    page.finish()
}

fn choices(descriptor: &Descriptor) -> Vec<OptionRow> {
    let own = descriptor.options.iter().map(|choice| OptionRow {
        key: choice.key,
        values: if choice.values.is_empty() { "any".into() } else { choice.values.join(" ") },
        help: choice.help,
    });
    let roots: Vec<&str> = descriptor.roots.iter().map(|root| root.words()).collect();
    let root = OptionRow {
        key: "root",
        values: roots.join(" "),
        help: if descriptor.elsewhere {
            "its files are the other machine's own, and writes to them stay there"
        } else {
            "where the root file system comes from; `overlay`, the default, is this machine's own"
        },
    };
    let secrets = descriptor.conceals().then_some(OptionRow {
        key: "secrets",
        values: "masked shown".into(),
        help: "whether the command sees this machine's keys and passwords (default: masked)",
    });
    let variable = OptionRow {
        key: "env.NAME",
        values: "any".into(),
        help: "a variable of the command's environment in this stack; on the innermost layer only",
    };
    own.chain(descriptor.limits.iter().flat_map(|limit| of_limit(*limit)))
        .chain([root])
        .chain(secrets)
        .chain([variable])
        .collect()
}

fn of_limit(limit: Limit) -> Vec<OptionRow> {
    let rows: &[[&'static str; 2]] = match limit {
        Limit::Cpus => {
            &[["2", "CPUs' worth of time, also `0.5`; in a virtual machine the number of CPUs"]]
        }
        Limit::Cpuset => &[["0-1;3", "this machine's CPUs that it may run on"]],
        Limit::Memory => &[["2G", "the most memory; in a virtual machine its size"]],
        Limit::Hugetlb => {
            &[["64M", "the most memory of huge pages (2 MiB) of this level's pool; 0 for none"]]
        }
        Limit::Pids => &[["100", "the most processes and threads"]],
        Limit::Weight => {
            &[["1…10000", "its share of CPUs that others want too; everybody has 100"]]
        }
        Limit::Partition => {
            &[["root isolated", "whether the CPUs of `cpuset` are nobody else's (cgroup v2)"]]
        }
        Limit::Numa => &[["0-1", "NUMA nodes that its memory may come from"]],
        Limit::Io => &[
            ["8M", "bytes a second that it may read from the disk under /var/tmp"],
            ["8M", "and write to it; cgroup v1 counts direct I/O alone"],
            ["100", "reads a second from that disk"],
            ["100", "and writes"],
        ],
    };
    let choice = |(key, [values, help]): (&&'static str, &[&'static str; 2])| OptionRow {
        key,
        values: (*values).into(),
        help,
    };
    limit.keys().iter().zip(rows).map(choice).collect()
}
