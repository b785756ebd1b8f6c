//! Tables of constants in global memory (PTX ISA, "Initializers").

use warpfold_ptx::{self as ptx, Initializer, Item, Opcode, ScalarType, StateSpace};

use super::memory::{self, Base, Location, variable};
use crate::memory::{Cache, Window};
use crate::recorder::{Raw, Recorder};
use crate::types::Type;

/// So many neighbours from the element at `index` on, a `u32`. The table stands once in a module,
/// under this name.
pub(crate) fn lookup(r: &mut Recorder, name: &str, words: &[u64], index: Raw, num: u32) -> Vec<Raw> {
    let name = format!("{}_{name}", r.name);
    if !r.items.iter().any(|item| matches!(item, Item::Variable(variable) if variable.name == *name)) {
        let mut table = variable(StateSpace::Global, ScalarType::B64, name.clone());
        table.align = Some(8);
        table.dims = vec![Some(words.len() as u64)];
        let words = words.iter().map(|word| Initializer::Immediate(ptx::Immediate::Int((*word).into())));
        table.init = Some(Initializer::List(words.collect()));
        r.items.push(Item::Variable(table));
    }
    let symbol = ptx::Operand::Name { name: name.into(), component: None };
    let base = r.define(ScalarType::B64, Opcode::Mov, &["u64"], vec![symbol]);
    let table = Location { space: Window::Global, base: Base::Register(base), offset: 0 };
    let first = memory::element(r, table, Type::U64.bytes(), Type::U32, index);
    (0..i64::from(num))
        .flat_map(|i| {
            let location = Location { offset: first.offset + 8 * i, ..first };
            memory::load(r, location, Cache::ReadOnly, Type::U64, 1, None)
        })
        .collect()
}
