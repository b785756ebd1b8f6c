//! The entry and the module around a recorded body (PTX ISA, "Kernel and Function Directives",
//! "Performance-Tuning Directives").

use warpfold_ptx::{self as ptx, Name};

use crate::Target;
use crate::kernel::{Bounds, Threads};

/// A `.visible .entry`.
pub(crate) fn entry(
    name: &str,
    params: Vec<ptx::Variable>,
    bounds: &Bounds,
    body: Vec<ptx::Statement>,
) -> ptx::Function {
    ptx::Function {
        linkage: Some(ptx::Linkage::Visible),
        kind: ptx::FunctionKind::Entry,
        returns: Vec::new(),
        name: name.into(),
        params,
        directives: directives(bounds),
        body: Some(body),
        span: ptx::Span::default(),
    }
}

/// A module of 64-bit addresses.
pub(crate) fn module(version: (u32, u32), target: &Target, items: Vec<ptx::Item>) -> ptx::Module {
    ptx::Module { version, target: vec![target.arch.to_string().into()], address_size: 64, items }
}

fn directives(bounds: &Bounds) -> Vec<ptx::FunctionDirective> {
    let directive = |name, values: &[u32]| ptx::FunctionDirective {
        name: Name::new_static(name),
        values: values.iter().map(|v| u64::from(*v)).collect(),
        strings: Vec::new(),
    };
    let threads = match &bounds.threads {
        Threads::Free => None,
        Threads::Max(dims) => Some(directive("maxntid", dims)),
        Threads::Required(dims) => Some(directive("reqntid", dims)),
    };
    let min_blocks = bounds.min_blocks.map(|n| directive("minnctapersm", &[n]));
    let max_registers = bounds.max_registers.map(|n| directive("maxnreg", &[n]));
    let cluster = bounds.cluster.map(|dims| directive("reqnctapercluster", &dims));
    threads.into_iter().chain(cluster).chain(min_blocks).chain(max_registers).collect()
}
