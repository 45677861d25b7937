//! Draws: the one file that knows the chart library.
//!
//! Charts are scenes of `kuva`, which writes the SVG. It paints in fixed colours; a report is read
//! on white, on black and on paper. So everything is painted in `currentColor`, groups carry the
//! class that says which colour that is, and `report-ui/charts.css` decides. The opening tag is
//! replaced by one that scales, has a role, and names and describes the picture.

use super::escape;
use kuva::backend::svg::SvgBackend;
use kuva::render::color::Color;
/// Place of a text relative to its point.
pub use kuva::render::render::TextAnchor as Anchor;
use kuva::render::render::{PathData, Primitive, Scene};
use maud::{Markup, PreEscaped, html};

/// A drawing of fixed width that is being filled.
pub struct Canvas {
    scene: Scene,
}

/// The shape of a mark: with colour, twice the means to tell arms apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Round.
    Circle,
    /// Flat sides.
    Square,
    /// Point up.
    Triangle,
    /// Point up and down.
    Diamond,
    /// Point down.
    Wedge,
    /// Upright cross.
    Plus,
    /// Slanted cross: something that does not count.
    Cross,
}

/// Filling of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Filled.
    Solid,
    /// An outline over the paper.
    Hollow,
}

/// Widest of the fixed-width fonts in use: a character's share of the size.
const NAME_WIDTH: f64 = 0.61;
/// Width of the charts for screens with room, and for paper.
pub const WIDE: f64 = 960.0;
/// Width of the charts for telephones.
pub const NARROW: f64 = 340.0;

/// Layout of one of the two drawings of a chart with rows.
pub struct Frame {
    /// `wide` or `narrow`.
    pub class: &'static str,
    /// Width of the drawing.
    pub width: f64,
    /// Distance from row to row.
    pub row_height: f64,
    /// Begin and end of what is drawn to scale.
    pub plot: (f64, f64),
    /// True if a row's name stands above it, for want of room beside it.
    pub names_above: bool,
}

impl Frame {
    /// For screens with room, and for paper; `right` is left free behind the plot.
    pub fn wide(row_height: f64, left: f64, right: f64) -> Self {
        let plot = (left, WIDE - right);
        Self { class: "wide", width: WIDE, row_height, plot, names_above: false }
    }

    /// For telephones.
    pub fn narrow(row_height: f64, left: f64, right: f64) -> Self {
        let plot = (left, NARROW - right);
        Self { class: "narrow", width: NARROW, row_height, plot, names_above: true }
    }

    /// The tops of rows below a head.
    pub fn tops(&self, head: f64) -> impl Iterator<Item = f64> {
        (0_u32..).map(move |place| head + self.row_height * f64::from(place))
    }

    /// The end of so many rows.
    pub fn bottom(&self, head: f64, count: usize) -> f64 {
        self.tops(head).nth(count).unwrap_or(head)
    }
}

/// Width of the longest of these names and what stands beside them, within reason.
pub fn names_width<'a>(names: impl Iterator<Item = &'a str>, most: f64) -> f64 {
    (names.map(|name| width_of(name, 13)).fold(90.0, f64::max) + 34.0).min(most)
}

impl Canvas {
    /// An empty drawing.
    pub fn new(width: f64, height: f64) -> Self {
        Self { scene: Scene::new(width, height).with_background(None) }
    }

    /// A group of these classes.
    pub fn group(&mut self, class: &str, draw: impl FnOnce(&mut Self)) {
        self.group_of(class, None, None, draw);
    }

    /// The same with the arm it belongs to, and what is said when a pointer rests on it.
    pub fn group_of(
        &mut self,
        class: &str,
        arm: Option<u32>,
        hint: Option<&str>,
        draw: impl FnOnce(&mut Self),
    ) {
        debug_assert!(class.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == ' '));
        let arm = arm.map(|arm| format!(" data-arm=\"{arm}\"")).unwrap_or_default();
        self.scene.add(Primitive::GroupStart {
            transform: None,
            title: hint.map(escape::plain),
            extra_attrs: Some(format!("class=\"{class}\"{arm}")),
        });
        draw(self);
        self.scene.add(Primitive::GroupEnd);
    }

    /// A line of text, its baseline at the point.
    pub fn text(&mut self, (x, y): (f64, f64), size: u32, anchor: Anchor, content: &str) {
        // The library reads `$…$` as a formula; a stack's text is none.
        let content = escape::plain(content).replace('$', "\\$");
        self.scene.add(Primitive::Text {
            x,
            y,
            content,
            size,
            anchor,
            rotate: None,
            bold: false,
            color: None,
        });
    }

    /// The same in a group of its own.
    pub fn text_in(
        &mut self,
        class: &str,
        at: (f64, f64),
        size: u32,
        anchor: Anchor,
        content: &str,
    ) {
        self.group(class, |canvas| canvas.text(at, size, anchor, content));
    }

    /// A straight line; `dashes` as in SVG.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), width: f64, dashes: Option<&str>) {
        self.scene.add(Primitive::Line {
            x1: from.0,
            y1: from.1,
            x2: to.0,
            y2: to.1,
            stroke: ink(),
            stroke_width: width,
            stroke_dasharray: dashes.map(str::to_owned),
        });
    }

    /// A thin line in a group of its own.
    pub fn line_in(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.group(class, |canvas| canvas.line(from, to, 1.0, None));
    }

    /// A filled rectangle.
    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), opacity: f64) {
        self.scene.add(Primitive::Rect {
            x,
            y,
            width: width.max(0.0),
            height,
            fill: ink(),
            stroke: None,
            stroke_width: None,
            opacity: Some(opacity),
        });
    }

    /// Many vertical lines as one path: `(x, top, bottom)`.
    pub fn verticals(&mut self, spans: &[(f64, f64, f64)], width: f64) {
        let d = spans.iter().fold(String::new(), |d, (x, top, bottom)| {
            d + &format!("M{x:.1} {top:.1}V{bottom:.1}")
        });
        self.path(d, None, width);
    }

    /// A line through points.
    pub fn polyline(&mut self, points: &[(f64, f64)], width: f64) {
        self.path(through(points), None, width);
    }

    /// The surface between two lines, a shade of the ink.
    pub fn band(&mut self, low: &[(f64, f64)], high: &[(f64, f64)], opacity: f64) {
        let around: Vec<(f64, f64)> = low.iter().chain(high.iter().rev()).copied().collect();
        if around.is_empty() {
            return;
        }
        self.scene.add(Primitive::Path(Box::new(PathData {
            d: through(&around) + "z",
            fill: Some(ink()),
            stroke: Color::None,
            stroke_width: 0.0,
            opacity: Some(opacity),
            stroke_dasharray: None,
        })));
    }

    /// Marks of one shape as one path; `radius` is half the size.
    pub fn marks(&mut self, shape: Shape, points: &[(f64, f64)], radius: f64, fill: Fill) {
        let mut d = String::with_capacity(points.len() * 40);
        for point in points {
            d.push_str(&outline(shape, *point, radius));
        }
        match (shape, fill) {
            (Shape::Cross, _) => self.path(d, None, 1.5),
            (_, Fill::Solid) => self.path(d, Some(ink()), 0.0),
            (_, Fill::Hollow) => self.path(d, Some(Color::from("var(--paper)")), 1.6),
        }
    }

    fn path(&mut self, d: String, fill: Option<Color>, stroke_width: f64) {
        if d.is_empty() {
            return;
        }
        let stroke = if stroke_width > 0.0 { ink() } else { Color::None };
        self.scene.add(Primitive::Path(Box::new(PathData {
            d,
            fill,
            stroke,
            stroke_width,
            opacity: None,
            stroke_dasharray: None,
        })));
    }

    /// The drawing as an `svg` element that scales with the page. Its `name` is unique in the
    /// report; `screens`, on which it is shown, are `wide` or `narrow`. Whoever cannot see it is
    /// told its title and what there is to see.
    pub fn svg(self, name: &str, screens: &str, title: &str, description: &str) -> Markup {
        let [title_id, what_id] = ["title", "what"].map(|part| format!("{name}-{screens}-{part}"));
        let (width, height) = (self.scene.width, self.scene.height);
        let drawing = self.written();
        html! {
            svg viewBox={ "0 0 " (width) " " (height) } width=(width) class={ "chart " (screens) }
                role="img" aria-labelledby={ (title_id) " " (what_id) }
            {
                title id=(title_id) { (escape::line(title)) }
                desc id=(what_id) { (escape::line(description)) }
                (inside(&drawing))
            }
            "\n"
        }
    }

    /// A small drawing beside a name that says everything, in a square of 14.
    pub fn swatch(draw: impl FnOnce(&mut Self)) -> Markup {
        let mut canvas = Self::new(14.0, 14.0);
        draw(&mut canvas);
        let drawing = canvas.written();
        html! {
            svg viewBox="0 0 14 14" width="14" class="swatch" aria-hidden="true" {
                (inside(&drawing))
            }
            "\n"
        }
    }

    fn written(mut self) -> String {
        // Hints need none of the library's style, which the page's policy would refuse anyway.
        self.scene.has_tooltips = false;
        SvgBackend::new().render_scene(&self.scene)
    }
}

/// Contents of the library's element, in which it has escaped every text.
fn inside(svg: &str) -> PreEscaped<&str> {
    let drawing = svg.split_once("-->").map_or("", |(_, drawing)| drawing);
    PreEscaped(drawing.trim_end().trim_end_matches("</svg>"))
}

/// As much of a stack's text as fits a width, in the fixed-width font.
pub fn fitting(text: &str, width: f64, size: u32) -> String {
    // A hair more, or a text that has just its width would lose a letter to rounding.
    let length = width / (NAME_WIDTH * f64::from(size)) + 1e-6;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of characters between 4 and a few hundred"
    )]
    let length = length.clamp(4.0, 400.0) as usize;
    escape::shortened(&escape::plain(text), length)
}

/// As much of a sentence as fits a width, in the proportional font.
pub fn fitting_prose(text: &str, width: f64, size: u32) -> String {
    let text = escape::plain(&text.replace('`', ""));
    if prose_width_of(&text, size) <= width + 1e-6 {
        return text;
    }
    let mut room = width / f64::from(size) - share_of('…');
    let fits = |letter: &char| {
        room -= share_of(*letter);
        room >= 0.0
    };
    let kept: String = text.chars().take_while(fits).collect();
    format!("{}…", kept.trim_end())
}

/// Width of a stack's text in the fixed-width font.
pub fn width_of(text: &str, size: u32) -> f64 {
    let length = u32::try_from(escape::plain(text).chars().count()).unwrap_or(u32::MAX);
    f64::from(length) * NAME_WIDTH * f64::from(size)
}

/// About the width of a sentence in the proportional font.
pub fn prose_width_of(text: &str, size: u32) -> f64 {
    text.chars().map(share_of).sum::<f64>() * f64::from(size)
}

/// Width of a letter in the widest of the proportional fonts in use: its share of the size.
fn share_of(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | 'I' | ' ' | '.' | ',' | ':' | ';' | '|' | '!' | '/' | '\'' => 0.34,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '-' | '"' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.98,
        'A'..='Z' | '+' | '=' | '<' | '>' | '&' => 0.76,
        '0'..='9' => 0.64,
        _ if letter.is_ascii() => 0.61,
        _ => 1.0,
    }
}

fn ink() -> Color {
    Color::from("currentColor")
}

fn outline(shape: Shape, (x, y): (f64, f64), r: f64) -> String {
    match shape {
        Shape::Circle => {
            let (left, across) = (x - r, 2.0 * r);
            let arc = format!("a{r:.1} {r:.1} 0 1 0");
            format!("M{left:.1} {y:.1}{arc} {across:.1} 0{arc}-{across:.1} 0z")
        }
        Shape::Square => {
            let r = r * 0.9;
            format!("M{:.1} {:.1}h{:.1}v{:.1}h-{:.1}z", x - r, y - r, 2.0 * r, 2.0 * r, 2.0 * r)
        }
        Shape::Triangle => {
            polygon(&[(x, y - 1.15 * r), (x + r, y + 0.8 * r), (x - r, y + 0.8 * r)])
        }
        Shape::Wedge => polygon(&[(x, y + 1.15 * r), (x + r, y - 0.8 * r), (x - r, y - 0.8 * r)]),
        Shape::Diamond => {
            let r = r * 1.2;
            polygon(&[(x, y - r), (x + r, y), (x, y + r), (x - r, y)])
        }
        Shape::Plus => {
            let (r, t) = (r * 1.1, r * 0.4);
            let (s, w) = (r - t, 2.0 * t);
            let start = format!("M{:.1} {:.1}", x - t, y - r);
            start
                + &format!(
                    "h{w:.1}v{s:.1}h{s:.1}v{w:.1}h-{s:.1}v{s:.1}h-{w:.1}v-{s:.1}h-{s:.1}v-{w:.1}h{s:.1}z"
                )
        }
        Shape::Cross => {
            format!("M{:.1} {:.1}l{a:.1} {a:.1}m0-{a:.1}l-{a:.1} {a:.1}", x - r, y - r, a = 2.0 * r)
        }
    }
}

fn polygon(corners: &[(f64, f64)]) -> String {
    through(corners) + "z"
}

fn through(points: &[(f64, f64)]) -> String {
    let step = |place: usize| if place == 0 { "M" } else { "L" };
    let steps = points.iter().enumerate();
    steps.map(|(place, (x, y))| format!("{}{x:.1} {y:.1}", step(place))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn svg(canvas: Canvas) -> String {
        canvas.svg("x", "wide", "a <title>", "b & c").into_string()
    }

    #[test]
    fn a_drawing_scales_and_says_what_it_is() {
        let svg = svg(Canvas::new(100.0, 50.0));
        assert!(svg.starts_with("<svg viewBox=\"0 0 100 50\""), "{svg}");
        assert!(svg.contains("role=\"img\" aria-labelledby=\"x-wide-title x-wide-what\""), "{svg}");
        assert!(svg.contains("<title id=\"x-wide-title\">a &lt;title&gt;</title>"), "{svg}");
        assert!(svg.trim_end().ends_with("</svg>"), "{svg}");
    }

    #[test]
    fn every_paint_is_the_current_colour() {
        let mut canvas = Canvas::new(100.0, 50.0);
        canvas.group_of("arm-1", Some(1), Some("<hint>"), |canvas| {
            canvas.rect((0.0, 0.0), (1.0, 1.0), 0.5);
            canvas.line((0.0, 0.0), (1.0, 1.0), 1.0, None);
            canvas.marks(Shape::Circle, &[(1.0, 2.0)], 3.0, Fill::Solid);
            canvas.text((0.0, 0.0), 12, Anchor::Start, "text");
        });
        let svg = svg(canvas);
        assert!(!svg.contains('#') && !svg.contains("<style"), "{svg}");
        assert!(svg.contains("<title>&lt;hint&gt;</title>"), "{svg}");
    }

    #[test]
    fn a_dollar_in_a_name_is_no_formula_and_markup_is_text() {
        let mut canvas = Canvas::new(100.0, 50.0);
        canvas.text((0.0, 0.0), 12, Anchor::Start, "a$\\alpha$b\\$<b>\u{1b}");
        let svg = svg(canvas);
        assert!(svg.contains("a$\\alpha$b\\$&lt;b&gt;\\u{1b}"), "{svg}");
    }

    #[test]
    fn a_long_name_is_cut_to_the_width_it_has() {
        assert_eq!(fitting("qemu:mem=2G+docker", 75.0, 12), "qemu:mem=…");
        assert_eq!(fitting("runc", 75.0, 12), "runc");
    }

    #[test]
    fn a_sentence_is_cut_by_the_width_of_its_letters_and_not_by_their_number() {
        let (wide, slim) = ("mmmm ".repeat(20), "illi ".repeat(20));
        for text in [&wide, &slim] {
            let shown = fitting_prose(text, 200.0, 12);
            assert!(shown.ends_with('…') && prose_width_of(&shown, 12) <= 200.0, "{shown}");
            assert!(prose_width_of(&shown, 12) > 180.0, "{shown}");
        }
        assert_eq!(fitting_prose("all of `it`", 200.0, 12), "all of it");
    }

    #[test]
    fn a_name_that_has_just_the_width_of_its_letters_is_whole() {
        for length in 5..60 {
            let name = "q".repeat(length);
            for size in [11, 12, 13] {
                assert_eq!(fitting(&name, width_of(&name, size), size), name);
            }
            // As where the room is made for the longest name, with what stands beside it.
            assert_eq!(fitting(&name, width_of(&name, 13) + 34.0 - 34.0, 13), name);
        }
    }
}
