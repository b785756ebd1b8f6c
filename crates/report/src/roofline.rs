//! What a roofline is drawn from: operations and bytes of kernels, and what devices reach; and its
//! figures.

use serde::Serialize;
use warpfold_kernels::Dtype;
use warpfold_sim::InstructionCounters;

use crate::table::{Table, grouped};

/// Roofs, and what stands under them.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Roofline {
    pub roofs: Roofs,
    pub points: Vec<Point>,
}

/// One rung.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Point {
    pub name: String,
    /// Operations of the problem, or those that its instructions did.
    pub flops: u64,
    pub bytes: u64,
    /// `null` without a clock.
    pub seconds: Option<f64>,
}

/// What a device reaches at most.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Roofs {
    pub gigabytes_per_second: f64,
    /// `null` where it is not known.
    pub teraflops_per_second: Option<f64>,
    /// Where the numbers are from.
    pub source: String,
}

/// A roofline in figures: for each rung its operations and bytes, what the device's roofs allow at
/// their ratio, and, on a device with a clock, what it reached.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// Where the roofs are from.
    source: String,
    gigabytes_per_second: f64,
    /// `null` where it is not known.
    teraflops_per_second: Option<f64>,
    /// Operations per byte from which on arithmetic limits.
    ridge: Option<f64>,
    rungs: Vec<Figure>,
}

#[derive(Debug, Clone, Serialize)]
struct Figure {
    name: String,
    flops: u64,
    bytes: u64,
    flops_per_byte: f64,
    /// `memory` or `arithmetic`.
    limit: &'static str,
    /// What the roof above it allows.
    roof_teraflops_per_second: f64,
    /// `null` without a clock.
    teraflops_per_second: Option<f64>,
    share_of_roof: Option<f64>,
}

impl From<Roofline> for Figures {
    fn from(Roofline { roofs, points }: Roofline) -> Self {
        let Roofs { gigabytes_per_second, teraflops_per_second, source } = roofs;
        let figure = |Point { name, flops, bytes, seconds }: Point| {
            let flops_per_byte = flops as f64 / bytes as f64;
            let slope = flops_per_byte * gigabytes_per_second / 1e3;
            let roof = teraflops_per_second.map_or(slope, |flat| flat.min(slope));
            let reached = seconds.map(|seconds| flops as f64 / seconds / 1e12);
            Figure {
                name,
                flops,
                bytes,
                flops_per_byte,
                limit: if roof < slope { "arithmetic" } else { "memory" },
                roof_teraflops_per_second: roof,
                teraflops_per_second: reached,
                share_of_roof: reached.map(|reached| reached / roof),
            }
        };
        let is_known = |point: &Point| point.flops > 0 && point.bytes > 0;
        Self {
            source,
            gigabytes_per_second,
            teraflops_per_second,
            ridge: teraflops_per_second.map(|flat| flat * 1e3 / gigabytes_per_second),
            rungs: points.into_iter().filter(is_known).map(figure).collect(),
        }
    }
}

impl Figures {
    /// As a table, and where its roofs are from.
    #[must_use]
    pub fn text(&self) -> String {
        let mut table =
            Table::new(["roofline", "FLOP", "bytes", "FLOP per byte", "limit", "roof, TFLOP/s", "TFLOP/s", "of roof"]);
        let number = |value: f64| format!("{value:.3}");
        let cell = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
        for rung in &self.rungs {
            table.row([
                rung.name.clone(),
                grouped(rung.flops),
                grouped(rung.bytes),
                number(rung.flops_per_byte),
                rung.limit.to_owned(),
                number(rung.roof_teraflops_per_second),
                cell(rung.teraflops_per_second),
                rung.share_of_roof.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", 100.0 * share)),
            ]);
        }
        let ridge = self
            .ridge
            .map_or_else(String::new, |ridge| format!(" Arithmetic limits from {ridge:.1} FLOP per byte on."));
        format!("{}{}{ridge}\n", table.render(), self.source)
    }
}

/// GB/s, then TFLOP/s of f32 on CUDA cores, of f16 and bf16 on tensor cores without sparsity, and
/// of 32-bit integers.
///
/// Bandwidth and TFLOP/s: NVIDIA's data sheets of the A100 80 GB SXM, H100 SXM and H200 SXM.
/// Integers: 64 results per clock and SM (CUDA C++ Programming Guide, "Arithmetic Instructions"),
/// with the SMs and boost clocks of the data sheets.
const PEAKS: [(&str, f64, f64, f64, f64); 3] =
    [("A100", 2_039.0, 19.5, 312.0, 9.7), ("H100", 3_350.0, 67.0, 989.0, 16.7), ("H200", 4_800.0, 67.0, 989.0, 16.7)];

/// What the data sheet of a device says that it reaches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peaks {
    /// GB/s of global memory.
    pub gigabytes_per_second: f64,
    /// TFLOP/s of f32 on CUDA cores.
    pub f32_teraflops: f64,
    /// TFLOP/s of f16 and bf16 on tensor cores, without sparsity.
    pub half_teraflops: f64,
}

/// The peaks of a device by its name; `None` of one whose data sheet is not here.
///
/// ```
/// assert_eq!(warpfold_report::peaks("NVIDIA H200").map(|peaks| peaks.gigabytes_per_second), Some(4800.0));
/// ```
#[must_use]
pub fn peaks(device: &str) -> Option<Peaks> {
    let known = PEAKS.iter().find(|(name, ..)| device.to_uppercase().contains(name));
    known.map(|&(_, gigabytes_per_second, f32_teraflops, half_teraflops, _)| Peaks {
        gigabytes_per_second,
        f32_teraflops,
        half_teraflops,
    })
}

/// The roofs of a device by its name; of one that is not known, the copy that was measured on it.
pub(crate) fn roofs(device: &str, dtype: Dtype, copy: Option<f64>) -> Option<Roofs> {
    let known = PEAKS.iter().find(|(name, ..)| device.to_uppercase().contains(name));
    let Some((name, bandwidth, f32, half, integers)) = known else {
        let source = "The roof is a copy that was measured in the same run.".to_owned();
        return copy.map(|copy| Roofs { gigabytes_per_second: copy, teraflops_per_second: None, source });
    };
    let (speed, what) = match dtype {
        Dtype::F16 | Dtype::Bf16 => (*half, "tensor cores"),
        Dtype::I32 => (*integers, "32-bit integers"),
        _ => (*f32, "CUDA cores, f32"),
    };
    let source = format!("Roofs of the {name}, by its data sheet: {bandwidth} GB/s and {speed} T/s of {what}.");
    Some(Roofs { gigabytes_per_second: *bandwidth, teraflops_per_second: Some(speed), source })
}

/// Operations that instructions did: those on floats, or where the problem is one of integers,
/// those on signed ones, as addresses are unsigned here.
pub(crate) fn operations<'a>(instructions: impl Iterator<Item = &'a InstructionCounters>, is_integer: bool) -> u64 {
    instructions.map(|i| i.active_lanes * per_lane(&i.text, is_integer)).sum()
}

fn per_lane(text: &str, is_integer: bool) -> u64 {
    let mut words = text.split_whitespace().skip_while(|word| word.starts_with('@'));
    let parts: Vec<&str> = words.next().unwrap_or_default().trim_end_matches(';').split('.').collect();
    let Some((&operation, modifiers)) = parts.split_first() else { return 0 };
    if matches!(operation, "mma" | "wgmma") {
        let lanes = if operation == "mma" { 32 } else { 128 };
        return modifiers.iter().find_map(|part| multiplied(part)).map_or(0, |mnk| 2 * mnk / lanes);
    }
    let wide = |part: &&str| match (*part, is_integer) {
        ("f16" | "bf16" | "f32" | "f64", false) | ("s32", true) => Some(1),
        ("f16x2" | "bf16x2", false) => Some(2),
        _ => None,
    };
    let elements = modifiers.iter().rev().find_map(wide).unwrap_or(0);
    match operation {
        "fma" | "mad" => 2 * elements,
        "add" | "sub" | "mul" | "div" => elements,
        "atom" | "red" if modifiers.contains(&"add") => elements,
        _ => 0,
    }
}

/// `m16n8k16` as 2,048.
fn multiplied(shape: &str) -> Option<u64> {
    let rest = shape.strip_prefix('m')?;
    let (m, rest) = rest.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some(m.parse::<u64>().ok()? * n.parse::<u64>().ok()? * k.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_an_instruction_are_counted_by_lane() {
        let floats = [
            ("fma.rn.f32 %f1, %f2, %f3, %f4;", 2),
            ("@!%p1 add.rn.f16x2 %r1, %r2, %r3;", 2),
            ("red.global.add.f32 [%rd1], %f1;", 1),
            ("add.s32 %r1, %r2, %r3;", 0),
            ("ld.global.f32 %f1, [%rd1];", 0),
            ("cvt.rn.f32.s32 %f1, %r1;", 0),
            ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f2};", 128),
            ("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%f1}, %rd1, %rd2, 1, 1, 1, 0, 0;", 2048),
        ];
        for (text, expected) in floats {
            assert_eq!(per_lane(text, false), expected, "{text}");
        }
        assert_eq!(per_lane("add.s32 %r1, %r2, %r3;", true), 1);
        assert_eq!(per_lane("add.u32 %r1, %r2, %r3;", true), 0);
    }

    #[test]
    fn a_rung_is_under_the_roof_that_its_ratio_meets() {
        let point = |name: &str, flops, seconds| Point { name: name.to_owned(), flops, bytes: 1_000_000, seconds };
        let roofs = roofs("NVIDIA H200", Dtype::F32, None).expect("it is known");
        let points =
            vec![point("sum", 250_000, None), point("product", 67_000_000, Some(2e-6)), point("copy", 0, None)];
        let figures = Figures::from(Roofline { roofs, points });
        let expected = "\
roofline        FLOP      bytes  FLOP per byte       limit  roof, TFLOP/s  TFLOP/s  of roof
sum          250,000  1,000,000          0.250      memory          1.200        -        -
product   67,000,000  1,000,000         67.000  arithmetic         67.000   33.500   50.0 %
Roofs of the H200, by its data sheet: 4800 GB/s and 67 T/s of CUDA cores, f32. Arithmetic limits from 14.0 FLOP per byte on.
";
        assert_eq!(figures.text(), expected);
    }

    #[test]
    fn an_unknown_device_has_the_roof_that_was_measured() {
        assert_eq!(roofs("a GPU", Dtype::F32, None), None);
        let measured = roofs("a GPU", Dtype::F32, Some(600.0)).expect("a copy was measured");
        assert_eq!((measured.gigabytes_per_second, measured.teraflops_per_second), (600.0, None));
        let h200 = roofs("NVIDIA H200", Dtype::Bf16, Some(600.0)).expect("it is known");
        assert_eq!((h200.gigabytes_per_second, h200.teraflops_per_second), (4800.0, Some(989.0)));
    }
}
