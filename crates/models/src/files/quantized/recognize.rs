//! Formats of quantized checkpoints: which tensors make up a matrix, by names and shapes.

use super::{Numbers, Plane, Quantized, Scales, Zeros, entry_of};
use crate::Error;
use crate::error;
use crate::files::{Checkpoint, Entry, Format};

/// Quantization of the weights as declared by `config.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantization {
    /// Numbers, among them 8-bit floats with scales beside them.
    None,
    /// AutoAWQ's `gemm` layout.
    Awq,
    /// AutoGPTQ's and GPTQModel's.
    Gptq {
        bits: usize,
        /// Offset of stored zero points: 1 in the first version of the format.
        zeros_plus: u8,
    },
    CompressedTensors,
    /// ModelOpt's NVFP4.
    ModelOpt,
    BitsAndBytes,
    /// gpt-oss: MXFP4 of all experts of a layer in one tensor.
    GptOss,
}

/// Order of eight adjacent AWQ values in a word.
const AWQ_PLACES: &[usize] = &[0, 4, 1, 5, 2, 6, 3, 7];

/// bitsandbytes has the first of two in the high half of a byte.
const HIGH_FIRST: &[usize] = &[1, 0];

/// The tensors whose names begin with that of a layer.
struct Parts<'a> {
    checkpoint: &'a mut Checkpoint,
    /// The layer's name, with the full stop after it.
    prefix: String,
}

impl Parts<'_> {
    /// Takes a tensor away, if it is there.
    fn find(&mut self, part: &str) -> Option<Entry> {
        self.checkpoint.entries.remove(&format!("{}{part}", self.prefix))
    }

    fn take(&mut self, part: &str) -> Result<Entry, Error> {
        self.find(part).ok_or_else(|| self.wrong(part, "it is missing beside the codes of its matrix".to_owned()))
    }

    fn wrong(&self, part: &str, reason: String) -> Error {
        error::tensor(&self.checkpoint.path, &format!("{}{part}", self.prefix), reason)
    }

    /// Compares the type of a tensor.
    fn expect(&self, entry: &Entry, kinds: &[Format]) -> Result<(), Error> {
        let reason = || format!("its type is {:?}, not one of {kinds:?}", entry.format);
        let is_known = kinds.contains(&entry.format);
        is_known.then_some(()).ok_or_else(|| error::tensor(&self.checkpoint.path, &entry.stored_name, reason()))
    }

    /// Codes in a tensor of this shape, and the rows and columns of codes.
    fn plane(&self, entry: Entry, bits: usize, is_down: bool) -> Result<(Plane, [usize; 2]), Error> {
        self.expect(&entry, &[Format::I32, Format::U8, Format::I8])?;
        let &[rows, width] = &entry.shape[..] else { return Err(self.fits(&entry, "a matrix")) };
        let flip = if entry.format == Format::I8 { 0x80 } else { 0 };
        let plane = Plane { entry, bits, is_down, places: None, flip, width };
        let per = plane.per_unit();
        let shape = if is_down { [rows * per, width] } else { [rows, width * per] };
        Ok((plane, shape))
    }

    fn fits(&self, entry: &Entry, expected: &str) -> Error {
        let reason = format!("its shape is {:?}, which does not fit {expected}", entry.shape);
        error::tensor(&self.checkpoint.path, &entry.stored_name, reason)
    }

    /// The neighbours that share one of so many scales of a row.
    fn group(&self, entry: &Entry, width: usize, groups: usize) -> Result<usize, Error> {
        let is_even = groups > 0 && width > 0 && width.is_multiple_of(groups);
        is_even.then(|| width / groups).ok_or_else(|| self.fits(entry, &format!("rows of {width} in equal groups")))
    }

    /// The order of columns, where it is there.
    fn order(&mut self, part: &str, width: usize) -> Result<Option<Entry>, Error> {
        let Some(entry) = self.find(part) else { return Ok(None) };
        self.expect(&entry, &[Format::I32])?;
        if entry.shape != [width] {
            return Err(self.fits(&entry, &format!("{width} columns")));
        }
        Ok(Some(entry))
    }

    /// `qweight`, `qzeros`, `scales` of AWQ and of GPTQ, which have columns as rows.
    fn transposed(&mut self, awq: bool, bits: usize, plus: u8) -> Result<Entry, Error> {
        let codes = self.take("qweight")?;
        self.expect(&codes, &[Format::I32])?;
        let (mut codes, [width, rows]) = self.plane(codes, bits, !awq)?;
        let scales = self.take("scales")?;
        self.expect(&scales, &[Format::F16, Format::Bf16, Format::F32])?;
        let &[groups, all] = &scales.shape[..] else { return Err(self.fits(&scales, "groups of rows")) };
        if all != rows {
            return Err(self.fits(&scales, &format!("{rows} rows")));
        }
        let order = if awq { None } else { self.order("g_idx", width)? };
        let group = match order {
            // The last group may have fewer.
            Some(_) if groups > 0 => width.div_ceil(groups),
            _ => self.group(&scales, width, groups)?,
        };
        let zeros = self.take("qzeros")?;
        self.expect(&zeros, &[Format::I32])?;
        let (mut zeros, [above, aside]) = self.plane(zeros, bits, false)?;
        // The last word of a row may have room for more.
        if above != groups || !(rows..rows + zeros.per_unit()).contains(&aside) {
            return Err(self.fits(&zeros.entry, &format!("{groups} groups of {rows} rows")));
        }
        if awq {
            (codes.places, zeros.places) = (Some(AWQ_PLACES), Some(AWQ_PLACES));
        }
        let zeros = Zeros::Each { codes: zeros, plus };
        let matrix = Quantized {
            codes,
            numbers: Numbers::Themselves,
            zeros,
            scales: Scales::Floats(scales),
            scale_rows: rows,
            groups,
            group,
            order,
            is_transposed: true,
            scheme: None,
        };
        Ok(entry_of(matrix, [rows, width]))
    }

    /// `weight_packed` of compressed-tensors as integers, or `weight` in bytes.
    fn integers(&mut self, codes: Entry) -> Result<Entry, Error> {
        let scales = self.take("weight_scale")?;
        self.expect(&scales, &[Format::F16, Format::Bf16, Format::F32])?;
        let is_packed = codes.format == Format::I32;
        let (shape, bits) = match is_packed {
            true => {
                let shape = self.take("weight_shape")?;
                self.told_shape(&shape, &codes)?
            }
            false => (codes.shape.clone().try_into().map_err(|_| self.fits(&codes, "a matrix"))?, 8),
        };
        let [rows, width] = shape;
        let (codes, _) = self.plane(codes, bits, false)?;
        let (scale_rows, groups) = match scales.shape[..] {
            [] | [1] | [1, 1] => (1, 1),
            [n] if n == rows => (rows, 1),
            [n, groups] if n == rows => (rows, groups),
            _ => return Err(self.fits(&scales, &format!("{rows} rows"))),
        };
        let order = self.order("weight_g_idx", width)?;
        let group = self.group(&scales, width, groups)?;
        let zeros = match self.find("weight_zero_point") {
            None => Zeros::All(1 << (bits - 1)),
            Some(mut zeros) => {
                if zeros.shape.len() < 2 {
                    zeros.shape = vec![zeros.shape.iter().product(), 1];
                }
                let (codes, [above, aside]) = self.plane(zeros, bits, is_packed)?;
                if above < scale_rows || above >= scale_rows + codes.per_unit() || aside != groups {
                    return Err(self.fits(&codes.entry, &format!("{groups} groups of {scale_rows} rows")));
                }
                Zeros::Each { codes, plus: 0 }
            }
        };
        let scales = Scales::Floats(scales);
        let numbers = Numbers::Themselves;
        let matrix = Quantized {
            codes,
            numbers,
            zeros,
            scales,
            scale_rows,
            groups,
            group,
            order,
            is_transposed: false,
            scheme: None,
        };
        Ok(entry_of(matrix, shape))
    }

    /// The shape of a packed matrix, and the bits of its codes.
    fn told_shape(&self, entry: &Entry, codes: &Entry) -> Result<([usize; 2], usize), Error> {
        self.expect(entry, &[Format::I64, Format::I32])?;
        let bytes = self.checkpoint.bytes_of(entry)?;
        let size = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |size, byte| size << 8 | u64::from(*byte));
        let sizes: Vec<u64> = bytes.chunks_exact(entry.format.block_bytes()).map(size).collect();
        let (&[rows, width], &[all, words]) = (&sizes[..], &codes.shape[..]) else {
            return Err(self.fits(codes, "a matrix"));
        };
        let bits = [4, 8].into_iter().find(|bits| width.div_ceil(32 / bits) == words as u64);
        match bits.filter(|_| rows == all as u64) {
            // Fewer than eight words' codes, so that it has no more than the tensor.
            Some(bits) => Ok(([all, width as usize], bits as usize)),
            None => Err(self.fits(codes, &format!("{rows} rows of {width} codes of 4 or 8 bits"))),
        }
    }

    /// `blocks` and `scales` of all experts of a layer, as one matrix: their rows one below the
    /// other. A bias becomes one list.
    fn experts(&mut self) -> Result<Entry, Error> {
        let (mut blocks, mut scales) = (self.take("blocks")?, self.take("scales")?);
        let &[experts, rows, groups, bytes] = &blocks.shape[..] else {
            return Err(self.fits(&blocks, "experts, rows, groups and their bytes"));
        };
        if scales.shape != [experts, rows, groups] {
            return Err(self.fits(&scales, &format!("{groups} groups of {rows} rows of {experts} experts")));
        }
        if let Some(bias) = self.find("bias") {
            if bias.shape != [experts, rows] {
                return Err(self.fits(&bias, &format!("{rows} rows of {experts} experts")));
            }
            let name = format!("{}.bias", self.prefix.trim_end_matches('_'));
            self.checkpoint.entries.insert(name, Entry { shape: vec![experts * rows], ..bias });
        }
        blocks.shape = vec![experts * rows, groups * bytes];
        scales.shape = vec![experts * rows, groups];
        self.small_floats(blocks, scales, None)
    }

    /// 4-bit floats, two in a byte, with scales of groups.
    fn small_floats(&mut self, codes: Entry, scales: Entry, shared: Option<(&str, bool)>) -> Result<Entry, Error> {
        let (codes, [rows, width]) = self.plane(codes, 4, false)?;
        let &[all, groups] = &scales.shape[..] else { return Err(self.fits(&scales, "groups of rows")) };
        if all != rows {
            return Err(self.fits(&scales, &format!("{rows} rows")));
        }
        let group = self.group(&scales, width, groups)?;
        let scales = match shared.and_then(|(part, is_divided)| Some((self.find(part)?, is_divided))) {
            None if scales.format == Format::F8E4M3 => {
                return Err(self.fits(&scales, "no factor for all, which is missing beside it"));
            }
            None => {
                self.expect(&scales, &[Format::U8])?;
                Scales::Exponents(scales)
            }
            Some((by, is_divided)) => {
                self.expect(&scales, &[Format::F8E4M3])?;
                self.expect(&by, &[Format::F32])?;
                if by.len() != 1 {
                    return Err(self.fits(&by, "one number"));
                }
                Scales::Shared { floats: scales, by, is_divided }
            }
        };
        let (numbers, zeros) = (Numbers::E2m1, Zeros::All(0));
        let matrix = Quantized {
            codes,
            numbers,
            zeros,
            scales,
            scale_rows: rows,
            groups,
            group,
            order: None,
            is_transposed: false,
            scheme: None,
        };
        Ok(entry_of(matrix, [rows, width]))
    }

    /// `weight` of bitsandbytes, in blocks that go over all rows.
    fn table_of_blocks(&mut self, codes: Entry, state: &str) -> Result<Entry, Error> {
        let state = self.take(state)?;
        let told: serde_json::Value = serde_json::from_slice(&self.checkpoint.bytes_of(&state)?)
            .map_err(|e| error::tensor(&self.checkpoint.path, &state.stored_name, format!("it is not JSON: {e}")))?;
        let size = |name: &str| told[name].as_u64().and_then(|size| usize::try_from(size).ok());
        let shape: Option<Vec<usize>> = told["shape"]
            .as_array()
            .map(|shape| shape.iter().filter_map(|n| n.as_u64().and_then(|n| usize::try_from(n).ok())).collect());
        let (Some(&[rows, width]), Some(group @ 1..)) = (shape.as_deref(), size("blocksize")) else {
            return Err(self.fits(&state, "a shape of two sizes, and a blocksize"));
        };
        self.expect(&codes, &[Format::U8])?;
        let len = rows.checked_mul(width).filter(|len| len.is_multiple_of(2) && len / 2 == codes.len());
        let len = len.ok_or_else(|| self.fits(&codes, &format!("{rows} x {width} codes of 4 bits")))?;
        if !width.is_multiple_of(group) || width == 0 {
            return Err(self.fits(&codes, &format!("rows of {width} in whole blocks of {group}")));
        }
        let table = self.take("weight.quant_map")?;
        self.expect(&table, &[Format::F32])?;
        if table.len() != 16 {
            return Err(self.fits(&table, "codes of 4 bits"));
        }
        let groups = width / group;
        let scales = self.take("weight.absmax")?;
        if scales.len() != len / group {
            return Err(self.fits(&scales, &format!("{} blocks", len / group)));
        }
        let scales = if scales.format == Format::U8 {
            let (table, of) = (self.take("weight.nested_quant_map")?, self.take("weight.nested_absmax")?);
            let block = size("nested_blocksize").filter(|block| *block > 0);
            let block = block.ok_or_else(|| self.fits(&state, "a nested_blocksize"))?;
            self.expect(&table, &[Format::F32])?;
            self.expect(&of, &[Format::F32])?;
            if table.len() != 256 || of.len() != scales.len().div_ceil(block) {
                return Err(self.fits(&of, &format!("{} scales in blocks of {block}", scales.len())));
            }
            let plus = told["nested_offset"].as_f64().unwrap_or(0.0) as f32;
            Scales::Nested { codes: scales, table, scales: of, block, plus }
        } else {
            self.expect(&scales, &[Format::F32])?;
            Scales::Floats(scales)
        };
        let entry = Entry { shape: vec![rows, width / 2], ..codes };
        let codes = Plane { entry, bits: 4, is_down: false, places: Some(HIGH_FIRST), flip: 0, width: width / 2 };
        let (numbers, zeros) = (Numbers::Table(table), Zeros::All(0));
        if !width.is_multiple_of(2) {
            return Err(self.fits(&codes.entry, "rows of whole bytes"));
        }
        let matrix = Quantized {
            codes,
            numbers,
            zeros,
            scales,
            scale_rows: rows,
            groups,
            group,
            order: None,
            is_transposed: false,
            scheme: None,
        };
        Ok(entry_of(matrix, [rows, width]))
    }
}

impl Checkpoint {
    /// Puts a matrix in the place of the tensors that it is made of, wherever there are such.
    pub(crate) fn recognize(mut self, quantization: Quantization) -> Result<Self, Error> {
        let marks: &[&str] = match quantization {
            Quantization::None => return Ok(self),
            Quantization::Awq | Quantization::Gptq { .. } => &["qweight"],
            Quantization::CompressedTensors => &["weight_packed", "weight"],
            Quantization::ModelOpt | Quantization::BitsAndBytes => &["weight"],
            Quantization::GptOss => &["blocks"],
        };
        let between = if quantization == Quantization::GptOss { '_' } else { '.' };
        let of = |name: &String| {
            let mark = marks.iter().find(|mark| name.rsplit(between).next() == Some(**mark))?;
            Some((name.strip_suffix(*mark)?.to_owned(), *mark))
        };
        for (prefix, mark) in self.entries.keys().filter_map(of).collect::<Vec<_>>() {
            let name = format!("{prefix}{mark}");
            let format = self.entries[&name].format;
            let mut parts = Parts { checkpoint: &mut self, prefix };
            let matrix = match quantization {
                Quantization::Awq => parts.transposed(true, 4, 0)?,
                Quantization::Gptq { bits, zeros_plus } => parts.transposed(false, bits, zeros_plus)?,
                Quantization::CompressedTensors => match (mark, format) {
                    ("weight_packed", Format::U8) => {
                        let (codes, scales) = (parts.take(mark)?, parts.take("weight_scale")?);
                        parts.small_floats(codes, scales, Some(("weight_global_scale", true)))?
                    }
                    ("weight_packed", _) | (_, Format::I8) => {
                        let codes = parts.take(mark)?;
                        parts.integers(codes)?
                    }
                    _ => continue,
                },
                Quantization::ModelOpt if format == Format::U8 => {
                    let (codes, scales) = (parts.take(mark)?, parts.take("weight_scale")?);
                    parts.small_floats(codes, scales, Some(("weight_scale_2", false)))?
                }
                Quantization::BitsAndBytes if format == Format::U8 => {
                    let states = ["nf4", "fp4"].map(|kind| format!("weight.quant_state.bitsandbytes__{kind}"));
                    let state = states.iter().find(|state| parts.checkpoint.has(&format!("{}{state}", parts.prefix)));
                    let state = state.unwrap_or(&states[0]);
                    let codes = parts.take(mark)?;
                    parts.table_of_blocks(codes, state)?
                }
                Quantization::GptOss => parts.experts()?,
                Quantization::None | Quantization::ModelOpt | Quantization::BitsAndBytes => continue,
            };
            let name = format!("{}.weight", parts.prefix.trim_end_matches(between));
            if parts.checkpoint.entries.insert(name.clone(), matrix).is_some() {
                return Err(error::tensor(&self.path, &name, "it is there twice"));
            }
        }
        Ok(self)
    }
}
