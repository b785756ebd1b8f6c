//! Writes reports to a file or to standard output, whose reader may close it early.

use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use warpfold_report::{About, Kind, Page};

use crate::failure::Failure;
use crate::host;

/// The form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// A table for people.
    Table,
    /// One JSON object for programs.
    Json,
    /// One HTML file with pictures, for a browser; it needs --output.
    Html,
}

/// The header of the page of a ladder without kernels.
#[derive(Debug)]
pub(crate) struct Rungs<'a> {
    pub ladder: &'a str,
    pub subtitle: String,
    /// Rungs that are right, and all that ran.
    pub right: usize,
    pub all: usize,
}

/// The form of a report, and where it goes.
#[derive(Debug, Args)]
pub(crate) struct ReportTo {
    /// The form of the report.
    #[arg(id = "report", long = "report", value_name = "REPORT", default_value = "table")]
    pub form: Form,
    /// Write the report to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The form of a report that no page draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlainForm {
    /// A table for people.
    Table,
    /// One JSON object for programs.
    Json,
}

/// The form of a report that no page draws, and where it goes.
#[derive(Debug, Args)]
pub(crate) struct PlainReportTo {
    /// The form of the report.
    #[arg(id = "report", long = "report", value_name = "REPORT", default_value = "table")]
    form: PlainForm,
    /// Write the report to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl PlainReportTo {
    /// Returns whether neither a form nor a file was asked for.
    pub(crate) fn is_default(&self) -> bool {
        matches!(self.form, PlainForm::Table) && self.output.is_none()
    }
}

impl From<&PlainReportTo> for ReportTo {
    fn from(plain: &PlainReportTo) -> Self {
        let form = match plain.form {
            PlainForm::Table => Form::Table,
            PlainForm::Json => Form::Json,
        };
        Self { form, output: plain.output.clone() }
    }
}

impl ReportTo {
    /// Refuses what cannot be done, before anything runs.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match (self.form, &self.output) {
            (Form::Html, None) => {
                Err(Failure::usage("--report html is a page for a browser: -o FILE.html says where it goes"))
            }
            (_, Some(path)) if path.is_dir() => Err(Failure::usage(format!("-o {}: it is a folder", path.display()))),
            _ => Ok(()),
        }
    }

    /// The same, of a report that no page draws.
    pub(crate) fn check_no_page(&self, what: &str) -> Result<(), Failure> {
        match self.form {
            Form::Html => Err(Failure::usage(format!("{what} has no page: --report table or json"))),
            Form::Table | Form::Json => self.check(),
        }
    }

    /// Writes a report that no page draws.
    pub(crate) fn write_no_page(&self, text: &str, value: &impl serde::Serialize) -> Result<(), Failure> {
        match self.form {
            Form::Json => self.write_json(value),
            Form::Table | Form::Html => self.write(text),
        }
    }

    /// Writes the report of a ladder whose rungs are no kernels: `text`, `record`, or a page of it.
    pub(crate) fn write_rungs(
        &self,
        text: &str,
        record: &impl serde::Serialize,
        about: Rungs<'_>,
    ) -> Result<(), Failure> {
        match self.form {
            Form::Table => self.write(text),
            Form::Json => self.write_json(record),
            Form::Html => {
                let Rungs { ladder, subtitle, right, all } = about;
                let mut page = Page::new(Kind::Rungs, ladder, record, &self::about());
                page.subtitle = subtitle;
                page.is_ok = right == all;
                page.verdict = format!("{right} of {all} rungs right.");
                self.write_page(&page)
            }
        }
    }

    /// Writes a report.
    pub(crate) fn write(&self, text: &str) -> Result<(), Failure> {
        let Some(path) = &self.output else { return print(text) };
        host::write(path, text).map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))?;
        note(&format!("wrote {} ({} KB)\n", path.display(), text.len().div_ceil(1000)));
        Ok(())
    }

    /// Writes a report as JSON.
    pub(crate) fn write_json(&self, value: &impl serde::Serialize) -> Result<(), Failure> {
        self.write(&json_text(value))
    }

    /// Writes a page.
    pub(crate) fn write_page(&self, page: &Page) -> Result<(), Failure> {
        self.write(&page.html())
    }
}

/// The command that runs, and the time.
pub(crate) fn about() -> About {
    About { command: Some(command(host::arguments())), unix_seconds: host::unix_seconds() }
}

/// The command of some arguments, without what is secret: a page is handed on.
fn command(words: impl Iterator<Item = String>) -> String {
    const SECRET: &str = "--api-key";
    let mut text = "warpfold".to_owned();
    let mut is_secret = false;
    for word in words {
        let shown = match word.split_once('=') {
            _ if is_secret => "KEY".to_owned(),
            Some((SECRET, _)) => format!("{SECRET}=KEY"),
            _ => quoted(&word),
        };
        is_secret = !is_secret && word == SECRET;
        text.push(' ');
        text.push_str(&shown);
    }
    text
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=@+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Writes text to standard output. A reader that closed it, as `head` does, has what it wanted.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = host::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::run(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes text to standard error, for those who watch. Nobody is left to be told if it is closed.
pub(crate) fn note(text: &str) {
    let _ = host::stderr().write_all(text.as_bytes());
}

/// A value as JSON.
fn json_text(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("reports are structures of strings and numbers") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_on_a_page_has_no_key() {
        let of = |text: &str| command(text.split(' ').map(str::to_owned));
        assert_eq!(of("bench serve --api-key s3cret --seed 1"), "warpfold bench serve --api-key KEY --seed 1");
        assert_eq!(of("bench serve --api-key=s3cret"), "warpfold bench serve --api-key=KEY");
    }

    #[test]
    fn words_are_quoted_as_a_shell_takes_them() {
        assert_eq!(
            ["out=B.npy,f32,4", "it's", "", "a b"].map(quoted),
            ["out=B.npy,f32,4", r"'it'\''s'", "''", "'a b'"]
        );
    }
}
