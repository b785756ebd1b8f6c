//! How a command ends: an exit code, and for one that fails a line for standard error.

use std::fmt;

use warpfold_device as device;

/// The class of an error, which decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Usage,
    Unsupported,
    Run,
}

/// The outcome of a command that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Nothing is wrong.
    Clean,
    /// The report names what is wrong.
    Findings,
    /// With an exit code that the caller chose.
    Code(u8),
}

impl Ending {
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Findings => 1,
            Self::Code(code) => code,
        }
    }
}

/// A command that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    reason: Reason,
    message: String,
}

impl Failure {
    /// Bad input: arguments, names, files.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self { reason: Reason::Usage, message: message.to_string() }
    }

    /// PTX that cannot be run.
    pub(crate) fn unsupported(message: impl fmt::Display) -> Self {
        Self { reason: Reason::Unsupported, message: message.to_string() }
    }

    /// A run that began and failed.
    pub(crate) fn run(message: impl fmt::Display) -> Self {
        Self { reason: Reason::Run, message: message.to_string() }
    }

    /// Arguments that clap refuses: the first paragraph of what it says, in one line.
    pub(crate) fn of_usage(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let lists = format!("; `{} --help` lists them", command(&text));
        if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            return Self::usage(format!("a subcommand is needed{lists}"));
        }
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        let paragraph: Vec<&str> = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
        let meant = match meant(error) {
            nothing if nothing.is_empty() && error.kind() == clap::error::ErrorKind::InvalidSubcommand => lists,
            meant => meant,
        };
        Self::usage(paragraph.join(" ") + &meant)
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self.reason {
            Reason::Usage => 2,
            Reason::Unsupported => 3,
            Reason::Run => 4,
        }
    }
}

/// The command that a text of clap's is about, by its line of usage: `warpfold exercise`.
fn command(text: &str) -> String {
    let usage = text.lines().find_map(|line| line.trim().strip_prefix("Usage: ")).unwrap_or("warpfold");
    usage.split(' ').take_while(|word| !word.starts_with(['[', '<', '-'])).collect::<Vec<_>>().join(" ")
}

/// Formats clap's error about an unknown word in the program's own words.
fn meant(error: &clap::Error) -> String {
    use clap::error::{ContextKind, ContextValue};

    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg];
    // The closest of several is the last.
    kinds.into_iter().find_map(|kind| error.get(kind)).map_or_else(String::new, |value| match value {
        ContextValue::Strings(names) => {
            names.last().map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
        }
        other => format!("; did you mean '{other}'?"),
    })
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message.trim_end())
    }
}

impl From<device::Error> for Failure {
    fn from(error: device::Error) -> Self {
        use device::ErrorKind as E;
        match error.kind() {
            E::Jit { .. } | E::Build(_) | E::Load(_) => Self::unsupported(error),
            E::LaunchFailed { .. } | E::OutOfMemory { .. } | E::Driver { .. } | E::HostAccess(_) => Self::run(error),
            // No such device, a launch or a size that breaks a limit.
            _ => Self::usage(error),
        }
    }
}

impl From<warpfold_sim::Error> for Failure {
    fn from(error: warpfold_sim::Error) -> Self {
        use warpfold_sim::Error as E;
        match error {
            E::Syntax(_) | E::Unsupported { .. } | E::Invalid { .. } => Self::unsupported(error),
            E::UnknownKernel { .. } | E::InvalidLaunch { .. } => Self::usage(error),
            // Out of memory, traps, and what later versions add.
            _ => Self::run(error),
        }
    }
}

impl From<warpfold_ladders::Error> for Failure {
    fn from(error: warpfold_ladders::Error) -> Self {
        match error.kind() {
            warpfold_ladders::ErrorKind::Device(error) => error.clone().into(),
            warpfold_ladders::ErrorKind::Collective(error) => Self::run(error),
            _ => Self::usage(error),
        }
    }
}

impl From<warpfold_kernels::Error> for Failure {
    fn from(error: warpfold_kernels::Error) -> Self {
        match error.kind() {
            warpfold_kernels::ErrorKind::Device(error) => error.clone().into(),
            _ => Self::usage(error),
        }
    }
}

#[cfg(feature = "engine")]
impl From<warpfold_models::Error> for Failure {
    fn from(error: warpfold_models::Error) -> Self {
        match error.kind() {
            warpfold_models::ErrorKind::Tensors(error) => error.clone().into(),
            warpfold_models::ErrorKind::Group(error) => match error.kind() {
                warpfold_collectives::ErrorKind::Device(error) => error.clone().into(),
                _ => Self::run(error),
            },
            _ => Self::usage(error),
        }
    }
}

impl From<warpfold_engine::Error> for Failure {
    fn from(error: warpfold_engine::Error) -> Self {
        use warpfold_engine::ErrorKind as E;
        match error.kind() {
            E::Config { .. } | E::Request { .. } | E::TooLong { .. } | E::TooLarge { .. } => Self::usage(error),
            // Too little memory, a model that fails, and what later versions add.
            _ => Self::run(error),
        }
    }
}

#[cfg(feature = "engine")]
impl From<warpfold_serve::Error> for Failure {
    fn from(error: warpfold_serve::Error) -> Self {
        use warpfold_serve::ErrorKind as E;
        match error.kind() {
            E::Listen { .. } | E::Option { .. } | E::Workload { .. } => Self::usage(error),
            // An engine that ended, a server that does not answer, and what later versions add.
            _ => Self::run(error),
        }
    }
}
