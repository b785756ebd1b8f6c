//! Takes one synchronisation at a time away from the kernels of the library's operators: the
//! checks, or the result, must object.

use std::sync::{Arc, Mutex};

use warpfold::by_name::{self, Options};
use warpfold::{
    CacheShape, Device, Draw, DrawRows, Dtype, Error, ExpertWeights, Experts, Matmul, NewHeads, NewTokens,
    PackedWeights, PageLayout, PagedCache, Profile, Queue, Scheme, Tensor, TensorElement, reductions,
};
use warpfold_conformance::mutants::{Mutant, is_sampled, mutants, touch};
use warpfold_device::{Checks, Limits};
use warpfold_kernels::attention;
use warpfold_kernels::gather::{self, Gather};
use warpfold_kernels::matmul::quantized::PackedShape;
use warpfold_kernels::plan::{Family, KernelCache, Planner, Workspace};

/// An operator on a device: its results, as bytes.
type Operator = fn(&Device) -> Result<Vec<u8>, Error>;

fn checked_device(profile: Profile) -> Device {
    let device = Device::virtual_gpu(profile);
    // A mutant may go on for ever with what it read too early.
    let configured = device.configure(|options| (options.checks, options.limit) = (Checks::All, 40_000_000));
    configured.unwrap();
    device
}

/// Runs an operator some times on a new device whose kernels are rewritten: its results, or what is
/// said against it.
fn run(
    profile: Profile,
    operator: Operator,
    times: usize,
    rewrite: impl Fn(&str) -> String + Send + Sync + 'static,
) -> Result<Vec<u8>, String> {
    let device = checked_device(profile);
    device.rewrite_kernels(rewrite);
    let runs = (0..times).map(|_| operator(&device).map_err(|error| error.to_string()));
    let results = runs.reduce(|_, last| last).expect("there are runs")?;
    match device.take_reports().iter().flat_map(|report| &report.report.findings).next() {
        Some(finding) => Err(finding.to_string()),
        None => Ok(results),
    }
}

/// The texts of the kernels that an operator launches, and its results.
fn texts_of(name: &str, profile: Profile, operator: Operator) -> (Vec<String>, Vec<u8>) {
    let texts = Arc::new(Mutex::new(Vec::new()));
    let seen = texts.clone();
    let note = move |text: &str| {
        seen.lock().unwrap().push(text.to_owned());
        text.to_owned()
    };
    let results = run(profile, operator, 1, note).unwrap_or_else(|objection| panic!("{name} as it is: {objection}"));
    let texts = texts.lock().unwrap().clone();
    (texts, results)
}

/// Tries every mutant of every kernel of an operator; `equivalent` says which may go unnoticed: by
/// a part of the entry's name, the number of the synchronisation in it, and why.
#[track_caller]
fn check(name: &str, least: usize, equivalent: &[(&str, usize, &str)], operator: Operator) {
    check_on(Profile::H200, name, least, equivalent, operator);
}

/// The same on another device.
#[track_caller]
fn check_on(profile: Profile, name: &str, least: usize, equivalent: &[(&str, usize, &str)], operator: Operator) {
    let (texts, expected) = texts_of(name, profile, operator);
    let (mut tried, mut survivors) = (0, Vec::new());
    for text in texts {
        let entry = text.lines().find_map(|line| line.split_once(".entry ")).map_or("", |(_, entry)| entry);
        let entry = entry.trim_end_matches(['(', ')', ' ']).to_owned();
        for (number, mutant) in mutants(&text).into_iter().enumerate() {
            tried += 1;
            if !is_sampled(&entry, number) {
                continue;
            }
            let whole = text.clone();
            // The first time an operator may clear its workspace, and a launch behind that has
            // nothing to wait for.
            let times = if mutant.overlaps() { 2 } else { 1 };
            let Mutant { instruction, mutation, text: mutated } = mutant;
            let result = run(
                profile,
                operator,
                times,
                move |text| if text == whole { mutated.clone() } else { text.to_owned() },
            );
            let at = format!("{name}: {entry}, number {number}: {mutation:?} `{instruction}`");
            match result {
                Err(objection) => println!("{at}: {objection}"),
                Ok(results) if results != expected => println!("{at}: the results differ"),
                Ok(_) => match equivalent.iter().find(|(part, n, _)| entry.contains(part) && *n == number) {
                    Some((.., why)) => println!("{at}: not needed: {why}"),
                    None => survivors.push(at),
                },
            }
        }
    }
    println!("{name}: {tried} mutants");
    assert!(survivors.is_empty(), "{}", survivors.join("\n"));
    assert!(tried >= least, "{name} had more synchronisations than {tried}");
}

/// A tensor that a launch has written last, so that the next one has to wait for it.
fn launched<T: TensorElement>(device: &Device, elements: &[T], shape: &[usize]) -> Result<Tensor, Error> {
    let mut buffer = device.upload(elements)?;
    touch(&mut buffer)?;
    Tensor::from_buffer(&Queue::of(device), buffer, shape)
}

fn numbers(device: &Device, dtype: Dtype, shape: &[usize]) -> Result<Tensor, Error> {
    let value = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 20) as i32 % 97 - 48;
    let data: Vec<i32> = (0..shape.iter().product()).map(value).collect();
    launched(device, &data, shape)?.cast(dtype)
}

fn bytes_of(tensors: &[Tensor]) -> Result<Vec<u8>, Error> {
    let bytes: Vec<Vec<u8>> = tensors.iter().map(Tensor::to_bytes).collect::<Result<_, _>>()?;
    Ok(bytes.concat())
}

/// Runs an operator by its name over an axis.
fn named(name: &str, inputs: &[Tensor], axis: isize) -> Result<Vec<u8>, Error> {
    bytes_of(&by_name::run(name, inputs, &Options { axes: Some(vec![axis]), ..Options::default() })?)
}

#[test]
fn folds_of_rows_need_all_that_their_blocks_wait_for() {
    check("sum of one long row", 4, &[], |device| named("sum", &[numbers(device, Dtype::I32, &[70_001])?], 0));
    check("argmax of rows by a block each", 1, &[], |device| {
        named("argmax", &[numbers(device, Dtype::F32, &[3, 9000])?], 1)
    });
}

#[test]
fn folds_of_columns_need_all_that_their_blocks_wait_for() {
    check("sum of columns that blocks share", 5, &[], |device| {
        named("sum", &[numbers(device, Dtype::I32, &[3000, 40])?], 0)
    });
}

#[test]
fn digests_need_all_that_their_threads_wait_for() {
    let digest = |device: &Device| Ok(numbers(device, Dtype::F16, &[37, 640])?.digest()?.to_le_bytes().to_vec());
    check("digest of groups", 2, &[], digest);
    check("digest of elements", 2, &[], |device| {
        Ok(numbers(device, Dtype::F32, &[37, 61])?.t()?.digest()?.to_le_bytes().to_vec())
    });
}

#[test]
fn scans_need_all_that_their_blocks_wait_for() {
    check("scan of one long row", 3, &[], |device| named("cumsum", &[numbers(device, Dtype::I32, &[70_001])?], 0));
    check("scan of rows by a block each", 1, &[], |device| {
        named("cumsum", &[numbers(device, Dtype::I32, &[600, 5000])?], 1)
    });
    check("scan of columns that blocks share", 4, &[], |device| {
        named("cumsum", &[numbers(device, Dtype::I32, &[3000, 40])?], 0)
    });
}

#[test]
fn segments_of_every_size_need_all_that_their_blocks_wait_for() {
    check("sum of segments", 8, &[], |device| {
        let sizes = [3, 0, 700, 5000, 1, 70_000, 40, 2500, 3000, 66_000];
        let starts = sizes.iter().scan(0_i64, |start, size| {
            *start += size;
            Some(*start)
        });
        let offsets: Vec<i64> = std::iter::once(0).chain(starts).collect();
        let len = *offsets.last().expect("there are offsets") as usize;
        let offsets = Tensor::from_slice(&offsets, &[offsets.len()], device)?;
        let options = reductions::Options::default();
        bytes_of(&numbers(device, Dtype::I32, &[len])?.segment_reduce(reductions::Reduction::Sum, &offsets, options)?)
    });
}

#[test]
fn rows_on_chip_need_all_that_their_threads_wait_for() {
    check("softmax of a row in a block", 2, &[], |device| {
        named("softmax", &[numbers(device, Dtype::F32, &[5, 3002])?], 1)
    });
    check("softmax of a row in pieces", 6, &[], |device| {
        named("softmax", &[numbers(device, Dtype::F32, &[5, 3000])?], 1)
    });
    check("softmax of a row that threads store", 3, &[], |device| {
        named("softmax", &[numbers(device, Dtype::F32, &[2, 30_000])?], 1)
    });
    check("softmax of a row in pieces of a cluster", 7, &[], |device| {
        named("softmax", &[numbers(device, Dtype::F32, &[1, 300_000])?], 1)
    });
    let unseen = "the checker takes a barrier to be there for copies as soon as it is for its thread";
    check("softmax of an odd row in shared memory", 4, &[("in_shared", 0, unseen)], |device| {
        named("softmax", &[numbers(device, Dtype::F32, &[3, 17_001])?], 1)
    });
    check("layer norm of a row in a cluster", 2, &[], |device| {
        named("layer-norm", &[numbers(device, Dtype::F32, &[2, 60_000])?], 1)
    });
    check("softmax of a row in two launches", 4, &[], |device| {
        named("softmax", &[numbers(device, Dtype::F32, &[1, 300_001])?], 1)
    });
}

#[test]
fn products_and_counts_need_all_that_their_threads_wait_for() {
    check("matrix times vector, few long rows", 1, &[], |device| {
        let inputs = [numbers(device, Dtype::F32, &[3, 9000])?, numbers(device, Dtype::F32, &[9000])?];
        bytes_of(&by_name::run("gemv", &inputs, &Options::default())?)
    });
    check("vector times matrix", 2, &[], |device| {
        let inputs = [numbers(device, Dtype::F32, &[900, 33])?, numbers(device, Dtype::F32, &[900])?];
        bytes_of(&by_name::run("gemv", &inputs, &Options { transpose: Some(true), ..Options::default() })?)
    });
    let once = "columns that groups of threads share are one round, and nobody writes these sums again";
    check("softmax times values", 4, &[("softmax_v_f32_64", 4, once)], |device| {
        let inputs = [numbers(device, Dtype::F32, &[9, 130])?, numbers(device, Dtype::F32, &[130, 40])?];
        bytes_of(&by_name::run("softmax-v", &inputs, &Options::default())?)
    });
    check("histogram", 2, &[], |device| {
        let values = numbers(device, Dtype::U8, &[60_000])?;
        bytes_of(&by_name::run("histogram", &[values], &Options { bins: Some(90), ..Options::default() })?)
    });
}

#[test]
fn scatters_need_all_that_their_launches_wait_for() {
    let first = "the copy of what is added to is the first launch, and its input came from the host";
    check("scatter that adds", 5, &[("copy_u32_strips", 0, first)], |device| {
        let (x, source) = (numbers(device, Dtype::F32, &[7, 40])?, numbers(device, Dtype::F32, &[1500, 40])?);
        let indices: Vec<i64> = (0..1500).map(|i| i * 31 % 7).collect();
        let indices = launched(device, &indices, &[1500])?;
        bytes_of(&[x.index_add(&indices, &source, 0)?])
    });
}

fn attended(device: &Device, dtype: Dtype, queries: &[usize], keys: &[usize]) -> Result<Vec<u8>, Error> {
    let (q, k) = (numbers(device, dtype, queries)?, numbers(device, dtype, keys)?);
    bytes_of(&by_name::run("attention", &[q, k.clone(), k], &Options::default())?)
}

#[test]
fn attention_needs_all_that_its_threads_wait_for() {
    check("attention of a few tiles", 5, &[], |device| attended(device, Dtype::F32, &[1, 2, 40, 8], &[1, 1, 70, 8]));
    check("attention of keys that blocks share", 6, &[], |device| {
        attended(device, Dtype::F32, &[1, 1, 1, 8], &[1, 1, 2100, 8])
    });
    let (published, one) = ("the last ring's barriers are published for all", "a block has one item here");
    let early = "when a number is drawn changes no result";
    let injected = "ptxas wants it behind a branch; the fence before the scores' product orders the registers";
    let equivalent = |list: &[(usize, &'static str)]| {
        list.iter().map(|(number, why)| ("attention_wgmma", *number, *why)).collect::<Vec<_>>()
    };
    let by_tma =
        [(0, published), (1, published), (2, published), (4, early), (5, one), (7, one), (17, one), (28, injected)];
    let by_tma = equivalent(&[&by_tma[..], &[(34, one), (39, one), (41, one)]].concat());
    check("attention on tensor cores", 40, &by_tma, |device| {
        attended(device, Dtype::F16, &[1, 2, 80, 16], &[1, 1, 600, 16])
    });
    let covered = "those who copied the queries copied the first keys after them, which are waited for";
    let turn = "turns order time, not memory";
    let by_threads =
        [(0, published), (1, published), (2, published), (4, early), (5, one), (7, one), (8, covered), (21, one)];
    let more = [(22, covered), (24, turn), (30, turn), (34, injected), (40, one), (45, one), (47, one), (48, turn)];
    let by_threads = equivalent(&[&by_threads[..], &more].concat());
    check("attention on tensor cores by threads", 30, &by_threads, |device| {
        attended(device, Dtype::F16, &[1, 3, 30, 12], &[1, 1, 700, 12])
    });
    check("rotary embedding", 1, &[], |device| {
        let x = numbers(device, Dtype::F32, &[1, 2, 3, 8])?;
        let table = numbers(device, Dtype::F32, &[1, 3, 4])?;
        bytes_of(&by_name::run("rotary-embedding", &[x, table.clone(), table], &Options::default())?)
    });
    check("a write to a cache", 1, &[], |device| {
        let shape = CacheShape { pages: 1, page: 4, kv_heads: 1, head_dim: 8, value_dim: 8 };
        let mut cache = PagedCache::new(&Queue::of(device), Dtype::F32, shape, PageLayout::Nhd)?;
        let slots = Tensor::from_slice(&[2_i32, 0, 1, 3], &[4], device)?;
        let tokens = numbers(device, Dtype::F32, &[4, 1, 8])?;
        cache.write(NewTokens { keys: &tokens, values: &tokens, slots: &slots }, None)?;
        bytes_of(&[cache.keys().clone(), cache.values().clone()])
    });
}

/// The fence before a product of 8-bit floats that overwrites scores.
const UNSEEN: &str = "the checker does not object where a product of 8-bit floats overwrites scores";

#[test]
fn attention_with_products_of_8_bit_floats_needs_all_that_its_threads_wait_for() {
    let (published, one) = ("the last ring's barriers are published for all", "a block has one item here");
    let early = "when a number is drawn changes no result";
    let (turn, injected) = ("turns order time, not memory", "ptxas wants it behind a branch");
    let once = [(0, published), (1, published), (2, published), (4, early), (5, one), (7, one), (20, one), (23, turn)];
    let more = [(29, turn), (30, UNSEEN), (33, injected), (39, one), (44, one), (46, one), (47, turn)];
    let equivalent: Vec<_> = once.iter().chain(&more).map(|(number, why)| ("attention_wgmma", *number, *why)).collect();
    check("attention of 8-bit floats", 40, &equivalent, |device| {
        let options = Options { products: Some("f8e4m3".to_owned()), ..Options::default() };
        let (q, k) =
            (numbers(device, Dtype::F8E4M3, &[1, 2, 80, 16])?, numbers(device, Dtype::F8E4M3, &[1, 1, 600, 16])?);
        bytes_of(&by_name::run("attention", &[q, k.clone(), k], &options)?)
    });
}

#[test]
fn attention_whose_keys_blocks_share_needs_all_that_its_threads_wait_for() {
    let (published, one) = ("the last ring's barriers are published for all", "a block has one item here");
    let early = "when a number is drawn changes no result";
    let injected = "ptxas wants it behind a branch";
    let once =
        [(0, published), (1, published), (2, published), (4, early), (5, one), (7, one), (17, one), (28, injected)];
    let more = [(34, one), (39, one), (44, one)];
    let equivalent: Vec<_> = once.iter().chain(&more).map(|(number, why)| ("attention_wgmma", *number, *why)).collect();
    check("attention on tensor cores of keys that blocks share", 40, &equivalent, |device| {
        attended(device, Dtype::F16, &[1, 1, 1, 128], &[1, 1, 2100, 128])
    });
}

#[test]
fn attention_of_few_queries_over_8_bits_needs_all_that_its_threads_wait_for() {
    let (published, one) = ("the last ring's barriers are published for all", "a block has one item here");
    let early = "when a number is drawn changes no result";
    let covered = "those who multiply have a fence of their own before they read queries";
    let waits =
        [(0, published), (1, published), (2, published), (4, early), (5, one), (13, one), (14, one), (15, covered)];
    let more = [(18, one), (39, one), (42, one)];
    let equivalent: Vec<_> =
        waits.iter().chain(&more).map(|(number, why)| ("attention_swapped", *number, *why)).collect();
    check("attention of few queries over 8 bits", 30, &equivalent, |device| {
        let (q, k) = (numbers(device, Dtype::F16, &[1, 6, 1, 16])?, numbers(device, Dtype::F32, &[1, 2, 1200, 16])?);
        let k = k.mul(0.02)?.cast(Dtype::F8E4M3)?;
        bytes_of(&by_name::run("attention", &[q, k.clone(), k], &Options::default())?)
    });
}

/// Two queries of four heads over two segments of their keys, each of them a part, and the last
/// block of a head merges: what plans do not choose is chosen here. There are so few
/// multiprocessors that blocks have several parts, and a sequence without queries, for which there
/// is nothing to do. And two launches, as the tickets of the first are those of the second.
fn merged_by_the_last(device: &Device, dtype: Dtype, alignment: u64) -> Result<Vec<u8>, Error> {
    let (heads, dim, len) = (4_i64, 16_i64, 1060_i64);
    let [k_strides, v_strides] = [[heads * len * dim, len * dim, dim, 1]; 2];
    let queries = attention::Queries::Packed { batch: 2, total: 2, strides: [heads * dim, dim, 1] };
    let keys = attention::Keys::Padded { len: len as u64, k_strides, v_strides };
    let plain = attention::Problem::new(dtype, [heads as u64; 2], [dim as u64; 2], queries, keys);
    let products = (dtype == Dtype::F8E4M3).then_some(dtype);
    let problem = attention::Problem { lse: true, products, alignment, ..plain };
    let (target, kernels) = (device.target(), KernelCache::default());
    let limits = Limits { num_sms: 2, ..*device.limits() };
    let planner = Planner::new(&target, &limits, &kernels);
    let planned = attention::Attention.choose(&problem, &planner);
    let choice = attention::Choice { splits: 2, segments: 1, single_launch: true, ..planned };
    let plan = attention::Attention.plan_with(&problem, choice, &planner)?;
    assert_eq!(plan.steps.len(), 1, "there is no launch that merges");
    assert!(plan.steps[0].config.grid[0] < 8, "blocks have several parts");
    let [output, lse] = [0, 1].map(|i| plan.outputs[i].bytes as usize);
    let ready = plan.ready(device)?;
    let bytes = |shape: &[usize]| {
        let numbers = numbers(device, Dtype::F32, shape)?.mul(0.02)?.cast(dtype)?;
        Ok::<_, Error>(device.upload(&numbers.to_bytes()?)?)
    };
    let (q, mut k) = (bytes(&[2, 4, dim as usize])?, bytes(&[2, 4, len as usize, dim as usize])?);
    let (begins, lens) = (device.upload(&[0_i32, 2, 2])?, device.upload(&[len as i32, 9])?);
    let (mut output, mut lse) = (device.alloc::<u8>(output)?, device.alloc::<u8>(lse)?);
    let (mut workspace, mut results) = (Workspace::new(), Vec::new());
    for _ in 0..2 {
        touch(&mut k)?;
        let lists = [&begins, &lens].map(|list| Some(list.as_view().bytes()));
        let tensors = [&q, &k, &k].map(|tensor| Some(tensor.as_view()));
        let inputs: Vec<_> = tensors.into_iter().chain(lists).collect();
        let outputs = &mut [output.as_view_mut(), lse.as_view_mut()];
        ready.launch(&device.default_stream(), &inputs, outputs, &mut workspace)?;
        results.extend([output.download()?, lse.download()?].concat());
    }
    Ok(results)
}

/// The mutants of a kernel for WGMMA that change no result: those of the rings' barriers, that of
/// the wait before a draw, and that of the fence before the products with values, with this number.
fn repeated(before_values: usize) -> Vec<(&'static str, usize, &'static str)> {
    let published = "the last ring's barriers are published for all";
    let injected = "ptxas wants it behind a branch; the fence before the scores' product orders the registers";
    let early = "when a number is drawn changes no result";
    let fences = [(0, published), (1, published), (2, published), (4, early), (before_values, injected)];
    fences.map(|(number, why)| ("attention_wgmma", number, why)).to_vec()
}

#[test]
fn a_merge_by_the_last_block_needs_all_that_its_threads_wait_for() {
    check("attention, merged by the last block", 40, &repeated(28), |device| {
        merged_by_the_last(device, Dtype::F16, 16)
    });
}

#[test]
fn a_merge_by_the_last_block_behind_copies_by_threads_needs_all_that_its_threads_wait_for() {
    let covered = "those who copied the queries copied the first keys after them, which are waited for";
    let of_queries = [8, 22].map(|number| ("attention_wgmma", number, covered));
    check("attention by threads, merged by the last block", 40, &[&repeated(32)[..], &of_queries].concat(), |device| {
        merged_by_the_last(device, Dtype::F16, 2)
    });
}

#[test]
fn a_merge_by_the_last_block_of_8_bit_floats_needs_all_that_its_threads_wait_for() {
    let equivalent = [&repeated(31)[..], &[("attention_wgmma", 28, UNSEEN)]].concat();
    check("attention of 8-bit floats, merged by the last block", 40, &equivalent, |device| {
        merged_by_the_last(device, Dtype::F8E4M3, 16)
    });
}

#[test]
fn a_merge_by_the_last_block_without_wgmma_needs_all_that_its_threads_wait_for() {
    check_on(Profile::A100, "attention by mma.sync, merged by the last block", 10, &[], |device| {
        merged_by_the_last(device, Dtype::F16, 16)
    });
}

#[test]
fn attention_by_copies_in_the_background_needs_all_that_its_threads_wait_for() {
    let once = "a block draws one number, and nobody writes it again";
    check_on(Profile::A100, "attention by mma.sync", 8, &[("_ww_f16", 6, once)], |device| {
        attended(device, Dtype::F16, &[1, 2, 40, 16], &[1, 1, 150, 16])
    });
    check_on(Profile::A100, "attention by mma.sync, elements one by one", 4, &[("_nn_f16", 2, once)], |device| {
        attended(device, Dtype::F16, &[1, 2, 40, 9], &[1, 1, 150, 9])
    });
}

/// A draw from all tokens.
fn plain() -> Draw<'static> {
    Draw { seed: 7, temperature: 0.8, top_p: 1.0, repetition_penalty: 1.0, ..Draw::default() }
}

fn drawn(device: &Device, vocab: usize, draws: &[Draw<'_>]) -> Result<Vec<u8>, Error> {
    let (mut rows, mut words) = (DrawRows::default(), Vec::new());
    draws.iter().for_each(|draw| rows.push(draw));
    rows.words(&mut words);
    let words: Vec<i32> = words.into_iter().map(u32::cast_signed).collect();
    let records = launched(device, &words, &[words.len()])?;
    let logits = numbers(device, Dtype::F32, &[draws.len(), vocab])?;
    bytes_of(&[logits.sample(&rows, &records)?])
}

#[test]
fn draws_from_logits_need_all_that_their_threads_wait_for() {
    // More than a block's share of the logits, so that partial results are joined.
    check("draws", 3, &[], |device| drawn(device, 9000, &[plain(), Draw { temperature: 0.0, ..plain() }]));
    check("draws with likely tokens", 3, &[], |device| drawn(device, 5000, &[Draw { top: 3, ..plain() }]));
    check("draws from a part", 5, &[], |device| {
        let parts = [
            Draw { top_k: Some(40), top_p: 0.9, min_p: 0.01, ..plain() },
            Draw { top_k: Some(700), ..plain() },
            plain(),
        ];
        drawn(device, 5000, &parts)
    });
    // Each list begins in the middle of the one before, so that threads of other warps were there.
    let end = [("sample_edit", 4, "nothing follows the last list")];
    check("draws with edits", 4, &end, |device| {
        let ids = |first: u32| (first..first + 80).collect::<Vec<_>>();
        let (allowed, banned) = (ids(40), ids(160));
        let bias: Vec<_> = ids(80).into_iter().map(|id| (id, 2.0)).collect();
        let counts: Vec<_> = ids(120).into_iter().map(|id| (id, id % 3)).collect();
        let edited = Draw { bias: &bias, counts: &counts, frequency_penalty: 0.5, banned: &banned, ..plain() };
        let mask: Vec<u32> = (0..1000_u32.div_ceil(32)).map(|word| 0x5555_5555 << (word % 2)).collect();
        let listed = Draw { allowed: Some(&allowed), ..edited.clone() };
        drawn(device, 1000, &[edited.clone(), listed, Draw { mask: Some(&mask), ..edited }])
    });
}

#[test]
fn heads_need_all_that_their_threads_wait_for() {
    check("heads", 1, &[], |device| {
        let shape = CacheShape { pages: 2, page: 4, kv_heads: 2, head_dim: 64, value_dim: 64 };
        let mut cache = PagedCache::new(&Queue::of(device), Dtype::F16, shape, PageLayout::Nhd)?;
        let product = numbers(device, Dtype::F16, &[3, 8, 64])?;
        let slots = launched(device, &[2_i32, 0, 5], &[3])?;
        let positions = launched(device, &[2_i32, 0, 5], &[3])?;
        let [cos, sin] = [numbers(device, Dtype::F32, &[6, 32])?, numbers(device, Dtype::F32, &[6, 32])?];
        let scale = numbers(device, Dtype::F32, &[64])?;
        let norms = Some(([&scale, &scale], 1e-6));
        let queries = cache.write_heads(NewHeads {
            product: &product,
            slots: &slots,
            positions: &positions,
            angles: [&cos, &sin],
            norms,
        })?;
        // Slots that were not written hold nothing.
        let written = cache.keys().narrow(0, 0, 1)?.narrow(1, 2, 1)?;
        bytes_of(&[queries, written])
    });
}

#[test]
fn experts_need_all_that_their_threads_wait_for() {
    check("experts", 2, &[], |device| {
        let (tokens, experts, hidden, inner) = (5, 4, 32, 16);
        let part = |shape: &[usize]| numbers(device, Dtype::F32, shape)?.mul(1.0 / 64.0);
        let x = part(&[tokens, hidden])?;
        let (gate_up, down) = (part(&[experts, 2 * inner, hidden])?, part(&[experts, hidden, inner])?);
        let (gate_up, down) = (gate_up.into(), down.into());
        let experts_of = Experts { gate_up, down, chosen: 2, weights: ExpertWeights::Normalized, biases: None };
        // The logits come last: what the launch right before has written is what is waited for.
        let (residual, logits) = (part(&[tokens, hidden])?, part(&[tokens, experts])?);
        bytes_of(&[experts_of.run(&x, &logits, &residual)?])
    });
}

#[test]
fn packed_experts_need_all_that_their_threads_wait_for() {
    let equivalent = [
        ("experts_pack", 0, "the launch right before has written other matrices"),
        ("experts_grouped", 0, "fence.mbarrier_init: the block's own barrier orders its threads"),
    ];
    check("packed experts", 10, &equivalent, |device| {
        // Tiles of 128 rows have four stages, of five and six pieces along K.
        let (tokens, experts, hidden, inner) = (70, 1, 648, 528);
        let part = |shape: &[usize]| numbers(device, Dtype::Bf16, shape)?.mul(1.0 / 64.0);
        let (gate_up, down) = (part(&[experts, 2 * inner, hidden])?, part(&[experts, hidden, inner])?);
        let (gate_up, down) = (gate_up.into(), down.into());
        let experts_of = Experts { gate_up, down, chosen: 1, weights: ExpertWeights::Normalized, biases: None };
        let experts_of = experts_of.packed(Dtype::Bf16)?;
        let x = part(&[tokens, hidden])?;
        let (residual, logits) = (part(&[tokens, hidden])?, part(&[tokens, experts])?.cast(Dtype::F32)?);
        bytes_of(&[experts_of.run(&x, &logits, &residual)?])
    });
}

#[test]
fn boxes_are_suppressed_only_with_all_that_threads_wait_for() {
    check("non-maximum suppression", 5, &[], |device| {
        let value = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 16) as f32 / 6000.0;
        let corners = (0..700).flat_map(|i| {
            let (x, y) = (value(2 * i), value(2 * i + 1));
            [x, y, x + 1.5, y + 1.5]
        });
        let boxes = Tensor::from_slice(&corners.collect::<Vec<_>>(), &[700, 4], device)?;
        let scores = launched(device, &(0..700).map(value).collect::<Vec<_>>(), &[700])?;
        bytes_of(&by_name::run("nms", &[boxes, scores], &Options { threshold: Some(0.3), ..Options::default() })?)
    });
}

/// Takes rows by index. The tensor's operator, which looks for bad positions on the host, has no
/// launch right before it.
fn rows_by_index(device: &Device) -> Result<Vec<u8>, Error> {
    let (rows, row_bytes) = (9, 160);
    let (indices, mut bad) = (device.upload(&[3_i64, 0, 8, 3])?, device.upload(&[gather::Gather::NO_BAD_POSITION])?);
    let bytes: Vec<u8> = (0..rows * row_bytes).map(|i| (i % 251) as u8).collect();
    let (mut table, mut output) = (device.upload(&bytes)?, device.alloc::<u8>(4 * row_bytes as usize)?);
    touch(&mut table)?;
    let (indices_of, row_stride, alignment) = (Dtype::I64, row_bytes as i64, 16);
    let problem = gather::Problem { indices: indices_of, count: 4, rows, row_bytes, row_stride, alignment };
    let inputs = [Some(indices.as_view().bytes()), Some(table.as_view())];
    let outputs = &mut [output.as_view_mut(), bad.as_view_mut().bytes()];
    let ready = Gather.ready(device, &problem)?;
    ready.launch(&device.default_stream(), &inputs, outputs, &mut Workspace::new())?;
    Ok(output.download()?)
}

#[test]
fn rows_by_index_need_all_that_their_threads_wait_for() {
    check("rows by index", 1, &[], rows_by_index);
}

#[test]
fn tables_of_different_elements_need_all_that_their_threads_wait_for() {
    let cleared = ("unique", 0, "the tables are cleared before, which no launch overlaps");
    check("unique-count", 2, &[cleared], |device| named("unique-count", &[numbers(device, Dtype::F32, &[3, 500])?], 1));
}

#[test]
fn tiles_that_turn_need_all_that_their_threads_wait_for() {
    check("transpose", 1, &[], |device| {
        bytes_of(&[numbers(device, Dtype::F32, &[70, 90])?.permute(&[1, 0])?.copy()?])
    });
}

#[test]
fn sorted_rows_need_all_that_their_threads_wait_for() {
    check("sort of rows in a block", 55, &[], |device| bytes_of(&[numbers(device, Dtype::F32, &[1000])?.sort(0)?.1]));
}

#[test]
fn rows_sorted_by_digits_need_all_that_their_threads_wait_for() {
    // Few values, so that lanes meet in every step.
    check("sort of a long row", 36, &[], |device| {
        let x: Vec<u8> = (0..8300_u32).map(|i| (i * i % 11 * 20) as u8).collect();
        bytes_of(&[launched(device, &x, &[8300])?.sort(0)?.1])
    });
}

/// A product with weights of 4 bits, whose ring of stages goes round.
fn packed_product(device: &Device, rows: usize, outputs: usize) -> Result<Vec<u8>, Error> {
    let (scheme, columns) = (Scheme::symmetric(4, 8), 8192);
    let shape = PackedShape { rows: outputs as u64, columns: columns as u64 };
    let bytes = scheme.pack(shape, |row, number, piece| {
        piece.codes = std::array::from_fn(|i| ((row * 7 + number * 5 + i * 3) % 16) as u8);
        piece.scales = std::array::from_fn(|i| half::f16::from_f32((row + i) as f32 / 64.0 + 0.5).to_bits());
    });
    let weights = PackedWeights::new(&Queue::of(device), &bytes, scheme, [outputs, columns])?;
    let x = numbers(device, Dtype::Bf16, &[rows, columns])?;
    bytes_of(&[Matmul::new().weights().run_packed(&x, &weights)?])
}

#[test]
fn products_with_packed_weights_miss_what_is_taken_from_them() {
    let init = [("matmul_quantized", 0, "fence.mbarrier_init: the block's own barrier orders its threads")];
    check("a packed product", 5, &init, |device| packed_product(device, 8, 64));
    check("a packed product of whole blocks", 5, &init, |device| packed_product(device, 100, 64));
}
