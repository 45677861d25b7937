//! Units: what a tool prints, and what the ledger keeps of it.
//!
//! A ledger has one unit for each kind of quantity, so that two tools that measure the same thing
//! can be compared: times are nanoseconds, sizes bytes, whatever their tools print.

/// A unit that a tool prints, the one that the ledger keeps, and how many of that one it is.
#[derive(Debug)]
pub struct Unit {
    /// As a workload file says it.
    pub printed: &'static str,
    /// As the ledger and the reports say it.
    pub kept: &'static str,
    /// Times this.
    pub factor: f64,
}

const fn unit(printed: &'static str, kept: &'static str, factor: f64) -> Unit {
    Unit { printed, kept, factor }
}

/// Every unit that a workload file may name.
pub const UNITS: [Unit; 26] = [
    unit("ns", "ns", 1.0),
    unit("us", "ns", 1e3),
    unit("ms", "ns", 1e6),
    unit("s", "ns", 1e9),
    unit("bytes", "bytes", 1.0),
    unit("kB", "bytes", 1e3),
    unit("MB", "bytes", 1e6),
    unit("GB", "bytes", 1e9),
    unit("KiB", "bytes", 1024.0),
    unit("MiB", "bytes", 1_048_576.0),
    unit("GiB", "bytes", 1_073_741_824.0),
    unit("bytes/s", "bytes/s", 1.0),
    unit("kB/s", "bytes/s", 1e3),
    unit("MB/s", "bytes/s", 1e6),
    unit("GB/s", "bytes/s", 1e9),
    unit("KiB/s", "bytes/s", 1024.0),
    unit("MiB/s", "bytes/s", 1_048_576.0),
    unit("GiB/s", "bytes/s", 1_073_741_824.0),
    unit("bit/s", "bit/s", 1.0),
    unit("kbit/s", "bit/s", 1e3),
    unit("Mbit/s", "bit/s", 1e6),
    unit("Gbit/s", "bit/s", 1e9),
    unit("1/s", "1/s", 1.0),
    unit("count", "count", 1.0),
    unit("ratio", "ratio", 1.0),
    unit("percent", "ratio", 0.01),
];

/// Words that people write, and the unit that each means: first what needs no guess.
const MEANT: [(&str, &str); 12] = [
    ("\u{b5}s", "us"),
    ("\u{3bc}s", "us"),
    ("usec", "us"),
    ("msec", "ms"),
    ("sec", "s"),
    ("seconds", "s"),
    ("%", "percent"),
    ("B", "bytes"),
    ("B/s", "bytes/s"),
    ("Hz", "1/s"),
    ("iops", "1/s"),
    ("IOPS", "1/s"),
];

/// The unit that somebody meant who wrote another word: `µs`, `ops/s`, `MB/sec`.
pub fn meant(written: &str) -> Option<&'static Unit> {
    if let Some((_, printed)) = MEANT.iter().find(|(word, _)| *word == written) {
        return find(printed);
    }
    let (what, per) = written.split_once('/')?;
    if !["s", "sec", "second"].contains(&per) {
        return None;
    }
    let is_counted = what.len() > 1
        && what.bytes().all(|byte| byte.is_ascii_lowercase())
        && !["bit", "byte"].iter().any(|size| what.contains(size));
    if is_counted {
        return find("1/s");
    }
    let known = format!("{what}/s");
    find(&known).or_else(|| find(MEANT.iter().find(|(word, _)| *word == known)?.1))
}

/// The unit of this name.
pub fn find(printed: &str) -> Option<&'static Unit> {
    UNITS.iter().find(|unit| unit.printed == printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_in_other_words_is_understood_and_one_that_may_be_two_is_not() {
        for (written, printed) in [
            ("\u{b5}s", "us"),
            ("\u{3bc}s", "us"),
            ("ops/s", "1/s"),
            ("req/s", "1/s"),
            ("words/sec", "1/s"),
            ("MB/sec", "MB/s"),
            ("B/sec", "bytes/s"),
            ("%", "percent"),
        ] {
            assert_eq!(meant(written).map(|unit| unit.printed), Some(printed), "{written}");
        }
        for written in ["Mb/s", "mbits/s", "m/s", "MB/min", "parsec", "/s"] {
            assert!(meant(written).is_none(), "{written}");
        }
    }
}
