//! One file of the corpus: its text, how to run it, and what it promises.

use std::fs;
use std::path::{Path, PathBuf};

use warpfold_sim::{FindingKind, Severity};

use super::values::{Element, Width, parse_count, parse_list, parse_number};

/// The two halves of the corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folder {
    /// Correct kernels.
    Pass,
    /// Kernels with one planted defect.
    Fault,
}

impl Folder {
    fn path(self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(match self {
            Self::Pass => "pass",
            Self::Fault => "fault",
        })
    }
}

/// One file of the corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// The file's name without folder and extension.
    pub name: String,
    /// The PTX text.
    pub text: String,
    /// `sm_80` and the like, from the `.target` line.
    pub target: String,
    /// The only entry of the module.
    pub kernel: String,
    /// Blocks.
    pub grid: u32,
    /// Threads a block.
    pub block: u32,
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// Requires all blocks to be resident at the same time.
    pub is_cooperative: bool,
    /// Runs blocks one after the other: findings depend on which access comes first.
    pub is_in_order: bool,
    /// Launches the kernel a second time, which may overlap the first.
    pub is_programmatic: bool,
    /// One for each parameter.
    pub args: Vec<Argument>,
    /// The planted defect; `None` in a correct kernel.
    pub fault: Option<Fault>,
}

/// One kernel argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// Its name in header lines and, for a buffer, in reports.
    pub name: String,
    /// The type of the elements, or of the number.
    pub width: Width,
    /// Content of the argument.
    pub content: Content,
    /// Expected content of the buffer after the run, if the file has it.
    pub expected: Option<Vec<Element>>,
}

/// Kinds of arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A buffer with these elements.
    Initialized(Vec<u64>),
    /// A buffer of so many elements that nobody has initialised.
    Uninitialized(usize),
    /// A buffer of so many elements that was freed before the launch.
    Freed(usize),
    /// A number.
    Value(u64),
}

impl Content {
    /// Returns the number of elements readable after a run; `None` for a number and for a freed
    /// buffer.
    #[must_use]
    pub fn readable_len(&self) -> Option<usize> {
        match self {
            Self::Initialized(values) => Some(values.len()),
            Self::Uninitialized(count) => Some(*count),
            Self::Freed(_) | Self::Value(_) => None,
        }
    }
}

/// The planted defect of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Kind of the finding.
    pub kind: FindingKind,
    /// The least severity with which it has to be reported.
    pub severity: Severity,
    /// Text that the name of the address must contain.
    pub place: Option<String>,
    /// Lines at which it may be reported: the annotated one, then the alternatives.
    pub lines: Vec<u32>,
    /// The line of a race's other side.
    pub other: Option<u32>,
    /// Kinds and lines of consequences that may be reported, too.
    pub consequences: Vec<(FindingKind, u32)>,
}

impl Case {
    /// Reads all cases of a folder, in the order of their names.
    ///
    /// # Errors
    /// The first file that cannot be read or does not follow the format of `corpus/README.md`.
    pub fn all(folder: Folder) -> Result<Vec<Self>, String> {
        let path = folder.path();
        let entries = fs::read_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut files: Vec<PathBuf> = entries
            .map(|entry| entry.map(|e| e.path()).map_err(|e| format!("{}: {e}", path.display())))
            .collect::<Result<_, _>>()?;
        files.retain(|file| file.extension().is_some_and(|e| e == "ptx"));
        files.sort();
        files.iter().map(|file| Self::read(file, folder)).collect()
    }

    /// Reads one case by its name.
    ///
    /// # Errors
    /// The file cannot be read or does not follow the format of `corpus/README.md`.
    pub fn named(folder: Folder, name: &str) -> Result<Self, String> {
        Self::read(&folder.path().join(name).with_extension("ptx"), folder)
    }

    fn read(file: &Path, folder: Folder) -> Result<Self, String> {
        let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&name, &text, folder).map_err(|e| format!("{}: {e}", file.display()))
    }

    fn parse(name: &str, text: &str, folder: Folder) -> Result<Self, String> {
        let mut case = Self {
            name: name.to_owned(),
            text: text.to_owned(),
            target: String::new(),
            kernel: String::new(),
            grid: 0,
            block: 0,
            shared_bytes: 0,
            is_cooperative: false,
            is_in_order: false,
            is_programmatic: false,
            args: Vec::new(),
            fault: parse_annotations(text)?,
        };
        for (line, number) in text.lines().zip(1..) {
            case.parse_line(line).map_err(|e| format!("line {number}: {e}"))?;
        }
        case.validate(folder)?;
        Ok(case)
    }

    fn parse_line(&mut self, line: &str) -> Result<(), String> {
        if let Some(rest) = line.strip_prefix("// run:") {
            return self.parse_run(rest);
        } else if let Some(rest) = line.strip_prefix("// arg:") {
            self.args.push(parse_argument(rest.trim())?);
        } else if let Some(rest) = line.strip_prefix("// expect:") {
            return self.parse_expectation(rest.trim());
        } else if let Some(rest) = line.strip_prefix(".target ") {
            self.target = rest.trim().to_owned();
        } else if let Some(rest) = line.strip_prefix(".visible .entry ") {
            self.kernel = rest.split('(').next().unwrap_or_default().trim().to_owned();
        }
        Ok(())
    }

    fn parse_run(&mut self, text: &str) -> Result<(), String> {
        let number = |text: &str| text.parse::<u32>().map_err(|_| format!("'{text}' is not a size"));
        for word in text.split_whitespace() {
            match word.split_once('=') {
                Some(("grid", size)) => self.grid = number(size)?,
                Some(("block", size)) => self.block = number(size)?,
                Some(("shared", size)) => self.shared_bytes = number(size)?,
                None if word == "cooperative" => self.is_cooperative = true,
                None if word == "in-order" => self.is_in_order = true,
                None if word == "programmatic" => self.is_programmatic = true,
                _ => return Err(format!("unknown launch setting '{word}'")),
            }
        }
        Ok(())
    }

    fn parse_expectation(&mut self, text: &str) -> Result<(), String> {
        let (name, values) = text.split_once(' ').ok_or("an expectation needs a name and values")?;
        let argument = self.args.iter_mut().find(|a| a.name == name).ok_or_else(|| format!("no argument '{name}'"))?;
        let expected = parse_list(values, argument.width)?;
        let held = argument.content.readable_len().ok_or_else(|| format!("'{name}' is no live buffer"))?;
        if expected.len() != held {
            return Err(format!("'{name}' has {held} elements, but {} are expected", expected.len()));
        }
        argument.expected = Some(expected);
        Ok(())
    }

    fn validate(&self, folder: Folder) -> Result<(), String> {
        let expects = self.args.iter().any(|a| a.expected.is_some());
        match folder {
            _ if self.grid == 0 || self.block == 0 => Err("no '// run:' line with grid and block".to_owned()),
            _ if self.target.is_empty() || self.kernel.is_empty() => Err("no .target or .entry".to_owned()),
            Folder::Pass if self.fault.is_some() => Err("a correct kernel with a FAULT annotation".to_owned()),
            Folder::Pass if !expects => Err("a correct kernel that expects no values".to_owned()),
            Folder::Fault if self.fault.is_none() => Err("no FAULT annotation".to_owned()),
            Folder::Fault if expects => Err("a faulty kernel that expects values".to_owned()),
            Folder::Pass | Folder::Fault => Ok(()),
        }
    }
}

fn parse_argument(text: &str) -> Result<Argument, String> {
    let mut words = text.splitn(4, ' ');
    let (Some(name), Some(role), Some(width), Some(rest)) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(format!("'{text}' is not NAME in|out|freed|value TYPE ..."));
    };
    let width = Width::parse(width)?;
    let content = match role {
        "in" => {
            let list = parse_list(rest, width)?.into_iter().collect::<Option<Vec<u64>>>();
            Content::Initialized(list.ok_or("an input with unspecified elements")?)
        }
        "out" => Content::Uninitialized(parse_count(rest)?),
        "freed" => Content::Freed(parse_count(rest)?),
        "value" => Content::Value(parse_number(rest)?),
        other => return Err(format!("unknown role '{other}': expected in, out, freed or value")),
    };
    Ok(Argument { name: name.to_owned(), width, content, expected: None })
}

fn parse_annotations(text: &str) -> Result<Option<Fault>, String> {
    let mut fault: Option<Fault> = None;
    let (mut others, mut alternatives, mut consequences) = (Vec::new(), Vec::new(), Vec::new());
    for (line, number) in text.lines().zip(1_u32..) {
        for annotation in line.split("//~").skip(1).map(str::trim) {
            match annotation.split_once(':').map_or((annotation, ""), |(word, rest)| (word, rest.trim())) {
                ("FAULT" | "WARN", _) if fault.is_some() => return Err(format!("line {number}: a second fault")),
                ("FAULT", rest) => fault = Some(parse_fault(rest, Severity::Error, number)?),
                ("WARN", rest) => fault = Some(parse_fault(rest, Severity::Warning, number)?),
                ("OTHER", "") => others.push(number),
                ("OR", "") => alternatives.push(number),
                ("MAYBE", rest) => consequences.push((parse_kind(rest)?, number)),
                _ => return Err(format!("line {number}: unknown annotation '{annotation}'")),
            }
        }
    }
    let annotated = others.len() + alternatives.len() + consequences.len();
    let Some(mut fault) = fault else {
        return if annotated == 0 { Ok(None) } else { Err("annotations without a FAULT".to_owned()) };
    };
    if others.len() != usize::from(matches!(fault.kind, FindingKind::Race | FindingKind::WarpSync)) {
        return Err("a race has one OTHER, any other fault has none".to_owned());
    }
    fault.lines.extend(alternatives);
    fault.other = others.first().copied();
    fault.consequences = consequences;
    Ok(Some(fault))
}

fn parse_fault(text: &str, severity: Severity, line: u32) -> Result<Fault, String> {
    let (kind, place) = text.split_once(" at ").map_or((text, None), |(kind, place)| (kind, Some(place.to_owned())));
    let kind = parse_kind(kind)?;
    Ok(Fault { kind, severity, place, lines: vec![line], other: None, consequences: Vec::new() })
}

fn parse_kind(text: &str) -> Result<FindingKind, String> {
    use FindingKind::{
        BarrierDivergence, Deadlock, HostRead, InvalidSync, Leak, Misaligned, MissingProxyFence, MissingWait,
        OutOfBounds, Race, Uninitialized, UseAfterFree, WarpSync,
    };
    [
        Race,
        WarpSync,
        Leak,
        OutOfBounds,
        Uninitialized,
        HostRead,
        Misaligned,
        UseAfterFree,
        BarrierDivergence,
        Deadlock,
        InvalidSync,
        MissingWait,
        MissingProxyFence,
    ]
    .into_iter()
    .find(|kind| kind.name() == text)
    .ok_or_else(|| format!("unknown kind of fault '{text}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "// run: grid=2 block=32 shared=8 cooperative\n// arg: a in u32 iota(2)\n// arg: b out u32 2\n";
    const TAIL: &str = ".target sm_80\n.visible .entry k(.param .u64 a)\n";

    #[test]
    fn a_header_is_read() {
        let case = Case::parse("x", &format!("{HEAD}// expect: b 4, 5\n{TAIL}"), Folder::Pass).unwrap();
        assert_eq!((case.grid, case.block, case.shared_bytes, case.is_cooperative), (2, 32, 8, true));
        assert_eq!((case.kernel.as_str(), case.target.as_str()), ("k", "sm_80"));
        assert_eq!(case.args[0].content, Content::Initialized(vec![0, 1]));
        assert_eq!(case.args[1].expected, Some(vec![Some(4), Some(5)]));
    }

    #[test]
    fn annotations_give_lines() {
        let text = format!("{HEAD}{TAIL}ld; //~ WARN: race at tile\nst; //~ OTHER //~ MAYBE: deadlock\n");
        let fault = Case::parse("x", &text, Folder::Fault).unwrap().fault.unwrap();
        assert_eq!((fault.kind, fault.severity), (FindingKind::Race, Severity::Warning));
        assert_eq!((fault.lines, fault.other, fault.place.as_deref()), (vec![6], Some(7), Some("tile")));
        assert_eq!(fault.consequences, [(FindingKind::Deadlock, 7)]);
    }

    #[test]
    fn a_file_against_the_format_is_refused() {
        let fault = "ld; //~ FAULT: deadlock\n";
        for text in [
            format!("{HEAD}{TAIL}"),
            format!("{HEAD}{TAIL}{fault}{fault}"),
            format!("{HEAD}{TAIL}ld; //~ FAULT: race\n"),
            format!("{HEAD}{TAIL}ld; //~ FAULT: quarrel\n"),
            format!("{HEAD}{TAIL}{fault}st; //~ ELSE\n"),
            format!("{TAIL}{fault}"),
            format!("{HEAD}// run: gird=1\n{TAIL}{fault}"),
            format!("{HEAD}// expect: c 1\n{TAIL}{fault}"),
            format!("{HEAD}// expect: b 1\n{TAIL}{fault}"),
        ] {
            assert!(Case::parse("x", &text, Folder::Fault).is_err(), "accepted:\n{text}");
        }
    }
}
