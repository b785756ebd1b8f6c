//! What `nvidia-smi`, which comes with the driver, says of a GPU: its place on the bus, clocks,
//! load, power, temperature.

use std::process::Command;

/// A field of `nvidia-smi --query-gpu`, its name for people, and its unit.
const FIELDS: [(&str, &str, &str); 10] = [
    ("pci.bus_id", "PCI", ""),
    ("pcie.link.gen.max", "PCIe generation at most", ""),
    ("pcie.link.width.max", "PCIe lanes at most", ""),
    ("clocks.max.sm", "SM clock at most", " MHz"),
    ("clocks.sm", "SM clock", " MHz"),
    ("clocks.max.memory", "memory clock at most", " MHz"),
    ("utilization.gpu", "load", " %"),
    ("memory.used", "memory in use", " MiB"),
    ("power.draw", "power", " W"),
    ("temperature.gpu", "temperature", " °C"),
];

/// The lines of the GPU of this number and name; none where nvidia-smi is not there, or counts
/// other GPUs than the program sees.
pub(crate) fn lines(ordinal: usize, name: &str, num_gpus: usize) -> Vec<(&'static str, String)> {
    if std::env::var_os("CUDA_VISIBLE_DEVICES").is_some() {
        return Vec::new();
    }
    let fields = FIELDS.map(|(field, ..)| field).join(",");
    let query = [format!("--query-gpu=name,{fields}"), "--format=csv,noheader,nounits".to_owned()];
    let output = Command::new("nvidia-smi").args(query).output().ok().filter(|output| output.status.success());
    output.map_or_else(Vec::new, |output| read(&String::from_utf8_lossy(&output.stdout), ordinal, name, num_gpus))
}

fn read(answer: &str, ordinal: usize, name: &str, num_gpus: usize) -> Vec<(&'static str, String)> {
    let gpus: Vec<Vec<&str>> = answer.lines().map(|line| line.split(", ").map(str::trim).collect()).collect();
    let gpu = gpus.get(ordinal).filter(|gpu| gpus.len() == num_gpus && gpu[0] == name);
    let values = gpu.map_or(&[][..], |gpu| &gpu[1..]);
    let known = FIELDS.iter().zip(values).filter(|(_, value)| !value.starts_with('['));
    known.map(|((_, told, unit), value)| (*told, format!("{value}{unit}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_names_and_units_and_unknown_ones_are_left_out() {
        let answer = "NVIDIA H200, 00000000:1B:00.0, 5, 16, 1980, 345, 3201, 0, 1, 76.20, 29\n\
                      NVIDIA H200, 00000000:43:00.0, 5, 16, 1980, 1980, 3201, 97, 70211, [N/A], 61\n";
        let first = read(answer, 0, "NVIDIA H200", 2);
        assert_eq!(first.len(), 10);
        assert_eq!(first[0], ("PCI", "00000000:1B:00.0".to_owned()));
        assert_eq!(first[8], ("power", "76.20 W".to_owned()));
        let second = read(answer, 1, "NVIDIA H200", 2);
        assert_eq!((second.len(), &second[8]), (9, &("temperature", "61 °C".to_owned())));
        for wrong in [read(answer, 0, "NVIDIA H100", 2), read(answer, 0, "NVIDIA H200", 1), read("", 0, "", 0)] {
            assert_eq!(wrong, []);
        }
    }
}
