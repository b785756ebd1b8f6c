//! Rows by index.

use warpfold_device::Counters;
use warpfold_kernels::gather::{Choice, Gather, Problem};
use warpfold_kernels::plan::{Family, Workspace, alignment_of};
use warpfold_kernels::{Dtype, ErrorKind};

use crate::operations::bench::Bench;
use crate::operations::value::{Value, encode};

/// A table whose bytes tell where they stand.
fn table(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + i / 251) as u8).collect()
}

struct Case {
    indices: Dtype,
    list: Vec<i128>,
    rows: u64,
    row_bytes: u64,
    row_stride: i64,
    /// Bytes before the first row and before the first row of the output.
    gaps: [usize; 2],
}

impl Case {
    #[track_caller]
    fn check(&self, bench: &Bench) -> (Choice, Counters) {
        let memory = table(self.gaps[0] + self.rows as usize * self.row_stride.unsigned_abs() as usize + 64);
        let first = if self.row_stride < 0 { (self.rows - 1) as i64 * -self.row_stride } else { 0 };
        let first = self.gaps[0] + first as usize;
        let row_bytes = self.row_bytes as usize;
        let mut expected = vec![0xa5; self.gaps[1]];
        let mut bad = Gather::NO_BAD_POSITION;
        for (position, index) in self.list.iter().enumerate() {
            let row = if *index < 0 { index + i128::from(self.rows) } else { *index };
            if (0..i128::from(self.rows)).contains(&row) {
                let at = first.checked_add_signed((row as i64 * self.row_stride) as isize).unwrap();
                expected.extend(&memory[at..at + row_bytes]);
            } else {
                expected.extend(vec![0; row_bytes]);
                bad = bad.min(position as u64);
            }
        }
        expected.extend([0xa5; 16]);
        let device = &bench.device;
        let list: Vec<u8> = self.list.iter().flat_map(|i| encode(self.indices, Value::Int(*i))).collect();
        let (list, from) = (device.upload(&list).unwrap(), device.upload(&memory).unwrap());
        let mut output = device.upload(&vec![0xa5_u8; expected.len()]).unwrap();
        let mut word = device.upload(&[Gather::NO_BAD_POSITION]).unwrap();
        let Self { indices, rows, row_bytes, row_stride, .. } = *self;
        let (from, to) = (from.view(first..).unwrap(), output.view_mut(self.gaps[1]..).unwrap());
        let alignment = alignment_of([from.address(), to.address()]);
        let problem = Problem { indices, count: self.list.len() as u64, rows, row_bytes, row_stride, alignment };
        let plan = problem.choose().unwrap();
        let (inputs, outputs) = ([Some(list.as_view()), Some(from)], &mut [to, word.as_view_mut().bytes()]);
        let ready = Gather.ready(device, &problem).unwrap();
        ready.launch(&device.default_stream(), &inputs, outputs, &mut Workspace::new()).unwrap();
        let reports = device.take_reports();
        for report in &reports {
            assert!(report.report.findings.is_empty(), "{plan:?}: {:?}", report.report.findings);
        }
        assert!(output.download().unwrap() == expected, "{plan:?}");
        assert_eq!(word.download().unwrap(), [bad], "{plan:?}");
        (plan, reports.iter().fold(Counters::default(), |sum, report| sum + report.report.counters))
    }
}

#[test]
fn rows_of_every_width_are_gathered_from_either_end() {
    let bench = Bench::new();
    let list: Vec<i128> = (0..70).map(|i| (i * 29) % 33 - 16).collect();
    for indices in [Dtype::I32, Dtype::I64, Dtype::I8, Dtype::I16] {
        for row_bytes in [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 100, 512, 4096, 4112, 20_000] {
            for gaps in [[0, 0], [4, 0], [0, 1], [8, 16]] {
                let list = list.clone();
                let case = Case { indices, list, rows: 17, row_bytes, row_stride: row_bytes as i64, gaps };
                let (plan, _) = case.check(&bench);
                let together = row_bytes | gaps[0] as u64 | gaps[1] as u64;
                assert_eq!(plan.config.access, 1 << together.trailing_zeros().min(4));
            }
        }
    }
}

#[test]
fn rows_may_lie_apart_or_backwards() {
    let bench = Bench::new();
    for row_stride in [32, 48, 4096, -32, -40] {
        let list = vec![0, 5, -1, 3, 3];
        Case { indices: Dtype::I64, list, rows: 6, row_bytes: 32, row_stride, gaps: [0, 0] }.check(&bench);
    }
}

#[test]
fn an_index_that_names_no_row_gives_zeros_and_its_position() {
    let bench = Bench::new();
    let too_large = i128::from(u64::MAX);
    for (indices, bad) in [
        (Dtype::I32, 4),
        (Dtype::I64, -5),
        (Dtype::I64, i128::from(i64::MIN)),
        (Dtype::U8, 255),
        (Dtype::U64, too_large),
    ] {
        for at in [0, 7, 199] {
            let mut list = vec![2; 200];
            list[at] = bad;
            list[199] = bad;
            Case { indices, list, rows: 4, row_bytes: 48, row_stride: 48, gaps: [0, 0] }.check(&bench);
        }
    }
}

#[test]
fn nothing_is_gathered_from_nothing() {
    let bench = Bench::new();
    let case = |list: Vec<i128>, rows, row_bytes| Case {
        indices: Dtype::I64,
        list,
        rows,
        row_bytes,
        row_stride: row_bytes as i64,
        gaps: [0, 0],
    };
    let (plan, _) = case(vec![], 4, 16).check(&bench);
    assert_eq!(plan.launch, None);
    // Rows without bytes: their indices are looked at all the same.
    case(vec![1, 2], 4, 0).check(&bench);
    case(vec![1, 9], 4, 0).check(&bench);
    case(vec![0, -1], 0, 16).check(&bench);
    let problem = Problem { indices: Dtype::F32, count: 1, rows: 1, row_bytes: 1, row_stride: 1, alignment: 16 };
    let error = problem.choose().unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Unsupported { op: "gather".to_owned(), dtype: Dtype::F32 });
}

#[test]
fn rows_are_copied_by_accesses_of_16_bytes_that_touch_each_sector_once() {
    let bench = Bench::virtual_gpu();
    let list: Vec<i128> = (0..64).map(|i| (i * 13) % 32).collect();
    let case = Case { indices: Dtype::I32, list, rows: 32, row_bytes: 4096, row_stride: 4096, gaps: [0, 0] };
    let (plan, counters) = case.check(&bench);
    assert_eq!(plan.config.access, 16);
    let sectors = 64 * 4096 / 32;
    assert_eq!(counters.global_store_sectors, sectors);
    // And one for each warp's index.
    assert_eq!(counters.global_load_sectors, sectors + 64 * 2);
}
