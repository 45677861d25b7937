//! Forged replies: somebody who is not the agent says what it would say, and none of it may count.
//!
//! Two campaigns. On a **channel** of its own, with a real link at one end, every kind of reply is
//! forged without the key, replayed, doubled, sent before its turn, and split by somebody else's
//! bytes. In **layers**, a command writes into every descriptor of its agent that it can reach, and
//! the trial goes the whole path to the findings. Where an agent is in its command's reach, the
//! first frame ends the trial, which is invalid; a trial that counts has been lied to. Where it is
//! out of reach the command tries many times in a start and says so in words that no forged frame
//! has; a trial that counts without them has been lied to.

mod channel;
mod layers;

use super::proof::ended;
use super::{Bar, Bench, Figure, Proof, Size, Stopped};
use channel::{MANNERS, on_a_channel};
use layers::{End, in_a_layer, layers};

/// The part that has no layer.
const CHANNEL: &str = "channel";

pub(super) struct Forged;

impl Proof for Forged {
    fn name(&self) -> &'static str {
        "forged"
    }

    fn summary(&self) -> &'static str {
        "replies forged by the command: how many count"
    }

    fn parts(&self, size: Size) -> Vec<String> {
        let stacks = layers(size).iter().map(|layer| layer.stack);
        std::iter::once(CHANNEL).chain(stacks).map(part_of).collect()
    }

    fn run_count(&self, size: Size) -> u32 {
        layers(size).iter().map(|layer| layer.run_count(size)).sum()
    }

    fn run_ms(&self, size: Size, run: u32) -> u32 {
        let mut before = 0;
        let layer = layers(size).iter().find(|layer| {
            before += layer.run_count(size);
            run < before
        });
        layer.map_or(700, |layer| layer.run_ms)
    }

    fn prove(&self, bench: &Bench<'_>, size: Size) -> Result<Vec<Figure>, Stopped> {
        let mut lines = Vec::new();
        for manner in MANNERS {
            if !bench.takes(&part_of(CHANNEL), 0) {
                break;
            }
            let mut count = Count::default();
            let done = on_a_channel(manner, size, &mut count);
            lines.push(count.line(format!("on a channel, {}", manner.name())));
            if let Err(fault) = done {
                return Err(Stopped { fault, lines });
            }
        }
        for layer in layers(size) {
            if !bench.takes(&part_of(layer.stack), layer.run_count(size)) {
                continue;
            }
            let mut count = Count::default();
            let done = in_a_layer(bench, layer, size, &mut count);
            lines.extend(count.lines_of_a_layer(layer.stack));
            if let Err(fault) = done {
                return Err(Stopped { fault, lines });
            }
        }
        ended(Ok(()), lines)
    }
}

fn part_of(layer: &str) -> String {
    format!("forged/{layer}")
}

/// Counts of the tries and of what came of them.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    tried: u32,
    /// Somebody was believed.
    believed: u32,
    /// It was told that somebody wrote who is not the agent.
    told: u32,
    /// Nothing could be written at all.
    out_of_reach: u32,
    /// The layer is not usable here.
    unavailable: u32,
}

impl Count {
    fn line(self, part: String) -> Figure {
        Figure {
            proof: "forged",
            part,
            tried: self.tried,
            found: self.believed,
            what: "counted",
            bar: Bar::AtMost(0),
            because: String::from("what does not bear the seal is no number"),
        }
    }

    /// The line of a layer, and how many of those that reached the channel were told of.
    fn lines_of_a_layer(self, layer: &str) -> Vec<Figure> {
        let reached = self.tried - self.out_of_reach;
        let why = format!("{} of them found no way to the agent's channel", self.out_of_reach);
        let all = Figure { because: why, ..self.line(String::from(layer)) };
        if self.unavailable > 0 && self.tried == 0 {
            let because = String::from("the layer is not usable here");
            return vec![Figure { bar: Bar::Shown, because, ..all }];
        }
        let told = Figure {
            part: format!("{layer}, those that reached the channel"),
            tried: reached,
            found: self.told,
            what: "told of",
            bar: Bar::AtLeast(reached),
            because: String::from("the trial is invalid and says that somebody wrote"),
            ..all.clone()
        };
        vec![all, told]
    }
}

impl Count {
    fn add(&mut self, end: End) {
        let tries = match end {
            End::OutOfReach(tries) => tries,
            End::Unavailable => 0,
            _ => 1,
        };
        self.tried += tries;
        match end {
            End::Unavailable => self.unavailable += 1,
            End::OutOfReach(tries) => self.out_of_reach += tries,
            End::Believed => self.believed += 1,
            End::Told => self.told += 1,
            End::Untold => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_that_counts_and_one_that_is_not_told_of_miss_a_bar() {
        let lines = |ends: &[End]| -> Vec<bool> {
            let mut count = Count::default();
            ends.iter().for_each(|end| count.add(*end));
            count.lines_of_a_layer("native").iter().map(Figure::is_met).collect()
        };
        assert_eq!(lines(&[End::Told, End::OutOfReach(50)]), [true, true]);
        assert_eq!(lines(&[End::Told, End::Believed]), [false, false]);
        assert_eq!(lines(&[End::Told, End::Untold]), [true, false]);
        assert_eq!(lines(&[End::Unavailable]), [true]);
        assert_eq!(lines(&[End::Believed, End::Unavailable]), [false, false]);
    }
}
