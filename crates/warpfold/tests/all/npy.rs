//! `.npy` and `.npz` files: what is written is read back, what NumPy wrote is read, and what is not
//! an archive says so.

use warpfold::npy::parse_npz;
use warpfold::{Device, Dtype, Error, Profile, Tensor};

/// `numpy.savez_compressed(a=[[1.5, 2.5, 3.5], [4.5, 5.5, 6.5]] as f32, zeros=zeros(300) as i64)`,
/// by NumPy 2.
const COMPRESSED: &str = "\
    504b03042d00000008000000210071ee0896ffffffffffffffff05001400612e6e70790100100098000000000000005a000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2\
    aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a463a0ac69a3a0ab50a64032e068603f60c0c0a0e0c0c09403c01883700f1050700504b03042d000000080000002100c4\
    895dc8ffffffffffffffff090014007a65726f732e6e707901001000e00900000000000058000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9369a1aea3a09e965f5452949817\
    9f5f94920a12774bcc294e058a17672416a402f91ac606063a9a3a0ab50a64032e8651300a46c1281805a360148c825140550000504b01022d032d00000008000000210071ee08965a00000098000000\
    050000000000000000000000800100000000612e6e7079504b01022d032d000000080000002100c4895dc858000000e00900000900000000000000000000008001910000007a65726f732e6e7079504b\
    050600000000020002006a000000240100000000";

fn compressed() -> Vec<u8> {
    let digits: Vec<u8> = COMPRESSED.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ascii"), 16).expect("hex");
    digits.chunks(2).map(byte).collect()
}

#[test]
fn an_archive_of_numpy_is_read() {
    let arrays = parse_npz(&compressed()).expect("an archive");
    assert_eq!(arrays.keys().collect::<Vec<_>>(), ["a", "zeros"]);
    let a = &arrays["a"];
    assert_eq!((a.dtype, &a.shape[..]), (Dtype::F32, &[2, 3][..]));
    let floats: Vec<f32> = a.data.chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    assert_eq!(floats, [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]);
    assert_eq!((arrays["zeros"].dtype, arrays["zeros"].data.len()), (Dtype::I64, 2400));
}

#[test]
fn damaged_archives_are_refused_and_never_panic() {
    let whole = compressed();
    for end in 0..whole.len() {
        assert!(parse_npz(&whole[..end]).is_err(), "cut off after {end} bytes");
    }
    for position in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[position] ^= 0x55;
        drop(parse_npz(&damaged));
    }
}

#[test]
fn tensors_go_to_files_and_come_back() -> Result<(), Error> {
    let device = Device::virtual_gpu(Profile::H200);
    let folder = std::env::temp_dir().join(format!("warpfold_npz_{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let x = Tensor::arange(0_f32, 6., &device)?.reshape((2, 3))?;
    let mask = x.gt(2.0)?;
    let archive = folder.join("both.npz");
    Tensor::write_npz(&archive, [("x", &x.t()?), ("mask", &mask)])?;
    let read = Tensor::read_npz(&archive, &device)?;
    assert_eq!(read["x"].to_vec2::<f32>()?, [[0., 3.], [1., 4.], [2., 5.]]);
    assert_eq!((read["mask"].dtype(), read["mask"].to_bytes()?), (Dtype::Bool, vec![0, 0, 0, 1, 1, 1]));
    let missing = Tensor::read_npy(folder.join("none.npy"), &device).unwrap_err().to_string();
    assert!(missing.starts_with("read_npy: ") && missing.contains("none.npy: "), "{missing}");
    let error = Tensor::read_npy(&archive, &device).unwrap_err().to_string();
    assert!(error.ends_with("both.npz: it is not a .npy file"), "{error}");
    std::fs::remove_dir_all(folder).expect("ours");
    Ok(())
}
