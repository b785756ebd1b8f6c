//! The steps of a warp: what each instruction changed, and who stored a byte last.

use warpfold_sim::{Arch, AskedSteps, Launch, Memory, Options, Program, RecordedSteps};

/// Each warp stores its lanes' numbers to shared memory, those of even lanes doubled; after a
/// barrier each thread takes its word from the next warp.
const KERNEL: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry next(.param .u64 out)
{
    .shared .align 4 .b8 tile[256];
    .reg .pred %p<2>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    and.b32 %r3, %r1, 1;
    setp.eq.u32 %p1, %r3, 0;
    @!%p1 bra ODD;
    add.u32 %r1, %r1, %r1;
ODD:
    mov.u32 %r4, %tid.x;
    mov.u32 %r5, tile;
    mad.lo.u32 %r6, %r4, 4, %r5;
    st.shared.u32 [%r6], %r1;
    bar.sync 0;
    xor.b32 %r7, %r4, 32;
    mad.lo.u32 %r6, %r7, 4, %r5;
    ld.shared.u32 %r8, [%r6];
    mad.lo.u32 %r3, %r2, 64, %r4;
    mul.wide.u32 %rd2, %r3, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r8;
    ret;
}
";

/// The steps of warp 1 of block 2, with who stored element 130, by its address.
fn stepped(most: usize) -> (RecordedSteps, u64) {
    let memory = Memory::new(1 << 20);
    let out = memory.allocate(4 * 192, "out").unwrap();
    let program = Program::load(&memory, KERNEL, Arch::SM_90A).unwrap();
    let launch = Launch {
        kernel: "next".to_owned(),
        grid: [3, 1, 1],
        block: [64, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        params: out.to_le_bytes().to_vec(),
        cooperative: false,
        programmatic: false,
    };
    let element = out + 4 * 130;
    let asked = AskedSteps { block: 2, warp: 1, most, watched: vec![out..out + 4, element..element + 4] };
    let report = program.launch(&memory, &launch, &Options { steps: Some(asked), ..Options::default() }).unwrap();
    assert!(program.launch(&memory, &launch, &Options::default()).unwrap().steps.is_none());
    (report.steps.unwrap(), element)
}

#[test]
fn each_step_has_its_lanes_what_it_wrote_and_what_it_accessed() {
    let (steps, _) = stepped(100);
    let name = |register: u32| steps.registers[register as usize].name.as_str();
    let find = |text: &str| steps.list.iter().find(|step| step.text.starts_with(text)).expect(text);
    assert_eq!((steps.block, steps.warp), ([2, 0, 0], 1));
    // Even lanes go on, odd ones take the branch.
    let branch = find("@!%p1 bra");
    assert_eq!((branch.mask, branch.active, branch.is_open), (u32::MAX, 0xaaaa_aaaa, true));
    let add = find("add.u32");
    assert_eq!((add.mask, add.written.len(), name(add.written[0].register)), (0x5555_5555, 1, "%r1"));
    let doubled: [u128; 32] = std::array::from_fn(|lane| (32 + lane as u128) * if lane % 2 == 0 { 2 } else { 1 });
    assert_eq!(add.written[0].values, doubled);
    // The lanes are together again at the store; words 32 to 63 are its own.
    let store = find("st.shared");
    assert_eq!((store.mask, store.accesses.len()), (u32::MAX, 1));
    let words: Vec<_> = (0..32).map(|lane| (32 + lane, doubled[lane as usize] as u32)).collect();
    let (first, rest): (Vec<_>, Vec<_>) = store.shared.iter().copied().partition(|(word, _)| *word >= 32);
    assert_eq!(first, words);
    assert!(rest.is_empty(), "{rest:?}");
    // What warp 0 stored is known, and that it came before the load.
    let [other] = &steps.stores[..] else { panic!("{:?}", steps.stores) };
    let load = steps.list.iter().position(|step| step.text.starts_with("ld.shared")).expect("a load");
    assert!((other.access.warp, other.access.bytes) == (0, 4) && other.before as usize <= load, "{other:?}");
    let loaded = steps.list[load].written[0].values;
    assert_eq!(loaded[..3], [0, 1, 4]);
    assert_eq!(steps.num_steps, steps.list.len() as u64);
}

#[test]
fn an_element_leads_to_the_store_that_made_it() {
    let (steps, element) = stepped(100);
    let of = |address: u64| *steps.writers.iter().find(|writer| writer.address == address).expect("it was stored");
    // Element 130 is thread 2 of block 2: of another warp, so no step; no warp 1 stored element 0.
    let writer = of(element);
    assert_eq!((writer.block, writer.warp, writer.lane, writer.step), (2, 0, 2, None));
    let first = steps.writers[0];
    assert_eq!((first.block, first.warp, first.lane), (0, 0, 0));
    assert_eq!(steps.writers.len(), 8, "bytes that are watched");
}

#[test]
fn steps_end_where_they_are_bounded() {
    let (steps, _) = stepped(3);
    assert_eq!(steps.list.len(), 3);
    assert!(steps.num_steps > 15, "{}", steps.num_steps);
}

/// 4,096 bytes of each block come by a bulk copy, grow by one and go by another.
const BULK: &str = include_str!("../../../../fixtures/nvcc/hopper.sm_90a.ptx");

#[test]
fn a_bulk_copy_stores_for_the_step_that_issued_it() {
    let memory = Memory::new(1 << 20);
    let [from, to] = ["x", "y"].map(|name| memory.allocate(2 * 4096, name).unwrap());
    for address in (from..from + 2 * 4096).step_by(4) {
        memory.write(address, &(address as u32).to_le_bytes()).unwrap();
    }
    let program = Program::load(&memory, BULK, Arch::SM_90A).unwrap();
    let launch = Launch {
        kernel: "bulk_copy".to_owned(),
        grid: [2, 1, 1],
        block: [128, 1, 1],
        cluster: [1, 1, 1],
        dynamic_shared: 0,
        params: [from, to].iter().flat_map(|address| address.to_le_bytes()).collect(),
        cooperative: false,
        programmatic: false,
    };
    // Byte 1 of element 476 of block 1, stepped by the warp that copies and by another.
    let byte = to + 4096 + 4 * 476 + 1;
    for warp in [0, 2] {
        let asked = AskedSteps { block: 1, warp, most: 2000, watched: std::iter::once(byte..byte + 1).collect() };
        let report = program.launch(&memory, &launch, &Options { steps: Some(asked), ..Options::default() }).unwrap();
        let steps = report.steps.unwrap();
        let [writer] = steps.writers[..] else { panic!("{:?}", steps.writers) };
        assert_eq!((writer.block, writer.warp, writer.lane), (1, 0, 0));
        let step = writer.step.map(|step| &steps.list[step as usize]);
        assert_eq!(step.is_some_and(|step| step.text.starts_with("cp.async.bulk.global")), warp == 0);
        // The copy into shared memory comes before the stores to the tile, with its step.
        let copy = steps.stores.iter().find(|store| store.access.bytes == 4096).expect("the copy");
        let tile = copy.access.addresses[0] as u32 % (1 << 24);
        assert_eq!((copy.access.warp, copy.access.mask, writer.from), (0, 1, Some(tile + 4 * 476 + 1)));
        let issued = copy.step.map(|step| &steps.list[step as usize]);
        assert_eq!(issued.is_some_and(|step| step.text.starts_with("cp.async.bulk.shared")), warp == 0);
        let store = steps.list.iter().position(|step| step.text.starts_with("st.shared")).expect("a store");
        assert!(copy.before as usize <= store, "{copy:?}");
    }
}

#[test]
fn a_register_of_128_bits_is_seen_whole() {
    let kernel = "
.version 8.3
.target sm_90
.address_size 64
.visible .entry wide()
{
    .reg .b64 %rd<3>;
    .reg .b128 %q;
    mov.u64 %rd1, 5;
    mov.u64 %rd2, 7;
    mov.b128 %q, {%rd1, %rd2};
    ret;
}
";
    let memory = Memory::new(1 << 20);
    let program = Program::load(&memory, kernel, Arch::SM_90A).unwrap();
    let launch = Launch {
        kernel: "wide".to_owned(),
        grid: [1; 3],
        block: [32, 1, 1],
        cluster: [1; 3],
        dynamic_shared: 0,
        params: Vec::new(),
        cooperative: false,
        programmatic: false,
    };
    let asked = AskedSteps { block: 0, warp: 0, most: 9, watched: Vec::new() };
    let report = program.launch(&memory, &launch, &Options { steps: Some(asked), ..Options::default() }).unwrap();
    let steps = report.steps.unwrap();
    assert_eq!(steps.list.last().expect("a step").written[0].values, [7 << 64 | 5; 32]);
}
