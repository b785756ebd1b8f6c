//! Products by WGMMA: every tile, layout, type and end, around every boundary.

use warpfold_device::Device;
use warpfold_kernels::Dtype;
use warpfold_kernels::matmul::{Activation, Algorithm, BatchInvariance, Epilogue, F32Math, Matrix, Problem, WgmmaTile};

use crate::matmul::case::{self, Case, choose, choose_with, ptx_of, ptx_of_problem};

/// On devices that have warpgroups' products.
fn on_every_device(test: impl Fn(&Device)) {
    case::on_every_device(|device| {
        if device.limits().has_wgmma {
            test(device);
        }
    });
}

#[track_caller]
fn check(device: &Device, tile: WgmmaTile, parts: u32, case: Case) {
    case::check(device, &Case { algorithm: Some((Algorithm::Wgmma(tile), parts)), ..case });
}

/// Rows lie at multiples of 16 bytes, whatever their length.
fn padded(dtype: Dtype, columns: u64) -> Matrix {
    Matrix::rows(dtype, columns.next_multiple_of(16 / dtype.bytes()))
}

/// A problem with factors whose rows are padded.
fn problem(dtype: Dtype, to: Dtype, m: u64, n: u64, k: u64) -> Problem {
    // 8-bit and tf32 factors have steps of the sums side by side.
    let b = if dtype.bytes() == 2 { padded(dtype, n) } else { padded(dtype, k).transposed() };
    let (a, c) = (padded(dtype, k), padded(to, n));
    Problem { a, b, c, f32_math: F32Math::Tf32, ..Problem::new(dtype, m, n, k) }
}

const SHAPES: [(u64, u64, u64); 8] = [
    (1, 1, 1),
    (1, 130, 7),
    (63, 65, 33),
    (64, 64, 64),
    (65, 129, 65),
    (128, 256, 128),
    (129, 260, 200),
    (300, 20, 70),
];

#[test]
fn every_tile_is_exact_at_every_boundary() {
    on_every_device(|device| {
        for (m, n, k) in SHAPES {
            for tile in WgmmaTile::ALL {
                check(device, tile, 1, Case::of(problem(Dtype::Bf16, Dtype::F32, m, n, k)));
            }
        }
    });
}

#[test]
fn factors_of_halves_lie_either_way() {
    on_every_device(|device| {
        for (m, n, k) in [(100, 140, 72), (129, 65, 130)] {
            let plain = problem(Dtype::F16, Dtype::F32, m, n, k);
            let (at, bt) = (padded(Dtype::F16, m).transposed(), padded(Dtype::F16, k).transposed());
            for (a, b) in [(plain.a, plain.b), (plain.a, bt), (at, plain.b), (at, bt)] {
                for tile in [WgmmaTile::LARGE, WgmmaTile::MEDIUM, WgmmaTile::FLAT] {
                    check(device, tile, 1, Case::of(Problem { a, b, ..plain.clone() }));
                }
            }
        }
    });
}

#[test]
fn every_type_has_its_products() {
    on_every_device(|device| {
        let types = [
            (Dtype::F16, Dtype::F16),
            (Dtype::Bf16, Dtype::Bf16),
            (Dtype::Bf16, Dtype::F16),
            (Dtype::F32, Dtype::F32),
            (Dtype::F8E4M3, Dtype::F32),
            (Dtype::F8E5M2, Dtype::Bf16),
            (Dtype::I8, Dtype::I32),
            (Dtype::U8, Dtype::I32),
        ];
        for (from, to) in types {
            for tile in [WgmmaTile::MEDIUM, WgmmaTile::SMALL] {
                for (m, n, k) in [(70, 136, 300), (5, 9, 31)] {
                    check(device, tile, 1, Case::of(problem(from, to, m, n, k)));
                }
            }
        }
        check(device, WgmmaTile::WIDE, 1, Case::of(problem(Dtype::F8E4M3, Dtype::Bf16, 70, 200, 300)));
    });
}

#[test]
fn results_of_halves_are_stored_by_copies_or_one_by_one() {
    on_every_device(|device| {
        for tile in WgmmaTile::ALL {
            let copied = problem(Dtype::Bf16, Dtype::Bf16, 200, 300, 64);
            check(device, tile, 1, Case::of(copied.clone()));
            // Rows that begin anywhere.
            check(device, tile, 1, Case::of(Problem { c: Matrix::rows(Dtype::Bf16, 301), n: 301, ..copied }));
        }
    });
}

#[test]
fn sums_may_be_split_into_parts() {
    on_every_device(|device| {
        for parts in [2, 3, 7] {
            check(device, WgmmaTile::FLAT, parts, Case::of(problem(Dtype::Bf16, Dtype::Bf16, 33, 130, 600)));
            check(device, WgmmaTile::MEDIUM, parts, Case::of(problem(Dtype::F16, Dtype::F32, 130, 70, 449)));
        }
    });
}

/// Factors with steps of the sums side by side.
fn of_steps(dtype: Dtype, to: Dtype, m: u64, n: u64, k: u64) -> Problem {
    Problem { b: padded(dtype, k).transposed(), ..problem(dtype, to, m, n, k) }
}

#[test]
fn few_rows_stand_in_a_tile_s_columns() {
    on_every_device(|device| {
        let turned = |columns, split| (Algorithm::SwapAb(WgmmaTile::swap_ab(columns, split)), split);
        for (m, n, k, split) in [(1_u64, 130, 600, 2), (9, 65, 257, 2), (31, 70, 1030, 1)] {
            let plan = turned(m.next_multiple_of(8) as u32, split);
            for to in [Dtype::Bf16, Dtype::F32] {
                case::check(device, &Case { algorithm: Some(plan), ..Case::of(of_steps(Dtype::Bf16, to, m, n, k)) });
            }
        }
        // More of them than columns, a right factor that lies in rows, integers.
        let many = Case { algorithm: Some(turned(8, 2)), ..Case::of(of_steps(Dtype::F16, Dtype::F32, 20, 70, 300)) };
        let rows = Case { algorithm: Some(turned(16, 2)), ..Case::of(problem(Dtype::Bf16, Dtype::Bf16, 10, 72, 300)) };
        let integers = Case { algorithm: Some(turned(16, 1)), ..Case::of(of_steps(Dtype::I8, Dtype::I32, 3, 70, 600)) };
        for case in [many, rows, integers] {
            case::check(device, &case);
        }
    });
}

/// Two warpgroups, in blocks that share sums.
const TALL: WgmmaTile = WgmmaTile { consumers: 2, stages: 4, split: 2, ..WgmmaTile::DEEP };

#[test]
fn blocks_of_a_cluster_share_a_tile_s_sums() {
    on_every_device(|device| {
        for (m, n, k) in [(3, 65, 300), (150, 130, 257)] {
            for tile in [TALL, WgmmaTile { split: 2, ..WgmmaTile::DEEP }] {
                check(device, tile, 2, Case::of(of_steps(Dtype::Bf16, Dtype::Bf16, m, n, k)));
            }
        }
        let lines = problem(Dtype::F16, Dtype::F32, 70, 72, 300);
        check(device, TALL, 2, Case::of(Problem { a: padded(Dtype::F16, 70).transposed(), ..lines }));
    });
}

#[test]
fn a_stage_may_have_several_panels() {
    on_every_device(|device| {
        for (m, n, k) in [(63, 65, 257), (100, 130, 400)] {
            for tile in [WgmmaTile::DEEP, WgmmaTile { stages: 4, panels: 2, ..WgmmaTile::PAIR }] {
                check(device, tile, 1, Case::of(of_steps(Dtype::Bf16, Dtype::Bf16, m, n, k)));
            }
        }
        check(device, WgmmaTile::DEEP, 1, Case::of(problem(Dtype::Bf16, Dtype::F32, 60, 72, 300)));
        check(device, WgmmaTile::DEEP, 2, Case::of(problem(Dtype::Bf16, Dtype::F32, 60, 72, 600)));
    });
}

#[test]
fn blocks_one_below_the_other_share_few_rows_evenly() {
    on_every_device(|device| {
        // Results that copies store, and others; more stages than the ring has.
        for (m, n, k) in [(65, 136, 600), (96, 130, 257), (127, 136, 70)] {
            for tile in [WgmmaTile::PAIR, WgmmaTile::APART, WgmmaTile::APART_NARROW] {
                check(device, tile, 1, Case::of(of_steps(Dtype::Bf16, Dtype::Bf16, m, n, k)));
            }
        }
    });
}

#[test]
fn factors_may_come_through_rings_of_their_own() {
    on_every_device(|device| {
        // More steps than either ring has, and fewer; fewer stages of either factor; shared sums,
        // and results that go by threads.
        let longer = WgmmaTile { stages: 2, rows_stages: Some(5), ..WgmmaTile::DEEP_APART };
        for (m, n, k) in [(60, 70, 1500), (9, 136, 100)] {
            for tile in [WgmmaTile::DEEP_APART, longer, WgmmaTile { consumers: 2, cluster: 2, ..longer }] {
                check(device, tile, 1, Case::of(of_steps(Dtype::F16, Dtype::F16, m, n, k)));
            }
        }
        check(device, longer, 1, Case::of(problem(Dtype::Bf16, Dtype::F32, 60, 72, 900)));
        check(device, WgmmaTile { split: 2, ..longer }, 2, Case::of(of_steps(Dtype::Bf16, Dtype::Bf16, 60, 72, 900)));
    });
}

#[test]
fn eight_rows_stand_for_all_that_a_product_has() {
    on_every_device(|device| {
        // Fewer and more steps than a stage has, and than all stages; columns that are cut.
        for (m, n, k, columns) in [(1_u64, 70, 40, 8), (5, 60, 600, 24), (8, 136, 300, 128)] {
            for weights in [false, true] {
                let tile = WgmmaTile { columns, ..WgmmaTile::few_rows([n, k, k], 2, 132, 8) };
                let of = |from, to| Problem { weights, ..of_steps(from, to, m, n, k) };
                check(device, tile, 1, Case::of(of(Dtype::Bf16, Dtype::Bf16)));
                check(device, WgmmaTile { stages: 2, ..tile }, 1, Case::of(of(Dtype::F16, Dtype::F32)));
            }
        }
        // Rows of the next tile are not those again.
        let tile = WgmmaTile::few_rows([70, 600, 600], 2, 132, 8);
        check(device, tile, 1, Case::of(of_steps(Dtype::Bf16, Dtype::F32, 21, 70, 600)));
        let integers = WgmmaTile::few_rows([70, 600, 600], 1, 132, 16);
        check(device, integers, 1, Case::of(of_steps(Dtype::I8, Dtype::I32, 3, 70, 600)));
    });
}

#[test]
fn weights_are_copied_before_launches_before_have_ended() {
    on_every_device(|device| {
        let far = WgmmaTile { stages: 2, rows_stages: Some(5), ..WgmmaTile::DEEP_APART };
        // Several tiles a block, a cluster's, rings of their own; more and fewer stages than there are.
        let one = WgmmaTile { cluster: 1, columns: 8, stages: 2, once: false, ..WgmmaTile::SMALL };
        let two = WgmmaTile { stages: 2, ..WgmmaTile::PAIR };
        for (tile, m, n, k) in
            [(one, 9, 1064, 70), (two, 70, 72, 400), (WgmmaTile::APART, 70, 72, 300), (far, 9, 72, 600)]
        {
            let problem = Problem { weights: true, ..of_steps(Dtype::Bf16, Dtype::Bf16, m, n, k) };
            check(device, tile, 1, Case::of(problem));
        }
        let problem = Problem { weights: true, ..of_steps(Dtype::Bf16, Dtype::Bf16, 3, 1024, 3072) };
        let problem = Problem { batch_invariance: BatchInvariance::On, ..problem };
        let choice = choose(device, problem.clone()).unwrap();
        assert!(
            matches!(choice.algorithm, Algorithm::Wgmma(WgmmaTile { columns: 8, eight_rows: true, .. })),
            "{choice}"
        );
        let copies = |problem: &Problem| {
            let ptx = ptx_of_problem(device, problem);
            let product = ptx.iter().find(|ptx| ptx.contains("wgmma")).unwrap();
            product.split("griddepcontrol.wait").next().unwrap().matches("cp.async.bulk.tensor").count()
        };
        assert!(copies(&problem) > 0);
        assert_eq!(copies(&Problem { weights: false, ..problem }), 0);
        // Weights that TMA cannot read are repacked by the launch before, which must have ended.
        let plain = Problem { weights: true, ..of_steps(Dtype::Bf16, Dtype::Bf16, 128, 4096, 1028) };
        let repacked = Problem { b: Matrix::rows(Dtype::Bf16, 1028).transposed(), ..plain.clone() };
        assert!(copies(&plain) > 0);
        assert_eq!(copies(&repacked), 0);
    });
}

#[test]
fn weights_that_pass_by_once_are_asked_for_ahead() {
    on_every_device(|device| {
        let asks = |m, n| {
            let choice = choose(device, of_steps(Dtype::Bf16, Dtype::Bf16, m, n, 4096)).unwrap();
            let kernels = ptx_of(device, &choice).into_iter();
            let before: String =
                kernels.map(|ptx| ptx.split("griddepcontrol.wait").next().unwrap().to_owned()).collect();
            before.contains("cp.async.bulk.prefetch.tensor")
        };
        for m in [2, 5, 33, 65, 128] {
            assert!(asks(m, 4096) && asks(m, 28_672), "{m} rows");
        }
        // A cache keeps those of fewer bytes; many rows wait for other things.
        assert!(!asks(5, 4088) && !asks(129, 4096));
    });
}

#[test]
fn a_result_of_a_block_s_only_tile_leaves_through_its_stages() {
    on_every_device(|device| {
        // Panels of 16, 32 and 64 columns, and fewer rows than a tile has.
        for (m, n, k, columns) in [(128, 200, 600, 112), (70, 200, 130, 96), (100, 136, 257, 128)] {
            let tile = WgmmaTile { columns, ..WgmmaTile::wave(128, 128 * 132, 132, 16) };
            check(device, tile, 1, Case::of(of_steps(Dtype::Bf16, Dtype::F16, m, n, k)));
        }
        // Stored by threads, in parts, by one warpgroup, and of blocks that share columns.
        let tile = WgmmaTile::wave(128, 48 * 132, 132, 16);
        check(device, tile, 1, Case::of(of_steps(Dtype::F16, Dtype::F32, 90, 70, 300)));
        check(device, tile, 3, Case::of(of_steps(Dtype::Bf16, Dtype::Bf16, 90, 136, 1200)));
        for tile in [WgmmaTile::FLAT, WgmmaTile::PAIR] {
            let tile = WgmmaTile { once: true, ..tile };
            check(device, tile, 1, Case::of(of_steps(Dtype::Bf16, Dtype::Bf16, 100, 264, 600)));
        }
    });
}

#[test]
fn a_turned_product_has_the_same_batches_and_ends() {
    on_every_device(|device| {
        let (m, n, k) = (10, 72, 600);
        let plain = of_steps(Dtype::Bf16, Dtype::Bf16, m, n, k);
        let bias = Matrix { row_stride: 0, ..Matrix::rows(Dtype::F32, n) };
        let rows = Matrix { row_stride: 1, column_stride: 0, ..bias };
        let epilogue = Epilogue::new().scale(0.5).add().multiply().activate(Activation::Relu).add();
        let problem = Problem { inputs: vec![bias, rows, Matrix::rows(Dtype::Bf16, n)], epilogue, ..plain.clone() };
        let finish = |sum: f64, more: &[f64]| ((0.5 * sum + more[0]) * more[1]).max(0.0) + more[2];
        let (mk, mn) = ((m * k) as i64, (m * n) as i64);
        let a = plain.a.in_batch([0, 0, mk]);
        let c = plain.c.in_batch([0, 0, mn]);
        for split in [1, 2] {
            let algorithm = Some((Algorithm::SwapAb(WgmmaTile::swap_ab(16, split)), split));
            let batch = Problem { a, c, ..plain.clone() }.in_batch([1, 1, 3]);
            case::check(device, &Case { algorithm, ..Case::of(batch) });
            case::check(device, &Case { algorithm, finish, ..Case::of(problem.clone()) });
        }
    });
}

#[test]
fn what_cannot_be_turned_or_shared_is_refused() {
    on_every_device(|device| {
        let plan = |problem: &Problem, epilogue: &Epilogue, code, parts| {
            let problem = Problem { epilogue: epilogue.clone(), ..problem.clone() };
            choose_with(device, problem, (code, parts)).map(|choice| choice.num_parts)
        };
        let (plain, none) = (of_steps(Dtype::Bf16, Dtype::Bf16, 8, 64, 2048), Epilogue::new());
        let turned = |split| Algorithm::SwapAb(WgmmaTile::swap_ab(8, split));
        assert_eq!(plan(&plain, &none, turned(2), 2).unwrap(), 2);
        assert!(plan(&plain, &none, turned(2), 1).is_err(), "two blocks share the sums");
        assert!(plan(&plain, &none, turned(1), 2).is_err(), "one block has all of them");
        let short = of_steps(Dtype::Bf16, Dtype::Bf16, 8, 64, 200);
        assert!(plan(&short, &none, turned(2), 2).is_err(), "the second block would have none");
        let lines = Problem { a: padded(Dtype::Bf16, 8).transposed(), ..plain.clone() };
        assert!(plan(&lines, &none, turned(1), 1).is_err(), "rows do not lie as steps");
        let own = Epilogue::new().apply("own", |value, _, _| value);
        assert!(plan(&plain, &own, turned(1), 1).is_err(), "the function would see rows for columns");
        let floats = of_steps(Dtype::F8E4M3, Dtype::F32, 8, 64, 2048);
        assert!(plan(&floats, &none, turned(1), 1).is_err(), "sums of long stages of 8-bit floats lose precision");
        let integers = of_steps(Dtype::I8, Dtype::I32, 8, 64, 2048);
        assert!(plan(&integers, &none, turned(1), 1).is_err(), "their products have 16 columns at least");
    });
}

#[test]
fn few_rows_of_large_weights_go_their_own_ways() {
    on_every_device(|device| {
        let code = |m, n, k| {
            let problem = of_steps(Dtype::Bf16, Dtype::Bf16, m, n, k);
            let invariant = Problem { batch_invariance: BatchInvariance::On, ..problem.clone() };
            let plan = |problem| choose(device, problem).unwrap();
            // What splits the sums, or may add in another order, is not for rows whose bits shall
            // not depend on their number.
            assert!(
                plan(invariant.clone()).num_parts == 1 && !matches!(plan(invariant).algorithm, Algorithm::SwapAb(_))
            );
            plan(problem).algorithm
        };
        for m in [2, 16, 32] {
            assert!(matches!(code(m, 8192, 8192), Algorithm::SwapAb(WgmmaTile { split: 1, .. })));
            assert!(matches!(code(m, 4096, 14_336), Algorithm::SwapAb(WgmmaTile { split: 2, .. })));
        }
        let columns = |m| match code(m, 8192, 8192) {
            Algorithm::SwapAb(tile) => Some(tile.columns),
            _ => None,
        };
        // One row goes as all few rows do; beyond 32 they stand in rows again.
        assert_eq!([2, 8, 16, 17, 24, 25, 32].map(columns), [16, 16, 16, 24, 24, 32, 32].map(Some));
        assert_eq!(columns(33), None);
        assert_eq!(code(64, 8192, 8192), Algorithm::Wgmma(WgmmaTile::DEEP_APART));
        assert_eq!(code(64, 2048, 8192), Algorithm::Wgmma(WgmmaTile { split: 2, ..WgmmaTile::DEEP }));
        assert_eq!(code(64, 4096, 14_336), Algorithm::Wgmma(WgmmaTile { split: 2, ..WgmmaTile::DEEP }));
        assert_eq!(code(128, 8192, 8192), Algorithm::Wgmma(WgmmaTile::APART));
        assert_eq!(code(128, 4096, 14_336), Algorithm::Wgmma(WgmmaTile::APART_NARROW));
        // A tile for each SM.
        for (m, n, columns) in
            [(128, 28_672, 224), (65, 14_336, 112), (100, 11_008, 96), (64, 28_672, 112), (1, 28_672, 112)]
        {
            let Algorithm::Wgmma(tile) = code(m, n, 8192) else { panic!("warpgroups multiply") };
            assert_eq!((tile.columns, tile.once), (columns, true), "{n} columns");
        }
        // Blocks that stand all at once share sums as well.
        assert_eq!(code(256, 1024, 4096), Algorithm::Wgmma(WgmmaTile { split: 2, ..WgmmaTile::DEEP }));
        assert_eq!(code(512, 512, 4096), Algorithm::Wgmma(WgmmaTile { split: 2, ..WgmmaTile::DEEP }));
        for m in [256, 512] {
            let Algorithm::Wgmma(tile) = code(m, 8192, 8192) else { panic!("warpgroups multiply") };
            assert!(WgmmaTile::ALL.contains(&tile), "{m}: {tile}");
        }
    });
}

#[test]
fn every_chosen_kernel_can_be_built_however_factors_lie() {
    on_every_device(|device| {
        let build = |problem| {
            assert!(!ptx_of(device, &choose(device, problem).unwrap()).is_empty());
        };
        for (m, n) in [1, 16, 40, 64, 96, 128, 256].into_iter().flat_map(|m| [1024, 4096, 8200, 28_672].map(|n| (m, n)))
        {
            let plain = of_steps(Dtype::Bf16, Dtype::Bf16, m, n, 4096);
            let (at, bt) = (Matrix::rows(Dtype::Bf16, m).transposed(), Matrix::rows(Dtype::Bf16, n));
            for (a, b) in [(plain.a, plain.b), (plain.a, bt), (at, plain.b), (at, bt)] {
                build(Problem { a, b, ..plain.clone() });
            }
            build(of_steps(Dtype::I8, Dtype::I32, m, n, 8192));
            build(of_steps(Dtype::F8E4M3, Dtype::F32, m, n, 8192));
            build(Problem { f32_math: F32Math::Tf32, ..of_steps(Dtype::F32, Dtype::F32, m, n, 2048) });
        }
        // A tile that would cut panels.
        let lines =
            Problem { b: Matrix::rows(Dtype::Bf16, 4096), ..of_steps(Dtype::Bf16, Dtype::Bf16, 128, 4096, 4096) };
        let cut = choose_with(device, lines, (Algorithm::Wgmma(WgmmaTile::APART_NARROW), 1));
        assert!(cut.unwrap_err().to_string().contains("not possible"));
    });
}

#[test]
fn a_batch_has_three_dimensions_in_which_a_factor_may_repeat() {
    on_every_device(|device| {
        let (m, n, k) = (70, 72, 80);
        let plain = problem(Dtype::Bf16, Dtype::Bf16, m, n, k);
        let (mk, kn, mn) = ((m * k) as i64, (k * n) as i64, (m * n) as i64);
        let a = plain.a.in_batch([6 * mk, 2 * mk, mk]);
        let b = plain.b.in_batch([0, kn, 0]);
        let c = plain.c.in_batch([6 * mn, 2 * mn, mn]);
        for tile in [WgmmaTile::MEDIUM, WgmmaTile::SMALL] {
            check(device, tile, 1, Case::of(Problem { a, b, c, ..plain.clone() }.in_batch([2, 3, 2])));
        }
        check(device, WgmmaTile::FLAT, 2, Case::of(Problem { a, b, c, ..plain }.in_batch([2, 3, 2])));
    });
}

#[test]
fn an_epilogue_reads_its_inputs_inside_the_result_only() {
    on_every_device(|device| {
        for n in [72, 73] {
            let plain = problem(Dtype::Bf16, Dtype::Bf16, 70, n, 40);
            let bias = Matrix { row_stride: 0, ..Matrix::rows(Dtype::F32, n) };
            let residual = Matrix::rows(Dtype::Bf16, n);
            let epilogue = Epilogue::new().scale(0.5).add().activate(Activation::Relu).add();
            let finish = |sum: f64, more: &[f64]| (0.5 * sum + more[0]).max(0.0) + more[1];
            for tile in [WgmmaTile::MEDIUM, WgmmaTile::FLAT] {
                let (inputs, epilogue) = (vec![bias, residual], epilogue.clone());
                let problem = Problem { inputs, epilogue, ..plain.clone() };
                check(device, tile, 1, Case { finish, ..Case::of(problem) });
            }
        }
    });
}

#[test]
fn an_epilogue_multiplies_by_scales_of_rows_columns_and_all() {
    on_every_device(|device| {
        for (m, n, to) in [(70, 72, Dtype::Bf16), (65, 73, Dtype::F32)] {
            let plain = problem(Dtype::F8E4M3, to, m, n, 64);
            let columns = Matrix { row_stride: 0, ..Matrix::rows(Dtype::F32, n) };
            let rows = Matrix { row_stride: 1, column_stride: 0, ..columns };
            let one = Matrix { column_stride: 0, ..columns };
            let epilogue = Epilogue::new().multiply().multiply().add().multiply();
            let finish = |sum: f64, more: &[f64]| (sum * more[0] * more[1] + more[2]) * more[3];
            for (tile, parts) in [(WgmmaTile::MEDIUM, 1), (WgmmaTile::FLAT, 2)] {
                let (inputs, epilogue) = (vec![rows, columns, columns, one], epilogue.clone());
                let problem = Problem { inputs, epilogue, ..plain.clone() };
                check(device, tile, parts, Case { finish, ..Case::of(problem) });
            }
        }
    });
}

#[test]
fn plans_take_tensor_cores_where_they_can() {
    on_every_device(|device| {
        for (m, n, k) in [(1, 4096, 4096), (256, 512, 64), (40, 40, 40)] {
            case::check(device, &Case::of(problem(Dtype::Bf16, Dtype::Bf16, m.min(64), n.min(512), k.min(512))));
        }
    });
}
