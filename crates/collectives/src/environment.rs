//! What a launcher tells a process: which rank it is, and where to meet the others.

use std::time::Duration;

use crate::{Error, ErrorKind};

/// The place of a process in a group, as torchrun and Slurm tell it by `RANK`, `WORLD_SIZE`,
/// `LOCAL_RANK`, `MASTER_ADDR` and `MASTER_PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// This process, from 0.
    pub rank: usize,
    /// Processes in all.
    pub size: usize,
    /// This process among those of its host: which of the host's GPUs it takes.
    pub local_rank: usize,
    /// Where rank 0 listens, as `host:port`.
    pub address: String,
    /// How long a rank waits for the others.
    pub patience: Duration,
}

impl Launch {
    /// What the environment says. For programs; nothing else in this crate reads the environment.
    ///
    /// # Errors
    /// [`ErrorKind::Environment`] names the variable that is missing or wrong.
    pub fn from_env() -> Result<Self, Error> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// As [`Launch::from_env`], of variables from elsewhere.
    ///
    /// # Errors
    /// [`ErrorKind::Environment`].
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let wrong = |name, problem| Error::from(ErrorKind::Environment { name, problem });
        let text = |name| variable(name).ok_or_else(|| wrong(name, "is not set".to_owned()));
        let number = |name| -> Result<usize, Error> {
            let text = text(name)?;
            text.parse().map_err(|_| wrong(name, format!("is '{text}', which is no number")))
        };
        let (rank, size, local_rank) = (number("RANK")?, number("WORLD_SIZE")?, number("LOCAL_RANK")?);
        let port = number("MASTER_PORT")?;
        let address = format!("{}:{port}", text("MASTER_ADDR")?);
        if size == 0 || rank >= size {
            return Err(wrong("RANK", format!("is {rank} of a WORLD_SIZE of {size}")));
        }
        if port == 0 || port > 65535 {
            return Err(wrong("MASTER_PORT", format!("is {port}, which is no port")));
        }
        Ok(Self { rank, size, local_rank, address, patience: Duration::from_secs(60) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(changes: &[(&str, Option<&str>)]) -> Result<Launch, String> {
        let all = [
            ("RANK", "3"),
            ("WORLD_SIZE", "8"),
            ("LOCAL_RANK", "1"),
            ("MASTER_ADDR", "node-0"),
            ("MASTER_PORT", "29500"),
        ];
        let variable = |name: &str| match changes.iter().find(|(changed, _)| *changed == name) {
            Some((_, text)) => text.map(str::to_owned),
            None => all.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned()),
        };
        Launch::from_variables(variable).map_err(|e| e.to_string())
    }

    #[test]
    fn the_variables_of_torchrun_say_who_and_where() {
        let launch = read(&[]).expect("complete");
        assert_eq!((launch.rank, launch.size, launch.local_rank), (3, 8, 1));
        assert_eq!(launch.address, "node-0:29500");
    }

    #[test]
    fn a_variable_that_is_missing_or_wrong_is_named() {
        let starts = |changes: &[(&str, Option<&str>)], text: &str| {
            let error = read(changes).expect_err("refused");
            assert!(error.starts_with(text), "{error}");
        };
        starts(&[("LOCAL_RANK", None)], "LOCAL_RANK is not set; torchrun sets");
        starts(&[("RANK", Some("first"))], "RANK is 'first', which is no number");
        starts(&[("RANK", Some("8"))], "RANK is 8 of a WORLD_SIZE of 8");
        starts(&[("MASTER_PORT", Some("70000"))], "MASTER_PORT is 70000, which is no port");
    }
}
