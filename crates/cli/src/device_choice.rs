//! `--device`, and what stands in for it; several devices.

use std::io::{IsTerminal, Write};

use warpfold_device::{Device, DeviceKind, Profile};

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

/// Devices of a group at most.
const MOST: usize = 8;

/// Several devices that reach one another's memory, which every command names in the same way: a
/// list (`cuda:0,cuda:2`), or the first of them and a number. Without a name they are those of the
/// environment, or else the first GPUs where there are so many, or virtual ones. Without a number
/// all GPUs from the first on, or `virtual_ones` virtual GPUs.
pub(crate) fn open_several(
    name: Option<&str>,
    count: Option<usize>,
    virtual_ones: usize,
) -> Result<Vec<Device>, Failure> {
    if let Some(count) = count.filter(|count| !(1..=MOST).contains(count)) {
        return Err(Failure::usage(format!("--devices: {count} is not from 1 to {MOST}")));
    }
    let name = name.map(str::to_owned).or_else(|| std::env::var("WARPFOLD_DEVICE").ok());
    let Some(name) = name else {
        return match Device::num_cuda() {
            Ok(found) if found >= count.unwrap_or(2) => from_gpu(0, count),
            _ => Ok(Device::virtual_peers(Profile::H200, count.unwrap_or(virtual_ones))),
        };
    };
    if let Some(list) = list_of(&name) {
        return several_of(&list, count);
    }
    match Device::parse(&name)?.kind() {
        DeviceKind::Virtual(profile) => Ok(Device::virtual_peers(profile, count.unwrap_or(virtual_ones))),
        DeviceKind::Cuda { ordinal } => from_gpu(ordinal, count),
        other => Err(Failure::usage(format!("--device: not several of {other}"))),
    }
}

/// The names of a list, if it is one.
pub(crate) fn list_of(name: &str) -> Option<Vec<&str>> {
    name.contains(',').then(|| name.split(',').map(str::trim).collect())
}

fn from_gpu(first: usize, count: Option<usize>) -> Result<Vec<Device>, Failure> {
    let last = match count {
        Some(count) => first.saturating_add(count),
        None => Device::num_cuda()?.min(first + MOST).max(first + 1),
    };
    Ok((first..last).map(Device::cuda).collect::<Result<_, _>>()?)
}

fn several_of(names: &[&str], count: Option<usize>) -> Result<Vec<Device>, Failure> {
    if count.is_some_and(|count| count != names.len()) || names.len() > MOST {
        let text =
            format!("--device names {} devices, and --devices is another number, or more than {MOST}", names.len());
        return Err(Failure::usage(text));
    }
    let devices = names.iter().map(|name| Device::parse(name)).collect::<Result<Vec<_>, _>>()?;
    match devices[0].kind() {
        DeviceKind::Virtual(profile) if devices.iter().all(|device| device.kind() == devices[0].kind()) => {
            Ok(Device::virtual_peers(profile, devices.len()))
        }
        DeviceKind::Cuda { .. } if devices.iter().all(|device| !device.is_virtual()) => {
            match devices.iter().enumerate().find(|(i, device)| devices[..*i].contains(device)) {
                Some((_, twice)) => Err(Failure::usage(format!("--device names {} twice", twice.kind()))),
                None => Ok(devices),
            }
        }
        _ => Err(Failure::usage("--device: several devices are of one kind")),
    }
}

/// Returns the note that the program fell back to the virtual GPU.
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
