//! One `wgmma` for one warp: 16 rows of A times all columns of B, eight columns at a time.
//!
//! Accumulators stay as they lie in registers: register `4j + 2h + e` of lane `4g + t` holds row `g + 8h`, column `8j + 2t + e`. So a
//! vector of A holds each of its rows four times, one of B four columns for each of eight rows, and all lanes of a register are
//! added to at once. Eight columns of B are widened to `f32` at a time: they stay in the first-level cache.

use super::descriptor::{Layout, Major};
use super::element::{self, Element, f16, split};
use super::fragment::{self, A, DEPTH, ROWS};
use super::mma::round_to_f16;
use super::queue::Issued;
use super::wgmma::{Sums, Tile};
use crate::alu::float::finish::canonical;
use crate::exec::machine::Machine;
use crate::exec::row::{ALL_LANES, LANES};

/// Most columns of A.
const K: usize = 32;
/// Rows of A that a warp has.
const WARP_ROWS: u32 = 16;

/// A by column and half, each row in its four lanes.
type Spread = [[[f32; LANES]; 2]; K];
/// Eight columns of B by row: the even columns, then the odd ones.
type Columns = [[f32; 8]; K];

/// The four words of a unit of shared memory.
///
/// # Safety
/// `at` is the address of a unit inside shared memory.
#[inline(always)]
unsafe fn unit(m: &Machine, at: u32) -> [u32; 4] {
    // SAFETY: passed on.
    unsafe { *m.shared.add(at as usize).cast::<[u32; 4]>() }
}

/// Calls `put(row, k, element)` for `rows` rows of a K-major matrix, from `first` on.
///
/// # Safety
/// The rows lie in shared memory.
#[inline(always)]
unsafe fn k_major<const P: usize>(
    m: &Machine,
    layout: &Layout,
    first: u32,
    rows: usize,
    one: impl Fn(u32) -> f32,
    put: &mut impl FnMut(usize, usize, f32),
) {
    for row in 0..rows {
        for half in 0..2 {
            // SAFETY: passed on.
            let words = unsafe { unit(m, layout.unit(first + row as u32, half)) };
            for (w, word) in words.into_iter().enumerate() {
                for (i, x) in split::<P>(word, &one).into_iter().enumerate() {
                    put(row, (half as usize * 4 + w) * P + i, x);
                }
            }
        }
    }
}

/// Calls `put(row, k, element)` for `units` units of eight rows of an MN-major matrix of 16-bit elements.
///
/// # Safety
/// As for [`k_major`].
#[inline(always)]
unsafe fn mn_major(
    m: &Machine,
    layout: &Layout,
    first: u32,
    units: usize,
    one: impl Fn(u32) -> f32,
    put: &mut impl FnMut(usize, usize, f32),
) {
    for k in 0..16 {
        for u in 0..units {
            // SAFETY: passed on.
            let words = unsafe { unit(m, layout.unit(k as u32, first + u as u32)) };
            for (w, word) in words.into_iter().enumerate() {
                for (i, x) in split::<2>(word, &one).into_iter().enumerate() {
                    put(u * 8 + w * 2 + i, k, x);
                }
            }
        }
    }
}

/// Calls `put(row, k, element)` for `rows` rows from `first` on, both multiples of eight.
///
/// # Safety
/// As for [`k_major`].
#[inline(always)]
unsafe fn each(
    m: &Machine,
    layout: &Layout,
    ty: Element,
    first: u32,
    rows: usize,
    mut put: impl FnMut(usize, usize, f32),
) {
    // SAFETY: passed on.
    unsafe {
        match (ty, layout.major()) {
            (Element::F16, Major::K) => k_major::<2>(m, layout, first, rows, f16, &mut put),
            (Element::Bf16, Major::K) => k_major::<2>(m, layout, first, rows, element::bf16, &mut put),
            (Element::F16, Major::Mn) => mn_major(m, layout, first / 8, rows / 8, f16, &mut put),
            (Element::Bf16, Major::Mn) => mn_major(m, layout, first / 8, rows / 8, element::bf16, &mut put),
            (Element::Tf32, _) => k_major::<1>(m, layout, first, rows, element::tf32, &mut put),
            (Element::E4m3, _) => k_major::<4>(m, layout, first, rows, element::e4m3, &mut put),
            (Element::E5m2, _) => k_major::<4>(m, layout, first, rows, element::e5m2, &mut put),
            (Element::S8, _) => k_major::<4>(m, layout, first, rows, element::s8, &mut put),
            (Element::U8, _) => k_major::<4>(m, layout, first, rows, element::unsigned, &mut put),
            (Element::S4 | Element::U4, _) => unreachable!("the decoder refuses elements of 4 bits"),
        }
    }
}

/// A, spread over the lanes of its rows.
///
/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn spread_a(m: &Machine, tile: &Tile, issued: &Issued, spread: &mut Spread) {
    let mut a: A = [[0.0; DEPTH]; ROWS];
    // SAFETY: passed on.
    unsafe {
        match &tile.a {
            Some(rows) => fragment::read_a(m, tile.types[0], rows, 2, &mut a),
            None => {
                let layout = Layout::new(issued.a, tile.major[0]);
                let first = m.warp % 4 * WARP_ROWS;
                each(m, &layout, tile.types[0], first, ROWS, |row, k, x| a[row % ROWS][k % K] = x);
            }
        }
    }
    let sign = if tile.negates { 0x8000_0000 } else { 0 };
    for (k, halves) in spread.iter_mut().enumerate().take(tile.depth.into()) {
        for (row, a) in a.iter().enumerate() {
            let x = f32::from_bits(a[k].to_bits() ^ sign);
            halves[row / 8][row % 8 * 4..][..4].copy_from_slice(&[x; 4]);
        }
    }
}

/// Adds the product of eight rows of A and eight columns of B to the registers of the even and of the odd columns.
#[inline(always)]
fn add_product(sums: &mut [[f32; LANES]; 2], a: &Spread, half: usize, b: &Columns, depth: usize) {
    let vectors =
        |sums: &[f32; LANES]| -> [[f32; 8]; 4] { std::array::from_fn(|q| std::array::from_fn(|i| sums[q * 8 + i])) };
    let (mut even, mut odd) = (vectors(&sums[0]), vectors(&sums[1]));
    for (a, b) in a.iter().zip(b).take(depth) {
        let a = &a[half];
        let (x, y) =
            ([b[0], b[1], b[2], b[3], b[0], b[1], b[2], b[3]], [b[4], b[5], b[6], b[7], b[4], b[5], b[6], b[7]]);
        for q in 0..4 {
            for i in 0..8 {
                even[q][i] = a[q * 8 + i].mul_add(x[i], even[q][i]);
                odd[q][i] = a[q * 8 + i].mul_add(y[i], odd[q][i]);
            }
        }
    }
    for lane in 0..LANES {
        sums[0][lane] = even[lane / 8][lane % 8];
        sums[1][lane] = odd[lane / 8][lane % 8];
    }
}

/// Carries out a product of the current warp.
///
/// # Safety
/// As for a handler: the frame is the one that the instruction was decoded for.
#[inline(always)]
pub(super) unsafe fn multiply(m: &mut Machine, tile: &Tile, issued: &Issued) {
    if !tile.is_in_bounds(m, issued) {
        return;
    }
    if tile.sums == Sums::Bits {
        // SAFETY: passed on; the operands are in bounds.
        return unsafe { count_bits(m, tile, issued) };
    }
    let mut a: Spread = [[[0.0; LANES]; 2]; K];
    let mut b: Columns = [[0.0; 8]; K];
    let layout = Layout::new(issued.b, tile.major[1]);
    // SAFETY: passed on; the operands are in bounds.
    unsafe {
        spread_a(m, tile, issued, &mut a);
        for j in 0..usize::from(tile.n) / 8 {
            each(m, &layout, tile.types[1], j as u32 * 8, 8, |n, k, x| b[k % K][n % 2 * 4 + n / 2 % 4] = x);
            for half in 0..2 {
                add_columns(m, tile, issued.adds, j * 2 + half, |sums| {
                    add_product(sums, &a, half, &b, tile.depth.into());
                });
            }
        }
    }
}

/// Adds to the accumulators of eight rows and eight columns; `pair` counts them as they lie in registers.
///
/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn add_columns(
    m: &mut Machine,
    tile: &Tile,
    adds: bool,
    pair: usize,
    product: impl FnOnce(&mut [[f32; LANES]; 2]),
) {
    let mut sums = [[0.0; LANES]; 2];
    // SAFETY: passed on.
    unsafe {
        match tile.sums {
            Sums::F32 => {
                let rows = [tile.d[2 * pair], tile.d[2 * pair + 1]];
                for (sums, row) in sums.iter_mut().zip(rows) {
                    if adds {
                        *sums = (&*m.lanes::<u32>(row)).map(f32::from_bits);
                    }
                }
                product(&mut sums);
                for (sums, row) in sums.iter().zip(rows) {
                    m.write(row, &sums.map(canonical), ALL_LANES);
                }
            }
            Sums::F16 => {
                let row = tile.d[pair];
                if adds {
                    let words = &*m.lanes::<u32>(row);
                    sums = [words.map(|w| f16(w & 0xffff)), words.map(|w| f16(w >> 16))];
                }
                product(&mut sums);
                let bits = |e: usize, lane: usize| u32::from(round_to_f16(sums[e][lane]));
                m.write(row, &std::array::from_fn(|lane| bits(0, lane) | bits(1, lane) << 16), ALL_LANES);
            }
            Sums::Integer { saturates } => {
                product(&mut sums);
                for (e, sums) in sums.iter().enumerate() {
                    let row = tile.d[2 * pair + e];
                    let old = if adds { m.read::<u32>(row) } else { [0; LANES] };
                    let sum = |lane: usize| {
                        let (old, product) = (old[lane] as i32, sums[lane] as i32);
                        (if saturates { old.saturating_add(product) } else { old.wrapping_add(product) }) as u32
                    };
                    m.write(row, &std::array::from_fn(sum), ALL_LANES);
                }
            }
            Sums::Bits => unreachable!("bits are counted elsewhere"),
        }
    }
}

/// Single bits: how many are set in `A and B`.
///
/// # Safety
/// As for [`multiply`].
#[inline(always)]
unsafe fn count_bits(m: &mut Machine, tile: &Tile, issued: &Issued) {
    let mut a = [[0u32; 8]; ROWS];
    // SAFETY: passed on; the operands are in bounds.
    unsafe {
        match &tile.a {
            Some(rows) => {
                for (register, &row) in rows.iter().enumerate() {
                    let words = &*m.lanes::<u32>(row);
                    for lane in 0..LANES {
                        a[lane / 4 + register % 2 * 8][register / 2 * 4 + lane % 4] = words[lane];
                    }
                }
            }
            None => {
                let layout = Layout::new(issued.a, Major::K);
                for (row, a) in a.iter_mut().enumerate() {
                    *a = line(m, &layout, m.warp % 4 * WARP_ROWS + row as u32);
                }
            }
        }
        let layout = Layout::new(issued.b, Major::K);
        for j in 0..usize::from(tile.n) / 8 {
            let b: [[u32; 8]; 8] = std::array::from_fn(|n| line(m, &layout, (j * 8 + n) as u32));
            for register in 0..4 {
                let row = tile.d[4 * j + register];
                let old = if issued.adds { m.read::<u32>(row) } else { [0; LANES] };
                let sum = |lane: usize| {
                    let (a, b) = (&a[lane / 4 + register / 2 * 8], &b[lane % 4 * 2 + register % 2]);
                    a.iter().zip(b).fold(old[lane], |sum, (a, b)| sum.wrapping_add((a & b).count_ones()))
                };
                m.write(row, &std::array::from_fn(sum), ALL_LANES);
            }
        }
    }
}

/// The 32 bytes of a row of a K-major matrix.
///
/// # Safety
/// As for [`k_major`].
#[inline(always)]
unsafe fn line(m: &Machine, layout: &Layout, row: u32) -> [u32; 8] {
    // SAFETY: passed on.
    let halves = unsafe { [unit(m, layout.unit(row, 0)), unit(m, layout.unit(row, 1))] };
    std::array::from_fn(|i| halves[i / 4][i % 4])
}
