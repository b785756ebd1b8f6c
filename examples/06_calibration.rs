//! Which model of the hardware is right? Prints the table of `CALIBRATION.md` as Markdown: what
//! plausible models predict, what the virtual GPU does, and what an NVIDIA GPU does if there is
//! one. With the name of a case it prints that case's PTX instead.

use warpfold_conformance::calibration::{cases, find, measure, ptx, table};
use warpfold_device::{Device, Profile};

fn main() {
    if let Some(name) = std::env::args().nth(1) {
        match find(&name) {
            Some(case) => print!("{}", ptx(case)),
            None => eprintln!("no case is called `{name}`"),
        }
        return;
    }
    let model = Device::virtual_gpu(Profile::H200);
    let hardware = Device::cuda(0).ok();
    match &hardware {
        Some(gpu) => println!("hardware: {gpu}\n"),
        None => println!("hardware: {}\n", table::NOT_MEASURED),
    }
    println!("{}", table::HEAD);
    for case in cases() {
        let ours = table::answer(case, &measure(case, &model));
        let theirs = hardware.as_ref().map(|gpu| table::answer(case, &measure(case, gpu)));
        println!("{}", table::row(case, &ours, theirs.as_deref().unwrap_or(table::NOT_MEASURED)));
    }
}
