//! `--device`, and what stands in for it.

use std::io::{IsTerminal, Write};

use warpfold_device::Device;

use crate::failure::Failure;

/// The device that a command names; without a name the one of the environment, or else the best
/// there is.
pub(crate) fn open(name: Option<&str>) -> Result<Device, Failure> {
    let device = match name {
        Some(name) => Device::parse(name)?,
        None if std::env::var_os("WARPFOLD_DEVICE").is_none() => Device::best_quietly(),
        None => Device::from_env()?,
    };
    // As progress: for somebody who watches, so that scripts read errors and nothing else.
    let mut to = std::io::stderr();
    if let Some(note) = fallback_note(&device).filter(|_| to.is_terminal()) {
        let _ = writeln!(to, "{note}");
    }
    Ok(device)
}

/// What to say of a virtual GPU that nobody asked for.
fn fallback_note(device: &Device) -> Option<String> {
    device.fallback_reason().map(|reason| format!("note: on {device}, as no CUDA GPU can be used: {reason}"))
}

#[cfg(test)]
mod tests {
    use warpfold_device::Profile;

    use super::*;

    #[test]
    fn a_virtual_gpu_that_nobody_asked_for_is_explained() {
        let best = Device::best_quietly();
        let note = fallback_note(&best);
        assert_eq!(note.is_some(), best.is_virtual());
        assert!(note.is_none_or(|note| note.starts_with("note: on virtual:h200 ")));
        assert_eq!(fallback_note(&Device::virtual_gpu(Profile::H200)), None);
    }
}
