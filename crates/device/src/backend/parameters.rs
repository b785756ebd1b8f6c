//! Arguments of a launch as bytes, packed according to the CUDA ABI.

use warpfold_sim::Granted;

use super::function::{FunctionInfo, Param, Places};

/// The bytes of a launch's arguments, each at the next multiple of its alignment.
#[derive(Debug, Default)]
pub(crate) struct Parameters {
    bytes: Vec<u8>,
    params: Vec<Param>,
    /// The largest alignment of an argument.
    align: usize,
    /// The memory ranges passed, for the checks of the virtual GPU.
    granted: Vec<Granted>,
    /// True if the kernel may access all of each buffer that it is given.
    whole_buffers: bool,
}

impl Parameters {
    pub(crate) fn push(&mut self, bytes: &[u8], align: usize) {
        self.align = self.align.max(align);
        self.bytes.resize(self.bytes.len().next_multiple_of(align), 0);
        // Kernel parameters have at most a few KiB: the driver and the virtual GPU refuse more.
        self.params.push(Param { offset: self.bytes.len() as u32, bytes: bytes.len() as u32 });
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds a memory range that the kernel may access.
    pub(crate) fn grant(&mut self, address: u64, bytes: usize, writable: bool) {
        if !self.whole_buffers {
            self.granted.push(Granted { address, bytes: bytes as u64, writable });
        }
    }

    /// Disables the check of the memory ranges.
    pub(crate) fn grant_whole_buffers(&mut self) {
        self.whole_buffers = true;
        self.granted.clear();
    }

    /// The memory ranges that the kernel may access.
    pub(crate) fn granted(&self) -> &[Granted] {
        &self.granted
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Offset and size of each argument in the parameter bytes.
    pub(crate) fn places(&self) -> &[Param] {
        &self.params
    }

    /// Checks the arguments against the parameters that the kernel declares.
    pub(crate) fn check(&self, function: &FunctionInfo) -> Result<(), String> {
        let Some(params) = &function.params else { return self.check_without_params() };
        if params.len() != self.params.len() {
            return Err(format!("the kernel has {} parameter(s), {} were given", params.len(), self.params.len()));
        }
        let differ = |(_, (expected, found)): &(usize, (&Param, &Param))| match function.places {
            Places::Packed => expected != found,
            Places::Drivers => expected.bytes != found.bytes,
        };
        match params.iter().zip(&self.params).enumerate().find(differ) {
            None => Ok(()),
            Some((index, (expected, found))) => Err(format!(
                "parameter {index} has {} bytes at offset {}, the argument has {} bytes at offset {}",
                expected.bytes, expected.offset, found.bytes, found.offset
            )),
        }
    }

    /// Checks arguments for a kernel whose parameters are unknown: the bytes go to the driver as
    /// one buffer, whose start is only known to be a multiple of 16.
    fn check_without_params(&self) -> Result<(), String> {
        if self.align > 16 {
            return Err(format!("an argument aligned to {} bytes needs a driver from CUDA 12.4 on", self.align));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(params: &[(u32, u32)]) -> FunctionInfo {
        FunctionInfo {
            name: "k".to_owned(),
            places: Places::Packed,
            params: Some(params.iter().map(|&(offset, bytes)| Param { offset, bytes }).collect()),
            static_shared: 0,
            max_threads: None,
            required_block: None,
            required_cluster: None,
            registers: 0,
            programmatic: false,
        }
    }

    #[test]
    fn each_argument_lies_at_a_multiple_of_its_alignment() {
        let mut parameters = Parameters::default();
        for (bytes, align) in [(&[1][..], 1), (&[2; 4], 4), (&[3; 2], 2), (&4_f64.to_le_bytes(), 8), (&[5; 12], 16)] {
            parameters.push(bytes, align);
        }
        let expected = function(&[(0, 1), (4, 4), (8, 2), (16, 8), (32, 12)]);
        assert_eq!(parameters.check(&expected), Ok(()));
        assert_eq!(parameters.bytes().len(), 44);
        assert_eq!(&parameters.bytes()[16..24], &4_f64.to_le_bytes());
    }

    #[test]
    fn arguments_of_another_number_or_size_are_refused() {
        let mut parameters = Parameters::default();
        parameters.push(&[1; 4], 4);
        assert_eq!(
            parameters.check(&function(&[(0, 4), (8, 8)])),
            Err("the kernel has 2 parameter(s), 1 were given".to_owned())
        );
        assert_eq!(
            parameters.check(&function(&[(0, 8)])),
            Err("parameter 0 has 8 bytes at offset 0, the argument has 4 bytes at offset 0".to_owned())
        );
    }
}
