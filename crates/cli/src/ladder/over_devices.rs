//! `warpfold ladder reduce`, over devices: the last level of a fold. Two devices end the ladder,
//! `--devices N` shows others.

use serde_json::{Value, json};
use warpfold::{Axes, Tensor};
use warpfold_collectives::{Error, Group, Sharded};
use warpfold_device::{Device, DeviceKind, Profile};
use warpfold_kernels::Dtype;

use super::Asked;
use crate::Ending;
use crate::device_choice;
use crate::failure::Failure;
use crate::output::Rungs;
use crate::progress::Progress;
use crate::table::{Table, grouped};

/// Elements unless said.
const SIZE: usize = 1 << 16;

/// Elements at the end of a ladder, at most: they come from the host.
const LARGEST_BESIDE: usize = 1 << 20;

/// The results of a rung: the sum, and the bytes sent by a device.
struct Rung {
    name: &'static str,
    changed: &'static str,
    sums: Vec<i32>,
    bytes: u64,
}

/// The rungs, of a vector that is split over devices.
pub(super) struct OverDevices {
    devices: Vec<Device>,
    size: usize,
    expected: i32,
    rungs: Vec<Rung>,
}

pub(super) fn run(asked: &Asked<'_>, num: usize) -> Result<Ending, Failure> {
    if !asked.rungs.is_empty() {
        return Err(Failure::usage("ladder reduce over --devices has no --rung"));
    }
    let size = asked.elements(1 << 28)?.unwrap_or(SIZE);
    if !(2..=8).contains(&num) || size < num {
        return Err(Failure::usage(format!("--devices: {num} is not from 2 to 8, with an element for each")));
    }
    let devices = device_choice::open_several(asked.device, Some(num), num)?;
    let all = OverDevices::climb(devices, size)?;
    let right = all.rungs.iter().filter(|rung| all.is_right(rung)).count();
    let subtitle = format!("{}, {}", all.problem(), all.devices[0]);
    let about = Rungs { ladder: "reduce", subtitle, right, all: all.rungs.len() };
    asked.to.write_rungs(&all.text(), &all.record(), about)?;
    Ok(if all.is_ok() { Ending::Clean } else { Ending::Findings })
}

impl OverDevices {
    /// The rungs over two devices of the kind of one: GPUs where there are two that reach each
    /// other's memory, virtual ones elsewhere.
    pub(super) fn beside(device: &Device, size: usize) -> Result<Self, Failure> {
        let devices = match device.kind() {
            DeviceKind::Virtual(profile) => Device::virtual_peers(profile, 2),
            _ => two_gpus().unwrap_or_else(|| Device::virtual_peers(Profile::H200, 2)),
        };
        Self::climb(devices, size.clamp(2, LARGEST_BESIDE))
    }

    fn climb(devices: Vec<Device>, size: usize) -> Result<Self, Failure> {
        let numbers: Vec<i32> = (0..size).map(|i| (i % 1000) as i32 - 300).collect();
        let expected = numbers.iter().fold(0_i32, |sum, &x| sum.wrapping_add(x));
        let rungs =
            Progress::of(&devices[0], "reduce over devices", || climb(&devices, &numbers).map_err(Failure::run))?;
        Ok(Self { devices, size, expected, rungs })
    }

    fn is_right(&self, rung: &Rung) -> bool {
        rung.sums.iter().all(|&sum| sum == self.expected)
    }

    pub(super) fn is_ok(&self) -> bool {
        self.rungs.iter().all(|rung| self.is_right(rung))
    }

    pub(super) fn text(&self) -> String {
        let num = self.devices.len();
        let mut table = Table::new(["rung", "result", "has the sum", "bytes that leave a device"]);
        for rung in &self.rungs {
            let result = if self.is_right(rung) { "ok" } else { "WRONG" };
            let who = if rung.sums.len() == 1 { "the host".to_owned() } else { format!("{num} devices") };
            table.row([rung.name.to_owned(), result.to_owned(), who, grouped(rung.bytes)]);
            table.text(&format!("{}.", rung.changed));
        }
        format!("reduce: {}, {}\n\n{}\n", self.problem(), self.devices[0], table.render().trim_end())
    }

    fn problem(&self) -> String {
        format!("the sum of {} i32, split over {} devices", grouped(self.size as u64), self.devices.len())
    }

    pub(super) fn record(&self) -> Value {
        let record = |rung: &Rung| {
            json!({
                "name": rung.name,
                "changed": rung.changed,
                "ok": self.is_right(rung),
                "sums": rung.sums,
                "bytes": rung.bytes,
            })
        };
        let all: Vec<_> = self.rungs.iter().map(record).collect();
        json!({ "ladder": "reduce", "devices": self.devices.len(), "size": self.size, "rungs": all })
    }
}

/// Two GPUs that reach each other's memory.
fn two_gpus() -> Option<Vec<Device>> {
    let pair: Vec<Device> = (0..2).map(Device::cuda).collect::<Result<_, _>>().ok()?;
    let is_linked = |a: &Device, b: &Device| a.link_to(b).is_ok_and(|link| link.has_peer_access());
    (is_linked(&pair[0], &pair[1]) && is_linked(&pair[1], &pair[0])).then_some(pair)
}

fn climb(devices: &[Device], numbers: &[i32]) -> Result<Vec<Rung>, Error> {
    let num = devices.len();
    let shard = |rank: usize| &numbers[rank * numbers.len() / num..(rank + 1) * numbers.len() / num];
    let of = |device: &Device, rank: usize| Tensor::from_slice(shard(rank), &[shard(rank).len()], device);
    // All elements to one device, as if the others were disks.
    let mut all: Vec<i32> = Vec::new();
    for (rank, device) in devices.iter().enumerate() {
        all.extend(of(device, rank)?.to_vec::<i32>()?);
    }
    let gathered = Tensor::from_slice(&all, &[all.len()], &devices[0])?.sum(Axes::All)?.cast(Dtype::I32)?.to_vec()?;
    // A part from each, added up by the host.
    let part = |(rank, device): (usize, &Device)| -> Result<i32, Error> {
        Ok(of(device, rank)?.sum(Axes::All)?.cast(Dtype::I32)?.to_vec::<i32>()?[0])
    };
    let parts = devices.iter().enumerate().map(part).collect::<Result<Vec<_>, _>>()?;
    let on_host = parts.iter().fold(0_i32, |sum, &part| sum.wrapping_add(part));
    let last_level = Group::new(devices.to_vec())?.run(|rank| -> Result<i32, Error> {
        let x = Sharded::new(rank, of(rank.device(), rank.rank())?, 0)?;
        Ok(x.sum()?.cast(Dtype::I32)?.to_vec::<i32>()?[0])
    })?;
    Ok(vec![
        Rung {
            name: "gather",
            changed: "Every element goes through the host to one device, which folds them all",
            sums: gathered,
            bytes: 4 * shard(num - 1).len() as u64,
        },
        Rung {
            name: "host_adds",
            changed: "Each device folds its shard; the host waits for all of them, and adds the parts",
            sums: vec![on_host],
            bytes: 4,
        },
        Rung {
            name: "last_level",
            changed: "The parts meet in peer memory, folded in the order of ranks: every device has the sum, no host waits",
            sums: last_level,
            bytes: 4 * (num as u64 - 1),
        },
    ])
}
