//! Selects a kernel by any unique part of its name, and lists the kernels of a module.

use warpfold_ptx::{Module, PtrAttribute};
use warpfold_sim::{KernelInfo, Program, demangled};

use crate::failure::Failure;

/// The kernel that `part` names: exactly, or as the only one with that in its name, mangled or not.
/// Without a part the only kernel there is.
pub(crate) fn find<'a>(program: &'a Program, part: Option<&str>) -> Result<&'a KernelInfo, Failure> {
    let kernels = program.kernels();
    let named = |kernel: &&KernelInfo| match part {
        None => true,
        Some(part) => kernel.name.contains(part) || demangled(&kernel.name).contains(part),
    };
    if let Some(kernel) = kernels.iter().find(|kernel| Some(kernel.name.as_str()) == part) {
        return Ok(kernel);
    }
    let found: Vec<&KernelInfo> = kernels.iter().filter(named).collect();
    match (found.as_slice(), part) {
        ([kernel], _) => Ok(kernel),
        ([], None) => Err(Failure::usage("the module has no kernel")),
        ([], Some(part)) => {
            Err(Failure::usage(format!("no kernel named '{part}'; the module has: {}", names(kernels.iter()))))
        }
        (several, None) => Err(Failure::usage(format!(
            "--entry is needed: the module has {} kernels: {}",
            several.len(),
            names(several.iter().copied())
        ))),
        (several, Some(part)) => Err(Failure::usage(format!(
            "'{part}' is part of {} kernels' names: {}",
            several.len(),
            names(several.iter().copied())
        ))),
    }
}

fn names<'a>(kernels: impl Iterator<Item = &'a KernelInfo>) -> String {
    kernels.map(|kernel| demangled(&kernel.name)).collect::<Vec<_>>().join("; ")
}

/// The kernels of a module with what a launch has to give: a line for each, and one a parameter.
pub(super) fn list(program: &Program, module: &Module) -> String {
    let mut text = String::new();
    for kernel in program.kernels() {
        let name = demangled(&kernel.name);
        text.push_str(&name);
        if name != kernel.name {
            text.push_str(&format!("  [{}]", kernel.name));
        }
        text.push('\n');
        text.push_str(&format!("    {}\n", launch(kernel)));
        let declared = module.function(&kernel.name);
        for (at, param) in kernel.params.iter().enumerate() {
            let variable = declared.and_then(|function| function.params.get(at));
            let kind = match variable {
                Some(v) if !v.dims.is_empty() => format!("{} bytes (bytes=, tensormap=)", param.bytes),
                Some(v) => match v.ptr {
                    Some(PtrAttribute { .. }) => format!("{}, a pointer (in=, out=, inout=)", v.ty),
                    None => v.ty.to_string(),
                },
                None => format!("{} bytes", param.bytes),
            };
            text.push_str(&format!("    {}: {kind}  {}\n", at + 1, param.name));
        }
    }
    if text.is_empty() { "no kernels\n".to_owned() } else { text }
}

/// Formats the launch bounds that a kernel declares.
fn launch(kernel: &KernelInfo) -> String {
    let size = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
    let mut parts = vec![match (kernel.required_block, kernel.max_threads) {
        (Some(block), _) => format!("block {}", size(block)),
        (None, Some(threads)) => format!("blocks of at most {threads} threads"),
        (None, None) => "any block".to_owned(),
    }];
    parts.extend(kernel.required_cluster.map(|cluster| format!("cluster {}", size(cluster))));
    parts.push(format!("{} bytes of static shared memory", kernel.static_shared));
    parts.join(", ")
}
