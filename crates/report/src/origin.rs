//! The source that a kernel comes from, with what each of its lines cost.

use std::collections::BTreeMap;

use serde::Serialize;
use warpfold_sim::{InstructionCounters, Report, Source, SourceLine};

use crate::drawing::Line;

/// Gives the text of a source file, by the name that the PTX has for it, if there is one.
pub(crate) type TextOf<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Lines shown before the first line that ran, and after the last.
const AROUND: u32 = 3;

/// Source files, and for each line of the PTX where it comes from.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Origin {
    files: Vec<SourceFile>,
    /// The place in `files`, and the line, by the line of the PTX.
    lines: BTreeMap<u32, (usize, u32)>,
}

/// The lines of a file that ran, with a few around them; of a file that is not there only those
/// that ran.
#[derive(Debug, Clone, Serialize)]
struct SourceFile {
    name: String,
    /// Whether the text was found.
    has_text: bool,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, Serialize)]
struct Part {
    first: u32,
    lines: Vec<Line>,
}

impl Origin {
    pub(crate) fn new(report: &Report, text_of: TextOf<'_>) -> Self {
        let mut files = Files { text_of, texts: BTreeMap::new() };
        let mut places: BTreeMap<u32, (String, u32)> = BTreeMap::new();
        let mut sums: BTreeMap<String, BTreeMap<u32, [u64; 6]>> = BTreeMap::new();
        for i in &report.instructions {
            let Some(source) = i.source.as_deref() else { continue };
            let line = files.shown(source);
            let sum = sums.entry(line.file.to_string()).or_default().entry(line.line).or_default();
            sum.iter_mut().zip(counts_of(i)).for_each(|(sum, more)| *sum += more);
            places.insert(i.line, (line.file.to_string(), line.line));
        }
        let names: Vec<String> = sums.keys().cloned().collect();
        let place_of = |name: &String| names.iter().position(|n| n == name).expect("it was counted");
        let lines = places.iter().map(|(ptx, (name, line))| (*ptx, (place_of(name), *line))).collect();
        let files = sums.iter().map(|(name, lines)| files.file(name, lines)).collect();
        Self { files, lines }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

/// What an instruction counts, in the order in which the page has it.
pub(crate) fn counts_of(i: &InstructionCounters) -> [u64; 6] {
    [i.executions, i.active_lanes, i.divergent, i.wavefronts, i.bank_conflicts, i.sectors]
}

/// Texts that were asked for.
struct Files<'a> {
    text_of: TextOf<'a>,
    texts: BTreeMap<String, Option<Vec<String>>>,
}

impl Files<'_> {
    fn text(&mut self, file: &str) -> Option<&[String]> {
        let read = || (self.text_of)(file).map(|text| text.lines().map(str::to_owned).collect());
        self.texts.entry(file.to_owned()).or_insert_with(read).as_deref()
    }

    /// Of the lines that an instruction comes from, the innermost whose text is there, or else its
    /// author's.
    fn shown<'s>(&mut self, source: &'s Source) -> &'s SourceLine {
        let author = source.author();
        if self.text(&author.file).is_some() {
            return author;
        }
        source.lines().find(|line| self.text(&line.file).is_some()).unwrap_or(author)
    }

    fn file(&mut self, name: &str, counts: &BTreeMap<u32, [u64; 6]>) -> SourceFile {
        let line = |n: u32, text: &str| Line { text: text.trim_end().to_owned(), counts: counts.get(&n).copied() };
        let (first, last) = (counts.keys().next().copied(), counts.keys().next_back().copied());
        let parts = match self.text(name) {
            Some(text) => {
                let first = first.unwrap_or(1).saturating_sub(AROUND).max(1);
                let last = last.unwrap_or(1).saturating_add(AROUND).min(text.len() as u32);
                let lines = (first..=last).map(|n| line(n, &text[n as usize - 1])).collect();
                vec![Part { first, lines }]
            }
            None => counts.keys().map(|n| Part { first: *n, lines: vec![line(*n, "")] }).collect(),
        };
        SourceFile { name: name.to_owned(), has_text: self.text(name).is_some(), parts }
    }
}

#[cfg(test)]
mod tests {
    use warpfold_sim::{Arch, Launch, Memory, Options, Program};

    use super::*;

    /// Two instructions of line 2 of `k.cu`, and one of line 9 of a file that is not there.
    const KERNEL: &str = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k()
{
    .reg .b32 %r<6>;
    .loc 1 2 1
    mov.u32 %r1, %tid.x;
    add.u32 %r2, %r1, 1;
    .loc 2 9 1
    add.u32 %r3, %r1, 1;
    ret;
}
.file 1 \"k.cu\"
.file 2 \"far.cuh\"
";

    #[test]
    fn lines_of_source_have_the_sums_of_their_instructions() {
        let memory = Memory::new(1 << 20);
        let program = Program::load(&memory, KERNEL, Arch::SM_80).expect("it is PTX");
        let launch = Launch {
            kernel: "k".to_owned(),
            grid: [3, 1, 1],
            block: [32, 1, 1],
            cluster: [1; 3],
            dynamic_shared: 0,
            params: Vec::new(),
            cooperative: false,
            programmatic: false,
        };
        let options = Options { per_instruction: true, ..Options::default() };
        let report = program.launch(&memory, &launch, &options).expect("it runs");
        let text_of = |file: &str| (file == "k.cu").then(|| "// first\n  int i = x + 1;  \nend".to_owned());
        let origin = serde_json::json!(Origin::new(&report, &text_of));
        let [far, near] = [&origin["files"][0], &origin["files"][1]];
        assert_eq!(
            (&near["name"], &near["has_text"], &near["parts"][0]["first"]),
            (&"k.cu".into(), &true.into(), &1.into())
        );
        assert_eq!(
            near["parts"][0]["lines"],
            serde_json::json!(["// first", ["  int i = x + 1;", 6, 192, 0, 0, 0, 0], "end"])
        );
        assert_eq!((&far["has_text"], &far["parts"][0]["first"]), (&false.into(), &9.into()));
        assert_eq!(origin["lines"]["8"], serde_json::json!([1, 2]));
        assert_eq!(origin["lines"]["11"], serde_json::json!([0, 9]));
    }
}
