//! Bars of parts, one bar per arm in equal units, of times.
//!
//! An arm without any part keeps its row and says so.

use super::axis::Axis;
use super::chart::{self, Anchor, Canvas, Frame};
use super::escape;
use super::legend::Arm;
use crate::finding::number;
use maud::{Markup, html};

/// Room for the number beside a bar.
const TOTAL_WIDTH: f64 = 76.0;

/// Bars of one chart.
pub struct Bars<'a> {
    /// Word for the chart in names of files and classes.
    pub kind: &'static str,
    /// Title for who listens.
    pub title: &'static str,
    /// The same of the colours.
    pub legend: &'static str,
    /// Name for people and colour's class of each part.
    pub parts: &'a [(&'static str, &'static str)],
    /// Time of each part in an arm, in nanoseconds.
    pub of: &'a dyn Fn(&Arm<'_>) -> Vec<f64>,
}

impl Bars<'_> {
    /// The chart, wide and narrow.
    pub fn draw(&self, arms: &[Arm<'_>]) -> Markup {
        let left = chart::names_width(arms.iter().map(|arm| arm.name.as_str()), 360.0);
        html! {
            (self.framed(arms, &Frame::wide(34.0, left, TOTAL_WIDTH)))
            (self.framed(arms, &Frame::narrow(52.0, 2.0, TOTAL_WIDTH)))
        }
    }

    fn framed(&self, arms: &[Arm<'_>], frame: &Frame) -> Markup {
        let mut canvas = Canvas::new(frame.width, frame.bottom(6.0, arms.len()));
        let longest = arms.iter().map(|arm| self.total_ns(arm)).fold(0.0, f64::max);
        let axis = Axis::from_zero(longest, frame.plot.0, frame.plot.1);
        for (arm, top) in arms.iter().zip(frame.tops(0.0)) {
            self.row(&mut canvas, arm, frame, &axis, top);
        }
        let said: Vec<String> = arms.iter().map(|arm| self.spoken(arm)).collect();
        canvas.svg(self.kind, frame.class, self.title, &said.join("; "))
    }

    fn row(&self, canvas: &mut Canvas, arm: &Arm<'_>, frame: &Frame, axis: &Axis, top: f64) {
        let (name_at, bar_top) = if frame.names_above {
            ((2.0, top + 19.0), top + 26.0)
        } else {
            ((0.0, top + frame.row_height / 2.0 + 4.0), top + 7.0)
        };
        let room = if frame.names_above { frame.width } else { frame.plot.0 - 12.0 };
        canvas.group_of("row", Some(arm.found.arm), None, |canvas| {
            let name = chart::fitting(&arm.name, room, 13);
            canvas.text_in("name", name_at, 13, Anchor::Start, &name);
            let base = bar_top + 14.5;
            if self.total_ns(arm) <= 0.0 {
                canvas.group("gap", |canvas| {
                    let room = frame.width - frame.plot.0;
                    let reason = format!("no reading: {}", arm.gap());
                    let reason = chart::fitting_prose(&reason, room, 12);
                    canvas.text((frame.plot.0, base), 12, Anchor::Start, &reason);
                });
            } else {
                let end = self.segments(canvas, arm, axis, bar_top);
                let time = number::time(self.total_ns(arm));
                canvas.text_in("value", (end + 8.0, base), 13, Anchor::Start, &time);
            }
        });
    }

    /// Draws one bar and says where it ends.
    fn segments(&self, canvas: &mut Canvas, arm: &Arm<'_>, axis: &Axis, top: f64) -> f64 {
        let (mut sum_ns, total_ns) = (0.0, self.total_ns(arm));
        let mut end = axis.at(0.0);
        for (part_ns, name, class) in self.parts_of(arm) {
            let start = axis.at(sum_ns);
            sum_ns += part_ns;
            end = axis.at(sum_ns);
            let percent = format!("{:.0} %", part_ns / total_ns * 100.0);
            let hint = format!("{}, {name}: {}, {percent}", arm.name, number::time(part_ns));
            canvas.group_of(class, None, Some(&hint), |canvas| {
                // The gap of a pixel separates neighbours where colour does not.
                canvas.rect((start, top), ((end - start - 1.0).max(0.6), 20.0), 1.0);
                let label = if end - start > 130.0 { format!("{name} {percent}") } else { percent };
                if end - start > 40.0 {
                    canvas.text_in("on-bar", (start + 7.0, top + 14.5), 12, Anchor::Start, &label);
                }
            });
        }
        end
    }

    /// The parts that an arm has, each with its name and class.
    fn parts_of(&self, arm: &Arm<'_>) -> Vec<(f64, &'static str, &'static str)> {
        let all = (self.of)(arm).into_iter().zip(self.parts);
        all.filter(|(ns, _)| *ns > 0.0).map(|(ns, (name, class))| (ns, *name, *class)).collect()
    }

    fn total_ns(&self, arm: &Arm<'_>) -> f64 {
        self.parts_of(arm).iter().map(|(ns, ..)| ns).sum()
    }

    fn spoken(&self, arm: &Arm<'_>) -> String {
        let parts: Vec<String> = self
            .parts_of(arm)
            .into_iter()
            .map(|(ns, name, _)| format!("{name} {}", number::time(ns)))
            .collect();
        match parts.as_slice() {
            [] => format!("{}: no reading", arm.name),
            _ => format!("{}: {}", arm.name, parts.join(", ")),
        }
    }

    /// The colours of the parts that occur.
    pub fn legend(&self, arms: &[Arm<'_>]) -> Markup {
        let square = |canvas: &mut Canvas| canvas.rect((1.0, 1.0), (12.0, 12.0), 1.0);
        let found: Vec<&str> =
            arms.iter().flat_map(|arm| self.parts_of(arm)).map(|(_, name, _)| name).collect();
        let occurring = self.parts.iter().filter(|(name, _)| found.contains(name));
        html! {
            ul.legend aria-label=(self.legend) {
                @for (name, class) in occurring {
                    @let colour = Canvas::swatch(|canvas| canvas.group(class, square));
                    li { (colour) (escape::line(name)) }
                    "\n"
                }
            }
        }
    }
}
