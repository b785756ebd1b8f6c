//! A ladder of yours: kernels for one problem, from the first idea to the last, which run, print,
//! draw and prove their claims as warpfold's own do.
//!
//! The problem is a transpose. With an argument the report is drawn, too:
//! `cargo run --release --example 20_own_ladder transpose.html`.

use warpfold_device::{Checks, Device, LaunchConfig};
use warpfold_kernels::{AnyKernel, Dtype};
use warpfold_ladders::ladder::{
    Arrays, Change, Claim, Finish, Guards, Instance, Ladder, Launch, Metric, RunOptions, Rung, Sizes, broken_claims,
    run, samples,
};
use warpfold_lang::{Global, Kernel, Val, block_dim, block_idx, kernel, shared_named, sync_threads, thread_idx};
use warpfold_report::{About, LadderRun, ladder_page, ladder_text};

/// Columns of the matrix; a size is its elements, a multiple of 32 rows.
const COLUMNS: u32 = 256;

/// All three take input, output and the number of elements.
type Transpose = Kernel<(Global<f32>, Global<f32>, u32)>;

/// Reads along rows, and writes along columns.
fn naive() -> Transpose {
    kernel("transpose_naive", |input: Global<f32>, output: Global<f32>, len: Val<u32>| {
        let i = block_idx().x * block_dim().x + thread_idx().x;
        let (row, column) = (i / COLUMNS, i % COLUMNS);
        output.at(column * (len / COLUMNS) + row).set(input.at(i).get());
    })
}

/// Turns tiles of 32 x 32 in shared memory, whose rows have this many words.
fn tiled(width: u32) -> Transpose {
    kernel(format!("transpose_tile_{width}"), move |input: Global<f32>, output: Global<f32>, len: Val<u32>| {
        let tile = shared_named::<f32>("tile", 32 * width);
        let (x, y) = (thread_idx().x, thread_idx().y);
        let (column, row) = (block_idx().x * 32, block_idx().y * 32);
        for step in [0, 8, 16, 24] {
            let from = (row + y + step) * COLUMNS + column + x;
            tile.at((y + step) * width + x).set(input.at(from).get());
        }
        sync_threads();
        for step in [0, 8, 16, 24] {
            let to = (column + y + step) * (len / COLUMNS) + row + x;
            output.at(to).set(tile.at(x * width + y + step).get());
        }
    })
}

fn tiles(size: u64) -> LaunchConfig {
    LaunchConfig::new((COLUMNS / 32, size as u32 / COLUMNS / 32), (32, 8))
}

const LADDER: Ladder = Ladder {
    name: "transpose",
    problem: "the transpose of a matrix with 256 columns",
    sizes: Sizes::Elements,
    default_size: 65_536,
    max_size: 1 << 24,
    dtypes: &[Dtype::F32],
    rungs: &[
        Rung {
            name: "naive",
            changed: "A thread per element; neighbours write far from one another",
            claims: &[],
            launches: &[Launch::new(
                |_| AnyKernel::from(naive()),
                |size| LaunchConfig::for_elements(size as usize, 256),
            )],
            finish: Finish::Nothing,
        },
        Rung {
            name: "tile",
            changed: "Tiles are turned in shared memory, so that both sides are coalesced",
            claims: &[
                Claim::new(Metric::StoreSectors, Change::DividedBy(8)),
                Claim::new(Metric::LoadConflicts, Change::FromZero),
            ],
            launches: &[Launch::new(|_| AnyKernel::from(tiled(32)), tiles)],
            finish: Finish::Nothing,
        },
        Rung {
            name: "padded",
            changed: "A word after each row of the tile puts its columns into different banks",
            claims: &[Claim::new(Metric::LoadConflicts, Change::ToZero)],
            launches: &[Launch::new(|_| AnyKernel::from(tiled(33)), tiles)],
            finish: Finish::Nothing,
        },
    ],
    open,
};

/// The data, and what is right.
fn open(
    device: &Device,
    _dtype: Dtype,
    size: u64,
    guards: Guards,
) -> Result<Box<dyn Instance>, warpfold_ladders::Error> {
    let (size, columns) = (size as usize, COLUMNS as usize);
    let input = samples::<f32>(1, size);
    let expected = (0..size).map(|i| input[i % (size / columns) * columns + i / (size / columns)]).collect();
    Arrays { inputs: vec![input], expected, tolerance: 0.0 }.open(device, guards)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::best();
    let checks = if device.is_virtual() { Checks::All } else { Checks::None };
    let options = RunOptions { checks, record: Some(8), ..RunOptions::default() };
    let report = run(&device, &LADDER, LADDER.default_size, Dtype::F32, &options)?;
    print!("{}", ladder_text(&LADDER, &report));
    assert!(report.is_ok());
    assert_eq!(broken_claims(&LADDER, &report), [""; 0]);

    let sources = [("20_own_ladder.rs", include_str!("20_own_ladder.rs"))]; // shown beside the PTX
    let drawn = LadderRun { ladder: &LADDER, report: &report, device: &device };
    let page = ladder_page(drawn, &sources, &About::default());
    if let Some(path) = std::env::args().nth(1) {
        std::fs::write(path, page.html())?;
    }
    Ok(())
}
