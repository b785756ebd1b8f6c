//! Addresses in the names of the kernel's author: `tile[1][0]`, not `0x10000000084`.

use std::collections::BTreeMap;
use std::fmt;

use warpfold_ptx::{Item, Module, Name, ScalarType, Statement, Variable};

use super::names::short_name;

/// An element of a variable or a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The variable or buffer, mangled as in the PTX.
    pub variable: String,
    /// Byte offset from its start.
    pub offset: u64,
    /// Bytes per element: as declared, or for arrays of bytes, as accessed.
    pub element_bytes: u32,
    /// Size of the whole variable in bytes, if declared.
    pub variable_bytes: Option<u64>,
    /// Dimensions, outermost first, if known; otherwise it counts as a row of elements.
    pub shape: Vec<u64>,
}

impl Place {
    /// The variable's own name, without its function and mangling, and without the ending of a
    /// file.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.variable.strip_suffix(".npy").unwrap_or(&self.variable);
        short_name(name)
    }

    /// Parses a description by the machine: `tile+0x84`.
    pub(crate) fn read(described: &str, instruction: &str, shapes: &Shapes) -> Option<Self> {
        let (variable, offset) = described.rsplit_once("+0x")?;
        let offset = u64::from_str_radix(offset, 16).ok()?;
        if matches!(variable, "shared memory" | "local memory") {
            return None;
        }
        let accessed = element_of(instruction);
        let declared = shapes.0.get(variable);
        let (element_bytes, shape) = match declared {
            Some((bytes, shape)) if *bytes > 1 || accessed == Some(1) => (*bytes, shape.clone()),
            _ => (accessed?, Vec::new()),
        };
        let variable_bytes = declared.map(|(bytes, shape)| u64::from(*bytes) * shape.iter().product::<u64>());
        Some(Self { variable: variable.to_owned(), offset, element_bytes, variable_bytes, shape })
    }
}

/// Prints `tile[1][0]`, with the byte offset inside of an element after it.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())?;
        let size = u64::from(self.element_bytes.max(1));
        let (mut index, byte) = (self.offset / size, self.offset % size);
        let inner = self.shape.get(1..).unwrap_or_default();
        if self.shape.is_empty() || inner.contains(&0) {
            write!(f, "[{index}]")?;
        } else {
            for dimension in 0..self.shape.len() {
                let stride: u64 = inner.get(dimension..).unwrap_or_default().iter().product();
                write!(f, "[{}]", index / stride)?;
                index %= stride;
            }
        }
        if byte != 0 { write!(f, " byte {byte}") } else { Ok(()) }
    }
}

/// Bytes per element of a load, a store or an atomic.
fn element_of(instruction: &str) -> Option<u32> {
    let mnemonic = instruction.split_whitespace().find(|word| !word.starts_with('@'))?.trim_end_matches(';');
    let mut parts = mnemonic.split('.');
    if !matches!(parts.next()?, "ld" | "ldu" | "st" | "atom" | "red") {
        return None;
    }
    Some(parts.filter_map(ScalarType::from_modifier).next_back()?.bytes())
}

/// Element sizes and dimensions of a module's variables, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shapes(BTreeMap<String, (u32, Vec<u64>)>);

impl Shapes {
    pub(crate) fn of(module: &Module) -> Self {
        let mut shapes = Self::default();
        for item in &module.items {
            match item {
                Item::Variable(v) => shapes.add(v),
                Item::Function(f) => f.statements().for_each(|statement| {
                    if let Statement::Variable(v) = statement {
                        shapes.add(v);
                    }
                }),
                Item::Alias { .. } | Item::Directive(_) => {}
            }
        }
        shapes
    }

    fn add(&mut self, v: &Variable) {
        let shape: Option<Vec<u64>> = v.dims.iter().copied().collect();
        let name: &Name = &v.name;
        self.0.insert(name.to_string(), (v.ty.bytes() * v.vector, shape.unwrap_or_default()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes() -> Shapes {
        let text = ".version 8.0\n.target sm_80\n.address_size 64\n.shared .f32 flat[64];\n.shared .b8 bytes[4096];\n\
                    .entry f() { .shared .align 4 .f32 tile[2][33]; ret; }";
        Shapes::of(&warpfold_ptx::parse(text).expect("PTX"))
    }

    #[track_caller]
    fn check(described: &str, instruction: &str, expected: Option<&str>) {
        let place = Place::read(described, instruction, &shapes());
        assert_eq!(place.map(|p| p.to_string()).as_deref(), expected);
    }

    #[test]
    fn an_element_is_named_by_its_indices() {
        check("flat+0x40", "ld.shared.f32 %f1, [%r1];", Some("flat[16]"));
        check("tile+0x84", "@%p1 st.shared.f32 [%r1], %f1;", Some("tile[1][0]"));
        check("tile+0x86", "st.shared.b16 [%r1], %rs1;", Some("tile[1][0] byte 2"));
    }

    #[test]
    fn an_array_of_bytes_counts_what_the_access_moves() {
        check("bytes+0x40", "ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r1];", Some("bytes[16]"));
        check("bytes+0x3", "ld.shared.u8 %rs1, [%r1];", Some("bytes[3]"));
        check("out.npy+0x100", "st.global.u32 [%rd1], %r1;", Some("out[64]"));
        check("bytes+0x40", "cp.async.cg.shared.global [%r1], [%rd1], 16;", None);
    }

    #[test]
    fn what_lies_in_no_variable_has_no_element() {
        check("16 bytes past the end of flat (256 bytes)", "ld.shared.f32 %f1, [%r1];", None);
        check("shared memory+0x40", "ld.shared.f32 %f1, [%r1];", None);
    }
}
