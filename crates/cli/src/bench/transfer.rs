//! `bench transfer`: bytes per second between host and device, by size and direction.

use clap::Args;
use serde_json::json;
use warpfold_device::{Device, Stream};
use warpfold_report::{Kind, Page};

use crate::failure::Failure;
use crate::output::{self, Form, ReportTo};
use crate::table::{Table, grouped};
use crate::{Ending, device_choice};

/// Measures copies between host and device, as bandwidthTest does: to the device, to the host, and
/// within the device, from plain (pageable) and from pinned memory of the host.
///
/// The virtual GPU has no clock: there it checks that what comes back is what went, and counts
/// bytes.
#[derive(Debug, Args)]
pub(crate) struct Transfer {
    /// virtual, virtual:h200, virtual:a100 or cuda:N; unless given what WARPFOLD_DEVICE says, or
    /// the best there is.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Bytes of a copy; several give a row each.
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',')]
    sizes: Vec<usize>,
    #[command(flatten)]
    to: ReportTo,
}

/// Copies that are timed; their median counts.
const RUNS: usize = 11;
const SIZES: [usize; 5] = [4 << 10, 64 << 10, 1 << 20, 32 << 20, 256 << 20];
const VIRTUAL_SIZES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];
const LARGEST: usize = 4 << 30;

/// A way to copy.
#[derive(Debug, Clone, Copy)]
enum Way {
    ToDevice,
    ToDevicePinned,
    ToHost,
    ToHostPinned,
    WithinDevice,
}

const WAYS: [(Way, &str); 5] = [
    (Way::ToDevice, "host to device, pageable"),
    (Way::ToDevicePinned, "host to device, pinned"),
    (Way::ToHost, "device to host, pageable"),
    (Way::ToHostPinned, "device to host, pinned"),
    (Way::WithinDevice, "device to device"),
];

impl Transfer {
    pub(crate) fn run(&self) -> Result<Ending, Failure> {
        self.to.check()?;
        if let Some(size) = self.sizes.iter().find(|&&size| size == 0 || size > LARGEST) {
            return Err(Failure::usage(format!("--sizes: {size} is not from 1 to {LARGEST} bytes")));
        }
        let device = device_choice::open(self.device.as_deref())?;
        let sizes: Vec<usize> = match (&*self.sizes, device.is_virtual()) {
            ([], true) => VIRTUAL_SIZES.to_vec(),
            ([], false) => SIZES.to_vec(),
            (sizes, _) => sizes.to_vec(),
        };
        let mut rows = Vec::new();
        for (way, name) in WAYS {
            for &bytes in &sizes {
                rows.push((name, bytes, measure(&device, way, bytes)?));
            }
        }
        let speed = |bytes: usize, seconds: Option<f64>| seconds.map(|s| bytes as f64 / s / 1e9);
        let mut table = Table::new(["direction", "bytes", "time", "GB/s"]);
        for &(name, bytes, seconds) in &rows {
            table.row([
                name.to_owned(),
                grouped(bytes as u64),
                seconds.map_or_else(|| "-".to_owned(), |s| format!("{:.1} us", s * 1e6)),
                speed(bytes, seconds).map_or_else(|| "-".to_owned(), |s| format!("{s:.1}")),
            ]);
        }
        let record = |&(name, bytes, seconds): &(&str, usize, Option<f64>)| json!({ "direction": name, "bytes": bytes, "seconds": seconds, "gb_per_s": speed(bytes, seconds) });
        let copies: Vec<_> = rows.iter().map(record).collect();
        let note = if device.is_virtual() {
            "each copy was compared; the virtual GPU has no clock, so there are no times\n"
        } else {
            ""
        };
        let text = format!("{device}\n{note}\n{}", table.render());
        let record = json!({ "device": device.to_string(), "copies": copies });
        match self.to.form {
            Form::Table => self.to.write(&text)?,
            Form::Json => self.to.write_json(&record)?,
            Form::Html => {
                let mut page = Page::new(Kind::Bench, "transfer", &record, &output::about());
                page.subtitle = format!("copies between host and device, on {device}");
                page.verdict = match device.is_virtual() {
                    true => format!("{} copies, each right; the virtual GPU has no clock.", rows.len()),
                    false => format!("{} copies, each right.", rows.len()),
                };
                self.to.write_page(&page)?;
            }
        }
        Ok(Ending::Clean)
    }
}

/// Seconds of a copy, the median; `None` on the virtual GPU.
fn measure(device: &Device, way: Way, bytes: usize) -> Result<Option<f64>, Failure> {
    let stream = device.new_stream()?;
    let pattern: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
    let (mut there, mut back) = (device.alloc::<u8>(bytes)?, vec![0_u8; bytes]);
    let (mut pinned, mut other) = (device.host_buffer::<u8>(bytes)?, device.upload(&pattern)?);
    pinned.as_mut_slice()?.copy_from_slice(&pattern);
    stream.copy_from_host(&mut there, &pattern)?;
    let mut copy = |stream: &Stream| match way {
        Way::ToDevice => stream.copy_from_host(&mut there, &pattern),
        Way::ToDevicePinned => stream.copy_from_host_async(&mut there, &pinned),
        Way::ToHost => stream.copy_to_host(&there, &mut back),
        Way::ToHostPinned => stream.copy_to_host_async(&there, &mut pinned),
        Way::WithinDevice => stream.copy(&mut other, &there),
    };
    let mut times = Vec::new();
    for _ in 0..if device.is_virtual() { 1 } else { RUNS } {
        let start = stream.record()?;
        copy(&stream)?;
        let end = stream.record()?;
        stream.synchronize()?;
        times.extend(end.elapsed_since(&start)?.map(|time| time.as_secs_f64()));
    }
    let copied = match way {
        Way::ToDevice | Way::ToDevicePinned => there.download()?,
        Way::ToHost => back,
        Way::ToHostPinned => pinned.as_slice()?.to_vec(),
        Way::WithinDevice => other.download()?,
    };
    if copied != pattern {
        return Err(Failure::run("the bytes that were copied are not those that were there"));
    }
    times.sort_unstable_by(f64::total_cmp);
    Ok(times.get(times.len() / 2).copied())
}
