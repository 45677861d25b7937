//! Links that are worse than they could be: netem, at the end of a link in a room's own network
//! namespace.
//!
//! The kernel's queueing discipline holds frames that leave by that end back, loses some, or lets
//! so many through in a second. It is a part of the link and gone with it.
//!
//! Source: `tc-netem(8)`, Linux `net/sched/sch_netem.c`.

use super::{RoomNetwork, ask, kernel_part};
use crate::fault::{Doing, Fault};
use std::time::Duration;
use surtax_instrument::wire::Fact;

/// The kernel's module, and a function of it.
const MODULE: &str = "sch_netem";
const FUNCTION: &str = "netem_enqueue";

/// Time limit for loading a module.
const MODPROBE_DEADLINE: Duration = Duration::from_secs(30);

/// Largest number of frames that may wait: those of 20 Gbit/s for half a second. The default of
/// netem, 1,000, would lose what a fast link with a delay has under way.
const LIMIT: u32 = 1_000_000;

/// By how much netem may round what it was told: its clock ticks in 64 ns, and its chances are of
/// 32 bits.
const ROUNDING: f64 = 1e-3;

/// Treatment of frames that leave by an end of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shape {
    /// Time by which they leave later.
    pub delay: Option<Duration>,
    /// The share of them that is lost, from 0 to 1.
    pub loss: Option<f64>,
    /// Rate at which they leave, in bits per second.
    pub rate: Option<u64>,
}

impl Shape {
    /// Returns the words by which `tc` is told of it.
    fn words(self) -> Vec<String> {
        let mut words = vec![String::from("limit"), LIMIT.to_string()];
        let mut say = |key: &str, value: String| words.extend([String::from(key), value]);
        if let Some(delay) = self.delay {
            say("delay", format!("{}us", delay.as_micros()));
        }
        if let Some(loss) = self.loss {
            say("loss", format!("{}%", loss * 100.0));
        }
        if let Some(rate) = self.rate {
            say("rate", format!("{rate}bit"));
        }
        words
    }

    /// Tells whether netem says the same, in `tc -json qdisc show`.
    fn is_what(self, told: &serde_json::Value) -> bool {
        let netem = told.as_array().into_iter().flatten().find(|it| it["kind"] == "netem");
        let Some(options) = netem.map(|it| &it["options"]) else { return false };
        let near = |asked: Option<f64>, key: [&str; 2]| {
            let told = options[key[0]][key[1]].as_f64().unwrap_or_default();
            let asked = asked.unwrap_or_default();
            (told - asked).abs() <= asked * ROUNDING
        };
        let bytes = self.rate.map(|bits| bits as f64 / 8.0);
        near(self.delay.map(|delay| delay.as_secs_f64()), ["delay", "delay"])
            && near(self.loss, ["loss-random", "loss"])
            && near(bytes, ["rate", "rate"])
    }
}

/// Tells whether the kernel of this level can shape links; loads nothing. Only in a guest of ours
/// its module is loaded first: that kernel is ours to change.
#[must_use]
pub fn can_shape(level: u8) -> bool {
    if level > 0 && kernel_part::is_of_a_guest_of_ours() {
        // Where it is built in, or there is none, what follows will tell.
        let _ = ask(&["modprobe", MODULE].map(String::from), None, MODPROBE_DEADLINE);
    }
    kernel_part::is_there(MODULE, FUNCTION)
}

/// A link of a network that was shaped.
#[derive(Debug)]
pub struct Shaped {
    link: &'static str,
    shape: Shape,
}

impl Shaped {
    /// Shapes what leaves by a link.
    ///
    /// # Errors
    /// The machine's: the link is not there, or the kernel refuses.
    pub fn make(network: &RoomNetwork, link: &'static str, shape: Shape) -> Result<Self, Fault> {
        network.shape(link, shape)?;
        Ok(Self { link, shape })
    }

    /// Proves that the kernel does what was asked for.
    ///
    /// # Errors
    /// The machine's: it does something else.
    pub fn prove(&self, network: &RoomNetwork) -> Result<Vec<Fact>, Fault> {
        network.require_shape(self.link, self.shape)?;
        let source = "tc -json qdisc show";
        let Shape { delay, loss, rate } = self.shape;
        let delay = delay.map(|it| Fact::new("link_delay_us", it.as_micros().to_string(), source));
        let loss = loss.map(|it| Fact::new("link_loss", it.to_string(), source));
        let rate = rate.map(|it| Fact::new("link_rate_bps", it.to_string(), source));
        let netem = Fact::new("link_shaped_by", "netem", source);
        Ok([delay, loss, rate].into_iter().flatten().chain([netem]).collect())
    }
}

impl RoomNetwork {
    /// Shapes what leaves by a link of this namespace.
    ///
    /// # Errors
    /// The machine's: there is no `tc`, no such link, or the kernel has no netem.
    pub fn shape(&self, link: &str, shape: Shape) -> Result<(), Fault> {
        let words = shape.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let add = ["tc", "qdisc", "add", "dev", link, "root", "netem"];
        self.ask(&[&add[..], &words].concat()).map(drop)
    }

    /// That the kernel does what was asked for.
    ///
    /// # Errors
    /// The machine's: it does something else, or it cannot be asked.
    pub fn require_shape(&self, link: &str, asked: Shape) -> Result<(), Fault> {
        let said = self.ask(&["tc", "-json", "qdisc", "show", "dev", link])?;
        let told = serde_json::from_str(&said).doing("read what `tc` says of a link")?;
        if asked.is_what(&told) {
            return Ok(());
        }
        Err(Fault::machine(format!(
            "the link `{link}` was to be shaped by `{}`, and `tc` says `{}`",
            asked.words().join(" "),
            said.trim().escape_debug()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As iproute2 6.1 says it of `delay 20ms loss 1% rate 100mbit` on Linux 6.1.
    const TOLD: &str = r#"[{"kind":"netem","handle":"8001:","root":true,"refcnt":2,"options":{"limit":1000,
        "delay":{"delay":0.02,"jitter":0,"correlation":0},"loss-random":{"loss":0.01,"correlation":0},
        "rate":{"rate":12500000,"packetoverhead":0,"cellsize":0,"celloverhead":0},"ecn":false,"gap":0}}]"#;

    fn shape() -> Shape {
        let (delay, loss, rate) = (Duration::from_millis(20), 0.01, 100_000_000);
        Shape { delay: Some(delay), loss: Some(loss), rate: Some(rate) }
    }

    #[test]
    fn netem_is_told_all_in_its_own_units() {
        assert_eq!(
            shape().words().join(" "),
            "limit 1000000 delay 20000us loss 1% rate 100000000bit"
        );
        assert_eq!(Shape::default().words().join(" "), "limit 1000000");
    }

    #[test]
    fn a_shape_is_proved_by_what_the_kernel_says_and_nothing_else() {
        let told = serde_json::from_str(TOLD).unwrap();
        assert!(shape().is_what(&told));
        let other = [
            Shape { delay: Some(Duration::from_millis(21)), ..shape() },
            Shape { loss: None, ..shape() },
            Shape { rate: Some(90_000_000), ..shape() },
        ];
        assert!(other.iter().all(|other| !other.is_what(&told)));
        assert!(!shape().is_what(&serde_json::json!([{"kind": "noqueue", "options": {}}])));
    }
}
