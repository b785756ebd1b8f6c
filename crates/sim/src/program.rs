//! Programs: PTX text, loaded into a device's memory and ready to be launched.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use warpfold_ptx::{Function, FunctionKind, Initializer, Item, Linkage, Module, StateSpace, Statement, Variable};

use crate::exec::code::Code;
use crate::exec::grid;
use crate::layout::{self, ParamInfo, bytes_of, invalid_variable};
use crate::memory::Owned;
use crate::static_shared::{self, static_shared};
use crate::{Arch, Checks, Error, Launch, Memory, Options, Report, decode};

/// A decoded module, with its variables placed in a device's memory.
///
/// Everything in it is checked when it is loaded: an instruction that is not executed here is an
/// error before anything that reaches it runs.
#[derive(Debug)]
pub struct Program {
    arch: Arch,
    kernels: Vec<KernelInfo>,
    globals: HashMap<String, (u64, u64)>,
    /// The memory of the variables; freed with the program.
    _variables: Vec<Owned>,
    text: Box<str>,
    /// The tree, until the first launch says which code it wants: it is larger than all the rest.
    module: Mutex<Option<Module>>,
    /// Kernels that reach unsupported instructions, with the errors.
    refused: HashMap<String, Error>,
    plain: Arc<Code>,
    checked: OnceLock<Arc<Code>>,
}

/// Declarations of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelInfo {
    /// Its name.
    pub name: String,
    /// Its parameters.
    pub params: Vec<ParamInfo>,
    /// Bytes of all parameters.
    pub param_bytes: u32,
    /// Bytes of static shared memory: the variables named by the kernel or a function that it
    /// reaches.
    pub static_shared: u32,
    /// Maximum number of threads per block (`.maxntid`).
    pub max_threads: Option<u32>,
    /// Required block size (`.reqntid`).
    pub required_block: Option<[u32; 3]>,
    /// Required cluster size (`.reqnctapercluster`), also used by launches that give none.
    pub required_cluster: Option<[u32; 3]>,
    /// Maximum number of blocks per cluster (`.maxclusterrank`).
    pub max_cluster_blocks: Option<u32>,
    /// True if a cluster size must be given, here or at the launch (`.explicitcluster`).
    pub explicit_cluster: bool,
    /// Registers per thread at the start of the kernel, if its directives give it: `.maxnreg`, or
    /// `.minnctapersm` with `.maxntid` or `.reqntid`. The starting point for `setmaxnreg`.
    pub entry_registers: Option<u32>,
    /// Maximum number of live 32-bit registers at any point of the kernel: an estimate of ptxas's
    /// allocation.
    pub registers: u32,
}

impl Program {
    /// Parses and decodes PTX text, and places its `.global` and `.const` variables in `memory`.
    ///
    /// An instruction that is not executed here refuses the kernels that can reach it; if that is
    /// every one, the program.
    ///
    /// # Errors
    /// [`Error::Syntax`], [`Error::Unsupported`] and [`Error::Invalid`] say what is wrong where;
    /// [`Error::OutOfMemory`] if the variables do not fit.
    pub fn load(memory: &Memory, ptx: &str, arch: Arch) -> Result<Self, Error> {
        let module = warpfold_ptx::parse(ptx)?;
        check_target(&module, arch)?;
        let (globals, variables) = place_globals(memory, &module)?;
        let plain = decode::program::decode(&module, &globals, arch, false)?;
        initialise_globals(memory, &module, &globals, &plain)?;
        let kernels = module
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Function(f) if f.kind == FunctionKind::Entry && f.body.is_some() => {
                    Some(kernel_info(&module, f, &plain))
                }
                _ => None,
            })
            .collect::<Result<_, _>>()?;
        let refused = refusals(&module, &plain)?;
        Ok(Self {
            arch,
            kernels,
            globals,
            _variables: variables,
            text: ptx.into(),
            module: Mutex::new(Some(module)),
            refused,
            plain: Arc::new(plain),
            checked: OnceLock::new(),
        })
    }

    /// The architecture that the program was loaded for.
    #[must_use]
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// The kernels, in text order.
    #[must_use]
    pub fn kernels(&self) -> &[KernelInfo] {
        &self.kernels
    }

    /// The kernel with this name.
    ///
    /// # Errors
    /// [`Error::UnknownKernel`] names those that there are.
    pub fn kernel(&self, name: &str) -> Result<&KernelInfo, Error> {
        self.kernels.iter().find(|k| k.name == name).ok_or_else(|| Error::UnknownKernel {
            name: name.to_owned(),
            known: self.kernels.iter().map(|k| k.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Address and size in bytes of a module variable.
    #[must_use]
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        self.globals.get(name).copied()
    }

    /// Runs a kernel to its end.
    ///
    /// Broken rules of the simulated program are findings in the report, not errors, unless the
    /// checks are [`Checks::Deny`].
    ///
    /// # Errors
    /// [`Error::UnknownKernel`], [`Error::InvalidLaunch`] and [`Error::Unsupported`] before it runs;
    /// [`Error::Trap`]; [`Error::Findings`].
    pub fn launch(&self, memory: &Memory, launch: &Launch, options: &Options) -> Result<Report, Error> {
        self.launch_over(memory, launch, options, None)
    }

    /// Runs a kernel on several devices at a time that share their addresses (see
    /// [`Memory::peer`]), each with its own bytes of parameters. All blocks of all devices are
    /// resident together, so that they may wait for one another.
    ///
    /// Findings and traps name the device as z of a block. Blocks of two devices are judged as two
    /// blocks of a grid are: what is missed is a flag whose scope is the device only.
    ///
    /// # Errors
    /// Those of [`Program::launch`]; [`Error::InvalidLaunch`] also for clusters, and for more than
    /// one block in z.
    pub fn launch_on_devices(
        &self,
        memory: &Memory,
        launch: &Launch,
        options: &Options,
        params: &[Vec<u8>],
    ) -> Result<Report, Error> {
        self.launch_over(memory, launch, options, Some(params))
    }

    fn launch_over(
        &self,
        memory: &Memory,
        launch: &Launch,
        options: &Options,
        devices: Option<&[Vec<u8>]>,
    ) -> Result<Report, Error> {
        let kernel = self.kernel(&launch.kernel)?;
        if let Some(reason) = self.refused.get(&launch.kernel) {
            return Err(reason.clone());
        }
        let module = self.module.lock().unwrap_or_else(PoisonError::into_inner).take();
        let code = match options.checks {
            Checks::None => Arc::clone(&self.plain),
            Checks::All | Checks::Deny => self.checked_code(module)?,
        };
        let report = grid::launch(&code, kernel, self.arch, memory, launch, options, devices)?;
        if options.checks == Checks::Deny && report.findings.iter().any(|found| found.is_failure(&options.allowed)) {
            return Err(Error::Findings { kernel: launch.kernel.clone(), report: Box::new(report) });
        }
        Ok(report)
    }

    fn checked_code(&self, module: Option<Module>) -> Result<Arc<Code>, Error> {
        if let Some(code) = self.checked.get() {
            return Ok(Arc::clone(code));
        }
        let module = module.map_or_else(|| warpfold_ptx::parse(&self.text), Ok)?;
        let code = Arc::new(decode::program::decode(&module, &self.globals, self.arch, true)?);
        Ok(Arc::clone(self.checked.get_or_init(|| code)))
    }
}

/// Returns the kernels that reach a function with an unsupported instruction. If that is all of
/// them, or there is none, loading fails.
fn refusals(module: &Module, code: &Code) -> Result<HashMap<String, Error>, Error> {
    let refusal = |f: &&Function| {
        let index = code.function_index.get(f.name.as_str())?;
        code.functions[*index as usize].refusal.clone()
    };
    let kernels = module.items.iter().filter_map(|item| match item {
        Item::Function(f) if f.kind == FunctionKind::Entry && f.body.is_some() => Some(f),
        _ => None,
    });
    let (mut refused, mut count, mut first) = (HashMap::new(), 0, None);
    for kernel in kernels {
        count += 1;
        if let Some(reason) = static_shared::reached(module, kernel).iter().find_map(refusal) {
            first.get_or_insert_with(|| reason.clone());
            refused.insert(kernel.name.to_string(), reason);
        }
    }
    let any = || code.functions.iter().find_map(|f| f.refusal.clone());
    match if refused.len() == count { first.or_else(any) } else { None } {
        Some(reason) => Err(reason),
        None => Ok(refused),
    }
}

/// Checks that the virtual GPU has the architecture of the device, and that `.target` is not newer;
/// an `a` target requires the exact architecture.
fn check_target(module: &Module, arch: Arch) -> Result<(), Error> {
    let target = module.target.first();
    let text = target.map_or_else(String::new, |target| format!(".target {target}"));
    let invalid = |reason: String| Error::Unsupported { line: 0, text: text.clone(), reason };
    if !matches!((arch.number, arch.specific), (80 | 86 | 87 | 89 | 90, false) | (90, true)) {
        let reason = format!("the virtual GPU is sm_80, sm_86, sm_87, sm_89, sm_90 or sm_90a, not {arch}");
        return Err(invalid(reason));
    }
    let Some(target) = target else { return Ok(()) };
    let digits: String = target.chars().filter(char::is_ascii_digit).collect();
    let number: u32 = digits.parse().map_err(|_| invalid("unknown architecture".to_owned()))?;
    let specific = target.ends_with('a');
    if number > arch.number || (specific && (number != arch.number || !arch.specific)) {
        return Err(invalid(format!("the device is {arch}")));
    }
    Ok(())
}

/// The `.global` and `.const` variables of a module and of its functions, with the names that they
/// are placed under.
fn variables(module: &Module) -> impl Iterator<Item = (String, &Variable)> {
    let of_module = module.items.iter().filter_map(|item| match item {
        Item::Variable(v) => Some((v.name.to_string(), v)),
        _ => None,
    });
    let functions = module.items.iter().filter_map(|item| match item {
        Item::Function(f) => Some(f),
        _ => None,
    });
    let of_functions = functions.flat_map(Function::statements).filter_map(|statement| match statement {
        Statement::Variable(v) => Some((layout::static_name(v), v)),
        _ => None,
    });
    of_module.chain(of_functions).filter(|(_, v)| matches!(v.space, StateSpace::Global | StateSpace::Const))
}

type Placed = (HashMap<String, (u64, u64)>, Vec<Owned>);

fn place_globals(memory: &Memory, module: &Module) -> Result<Placed, Error> {
    let mut globals = HashMap::new();
    let mut owners = Vec::new();
    for (name, v) in variables(module) {
        if v.linkage == Some(Linkage::Extern) {
            return Err(invalid_variable(v, "an external variable is not defined in this module"));
        }
        let bytes = bytes_of(v).ok_or_else(|| invalid_variable(v, "its size is not known"))?;
        let owned = memory.allocate_owned(bytes, &v.name)?;
        let address = owned.address;
        owners.push(owned);
        // Variables without an initial value start as zeros (PTX ISA, "Initializers").
        memory.fill(address, 0, bytes)?;
        if v.space == StateSpace::Const {
            memory.make_constant(address)?;
        }
        globals.insert(name, (address, bytes));
    }
    Ok((globals, owners))
}

fn initialise_globals(
    memory: &Memory,
    module: &Module,
    globals: &HashMap<String, (u64, u64)>,
    code: &Code,
) -> Result<(), Error> {
    for (name, v) in variables(module) {
        let Some(init) = &v.init else { continue };
        let (address, bytes) = globals[&name];
        let mut data = Vec::new();
        let dims: Vec<u64> = v.dims.iter().map(|d| d.unwrap_or(u64::MAX)).collect();
        flatten(v, init, &dims, globals, code, &mut data)?;
        if data.len() as u64 > bytes {
            return Err(invalid_variable(v, "the initialiser is larger than the variable"));
        }
        memory.write(address, &data)?;
    }
    Ok(())
}

/// Appends the bytes of an initialiser; lists shorter than their dimension are padded with zeros.
fn flatten(
    v: &Variable,
    init: &Initializer,
    dims: &[u64],
    globals: &HashMap<String, (u64, u64)>,
    code: &Code,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let element = v.ty.bytes() as usize;
    match init {
        Initializer::List(list) => {
            let inner = dims.get(1..).unwrap_or_default();
            for item in list {
                flatten(v, item, inner, globals, code, out)?;
            }
            let size = inner.iter().product::<u64>().saturating_mul(element as u64);
            if let Some(&n) = dims.first().filter(|&&n| n != u64::MAX && size < u64::from(u32::MAX)) {
                let missing = n.saturating_sub(list.len() as u64).saturating_mul(size);
                let missing = usize::try_from(missing).map_err(|_| invalid_variable(v, "it is too large"))?;
                out.resize(out.len() + missing, 0);
            }
        }
        Initializer::Immediate(value) => {
            let bits = layout::literal_bits(*value, v.ty);
            out.extend_from_slice(&bits.to_le_bytes()[..element]);
        }
        Initializer::Address { .. } => {
            let value = address_value(v, init, globals, code)?;
            out.extend_from_slice(&value.to_le_bytes()[..element.min(8)]);
        }
        Initializer::MaskedAddress { mask, address } => {
            let value = address_value(v, address, globals, code)? & mask;
            let shifted = value >> mask.trailing_zeros().min(63);
            out.extend_from_slice(&shifted.to_le_bytes()[..element.min(8)]);
        }
    }
    Ok(())
}

fn address_value(
    v: &Variable,
    init: &Initializer,
    globals: &HashMap<String, (u64, u64)>,
    code: &Code,
) -> Result<u64, Error> {
    let Initializer::Address { name, offset, .. } = init else {
        return Err(invalid_variable(v, "an address is expected"));
    };
    let base = match (globals.get(name.as_str()), code.function_index.get(name.as_str())) {
        (Some(&(address, _)), _) => address,
        (None, Some(&function)) => crate::exec::memory_map::FUNCTION_WINDOW + u64::from(function) * 16,
        (None, None) => return Err(invalid_variable(v, &format!("'{name}' has no address that is known here"))),
    };
    Ok(base.wrapping_add_signed(*offset))
}

fn kernel_info(module: &Module, f: &Function, code: &Code) -> Result<KernelInfo, Error> {
    let params = layout::parameters(&f.params)?;
    let directive = |name: &str| f.directives.iter().find(|d| d.name == name).map(|d| d.values.clone());
    let narrow = |v: u64| u32::try_from(v).unwrap_or(u32::MAX);
    let max_threads = directive("maxntid").map(|v| narrow(v.iter().product()));
    let extent = |v: Vec<u64>| [0, 1, 2].map(|i| v.get(i).map_or(1, |&n| narrow(n)));
    let required_block = directive("reqntid").map(extent);
    let one = |name| directive(name).map(|v| v.first().map_or(1, |&n| narrow(n)));
    let most_threads = max_threads.or(required_block.map(|b| b.iter().product()));
    let entry_registers = one("maxnreg").or_else(|| entry_registers(most_threads?, one("minnctapersm")?));
    if directive("blocksareclusters").is_some() {
        let reason = "grids that are counted in clusters".to_owned();
        return Err(Error::Unsupported { line: f.span.line, text: f.name.to_string(), reason });
    }
    let function = code.function_index.get(f.name.as_str()).map(|&i| &code.functions[i as usize]);
    Ok(KernelInfo {
        name: f.name.to_string(),
        param_bytes: params.last().map_or(0, |p| p.offset + p.bytes),
        params,
        static_shared: static_shared(module, f),
        max_threads,
        required_block,
        required_cluster: directive("reqnctapercluster").map(extent),
        max_cluster_blocks: one("maxclusterrank"),
        explicit_cluster: directive("explicitcluster").is_some(),
        entry_registers,
        registers: function.map_or(0, |f| f.registers),
    })
}

/// Registers per thread if a number of blocks of this many threads share the 65,536 of a
/// multiprocessor: a multiple of 8, and at most 255, as ptxas 13.0 reports it.
fn entry_registers(threads: u32, blocks: u32) -> Option<u32> {
    let threads = threads.checked_next_multiple_of(32)?.checked_mul(blocks)?;
    match 65_536u32.checked_div(threads)? / 8 * 8 {
        0 => None,
        registers => Some(registers.min(255)),
    }
}
