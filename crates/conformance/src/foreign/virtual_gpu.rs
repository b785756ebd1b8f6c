//! One case on the virtual GPU.

use std::sync::{Arc, Mutex};

use warpfold_sim::{Checks, KernelInfo, Launch, Memory, Options, Program, Report};

use super::array::{Array, DType};
use super::case::{Arg, Case};
use super::expect::Outcome;
use super::run::Run;
use super::{fixtures, generate, reference};

/// Runs the case from one of its files, judges outputs and printed text, and returns the report.
///
/// # Errors
/// What went wrong, in words.
pub fn run(case: &Case, file: &str, checks: Checks) -> Result<Report, String> {
    let path = fixtures().join(file);
    let ptx = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let memory = Memory::new(1 << 30);
    let program = Program::load(&memory, &ptx, Case::arch(file)).map_err(|e| e.to_string())?;
    let kernel = program.kernel(&case.entry).map_err(|e| e.to_string())?;
    let mut bound = Bound::new(&memory, case, kernel, checks).map_err(|e| e.to_string())?;

    let printed = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&printed);
    let options = Options {
        checks,
        patience: 20_000_000,
        output: Some(Arc::new(move |text: &str| sink.lock().expect("no printer panics").push_str(text))),
        ..Options::default()
    };
    let launch = Launch {
        kernel: case.entry.clone(),
        grid: case.grid,
        block: case.block,
        cluster: [1, 1, 1],
        dynamic_shared: case.shared,
        params: std::mem::take(&mut bound.params),
        cooperative: case.cooperative,
        programmatic: false,
    };
    let report = program.launch(&memory, &launch, &options).map_err(|e| e.to_string())?;
    if report.aborted {
        let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        return Err(format!("aborted: {}", findings.join("; ")));
    }
    let after = bound.read_back(&memory).map_err(|e| e.to_string())?;
    judge(&Run { case, before: bound.before, after })?;
    let printed = printed.lock().expect("no printer panics");
    if *printed != case.stdout {
        return Err(format!("printed {:?}, expected {:?}", *printed, case.stdout));
    }
    Ok(report)
}

fn judge(run: &Run<'_>) -> Outcome {
    let name = run.case.reference.as_str();
    let reference = reference::find(name).ok_or_else(|| format!("no reference is called `{name}`"))?;
    reference(run)
}

/// The arguments of a case, placed in memory.
struct Bound {
    params: Vec<u8>,
    before: Vec<Option<Array>>,
    buffers: Vec<Option<(u64, DType, usize)>>,
}

impl Bound {
    fn new(memory: &Memory, case: &Case, kernel: &KernelInfo, checks: Checks) -> Result<Self, warpfold_sim::Error> {
        assert_eq!(kernel.params.len(), case.args.len(), "{}: wrong number of arguments", case.entry);
        let mut params = vec![0; kernel.param_bytes as usize];
        let (mut before, mut buffers) = (Vec::new(), Vec::new());
        for (arg, info) in case.args.iter().zip(&kernel.params) {
            let (contents, buffer, bytes) = place(memory, arg, &info.name, checks)?;
            assert_eq!(bytes.len(), info.bytes as usize, "{} of {}: wrong size", info.name, case.entry);
            params[info.offset as usize..][..bytes.len()].copy_from_slice(&bytes);
            before.push(contents);
            buffers.push(buffer);
        }
        Ok(Self { params, before, buffers })
    }

    fn read_back(&self, memory: &Memory) -> Result<Vec<Option<Array>>, warpfold_sim::Error> {
        let read = |&(address, dtype, len): &(u64, DType, usize)| {
            let mut bytes = vec![0; len * dtype.bytes()];
            memory.read(address, &mut bytes).map(|()| Array { dtype, bytes })
        };
        self.buffers.iter().map(|b| b.as_ref().map(read).transpose()).collect()
    }
}

type Placed = (Option<Array>, Option<(u64, DType, usize)>, Vec<u8>);

/// An argument's contents, where they lie, and the bytes of the parameter.
fn place(memory: &Memory, arg: &Arg, name: &str, checks: Checks) -> Result<Placed, warpfold_sim::Error> {
    let allocate = |dtype: DType, len: usize| memory.allocate((len * dtype.bytes()) as u64, name);
    match arg {
        Arg::In(buffer) | Arg::Inout(buffer) => {
            let array = generate::generate(buffer);
            let len = buffer.shape.iter().product();
            let address = allocate(buffer.dtype, len)?;
            memory.write(address, &array.bytes)?;
            let place = (address, buffer.dtype, len);
            Ok((Some(array), Some(place), address.to_le_bytes().to_vec()))
        }
        Arg::Out { dtype, shape } => {
            let len = shape.iter().product();
            let address = allocate(*dtype, len)?;
            if checks == Checks::None {
                // Where nothing reports a read of it, an element that was not written must at least
                // look wrong.
                memory.fill(address, 0xa5, (len * dtype.bytes()) as u64)?;
            }
            Ok((None, Some((address, *dtype, len)), address.to_le_bytes().to_vec()))
        }
        scalar => Ok((None, None, scalar.scalar_bytes())),
    }
}
