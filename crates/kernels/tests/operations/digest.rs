//! Digests of elements by their places, on the device and on the host.

use warpfold_device::{Checks, Device, Profile};
use warpfold_kernels::Dtype;
use warpfold_kernels::digest::{Digest, Problem};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::plan::{Family, TensorSpec, Workspace};

fn device() -> Device {
    let device = Device::virtual_gpu(Profile::H200);
    device.configure(|options| options.checks = Checks::All).unwrap();
    device
}

/// Memory of elements of so many bytes that tell where they stand.
fn memory(len: usize, size: usize) -> Vec<u8> {
    (0..len * size).map(|i| ((i as u32).wrapping_mul(2_654_435_761) >> 23) as u8).collect()
}

fn bits(memory: &[u8], size: usize, element: usize) -> u64 {
    memory[element * size..][..size].iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

/// A view of memory: its shape, its strides there, its first element, and where it is in a list.
struct View<'a> {
    shape: &'a [usize],
    strides: &'a [isize],
    at: usize,
    first: u64,
    places: &'a [isize],
}

impl View<'_> {
    /// Compares the device's digest of the view with one of the definition; gives the plan.
    #[track_caller]
    fn check(&self, dtype: Dtype) -> String {
        let (size, device) = (dtype.bytes() as usize, device());
        let len: usize = self.shape.iter().product();
        let memory = memory(4096 + len * 4, size);
        let mut expected = 77_u64;
        for i in 0..len {
            let (mut rest, mut element, mut place) = (i, self.at as isize, self.first as i64);
            for ((size, stride), places) in self.shape.iter().zip(self.strides).zip(self.places).rev() {
                let position = (rest % size) as isize;
                rest /= size;
                element += position * stride;
                place += (position * places) as i64;
            }
            expected =
                expected.wrapping_add(bits(&memory, size, element as usize).wrapping_mul(Digest::key(place as u64)));
        }
        let from = device.upload(&memory).unwrap();
        let from = from.view(self.at * size..).unwrap();
        let layout = Layout::new(self.shape.to_vec(), self.strides.to_vec()).unwrap();
        let problem = Problem::new(&TensorSpec::new(dtype, layout, from.address()), self.first, self.places).unwrap();
        let choice = format!("{problem:?}");
        let mut sum = device.upload(&[77_u64]).unwrap();
        let ready = Digest.ready(&device, &problem).unwrap();
        let outputs = &mut [sum.as_view_mut().bytes()];
        ready.launch(&device.default_stream(), &[Some(from)], outputs, &mut Workspace::new()).unwrap();
        for report in device.take_reports() {
            assert!(report.report.findings.is_empty(), "{:?}", report.report.findings);
        }
        assert_eq!(sum.download().unwrap(), [expected], "{dtype}, {:?}", self.shape);
        choice
    }
}

#[test]
fn elements_are_digested_by_their_places_however_they_lie() {
    for dtype in [Dtype::U8, Dtype::Bf16, Dtype::F32, Dtype::F64] {
        // All in a row, in whole groups and not, to the end of a block and beyond.
        for len in [0, 1, 7, 8, 31, 64, 2047, 2048, 2049, 5000] {
            let row = View { shape: &[len], strides: &[1], at: 0, first: 0, places: &[1] };
            assert_eq!(row.check(dtype).contains("is_grouped: true"), len % 8 == 0, "{len}");
        }
        let row = View { shape: &[640], strides: &[1], at: 0, first: 0, places: &[1] };
        let elsewhere = [View { at: 1, ..row }, View { first: 3, ..row }, View { strides: &[2], ..row }];
        elsewhere.iter().for_each(|view| assert!(view.check(dtype).contains("is_grouped: false")));
        assert!(View { at: 16, first: 8000, ..row }.check(dtype).contains("is_grouped: true"));
        // Eight lines of one matrix and eight of another in turns; parts of lines side by side.
        let shape = &[6, 1, 8 * 24];
        let turns = View { shape, strides: &[16 * 24, 8 * 24, 1], at: 8 * 24, first: 48 * 24, places: &[8 * 24, 0, 1] };
        assert!(turns.check(dtype).contains("is_grouped: true"));
        let parts = View { shape: &[4, 5, 16], strides: &[80, 16, 1], at: 0, first: 64, places: &[16, 128, 1] };
        assert!(parts.check(dtype).contains("is_grouped: true"));
        let narrow = View { shape: &[4, 5, 6], strides: &[30, 6, 1], at: 0, first: 24, places: &[6, 48, 1] };
        assert!(narrow.check(dtype).contains("is_grouped: false"));
        // A matrix that is turned, and one from the last line to the first.
        View { shape: &[24, 40], strides: &[1, 24], at: 0, first: 0, places: &[40, 1] }.check(dtype);
        View { shape: &[9, 16], strides: &[-16, 1], at: 128, first: 0, places: &[16, 1] }.check(dtype);
    }
}

#[test]
fn parts_on_the_host_add_up_to_the_whole() {
    for size in [1, 2, 4, 8] {
        let memory = memory(1000, size);
        let expected = (0..1000)
            .fold(0_u64, |sum, i| sum.wrapping_add(bits(&memory, size, i).wrapping_mul(Digest::key(i as u64 + 5))));
        for cut in [0, 1, 3, 8, 11, 500, 999, 1000] {
            let (left, right) = memory.split_at(cut * size);
            let parts = [Digest::of_bytes(left, size, 5), Digest::of_bytes(right, size, cut as u64 + 5)];
            assert_eq!(parts[0].wrapping_add(parts[1]), expected, "{size} bytes, cut at {cut}");
        }
    }
}

#[test]
fn what_is_changed_moved_or_swapped_has_another_digest() {
    let memory = memory(256, 2);
    let digest = Digest::of_bytes(&memory, 2, 0);
    for i in 0..256 {
        for bit in 0..16 {
            let mut other = memory.clone();
            other[2 * i + bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Digest::of_bytes(&other, 2, 0), digest, "bit {bit} of {i}");
        }
        for j in 0..i {
            let mut other = memory.clone();
            (0..2).for_each(|byte| other.swap(2 * i + byte, 2 * j + byte));
            assert!(other == memory || Digest::of_bytes(&other, 2, 0) != digest, "{i} and {j} swapped");
        }
    }
    (1..300).for_each(|first| assert_ne!(Digest::of_bytes(&memory, 2, first), digest, "from {first} on"));
}
