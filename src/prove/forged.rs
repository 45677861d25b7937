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

use super::{Bar, Bench, Figure, Part, Proof, Size};
use crate::fault::Fault;
use channel::{MANNERS, on_a_channel};
use layers::{End, in_a_layer, layers};

/// The part that has no layer.
const CHANNEL: &str = "channel";

pub(super) const PROOF: Proof = Proof {
    name: "forged",
    summary: "replies forged by the command: how many count",
    parts: |size| {
        let channel = Part::alone(part_of(CHANNEL), 0, 0);
        let layers = layers(size).iter();
        let layers = layers.map(|it| Part::alone(part_of(it.stack), it.run_count(size), it.run_ms));
        std::iter::once(channel).chain(layers).collect()
    },
    prove,
};

fn prove(bench: &Bench<'_>, size: Size, figures: &mut Vec<Figure>) -> Result<(), Fault> {
    if bench.takes(&part_of(CHANNEL), 0) {
        for manner in MANNERS {
            let mut count = Count::default();
            let done = on_a_channel(manner, size, &mut count);
            figures.push(count.line(&format!("on a channel, {}", manner.name())));
            done?;
        }
    }
    for layer in layers(size) {
        if bench.takes(&part_of(layer.stack), layer.run_count(size)) {
            let mut count = Count::default();
            let done = in_a_layer(bench, layer, size, &mut count);
            figures.extend(count.lines_of_a_layer(layer.stack));
            done?;
        }
    }
    Ok(())
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
    fn line(self, part: &str) -> Figure {
        Figure::new(part, [self.tried, self.believed], "counted")
            .bar(Bar::AtMost(0), "what does not bear the seal is no number")
    }

    /// The line of a layer, and how many of those that reached the channel were told of.
    fn lines_of_a_layer(self, layer: &str) -> Vec<Figure> {
        if self.unavailable > 0 && self.tried == 0 {
            return vec![self.line(layer).bar(Bar::Shown, "the layer is not usable here")];
        }
        let reached = self.tried - self.out_of_reach;
        let why = format!("{} of them found no way to the agent's channel", self.out_of_reach);
        let part = format!("{layer}, those that reached the channel");
        vec![
            self.line(layer).bar(Bar::AtMost(0), why),
            Figure::new(part, [reached, self.told], "told of")
                .bar(Bar::AtLeast(reached), "the trial is invalid and says that somebody wrote"),
        ]
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
