//! All prices, or some, as one line.

use super::{PRICES, Price, Setting};
use crate::{Answer, Engine, Options, Refused, option};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surtax_instrument::wire::SCRATCH;

/// All primitives, one after the other.
pub(crate) const ENGINE: Engine = Engine {
    name: "prices",
    about: "what a system call, a page fault, a context switch and other primitives cost",
    options: &[
        option("each", "TIME", "for how long each is measured; 200ms"),
        option("only", "NAMES", "some of them, with commas between; all"),
        option("directory", "PATH", "where files are made; /scratch, else /tmp"),
        option(
            "array-bytes",
            "N",
            "size of each array for bandwidth; four times the last level of cache",
        ),
    ],
    run,
};

/// Word that starts this program anew and ends at once: `engine nothing`.
pub const NOTHING: &str = "nothing";

/// Assumed where the machine does not say how large its last level of cache is, in bytes.
const CACHE_BYTES: u64 = 32 << 20;

/// Measures them. One that cannot be measured is `null`, with the reason beside it.
fn run(options: &Options) -> Result<Answer, Refused> {
    let prices = chosen(options.text("only"))?;
    let setting = Setting {
        budget: options.duration("each", Duration::from_millis(200))?,
        directory: directory(options.text("directory")),
        program: vec![c"/proc/self/exe".into(), c"engine".into(), c"nothing".into()],
        array_bytes: options.number("array-bytes", 4 * cache_bytes(), 1024..=1 << 40)?,
    };
    let mut answer = Answer::of(ENGINE.name);
    answer.text("directory", &setting.directory.to_string_lossy());
    answer.whole("array_bytes", setting.array_bytes);
    for price in prices {
        let name = price.name;
        match price.measure(&setting) {
            Ok(measured) => {
                answer.number(&format!("{name}_ns"), measured.median_ns);
                answer.number(&format!("{name}_lowest_ns"), measured.lowest_ns);
                answer.whole(&format!("{name}_batches"), measured.batch_count as u64);
            }
            Err(error) => {
                answer.absent(&format!("{name}_ns"));
                answer.text(&format!("{name}_why"), &error.to_string());
            }
        }
    }
    Ok(answer)
}

fn chosen(names: Option<&str>) -> Result<Vec<&'static Price>, Refused> {
    let Some(names) = names else { return Ok(PRICES.iter().collect()) };
    let find = |name: &str| {
        PRICES.iter().find(|price| price.name == name).ok_or_else(|| {
            let known: Vec<&str> = PRICES.iter().map(|price| price.name).collect();
            Refused::user(format!("there is no price `{}`", name.escape_debug()))
                .hint(format!("name some of {}", known.join(", ")))
        })
    };
    names.split(',').map(find).collect()
}

/// The one that is named, else the stack's scratch medium, where it has one.
fn directory(named: Option<&str>) -> PathBuf {
    let usual = if Path::new(SCRATCH).is_dir() { SCRATCH } else { "/tmp" };
    PathBuf::from(named.unwrap_or(usual))
}

/// Returns the size of the last level of cache, in bytes.
///
/// Source: Linux `Documentation/ABI/testing/sysfs-devices-system-cpu`.
#[must_use]
pub fn cache_bytes() -> u64 {
    let size = |index: u32| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let text = fs::read_to_string(path).ok()?;
        let kibibytes: u64 = text.trim().strip_suffix('K')?.parse().ok()?;
        Some(kibibytes << 10)
    };
    (0..8).filter_map(size).max().unwrap_or(CACHE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer_to;

    fn answer(line: &str) -> Result<String, Refused> {
        answer_to(&format!("prices {line}"))
    }

    #[test]
    fn a_price_stands_with_its_name_and_one_that_there_is_not_with_its_reason() {
        let line = "--each 1ms --only system_call,file_stat --directory /nothing/here";
        let answer = answer(line).unwrap();
        assert!(answer.contains("\"system_call_ns\":"), "{answer}");
        assert!(!answer.contains("system_call_why"), "{answer}");
        assert!(
            answer.contains("\"file_stat_ns\":null,\"file_stat_why\":\"cannot create `/nothing/"),
            "{answer}"
        );
    }

    #[test]
    fn a_name_that_there_is_not_is_refused_with_those_that_there_are() {
        let refused = answer("--only system_call,sytem_call").unwrap_err();
        assert_eq!(refused.what, "there is no price `sytem_call`");
        assert!(refused.hint.contains("system_call, cpuid, "), "{}", refused.hint);
    }
}
