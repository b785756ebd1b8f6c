//! Maps of tensors of any layout: planned, launched, checked, and compared with a plain loop.

mod turns;

use warpfold_device::{Checks, Counters, Device, Profile, View, ViewMut};
use warpfold_kernels::elements::{Run, Sink, Source};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::map;
use warpfold_kernels::map::{Algorithm, Choice, Map, Weight};
use warpfold_kernels::plan::{Family, PlanCache, TensorSpec, Workspace};
use warpfold_kernels::{Dtype, ErrorKind};
use warpfold_lang::Val;

fn layout(shape: &[usize], strides: &[isize]) -> Layout {
    Layout::new(shape.to_vec(), strides.to_vec()).unwrap()
}

fn contiguous(shape: &[usize]) -> Layout {
    Layout::contiguous(shape).unwrap()
}

/// A tensor in a memory of its own: where its first element is, and how the others lie.
#[derive(Debug, Clone)]
struct Placed {
    layout: Layout,
    first: usize,
}

impl Placed {
    /// As many elements before the tensor as it reaches back, and `gap` more.
    fn new(layout: Layout, gap: usize) -> Self {
        let back: isize = (layout.shape().iter().zip(layout.strides()))
            .map(|(size, stride)| (size.saturating_sub(1) as isize * stride).min(0))
            .sum();
        Self { layout, first: gap + back.unsigned_abs() }
    }

    /// The positions of the elements in memory, in C order of the layout repeated to `shape`.
    fn places(&self, shape: &[usize]) -> Vec<usize> {
        let layout = self.layout.broadcast(shape).unwrap();
        let mut all = vec![self.first as isize];
        for (size, stride) in layout.shape().iter().zip(layout.strides()) {
            all = all.iter().flat_map(|from| (0..*size as isize).map(move |i| from + i * stride)).collect();
        }
        all.into_iter().map(|place| place as usize).collect()
    }

    fn memory_len(&self) -> usize {
        self.places(self.layout.shape()).into_iter().max().unwrap_or(self.first) + 3
    }
}

const POISON: u32 = 0xdead_beef;

fn scattered(i: usize) -> u32 {
    (i as u32).wrapping_mul(2_654_435_761) >> 3
}

/// The virtual GPU with all checks, or the device that the environment names.
fn device() -> Device {
    if std::env::var_os("WARPFOLD_DEVICE").is_some() {
        return Device::from_env().expect("the device that WARPFOLD_DEVICE names is there");
    }
    let device = Device::virtual_gpu(Profile::H200);
    device.configure(|options| options.checks = Checks::All).unwrap();
    device
}

/// Chooses and plans a map of tensors at these addresses: the inputs, then the outputs.
fn problem(map: &Map, inputs: &[&Layout], outputs: &[&Layout], addresses: &[u64]) -> map::Problem {
    let spec =
        |((dtype, layout), address): ((&Dtype, &&Layout), &u64)| TensorSpec::new(*dtype, (*layout).clone(), *address);
    let (of_inputs, of_outputs) = addresses.split_at(inputs.len());
    let specs = |dtypes: &[Dtype], layouts: &[&Layout], addresses: &[u64]| {
        dtypes.iter().zip(layouts).zip(addresses).map(spec).collect()
    };
    map.problem(specs(map.inputs(), inputs, of_inputs), specs(map.outputs(), outputs, of_outputs))
}

/// Plans and launches a map.
fn launch(
    device: &Device,
    map: &Map,
    problem: &map::Problem,
    inputs: &[Option<View<'_, u8>>],
    outputs: &mut [ViewMut<'_, u8>],
) {
    let ready = map.ready(device, problem).unwrap();
    ready.launch(&device.default_stream(), inputs, outputs, &mut Workspace::new()).unwrap();
}

struct Bench {
    device: Device,
    plans: PlanCache,
    copy: Map,
    three: Map,
}

impl Bench {
    fn new() -> Self {
        let device = device();
        let input = || Source::one::<u32>(Dtype::U32);
        let copy = Map::new("copy", input(), Sink::one::<u32>(Dtype::U32));
        let mixed = input().zip(input()).zip(input()).map(|((x, y), z)| x.mul_add(y, z ^ 5_u32));
        let three = Map::new("three", mixed, Sink::one::<u32>(Dtype::U32));
        Self { device, plans: PlanCache::default(), copy, three }
    }

    /// Runs a map of `u32`, compares every word of the output's memory, and gives the plan and what
    /// was counted.
    #[track_caller]
    fn check(
        &self,
        map: &Map,
        inputs: &[Placed],
        output: &Placed,
        function: impl Fn(&[u32]) -> u32,
    ) -> (Choice, Counters) {
        let shape = output.layout.shape();
        let memories: Vec<Vec<u32>> = inputs
            .iter()
            .enumerate()
            .map(|(k, t)| (0..t.memory_len()).map(|i| scattered(i * 7 + k)).collect())
            .collect();
        let places: Vec<Vec<usize>> = inputs.iter().map(|input| input.places(shape)).collect();
        let mut expected = vec![POISON; output.memory_len()];
        for (i, place) in output.places(shape).into_iter().enumerate() {
            let items: Vec<u32> = memories.iter().zip(&places).map(|(memory, places)| memory[places[i]]).collect();
            expected[place] = function(&items);
        }
        let buffers: Vec<_> = memories.iter().map(|memory| self.device.upload(memory).unwrap()).collect();
        let mut written = self.device.upload(&vec![POISON; output.memory_len()]).unwrap();
        let views: Vec<_> =
            buffers.iter().zip(inputs).map(|(buffer, t)| buffer.view(t.first..).unwrap().bytes()).collect();
        let result = written.view_mut(output.first..).unwrap().bytes();
        let addresses: Vec<u64> = views.iter().map(|view| view.address()).chain([result.address()]).collect();
        let layouts: Vec<&Layout> = inputs.iter().map(|input| &input.layout).collect();
        let problem = problem(map, &layouts, &[&output.layout], &addresses);
        let plan = problem.choose().unwrap();
        let views: Vec<_> = views.into_iter().map(Some).collect();
        let ready = self.plans.get(&self.device, map, problem).unwrap();
        ready
            .launch(&self.device.default_stream(), &views, &mut [result], &mut Workspace::new())
            .unwrap_or_else(|e| panic!("{e}: {plan:?}"));
        let counters = self.clean_reports(&plan);
        let got = written.download().unwrap();
        let differ = got.iter().zip(&expected).position(|(got, expected)| got != expected);
        assert_eq!(differ, None, "{inputs:?} -> {output:?} by {plan:?}: {got:?}, expected {expected:?}");
        (plan, counters)
    }

    #[track_caller]
    fn clean_reports(&self, plan: &Choice) -> Counters {
        let reports = self.device.take_reports();
        for report in &reports {
            assert!(report.report.findings.is_empty(), "{plan:?}: {:?}", report.report.findings);
        }
        reports.iter().fold(Counters::default(), |sum, report| sum + report.report.counters)
    }

    #[track_caller]
    fn copies(&self, input: &Placed, output: &Placed) -> (Choice, Counters) {
        self.check(&self.copy, std::slice::from_ref(input), output, |x| x[0])
    }

    #[track_caller]
    fn maps_three(&self, inputs: &[Placed; 3], output: &Placed) -> (Choice, Counters) {
        self.check(&self.three, inputs, output, |x| x[0].wrapping_mul(x[1]).wrapping_add(x[2] ^ 5))
    }
}

const SIZES: [usize; 16] = [0, 1, 2, 3, 4, 5, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 4099];

#[test]
fn runs_of_every_length_and_alignment_are_copied() {
    let bench = Bench::new();
    for size in SIZES {
        for (from, to) in [(0, 0), (1, 0), (0, 1), (1, 1), (2, 2), (4, 4)] {
            let place = |gap| Placed::new(contiguous(&[size]), gap);
            let (plan, _) = bench.copies(&place(from), &place(to));
            assert_eq!(plan.launch.is_none(), size == 0);
            let Algorithm::Strips(strips) = plan.algorithm else { panic!("{plan:?}") };
            let aligned = [4, 2].into_iter().find(|vector| (from | to) % *vector as usize == 0).unwrap_or(1);
            assert_eq!(strips.vector, if size == 1 { 1 } else { aligned }, "{size} {from} {to}");
        }
    }
}

#[test]
fn layouts_of_any_kind_are_walked() {
    let bench = Bench::new();
    let shapes = [
        layout(&[20, 30], &[60, 2]),
        layout(&[20, 30], &[30, 1]),
        layout(&[20, 30], &[32, 1]),
        layout(&[20, 30], &[1, 20]),
        layout(&[20, 30], &[-30, -1]),
        layout(&[20, 30], &[-1, 20]),
        layout(&[20, 30], &[35, -1]),
    ];
    for input in &shapes {
        for output in &shapes {
            for gap in [0, 1, 4] {
                bench.copies(&Placed::new(input.clone(), gap), &Placed::new(output.clone(), 4 - gap));
            }
        }
    }
    let scalar = contiguous(&[]);
    bench.copies(&Placed::new(scalar.clone(), 1), &Placed::new(scalar, 0));
    let deep = [2, 3, 1, 2, 3, 2, 1, 4];
    let turned = layout(&deep, &[1, 2, 1, 6, 12, 36, 0, 72]);
    bench.copies(&Placed::new(turned.clone(), 0), &Placed::new(contiguous(&deep), 0));
    bench.copies(&Placed::new(contiguous(&deep), 0), &Placed::new(turned, 0));
}

#[test]
fn three_inputs_broadcast_to_the_output() {
    let bench = Bench::new();
    for (a, b, c, shape) in [
        (&[6, 8][..], &[8][..], &[6, 1][..], &[6, 8][..]),
        (&[6, 7], &[7], &[6, 1], &[6, 7]),
        (&[1], &[], &[5, 64], &[5, 64]),
        (&[3, 1, 20], &[4, 1], &[20], &[3, 4, 20]),
        (&[1], &[1], &[1], &[300]),
        (&[40, 50], &[1, 50], &[40, 1], &[2, 40, 50]),
    ] {
        for gap in [0, 1] {
            let place = |shape: &[usize]| Placed::new(contiguous(shape), gap);
            bench.maps_three(&[place(a), place(b), place(c)], &Placed::new(contiguous(shape), 0));
        }
    }
    let reversed = Placed::new(layout(&[300], &[-1]), 0);
    let plain = Placed::new(contiguous(&[300]), 0);
    bench.maps_three(&[reversed.clone(), plain.clone(), reversed], &plain);
}

#[test]
fn a_run_is_read_and_written_once_by_accesses_of_16_bytes() {
    let device = Device::virtual_gpu(Profile::H200);
    for dtype in [Dtype::U8, Dtype::Bf16, Dtype::F32, Dtype::F64] {
        let map = Map::new("negate", Source::one::<f64>(dtype).map(|x| -x), Sink::one::<f64>(dtype));
        let bytes = 1 << 22;
        let len = bytes / dtype.bytes() as usize;
        let input = device.upload(&vec![0_u8; bytes]).unwrap();
        let mut output = device.alloc::<u8>(bytes).unwrap();
        for count in [len, len / 64, len / 64 - 1] {
            let run = contiguous(&[count]);
            let problem = problem(&map, &[&run], &[&run], &[input.address(), output.address()]);
            let plan = problem.choose().unwrap();
            launch(&device, &map, &problem, &[Some(input.as_view())], &mut [output.as_view_mut()]);
            let counters = device.take_reports()[0].report.counters;
            let sectors = (count * dtype.bytes() as usize).div_ceil(32) as u64;
            if count % 64 == 0 {
                assert_eq!(
                    (counters.global_load_sectors, counters.global_store_sectors),
                    (sectors, sectors),
                    "{plan:?}"
                );
                assert_eq!(counters.global_load_requests, sectors / 16, "{dtype}: 512 bytes a request");
            } else {
                let few = sectors..sectors + 64;
                assert!(few.contains(&counters.global_load_sectors), "{dtype}: {}", counters.global_load_sectors);
            }
        }
    }
}

#[test]
fn long_maps_have_16_bytes_an_input_under_way_in_each_thread_however_they_lie() {
    for dtype in [Dtype::U8, Dtype::F16, Dtype::F32, Dtype::F64] {
        let one = || Source::one::<f64>(dtype);
        let (run, sink) = (contiguous(&[1 << 26]), || Sink::one::<f64>(dtype));
        let (copy, add) =
            (Map::new("copy", one(), sink()), Map::new("add", one().zip(one()).map(|(x, y)| x + y), sink()));
        for shift in [0, dtype.bytes(), 2 * dtype.bytes()] {
            let plan = problem(&copy, &[&run], &[&run], &[shift, 0]).choose().unwrap();
            assert_eq!(plan.bytes_in_flight_a_thread(&[dtype]), 16, "{plan:?}");
            let plan = problem(&add, &[&run; 2], &[&run], &[0, shift, 0]).choose().unwrap();
            assert_eq!(plan.bytes_in_flight_a_thread(&[dtype; 2]), 32, "{plan:?}");
        }
    }
}

#[test]
fn several_units_a_thread_are_mapped_to_the_end() {
    let bench = Bench::new();
    for (size, gap) in [(256 * 4 * 512, 1), (256 * 4 * 512 + 3, 1), (256 * 4 * 512 + 1025, 1), (256 * 4 * 512 + 257, 2)]
    {
        let run = Placed::new(contiguous(&[size]), gap);
        let (plan, _) = bench.copies(&run, &run);
        let Algorithm::Strips(strips) = &plan.algorithm else { panic!("{plan:?}") };
        assert_eq!(strips.unroll, 4 / gap as u32, "{plan:?}");
    }
    let rows = Placed::new(contiguous(&[1030, 1023]), 0);
    let row = Placed::new(contiguous(&[1023]), 0);
    bench.maps_three(&[rows.clone(), row.clone(), row], &rows);
}

#[test]
fn positions_beyond_31_bits_take_another_path_to_the_same_place() {
    // Strides so long that offsets need 64 bits: the memory between is never touched.
    let device = device();
    let copy = Map::new("copy", Source::one::<u32>(Dtype::U8), Sink::one::<u32>(Dtype::U8));
    let bytes = 3_usize << 30;
    let far = layout(&[2, 5], &[(bytes - 8) as isize, 1]);
    let mut input = device.alloc::<u8>(bytes).unwrap();
    for (at, value) in [(0, 1), (bytes - 8, 6)] {
        let row: Vec<u8> = (value..value + 5).collect();
        device.default_stream().copy_from_host(input.view_mut(at..at + 5).unwrap(), &row).unwrap();
    }
    let mut output = device.alloc::<u8>(10).unwrap();
    let problem = problem(&copy, &[&far], &[&contiguous(&[2, 5])], &[input.address(), output.address()]);
    let plan = problem.choose().unwrap();
    assert!(matches!(&plan.algorithm, Algorithm::Strips(strips) if !strips.small), "{plan:?}");
    launch(&device, &copy, &problem, &[Some(input.as_view())], &mut [output.as_view_mut()]);
    assert_eq!(output.download().unwrap(), (1..=10).collect::<Vec<u8>>());
}

#[test]
fn an_output_may_take_the_place_of_an_input() {
    let bench = Bench::new();
    let two = Source::one::<u32>(Dtype::U32).zip(Source::one::<u32>(Dtype::U32));
    let map = Map::new("combine", two.map(|(x, y)| x * 3 + y), Sink::one::<u32>(Dtype::U32));
    let cases = [
        (contiguous(&[5000]), 0),
        (contiguous(&[5000]), 1),
        (layout(&[50, 60], &[1, 50]), 0),
        (layout(&[50, 60], &[-64, 1]), 0),
        (contiguous(&[256 * 4 * 512 + 3]), 1),
    ];
    for (layout, gap) in cases {
        let place = Placed::new(layout, gap);
        let shape = place.layout.shape();
        let memory: Vec<u32> = (0..place.memory_len()).map(scattered).collect();
        let other = Placed::new(contiguous(shape), 0);
        let more: Vec<u32> = (0..other.memory_len()).map(|i| scattered(i + 99)).collect();
        let mut expected = memory.clone();
        for (at, from) in place.places(shape).into_iter().zip(other.places(shape)) {
            expected[at] = memory[at].wrapping_mul(3).wrapping_add(more[from]);
        }
        let (mut data, more) = (bench.device.upload(&memory).unwrap(), bench.device.upload(&more).unwrap());
        let result = data.view_mut(place.first..).unwrap().bytes();
        let addresses = [result.address(), more.address(), result.address()];
        let problem = problem(&map, &[&place.layout, &other.layout], &[&place.layout], &addresses).in_place();
        let plan = problem.choose().unwrap();
        launch(&bench.device, &map, &problem, &[None, Some(more.as_view().bytes())], &mut [result]);
        bench.clean_reports(&plan);
        assert!(data.download().unwrap() == expected, "{plan:?}");
    }
}

#[test]
fn two_outputs_of_any_layouts_are_written() {
    let bench = Bench::new();
    let source = Source::one::<f32>(Dtype::F32).map(|x| (x.floor(), x - x.floor()));
    let map = Map::new("split", source, Sink::one::<f32>(Dtype::I16).zip(Sink::one::<f32>(Dtype::F64)));
    let input: Vec<f32> = (0..40 * 30).map(|i| i as f32 / 8.0 - 50.0).collect();
    let x = bench.device.upload(&input).unwrap();
    let (mut whole, mut part) = (bench.device.alloc::<i16>(1200).unwrap(), bench.device.alloc::<f64>(1200).unwrap());
    let (plain, turned) = (contiguous(&[40, 30]), layout(&[40, 30], &[1, 40]));
    for (first, second) in [(&plain, &plain), (&plain, &turned), (&turned, &plain), (&turned, &turned)] {
        let addresses = [x.address(), whole.address(), part.address()];
        let problem = problem(&map, &[&plain], &[first, second], &addresses);
        let plan = problem.choose().unwrap();
        let outputs = &mut [whole.as_view_mut().bytes(), part.as_view_mut().bytes()];
        launch(&bench.device, &map, &problem, &[Some(x.as_view().bytes())], outputs);
        bench.clean_reports(&plan);
        let (got_whole, got_part) = (whole.download().unwrap(), part.download().unwrap());
        for (i, x) in input.iter().enumerate() {
            let at = |layout: &Layout| {
                let strides = layout.strides();
                (i / 30) * strides[0] as usize + (i % 30) * strides[1] as usize
            };
            assert_eq!(got_whole[at(first)], x.floor() as i16, "{plan:?}");
            assert_eq!(got_part[at(second)], f64::from(x - x.floor()), "{plan:?}");
        }
    }
}

#[test]
fn a_launch_hands_numbers_to_a_map_and_a_map_may_have_no_input() {
    let bench = Bench::new();
    let fill = Map::with_scalars(
        "fill",
        Source::nothing(),
        |(), scalars| scalars.get::<u32>(0) + scalars.get::<u32>(1),
        Sink::one::<u32>(Dtype::U32),
    );
    for output in [contiguous(&[1000]), layout(&[7, 9], &[1, 7]), layout(&[7, 9], &[18, -2])] {
        for numbers in [[1, 2], [40, 7]] {
            let fill = fill.clone().scalars(numbers);
            bench.check(&fill, &[], &Placed::new(output.clone(), 1), |_| (numbers[0] + numbers[1]) as u32);
        }
    }
}

#[test]
fn an_output_that_repeats_and_shapes_that_do_not_fit_are_refused() {
    let bench = Bench::new();
    let (four, repeated) = (contiguous(&[4]), layout(&[3, 4], &[0, 1]));
    let error = problem(&bench.copy, &[&four], &[&repeated], &[0; 2]).choose().unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::OverlappingOutput { shape: vec![3, 4], strides: vec![0, 1] });
    let error = problem(&bench.copy, &[&contiguous(&[3])], &[&four], &[0; 2]).choose().unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::ShapeMismatch { left: vec![3], right: vec![4] });
    let error = problem(&bench.copy, &[&contiguous(&[2, 4])], &[&four], &[0; 2]).choose().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ShapeMismatch { .. }), "{error}");
}

#[test]
#[should_panic(expected = "a map gives one element an output, no lists")]
fn a_map_to_lists_is_refused() {
    let pairs = Source::one::<f32>(Dtype::F32).map(|x| [x, x]);
    drop(Map::new("pairs", pairs, Sink::<[Val<f32>; 2]>::list(Dtype::F32, 2)));
}

#[test]
fn a_heavy_map_takes_eight_elements_a_thread_and_plans_are_values() {
    let source = || Source::one::<f32>(Dtype::F16).map(|x| x.exp());
    let run = contiguous(&[1 << 24]);
    let heavy = Map::new("exp", source(), Sink::one::<f32>(Dtype::F16)).weight(Weight::Heavy);
    let choose = |map: &Map, addresses: [u64; 2]| problem(map, &[&run], &[&run], &addresses).choose().unwrap();
    let plan = choose(&heavy, [512, 1024]);
    let Algorithm::Strips(strips) = &plan.algorithm else { panic!("{plan:?}") };
    assert_eq!((strips.vector, strips.unroll, strips.runs[0]), (8, 1, Run::Wide));
    let bytes = Map::new("exp", Source::one::<f32>(Dtype::F8E5M2).map(|x| x.exp()), Sink::one::<f32>(Dtype::F8E5M2));
    let vector = |map: &Map| match choose(map, [512, 1024]).algorithm {
        Algorithm::Strips(strips) => strips.vector,
        Algorithm::Tiles(tiles) => panic!("{tiles:?}"),
    };
    assert_eq!((vector(&bytes), vector(&bytes.clone().weight(Weight::Heavy))), (16, 8));
    assert_eq!(plan, choose(&heavy.clone(), [4096, 8192]));
    assert_ne!(plan, choose(&heavy, [4098, 8192]));
}
