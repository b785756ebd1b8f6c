//! Are the bits of `mma.sync` and of `wgmma` equal, and those of the virtual GPU and of hardware?
//! Both instructions multiply the same tiles, on every device at hand.
//!
//! An H200 gives equal bits for every type but the floats of 8 bits, whose `wgmma` keeps fewer
//! (see `crates/sim/src/tensor_ops/aligned.rs`). Where a GPU is at hand, the virtual one is held to
//! it.

use half::{bf16, f16};
use warpfold_device::{Checks, Device, LaunchConfig, Profile};
use warpfold_lang::{
    F8E4M3, F8E5M2, Global, Kernel, Major, Multiplicand, Operands, Swizzle, WarpgroupSums, fence_async, kernel, range,
    sync_threads, thread_idx, tiles, warp_id, wgmma_commit, wgmma_fence, wgmma_wait,
};

/// Rows of a warpgroup, columns of the other tile.
const ROWS: u32 = 64;
const COLUMNS: u32 = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    MmaSync,
    Wgmma,
}

/// What a kernel takes: rows of A and of B along `k`, sums to begin with, sums.
type Product<T> = Kernel<(Global<u8>, Global<u8>, Global<<T as Multiplicand>::Sum>, Global<<T as Multiplicand>::Sum>)>;

/// Elements along `k`: four steps.
fn depth<T: Multiplicand>() -> u32 {
    4 * T::STEP
}

fn product<T: Multiplicand>(by: By) -> Product<T> {
    let body = move |a: Global<u8>, b: Global<u8>, before: Global<T::Sum>, after: Global<T::Sum>| {
        let [of_a, of_b] = [ROWS, COLUMNS].map(|rows| tiles::<T>(1, rows, depth::<T>(), Swizzle::Bytes128));
        for (from, to) in [(a, of_a.at(0)), (b, of_b.at(0))] {
            range(thread_idx().x, to.rows() * depth::<T>(), 128_u32, |i| {
                to.at(i / depth::<T>(), i % depth::<T>()).set(from.reinterpret::<T>().at(i).get());
            });
        }
        fence_async();
        sync_threads();
        let sums = WarpgroupSums::<T>::new(COLUMNS);
        let first = WarpgroupSums::<T>::first_column();
        for (row, number) in WarpgroupSums::<T>::rows().into_iter().enumerate() {
            let column = |i: u32| first + (8 * (i / 2) + i % 2);
            let values: Vec<_> = (0..COLUMNS / 4).map(|i| before.at(number * COLUMNS + column(i)).get()).collect();
            sums.set_row(row, &values);
        }
        match by {
            By::Wgmma => {
                wgmma_fence();
                let operands = Operands { a: of_a.at(0), a_major: Major::K, b: of_b.at(0), b_major: Major::K };
                sums.add_product(&operands, true);
                wgmma_commit();
                wgmma_wait(0);
            }
            By::MmaSync => {
                let lines = (of_a.lines_of_a(Major::K, warp_id(), 16), of_b.lines_of_b(Major::K, 0, COLUMNS));
                for k in (0..depth::<T>()).step_by(T::STEP as usize) {
                    for column in (0..COLUMNS).step_by(16) {
                        let [low, high] = lines.1.fragments(column, k);
                        sums.add_fragments(column, lines.0.fragment(0, k), low);
                        sums.add_fragments(column + 8, lines.0.fragment(0, k), high);
                    }
                }
            }
        }
        for (row, column, pair) in sums.pairs() {
            after.at(row * COLUMNS + column).set_vec(pair);
        }
    };
    kernel(format!("product_by_{by:?}_of_{}", std::any::type_name::<T>().rsplit("::").next().unwrap_or_default()), body)
        .required_block(128)
}

/// Tiles of numbers: how many of each kind.
const TILES: usize = 4;

/// What is multiplied.
#[derive(Debug, Clone, Copy)]
enum Numbers {
    /// From -1 to 1.
    Even,
    /// Of many magnitudes, so that bits of the small ones are lost.
    Spread,
    /// Nearly the same with either sign: what is left is small.
    Cancelling,
    /// Added to a sum that is much larger.
    Absorbed,
    /// The smallest of the type.
    Smallest,
    /// Some infinities, NaNs and zeros of either sign among others.
    Special,
    /// Mostly zeros of either sign, and products far below 1.
    Zeros,
}

const KINDS: [Numbers; 7] = [
    Numbers::Even,
    Numbers::Spread,
    Numbers::Cancelling,
    Numbers::Absorbed,
    Numbers::Smallest,
    Numbers::Special,
    Numbers::Zeros,
];

/// A number from -1 to 1.
fn random(seed: usize, i: usize) -> f64 {
    let z = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (seed as u64 + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 29).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ z >> 32) as u32 as f64) / 2_147_483_648.0 - 1.0
}

impl Numbers {
    /// The element `i` of A (0), B (1) or the sums (2); `smallest` and `spread` are the exponents
    /// of the type's least number and of how far it goes up and down.
    fn at(self, which: usize, seed: usize, i: usize, (smallest, spread): (i32, i32)) -> f64 {
        let even = random(3 * seed + which, i);
        match (self, which) {
            (Self::Absorbed, 2) => 2_f64.powi(22) * even,
            (Self::Even | Self::Absorbed, _) => even,
            (Self::Spread, _) => even * 2_f64.powi((random(99 + which, i) * f64::from(spread)) as i32),
            // Neighbours of A along `k` have either sign, those of B are nearly the same.
            (Self::Cancelling, 0) => random(3 * seed, i / 2) * if i.is_multiple_of(2) { 1.0 } else { -1.0 },
            (Self::Cancelling, 1) => random(3 * seed + 1, i / 2) + even * 2_f64.powi(-6),
            (Self::Cancelling, _) => 0.0,
            (Self::Smallest, 0) => even * 2_f64.powi(smallest + 3),
            (Self::Smallest, _) => even,
            (Self::Special, _) => {
                let special = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.0, -0.0];
                let pick = (random(50 + 3 * seed + which, i) + 1.0) * 512.0;
                special.get(pick as usize).copied().unwrap_or(even)
            }
            (Self::Zeros, _) => {
                let pick = random(50 + 3 * seed + which, i);
                let tiny = even * 2_f64.powi(smallest * 4 / 9);
                if pick.abs() < 0.9 { 0_f64.copysign(pick) } else { tiny }
            }
        }
    }
}

/// What a comparison of sums came to.
#[derive(Debug, Default)]
struct Answer {
    sums: usize,
    differ: usize,
    /// The largest distance between numbers that differ, in units of the last place.
    most: u64,
}

/// Runs both kernels of a type on tiles of every kind, on a device: by kind and seed, the sums by
/// `mma.sync` and by `wgmma`.
macro_rules! ask {
    ($device:expr, $element:ty, $round:expr, $sum:ty, $of_sum:expr, $range:expr) => {{
        let device: &Device = $device;
        let kernels = [By::MmaSync, By::Wgmma].map(product::<$element>);
        let run = |kernel: &Product<$element>, kind: Numbers, seed: usize| -> Vec<i64> {
            let elements = |which: usize, rows: u32| -> Vec<u8> {
                let len = (rows * depth::<$element>()) as usize;
                (0..len).flat_map(|i| ($round)(kind.at(which, seed, i, $range))).collect()
            };
            let before: Vec<$sum> =
                (0..(ROWS * COLUMNS) as usize).map(|i| ($of_sum)(kind.at(2, seed, i, $range))).collect();
            let [a, b] = [(0, ROWS), (1, COLUMNS)].map(|(which, rows)| device.upload(&elements(which, rows)).unwrap());
            let (before, mut after) = (device.upload(&before).unwrap(), device.alloc::<$sum>(before.len()).unwrap());
            let bytes = (ROWS + COLUMNS) * 128 + 1024;
            let launch = LaunchConfig::new(1, 128).dynamic_shared(bytes);
            device.launch(kernel, launch, (&a, &b, &before, &mut after)).unwrap();
            after.download().unwrap().iter().map(|sum| i64::from(sum.to_bits_of_sum())).collect()
        };
        KINDS.map(|kind| (0..TILES).map(|seed| [0, 1].map(|i| run(&kernels[i], kind, seed))).collect())
    }};
}

impl Answer {
    /// How two lists of sums differ: the order of bits is that of magnitudes.
    fn count(&mut self, left: &[i64], right: &[i64]) {
        for (left, right) in left.iter().zip(right) {
            self.sums += 1;
            self.differ += usize::from(left != right);
            self.most = self.most.max(left.abs_diff(*right));
        }
    }
}

/// Sums as numbers whose distance is that in units of the last place.
trait Bits {
    fn to_bits_of_sum(&self) -> i32;
}

impl Bits for f32 {
    fn to_bits_of_sum(&self) -> i32 {
        let bits = self.to_bits().cast_signed();
        if bits < 0 { i32::MIN.wrapping_sub(bits) } else { bits }
    }
}

impl Bits for i32 {
    fn to_bits_of_sum(&self) -> i32 {
        *self
    }
}

/// By kind, by seed, the sums of both instructions.
type Found = [Vec<[Vec<i64>; 2]>; KINDS.len()];

/// The sums of a device, by type.
fn sums(device: &Device) -> Vec<(&'static str, Found)> {
    let same = |x: f64| x as f32;
    let integer = |x: f64| ((x * 127.0).clamp(-128.0, 127.0) as i8).cast_unsigned();
    vec![
        ("bf16", ask!(device, bf16, |x| bf16::from_f64(x).to_le_bytes(), f32, same, (-126, 20))),
        ("f16", ask!(device, f16, |x| f16::from_f64(x).to_le_bytes(), f32, same, (-24, 10))),
        ("e4m3", ask!(device, F8E4M3, |x: f64| [F8E4M3::from_f32(x as f32).to_bits()], f32, same, (-9, 6))),
        ("e5m2", ask!(device, F8E5M2, |x: f64| [F8E5M2::from_f32(x as f32).to_bits()], f32, same, (-16, 12))),
        ("tf32", ask!(device, f32, |x| same(x).to_le_bytes(), f32, same, (-126, 20))),
        ("i8", ask!(device, i8, |x| [integer(x)], i32, |x: f64| x as i32, (0, 4))),
    ]
}

fn say(name: &str, what: &str, kind: Numbers, Answer { sums, differ, most }: &Answer) {
    let verdict = if *differ == 0 { "equal" } else { "DIFFERENT" };
    println!("  {name:5} {what} {kind:?}: {verdict}, {differ} of {sums} sums, at most {most} units of the last place");
}

#[test]
fn mma_sync_and_wgmma_give_the_same_bits_but_of_floats_of_8_bits() {
    for device in Device::all() {
        if !device.limits().has_wgmma {
            println!("{device} has no wgmma");
            continue;
        }
        println!("mma.sync beside wgmma on {device}");
        for (name, kinds) in sums(&device) {
            let mut all = 0;
            for (kind, tiles) in KINDS.into_iter().zip(&kinds) {
                let mut answer = Answer::default();
                tiles.iter().for_each(|[by_mma, by_wgmma]| answer.count(by_mma, by_wgmma));
                say(name, "", kind, &answer);
                all += answer.differ;
            }
            assert_eq!(all > 0, matches!(name, "e4m3" | "e5m2"), "{name} on {device}: {all} sums differ");
        }
    }
}

#[test]
fn the_virtual_gpu_gives_the_bits_of_each_gpu_at_hand() {
    let expected = sums(&Device::virtual_gpu(Profile::H200));
    for device in Device::all().into_iter().filter(|device| !device.is_virtual() && device.limits().has_wgmma) {
        println!("{device} beside the virtual GPU");
        let mut wrong = Vec::new();
        for ((name, kinds), (_, virtual_kinds)) in sums(&device).iter().zip(&expected) {
            for (i, what) in ["mma.sync", "wgmma"].into_iter().enumerate() {
                for (k, kind) in KINDS.into_iter().enumerate() {
                    let mut answer = Answer::default();
                    let tiles = kinds[k].iter().zip(&virtual_kinds[k]);
                    tiles.for_each(|(found, expected)| answer.count(&found[i], &expected[i]));
                    say(name, what, kind, &answer);
                    if answer.differ > 0 {
                        wrong.push(format!("{what} of {name}, {kind:?}: {} sums", answer.differ));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{device}:\n{}", wrong.join("\n"));
    }
}

/// The sums would differ if they could: tiles have bits that depend on the order. (Those that a
/// larger sum absorbs do not: every step adds whole units of it.)
#[test]
fn another_order_of_the_same_products_gives_other_bits() {
    let device = Device::virtual_gpu(Profile::H200);
    device.configure(|options| options.checks = Checks::All).unwrap();
    let depth = depth::<bf16>() as usize;
    let turned = |i: usize| i / depth * depth + (depth - 1 - i % depth);
    for kind in [Numbers::Even, Numbers::Spread, Numbers::Cancelling] {
        let kernel = product::<bf16>(By::Wgmma);
        let run = |order: &dyn Fn(usize) -> usize| -> Vec<u32> {
            let elements = |which, rows: u32| -> Vec<u8> {
                let at = |i| bf16::from_f64(kind.at(which, 0, order(i), (-126, 20))).to_le_bytes();
                (0..rows as usize * depth).flat_map(at).collect()
            };
            let before: Vec<f32> =
                (0..(ROWS * COLUMNS) as usize).map(|i| kind.at(2, 0, i, (-126, 20)) as f32).collect();
            let (a, b) = (device.upload(&elements(0, ROWS)).unwrap(), device.upload(&elements(1, COLUMNS)).unwrap());
            let (before, mut after) = (device.upload(&before).unwrap(), device.alloc::<f32>(before.len()).unwrap());
            let launch = LaunchConfig::new(1, 128).dynamic_shared((ROWS + COLUMNS) * 128 + 1024);
            device.launch(&kernel, launch, (&a, &b, &before, &mut after)).unwrap();
            after.download().unwrap().into_iter().map(f32::to_bits).collect()
        };
        assert!(run(&|i| i) != run(&turned), "{kind:?}");
    }
    assert!(device.take_reports().iter().all(|report| report.report.findings.is_empty()));
}
