//! An SVG that grows by elements: the one writer of all pictures for documents.

use std::fmt::Write;

/// Units across, few enough for a telephone: at 360 pixels a letter of 12 units has 11.
pub(crate) const WIDTH: i32 = 400;

/// Strong letters that a line has room for, in a wide typeface.
const LETTERS: usize = 51;

/// Colours in light and dark. Text: `q` quiet, `n` ends at its place, `m` has its middle there, `s`
/// small, `h` strong, `w` on a dark box. Boxes: `g` ground, `p` panel, `b` bar, `a` alarm, `o`
/// wasted, `k0` to `k6` kinds, `e` empty. Lines: `l`, `d` dashed.
const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#1a1c20;white-space:pre}.q{fill:#5a6068}.n{text-anchor:end}.m{text-anchor:middle}\
.s{font-size:10px}.h{font-weight:600}.g{fill:#fff}.p{fill:#eceef1}.b{fill:#0072b2}.a{fill:#b83e00}.o{fill:#e8c48f}\
.w{fill:#fff}.k0{fill:#dfe2e6}.k1{fill:#bcdcf2}.k2{fill:#fbdca6}.k3{fill:#b9e5d3}.k4{fill:#f7c9b0}.k5{fill:#e9cade}\
.k6{fill:#d3cdf0}.e{fill:none;stroke:#9aa0a8;stroke-dasharray:2 2}.l,.d{fill:none;stroke:#5a6068;stroke-width:1.2}\
.d{stroke-dasharray:3 3}.f{fill:#5a6068}\
@media(prefers-color-scheme:dark){text{fill:#e8e9ec}.q{fill:#a5abb5}.g{fill:#16181c}.p{fill:#2a2e36}.b{fill:#56b4e9}\
.a{fill:#ff8a4c}.o{fill:#7a5417}.w{fill:#000}.k0{fill:#3a3f48}.k1{fill:#1d4b68}.k2{fill:#6b4c10}.k3{fill:#12573f}\
.k4{fill:#7a3818}.k5{fill:#64385a}.k6{fill:#443d78}.e{stroke:#6b7280}.l,.d{stroke:#a5abb5}.f{fill:#a5abb5}}";

/// A picture below its title. Its height is what is drawn.
#[derive(Debug)]
pub(crate) struct Canvas {
    title: String,
    body: String,
    /// Where the title ends.
    pub(crate) top: i32,
    bottom: i32,
}

impl Canvas {
    /// An empty picture of this title, which is also what a screen reader says.
    pub(crate) fn new(title: &str) -> Self {
        let mut canvas = Self { title: escaped(title), body: String::new(), top: 0, bottom: 0 };
        let mut lines = vec![String::new()];
        for word in title.split_whitespace() {
            let last = lines.last_mut().expect("there is a line");
            if !last.is_empty() && last.chars().count() + word.chars().count() >= LETTERS {
                lines.push(word.to_owned());
            } else {
                *last += if last.is_empty() { "" } else { " " };
                *last += word;
            }
        }
        for line in lines {
            canvas.top += 16;
            let top = canvas.top;
            canvas.text(10, top + 3, "h", &line);
        }
        canvas.top += 12;
        canvas
    }

    /// Makes room down to here.
    pub(crate) fn reach(&mut self, y: i32) {
        self.bottom = self.bottom.max(y);
    }

    /// A box; `title` is told when a pointer is over it.
    pub(crate) fn rect(&mut self, (x, y): (i32, i32), (width, height): (i32, i32), class: &str, title: &str) {
        let end = if title.is_empty() { "/>".to_owned() } else { format!("><title>{}</title></rect>", escaped(title)) };
        let _ = writeln!(
            self.body,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"{end}"
        );
        self.reach(y + height);
    }

    /// Boxes of one size and colour, in one element.
    pub(crate) fn boxes(&mut self, places: &[(i32, i32)], (width, height): (i32, i32), class: &str) {
        let Some(lowest) = places.iter().map(|(_, y)| *y).max() else { return };
        let parts: String = places.iter().map(|(x, y)| format!("M{x} {y}h{width}v{height}h-{width}z")).collect();
        let _ = writeln!(self.body, "<path class=\"{class}\" d=\"{parts}\"/>");
        self.reach(lowest + height);
    }

    /// A line of text, its base line at `y`.
    pub(crate) fn text(&mut self, x: i32, y: i32, class: &str, text: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let _ = writeln!(self.body, "<text{class} x=\"{x}\" y=\"{y}\">{}</text>", escaped(text));
        self.reach(y + 3);
    }

    /// A box with a word in its middle.
    pub(crate) fn cell(&mut self, (x, y): (i32, i32), (width, height): (i32, i32), class: &str, word: &str) {
        self.rect((x, y), (width, height), class, "");
        if !word.is_empty() {
            let size = if height < 17 || 7 * word.chars().count() as i32 >= width { "m s" } else { "m" };
            self.text(x + width / 2, y + height / 2 + 4, size, word);
        }
    }

    /// A straight line.
    pub(crate) fn line(&mut self, (x1, y1): (i32, i32), (x2, y2): (i32, i32), class: &str) {
        let _ = writeln!(self.body, "<path class=\"{class}\" d=\"M{x1} {y1}L{x2} {y2}\"/>");
        self.reach(y1.max(y2));
    }

    /// A line with a head at its end.
    pub(crate) fn arrow(&mut self, from: (i32, i32), to: (i32, i32), class: &str) {
        self.line(from, to, class);
        let (dx, dy) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
        let length = dx.hypot(dy).max(1.0);
        let (ux, uy) = (dx / length, dy / length);
        let corner = |side: f64| {
            let (x, y) = (f64::from(to.0) - 6.0 * ux + side * uy, f64::from(to.1) - 6.0 * uy - side * ux);
            format!("{x:.1} {y:.1}")
        };
        let _ = writeln!(self.body, "<path class=\"f\" d=\"M{} {}L{}L{}z\"/>", to.0, to.1, corner(3.0), corner(-3.0));
    }

    /// The lines of a text, 15 units apart, from a base line on; where the next one would be.
    pub(crate) fn paragraph(&mut self, x: i32, y: i32, class: &str, lines: &[&str]) -> i32 {
        for (i, line) in (0..).zip(lines) {
            self.text(x, y + 15 * i, class, line);
        }
        y + 15 * lines.len() as i32
    }

    /// What colours mean: boxes with their words, in as many rows as they need; where they end.
    pub(crate) fn legend(&mut self, y: i32, words: &[(&str, &str)]) -> i32 {
        let (mut x, mut y) = (10, y);
        for (class, word) in words {
            let width = 22 + 7 * word.chars().count() as i32 + 8;
            if x > 10 && x + width > WIDTH {
                (x, y) = (10, y + 18);
            }
            self.rect((x, y), (14, 12), class, "");
            self.text(x + 20, y + 10, "", word);
            x += width;
        }
        y + 18
    }

    /// The file.
    pub(crate) fn end(self) -> String {
        let (title, height) = (self.title, self.bottom + 10);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" role=\"img\">\
             <title>{title}</title><style>{STYLE}</style>\n\
             <rect class=\"g\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\"/>\n{}</svg>\n",
            self.body
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
