//! `warpfold run`: defaults of operators, and checks of their launches.

use std::fs;

use crate::support::{folder, npy, refused, warpfold};

#[test]
fn a_pooling_strides_by_its_window_and_launches_are_checked() {
    let folder = folder("a_pooling_strides_by_its_window");
    let path = |name: &str| folder.join(name).display().to_string();
    let (input, output) = (path("x.npy"), path("y.npy"));
    let data: Vec<u8> = (0..16_u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
    fs::write(&input, npy("<f4", "(1, 1, 4, 4)", &data)).expect("written");
    let run = ["run", "max-pool", &input, "-o", &output, "--kernel", "2,2", "--device", "virtual"];
    let shape = |more: &[&str]| {
        let checked = warpfold(&[&run[..], &["--check", "all"], more].concat()).ended_with(0).stdout;
        assert_eq!(checked, "no findings in 1 launch\n");
        let file = fs::read(&output).expect("written");
        let header = String::from_utf8_lossy(&file[10..80]).into_owned();
        header.split_once("'shape': ").and_then(|(_, rest)| rest.split(')').next().map(str::to_owned)).expect("a shape")
    };
    assert_eq!(shape(&[]), "(1, 1, 2, 2", "as PyTorch has it");
    assert_eq!(shape(&["--stride", "1"]), "(1, 1, 3, 3");
    refused(&["run", "--list", "--check", "all"], 2, "--list runs nothing");
}
