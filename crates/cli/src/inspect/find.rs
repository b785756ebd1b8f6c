//! Looks up a kernel by name.

use std::collections::BTreeSet;

use warpfold_kernels::{AnyKernel, Dtype, Listed};
use warpfold_ladders::{all_kernels, ladder};

use crate::failure::Failure;
use crate::suggestion::did_you_mean;
use crate::table::Table;

/// A kernel and where it belongs.
pub(super) struct Found {
    pub place: String,
    pub kernel: AnyKernel,
    pub block: [u32; 3],
    /// Bytes of loads that a thread has under way at once, where its plan says so.
    pub in_flight: Option<u64>,
}

/// The kernel of an entry's name, of a place such as `reduce/naive`, or of a rung that no other
/// ladder has.
pub(super) fn find(name: &str, dtype: Option<Dtype>) -> Result<Found, Failure> {
    let all = all_kernels();
    if let Some(listed) = all.iter().find(|listed| listed.kernel.name() == name) {
        return match dtype {
            None => Ok(found(listed)),
            Some(_) => Err(Failure::usage(format!("'{name}' names a kernel of one element type: leave --dtype out"))),
        };
    }
    let is_meant = |place: &str| place == name || place.rsplit('/').next() == Some(name);
    let places: BTreeSet<&str> =
        all.iter().map(|listed| listed.place.as_str()).filter(|place| is_meant(place)).collect();
    match places.into_iter().collect::<Vec<_>>().as_slice() {
        [] => {
            let mut known: Vec<&str> = all.iter().map(|listed| listed.place.as_str()).collect();
            known.dedup();
            let rungs = known.iter().filter_map(|place| place.rsplit('/').next());
            let entries = all.iter().map(|listed| listed.kernel.name());
            let meant = did_you_mean(name, known.iter().copied().chain(rungs).chain(entries));
            // Of a ladder that is named its own kernels, else where the long list is.
            let ladder = format!("{}/", name.split('/').next().unwrap_or(name));
            let near: Vec<&str> = known.into_iter().filter(|place| place.starts_with(&ladder)).collect();
            let expected = if near.is_empty() {
                "`warpfold inspect --list` lists them".to_owned()
            } else {
                format!("expected one of {}", near.join(", "))
            };
            Err(Failure::usage(format!("unknown kernel '{name}': {expected}{meant}")))
        }
        [place] => of_place(&all, place, dtype),
        several => Err(Failure::usage(format!("'{name}' can mean {}", several.join(" or ")))),
    }
}

/// Every kernel's place and entry.
pub(super) fn list() -> String {
    let mut table = Table::new(["kernel", "entry"]);
    for listed in all_kernels() {
        table.row([listed.place.clone(), listed.kernel.name().to_owned()]);
    }
    table.render()
}

fn of_place(all: &[Listed], place: &str, dtype: Option<Dtype>) -> Result<Found, Failure> {
    let listed = all.iter().find(|listed| listed.place == place).expect("the place is of the list");
    let ladder = place.split_once('/').and_then(|(name, rung)| {
        let ladder = ladder::ladder(name).ok()?;
        Some((ladder, ladder.rung(rung).ok()?))
    });
    match (ladder, dtype) {
        (Some((ladder, rung)), _) => {
            let dtype = dtype.unwrap_or(ladder.default_dtype());
            ladder.check_dtype(dtype)?;
            rung.check_dtype(dtype)?;
            let kernel = |launch: &ladder::Launch| launch.kernel(dtype, ladder.default_size);
            match rung.launches {
                [launch] => Ok(Found { kernel: kernel(launch), ..found(listed) }),
                several => {
                    let names: Vec<_> = several.iter().map(|launch| kernel(launch).name().to_owned()).collect();
                    Err(Failure::usage(format!("{place} is several kernels: name {}", names.join(" or "))))
                }
            }
        }
        (None, None) => Ok(found(listed)),
        (None, Some(_)) => Err(Failure::usage(format!("{place} has one element type: leave --dtype out"))),
    }
}

fn found(listed: &Listed) -> Found {
    let Listed { place, kernel, block, in_flight } = listed.clone();
    Found { place, kernel, block, in_flight }
}
