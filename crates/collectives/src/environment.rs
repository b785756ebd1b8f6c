//! Environment of a launched process: its rank, and the address to meet the others.

use std::time::Duration;

use crate::{Error, ErrorKind};

/// The place of a process in a group, from torchrun's or Slurm's `RANK`, `WORLD_SIZE`,
/// `LOCAL_RANK`, `MASTER_ADDR` and `MASTER_PORT`. Under torchrun, rank 0 listens at the port after
/// `MASTER_PORT`, since torchrun's own store listens there (`TORCHELASTIC_USE_AGENT_STORE`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Rank of this process, from 0.
    pub rank: usize,
    /// Number of processes.
    pub size: usize,
    /// Rank of this process on its host, which selects the GPU.
    pub local_rank: usize,
    /// Address at which rank 0 listens, as `host:port`.
    pub address: String,
    /// Timeout of a rank that waits for the others.
    pub patience: Duration,
}

impl Launch {
    /// Reads the environment of the process; only programs call it, nothing else in this crate
    /// does.
    ///
    /// # Errors
    /// [`ErrorKind::Environment`] names the variable that is missing or wrong.
    pub fn from_env() -> Result<Self, Error> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// Reads the launch like [`Launch::from_env`], from the given variables.
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
        let is_taken = variable("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|text| text.eq_ignore_ascii_case("true"));
        let port = number("MASTER_PORT")? + usize::from(is_taken);
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
