//! Text for people, in lines of a width: paragraphs that hang from their first words.
//!
//! Whatever comes from outside is escaped here, before it is measured or broken.

use crate::finding::foreign;

/// Text in the making.
pub struct Page {
    text: String,
    width: usize,
}

impl Page {
    /// An empty page whose lines are to have at most `width` characters.
    #[must_use]
    pub fn new(width: u16) -> Self {
        Self { text: String::new(), width: usize::from(width) }
    }

    /// A paragraph that is broken at spaces; what does not fit hangs `indent` spaces deep.
    pub fn paragraph(&mut self, label: &str, text: &str, indent: usize) {
        let label = foreign::line(label);
        let mut column = label.chars().count();
        self.text += &label;
        let mut is_first = true;
        for word in foreign::line(text).split(' ') {
            let length = word.chars().count();
            if !is_first && column + 1 + length > self.width {
                self.text += "\n";
                self.text += &" ".repeat(indent);
                column = indent;
            } else if !is_first {
                self.text += " ";
                column += 1;
            }
            self.text += word;
            column += length;
            is_first = false;
        }
        self.text += "\n";
    }

    /// One line however long it is: a command is copied whole.
    pub fn unbroken(&mut self, label: &str, text: &str) {
        self.text += &foreign::line(label);
        self.text += &foreign::line(text);
        self.text += "\n";
    }

    /// Text that has its lines already and is safe.
    pub fn add(&mut self, text: &str) {
        self.text += text;
    }

    /// An empty line, unless there is one already.
    pub fn gap(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text += "\n";
        }
    }

    /// The page as it is.
    #[must_use]
    pub fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_hangs_from_its_first_words_and_a_command_is_not_broken() {
        let mut page = Page::new(20);
        page.paragraph("runc: ", "one two three four five", 2);
        page.gap();
        page.gap();
        page.unbroken("  → ", "apt-get install something\x1b");
        assert_eq!(
            page.finish(),
            "runc: one two three\n  four five\n\n  → apt-get install something\\u{1b}\n"
        );
    }
}
