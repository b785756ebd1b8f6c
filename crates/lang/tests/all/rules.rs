//! The rules of the language: what is folded, what is an error when the kernel is built, what a
//! kernel may depend on.

use std::cell::Cell;

use warpfold_lang::{
    Arch, Cache, Error, ErrorKind, F8E4M3, F16x2, Global, Kernel, Lanes, NamedBarrier, Order, Params, Scope, Slot,
    Swizzle, Target, TensorMap, Val, block_dim, dynamic_shared, exit, kernel, lane_id, launch_dependents, print, range,
    shared, shared_named, shfl_down, target, thread_idx, tiles, var, wait_for_dependencies, warp_id, when,
};
use warpfold_ptx::{Opcode, ScalarType};

const SM_80: Target = Target::new(Arch::SM_80, (7, 0));
const SM_90A: Target = Target::new(Arch::SM_90A, (8, 0));

/// The text of a kernel with this body.
#[track_caller]
fn text(body: impl Fn(Global<u32>, Val<u32>) + Send + Sync + 'static) -> String {
    build(body, &SM_80).unwrap_or_else(|error| panic!("{error}"))
}

fn build(body: impl Fn(Global<u32>, Val<u32>) + Send + Sync + 'static, target: &Target) -> Result<String, Error> {
    kernel("body", move |data: Global<u32>, x: Val<u32>| body(data, x)).ptx(target)
}

/// The instructions of a kernel with this body, without parameters and the final `ret`.
#[track_caller]
fn instructions(body: impl Fn(Global<u32>, Val<u32>) + Send + Sync + 'static) -> Vec<String> {
    let text = text(body);
    let lines = text.lines().map(str::trim).filter(|line| line.ends_with(';'));
    lines
        .filter(|line| !line.starts_with(".reg") && !line.contains("ld.param") && *line != "ret;")
        .map(str::to_owned)
        .collect()
}

#[track_caller]
fn check_error(body: impl Fn(Global<u32>, Val<u32>) + Send + Sync + 'static, expected: &str) {
    let error = build(body, &SM_80).expect_err("the kernel breaks a rule");
    let text = error.to_string();
    let (place, rest) = text.split_once(": ").expect("a line comes first");
    assert_eq!(rest, format!("kernel 'body': {expected}"));
    assert!(place.rsplit_once(':').is_some_and(|(file, _)| file.ends_with("tests/all/rules.rs")), "{place}");
}

#[test]
fn constants_are_folded() {
    let all = instructions(|data, _| {
        let seven = Val::constant(3_u32) * 2 + 1;
        data.set(seven << 2);
        data.at(1).set((Val::constant(-7_i32) / 2).bitcast::<u32>());
        data.at(2).set((Val::constant(1.5_f32) * 2.0).bitcast::<u32>());
        when(seven.gt(8), || data.at(9).set(1));
    });
    let expected = ["mov.b32 %r0, 28;", "mov.b32 %r1, 4294967293;", "mov.b32 %r2, 1077936128;"];
    assert_eq!(all[..3], expected, "{all:#?}");
    assert_eq!(all.len(), 6, "{all:#?}");
}

#[test]
fn constants_of_eight_bits_are_cast_while_recording() {
    for value in [0.0_f32, -1.5, 0.3, 1e9, f32::INFINITY] {
        let expected = F8E4M3::from_f32(value).to_bits();
        let all = instructions(move |data, _| {
            let narrow = Val::constant(value).cast::<F8E4M3>();
            data.set(narrow.bitcast::<u8>().cast::<u32>());
        });
        assert_eq!(all, [format!("mov.b32 %r0, {expected};"), "st.global.u32 [%rd0], %r0;".to_owned()]);
    }
}

#[test]
fn adding_zero_and_multiplying_by_one_cost_nothing() {
    let all = instructions(|data, x| data.set((((x + 0) * 1) | 0) << 0));
    assert_eq!(all, ["st.global.u32 [%rd0], %r0;"]);
}

#[test]
fn what_would_be_nan_or_divide_by_zero_is_left_to_the_device() {
    let all = instructions(|data, _| {
        data.set((Val::constant(0.0_f32) / 0.0).bitcast::<u32>());
        data.at(1).set(Val::constant(1_u32) / 0);
    });
    assert!(all.iter().any(|line| line.starts_with("div.rn.f32")), "{all:#?}");
    assert!(all.iter().any(|line| line.starts_with("div.u32")), "{all:#?}");
}

#[test]
fn a_special_register_is_read_once_and_before_every_branch() {
    let all = instructions(|data, x| {
        when(x.gt(1), || data.at(thread_idx().x).set(warp_id()));
        data.at(thread_idx().x).set(warp_id());
    });
    assert_eq!(all.iter().filter(|line| line.contains("%tid.x")).count(), 1, "{all:#?}");
    let read = all.iter().position(|line| line.contains("%tid.x"));
    assert!(read < all.iter().position(|line| line.contains("bra")), "{all:#?}");
}

#[test]
fn unused_special_registers_are_not_read() {
    let all = instructions(|data, _| data.at(thread_idx().x).set(1));
    assert!(!all.iter().any(|line| line.contains("%tid.y") || line.contains("%tid.z")), "{all:#?}");
}

#[test]
fn a_required_block_makes_its_size_a_constant() {
    let text = kernel("body", |data: Global<u32>| data.at(thread_idx().y).set(block_dim().x))
        .required_block(128)
        .ptx(&SM_80)
        .unwrap();
    assert!(text.contains(".reqntid 128, 1, 1") && text.contains("mov.b32 %r0, 128;"), "{text}");
    assert!(!text.contains("%ntid") && !text.contains("%tid"), "{text}");
}

#[test]
fn a_rust_for_unrolls_and_a_range_loops() {
    let unrolled = text(|data, x| (0..4).for_each(|i| data.at(i).set(x)));
    let looping = text(|data, x| range(0, 4, 1, |i: Val<u32>| data.at(i).set(x)));
    assert_eq!(unrolled.matches("st.global").count(), 4);
    assert_eq!((looping.matches("st.global").count(), looping.matches("bra").count()), (1, 1), "{looping}");
}

#[test]
fn a_value_read_from_a_variable_keeps_its_value() {
    let all = instructions(|data, x| {
        let variable = var(x);
        let before = variable.get();
        variable.set(5);
        data.set(before);
    });
    // The store takes the copy, not the variable.
    let copy = all.iter().position(|line| line == "mov.b32 %r2, %r1;").expect("a copy is made");
    assert!(all[copy + 1].contains("mov.b32 %r1, 5") && all[copy + 2].ends_with("%r2;"), "{all:#?}");
}

#[test]
fn a_value_cannot_leave_the_branch_that_made_it() {
    check_error(
        |data, x| {
            let kept = Cell::new(x);
            when(x.gt(1), || kept.set(x + 1));
            data.set(kept.get());
        },
        "a value was used outside the branch or loop that made it: carry it out in a variable (`var`)",
    );
}

#[test]
fn a_value_cannot_enter_another_kernel() {
    thread_local! {
        static KEPT: Cell<Option<Val<u32>>> = const { Cell::new(None) };
    }
    text(|_, x| KEPT.set(Some(x)));
    check_error(
        |data, _| data.set(KEPT.get().unwrap()),
        "a value of another kernel was used: values live in the kernel that recorded them",
    );
}

#[test]
#[should_panic(expected = "no kernel is being recorded")]
fn operations_outside_a_kernel_panic() {
    let _ = lane_id();
}

#[test]
fn a_kernel_that_panics_leaves_the_thread_usable() {
    let broken = kernel("broken", |_: Global<u32>| panic!("on purpose"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| broken.ptx(&SM_80))).is_err());
    text(|data, x| data.set(x));
}

#[test]
fn a_kernel_may_build_another_while_it_is_recorded() {
    let inner = || text(|data, x| data.set(x + 1));
    let alone = inner();
    let outer = text(move |data, x| {
        let before = x + 2;
        assert_eq!(inner(), alone);
        data.set(before);
    });
    assert!(outer.contains("add.u32 %r1, %r0, 2;"), "{outer}");
}

#[test]
fn a_kernel_can_choose_by_its_target() {
    let chooses = kernel("chooses", |data: Global<u32>| data.set(if target().arch.number >= 90 { 90 } else { 80 }));
    assert!(chooses.ptx(&SM_80).unwrap().contains(", 80;"));
    assert!(chooses.ptx(&SM_90A).unwrap().contains(", 90;"));
}

#[test]
fn the_version_is_the_oldest_that_serves() {
    let newest = Target::new(Arch::SM_80, (9, 0));
    let plain = build(|data, x| data.set(x), &newest).unwrap();
    assert!(plain.starts_with(".version 7.0\n.target sm_80\n"), "{plain}");
    let hint = build(|data, x| data.cache(Cache::EvictFirst).set(x), &newest).unwrap();
    assert!(hint.starts_with(".version 7.4\n"), "{hint}");
}

#[test]
fn what_the_target_lacks_is_an_error() {
    check_error(
        |data, _| when(Lanes::all_lanes().elect(), || data.set(1)),
        "elect.sync needs sm_90 and PTX 8.0, the target is sm_80 with PTX 7.0",
    );
    check_error(
        |data, _| data.set(data.load(Order::Acquire, Scope::Cluster)),
        "the cluster scope needs sm_90 and PTX 7.8, the target is sm_80 with PTX 7.0",
    );
    check_error(
        |data, x| data.cache(Cache::NoAllocate).set(x),
        "an L1 eviction priority needs sm_80 and PTX 7.4, the target is sm_80 with PTX 7.0",
    );
    let old_driver = build(|data, x| data.set(x), &Target::new(Arch::SM_90A, (7, 8))).unwrap_err();
    assert!(old_driver.to_string().contains("the architecture sm_90a needs sm_90 and PTX 8.0"), "{old_driver}");
}

#[test]
fn what_no_target_has_is_an_error() {
    check_error(|data, _| data.reinterpret::<F16x2>().update(|x| x / x), "division does not exist for F16x2");
    check_error(
        |data, _| data.reinterpret::<F16x2>().set(data.get().cast::<F16x2>()),
        "a cast to F16x2 does not exist for U32",
    );
    check_error(|data, _| data.reinterpret::<f64>().update(Val::tanh_approx), "TanhApprox does not exist for F64");
}

#[test]
fn constants_out_of_range_are_errors() {
    check_error(|_, _| NamedBarrier { id: 16, threads: 32 }.sync(), "the barrier is 16, expected 0 to 15");
    check_error(
        |_, _| NamedBarrier { id: 1, threads: 48 }.arrive(),
        "the barrier's thread count is 48, expected a positive multiple of the warp size",
    );
    check_error(
        |data, x| data.set(Lanes::all_lanes().width(12).shfl(x, 0)),
        "the width of a shuffle is 12, expected 1, 2, 4, 8, 16 or 32",
    );
    check_error(|_, x| shared_named("my tile", 4).set(x), &bad_name("my tile"));
    check_error(
        |data, x| range(0_u32, 8, 0, |_| data.set(x)),
        "the step of a loop over a range is 0, expected more than 0: the loop would not end",
    );
}

fn bad_name(name: &str) -> String {
    format!("'{name}' is not a name that PTX accepts: expected a letter or '_', then letters, digits, '_' or '$'")
}

#[test]
fn what_contradicts_itself_is_an_error() {
    check_error(|data, x| data.cache(Cache::ReadOnly).set(x), "ReadOnly applies to loads only");
    check_error(|_, x| shared::<u32>(1).cache(Cache::Streaming).set(x), "Streaming applies to global memory only");
    check_error(
        |data, x| data.cache(Cache::L2Only).reduction().add(x),
        "L2Only applies to plain loads and stores only",
    );
    check_error(
        |data, _| data.set(data.load(Order::Release, Scope::Gpu)),
        "a load cannot be Release: expected Relaxed or Acquire",
    );
    check_error(
        |data, x| data.store(x, Order::AcqRel, Scope::Gpu),
        "a store cannot be AcqRel: expected Relaxed or Release",
    );
    check_error(
        |data, x| data.reduction().order(Order::Acquire).add(x),
        "an atomic without a result cannot be Acquire: expected Relaxed or Release",
    );
    let lent = |columns| {
        move |_: Global<u32>, _: Val<u32>| {
            let _ = tiles::<u32>(2, 8, 32, Swizzle::Bytes128).lend::<u16>(1, 16, columns, Swizzle::Bytes64);
        }
    };
    check_error(lent(96), "tiles of 3072 bytes do not fit the room of 2048");
    assert!(build(lent(64), &SM_90A).is_ok());
    check_error(
        lent(48),
        "the shape of a tile is 16 x 48, expected a multiple of 8 rows, and of 32 columns for Bytes64",
    );
}

#[test]
fn a_print_that_does_not_fit_its_arguments_is_an_error() {
    check_error(|_, x| print("%f", (x,)), "print(\"%f\"): '%f' takes a float");
    check_error(|_, x| print("%lld", (x,)), "print(\"%lld\"): '%lld' takes a 64-bit integer");
    check_error(|_, x| print("%d", (x, x)), "print(\"%d\"): more arguments than conversions");
    check_error(|_, x| print("%d %d", (x,)), "print(\"%d %d\"): no argument for '%d'");
    check_error(|_, x| print("%s", (x,)), "print(\"%s\"): no conversion '%s'");
    check_error(|_, x| print("100%", (x,)), "print(\"100%\"): a conversion without its letter");
}

#[track_caller]
fn check_kernel_error<Args: Params>(kernel: &Kernel<Args>, expected: &ErrorKind) {
    assert_eq!(kernel.build(&SM_80).expect_err("the kernel breaks a rule").kind(), expected);
}

#[test]
fn a_kernel_waits_for_the_launches_before_it_where_they_overlap_and_says_so() {
    let own = kernel("own", |data: Global<u32>| {
        let cell = shared::<u32>(1);
        cell.set(thread_idx().x);
        launch_dependents();
        wait_for_dependencies();
        data.set(cell.get());
    });
    let built = own.build(&SM_90A).unwrap();
    assert!(built.waits_for_dependencies);
    let text = built.ptx();
    let parts = ["st.shared", "griddepcontrol.launch_dependents;", "griddepcontrol.wait;", "st.global"];
    assert!(parts.map(|part| text.find(part).expect(part)).is_sorted(), "{text}");
    let built = own.build(&SM_80).unwrap();
    assert!(!built.waits_for_dependencies && !built.ptx().contains("griddepcontrol"));
}

#[test]
fn a_wait_that_some_threads_or_accesses_come_before_is_an_error() {
    let late: [fn(Global<u32>, Val<u32>); 3] = [
        |data, _| {
            data.set(1);
            wait_for_dependencies();
        },
        |_, x| when(x.gt(3), wait_for_dependencies),
        |_, x| {
            when(x.gt(3), exit);
            wait_for_dependencies();
        },
    ];
    for body in late {
        for target in [SM_80, SM_90A] {
            let error = build(body, &target).expect_err("the wait comes late");
            assert!(matches!(error.kind(), ErrorKind::Misuse(_)), "{error}");
        }
    }
}

#[test]
fn prefetches_may_come_before_a_wait() {
    let early = kernel("early", |data: Global<u32>, map: TensorMap<u32>| {
        data.prefetch();
        when(thread_idx().x.eq(0), || map.prefetch_box([0_u32, 8]));
        wait_for_dependencies();
        data.set(1);
    });
    let text = early.build(&SM_90A).unwrap().ptx().to_owned();
    let parts =
        ["prefetch.global.L2", "cp.async.bulk.prefetch.tensor.2d.L2.global.tile", "griddepcontrol.wait;", "st.global"];
    assert!(parts.map(|part| text.find(part).expect(part)).is_sorted(), "{text}");
}

#[test]
fn bounds_that_no_block_can_meet_are_errors() {
    let named = |name: &str| kernel(name, |_: Global<u32>| {});
    check_kernel_error(&named("two words"), &ErrorKind::BadName("two words".to_owned()));
    check_kernel_error(&named("x").required_block((64, 32)), &ErrorKind::BlockTooLarge { threads: 2048, limit: 1024 });
    let out_of_range = |what: &str, value: &str, expected: &str| ErrorKind::OutOfRange {
        what: what.to_owned(),
        value: value.to_owned(),
        expected: expected.to_owned(),
    };
    let dimension = "the size of a block in one dimension";
    check_kernel_error(&named("x").max_threads((1, 1, 65)), &out_of_range(dimension, "65", "1 to 64"));
    check_kernel_error(&named("x").max_threads(0), &out_of_range(dimension, "0", "1 to 1024"));
    check_kernel_error(&named("x").max_registers(256), &out_of_range("the cap on registers", "256", "1 to 255"));
    let misuse = "min_blocks means nothing without max_threads or required_block";
    check_kernel_error(&named("x").min_blocks(2), &ErrorKind::Misuse(misuse.to_owned()));
}

#[test]
fn shared_memory_is_counted_and_limited() {
    let uses = |fixed: u32, dynamic: u32| {
        kernel("uses", move |data: Global<u32>| {
            let (a, b) = (shared::<u8>(fixed), dynamic_shared::<u64>(dynamic));
            a.set(1);
            b.set(2);
            data.set(a.get().cast());
        })
    };
    let built = uses(48 << 10, 100).build(&SM_80).unwrap();
    assert_eq!((built.static_shared_bytes, built.dynamic_shared_bytes), (48 << 10, 800));
    check_kernel_error(&uses((48 << 10) + 1, 1), &ErrorKind::TooMuchShared { bytes: (48 << 10) + 1, limit: 48 << 10 });
    let limit = 163 << 10;
    check_kernel_error(&uses(1024, 21_000), &ErrorKind::TooMuchShared { bytes: 1024 + 168_000, limit });
}

#[test]
fn the_layout_is_that_of_the_parameters_that_ptx_declares() {
    type Args = (u8, u64, Global<f32>, u16, f32);
    let mixed: Kernel<Args> = kernel("mixed", |_: Val<u8>, _: Val<u64>, _: Global<f32>, _: Val<u16>, _: Val<f32>| {});
    let layout = mixed.layout();
    let slot = |ty, offset, bytes| Slot { ty, offset, bytes };
    let expected = [
        slot(ScalarType::U8, 0, 1),
        slot(ScalarType::U64, 8, 8),
        slot(ScalarType::U64, 16, 8),
        slot(ScalarType::U16, 24, 2),
        slot(ScalarType::F32, 28, 4),
    ];
    assert_eq!((&layout.params[..], layout.bytes), (&expected[..], 32));
    let module = mixed.build(&SM_80).unwrap().module;
    let declared: Vec<_> = module.function("mixed").unwrap().params.iter().map(|param| param.ty).collect();
    assert_eq!(declared, expected.map(|slot| slot.ty));
}

#[test]
fn errors_are_one_pointer_wide() {
    assert_eq!(size_of::<Error>(), size_of::<usize>());
}

#[test]
fn clones_share_their_identity_and_other_kernels_do_not() {
    let make = || kernel("same", |data: Global<u32>| data.set(1));
    let (first, second) = (make(), make());
    assert_eq!(first.id(), first.clone().max_threads(32).id());
    assert_ne!(first.id(), second.id());
    assert_eq!(first.ptx(&SM_80).unwrap(), second.ptx(&SM_80).unwrap());
}

#[test]
fn sums_of_bf16_round_once_before_and_after_sm_90() {
    let add = kernel("add", |data: Global<half::bf16>| data.set(data.get() + data.at(1).get()));
    let opcodes = |target| -> Vec<Opcode> {
        let module = add.build(target).unwrap().module;
        module.function("add").unwrap().instructions().map(|instruction| instruction.opcode).collect()
    };
    assert!(opcodes(&SM_80).contains(&Opcode::Fma) && !opcodes(&SM_80).contains(&Opcode::Add));
    assert!(opcodes(&SM_90A).contains(&Opcode::Add));
}

#[test]
fn a_group_of_registers_moves_together() {
    let all = instructions(|data, x| {
        let (a, b) = shfl_down((x, data.get().cast::<u64>()), 1);
        data.at(1).set(a + b.cast::<u32>());
    });
    assert_eq!(all.iter().filter(|line| line.starts_with("shfl.sync.down.b32")).count(), 3, "{all:#?}");
}

#[test]
fn instructions_are_written_in_one_folder() {
    fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (inside, outside): (Vec<_>, Vec<_>) =
        files(&sources).into_iter().partition(|path| path.starts_with(sources.join("intrinsics")));
    let writes = |path: &std::path::PathBuf| std::fs::read_to_string(path).unwrap().contains("Opcode::");
    assert!(inside.iter().any(writes) && outside.len() > 20);
    assert_eq!(outside.into_iter().filter(writes).collect::<Vec<_>>(), Vec::<std::path::PathBuf>::new());
}
