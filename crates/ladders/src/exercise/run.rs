//! Runs of a kernel for an exercise: one launch, a plan of streams, a launch on several GPUs.

use std::time::Duration;

use warpfold_device::{
    Arguments, Buffer, Checks, Device, Error as DeviceError, ErrorKind as DeviceErrorKind, Function, LaunchConfig,
    LaunchReport, PeerGroup, Profile, Stream,
};

use super::plan::{self, What};
use crate::Error;
use crate::ladder::Arrays;

/// The host's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Host {
    /// One launch.
    Launch,
    /// Copies and launches on parts of `n`, in streams as the reader plans them.
    Plan { parts: usize },
    /// A launch on each of several GPUs at the same time: the inputs lie on them by turns, and each
    /// has its own output.
    Gpus(usize),
}

/// What a run leaves.
pub(super) struct Run {
    pub(super) result: Result<(), String>,
    pub(super) reports: Vec<LaunchReport>,
    pub(super) steps: u64,
}

/// A kernel and its launch.
pub(super) struct Attempt<'a> {
    pub(super) prepare: &'a dyn Fn(&Device) -> Result<Function, DeviceError>,
    pub(super) config: LaunchConfig,
    pub(super) n: u32,
}

impl Host {
    /// Runs on virtual GPUs under all checks.
    pub(super) fn run(self, problem: &Arrays<f32>, attempt: &Attempt<'_>, plan: &str) -> Result<Run, Error> {
        let gpus = if let Self::Gpus(gpus) = self { gpus } else { 1 };
        let devices = Device::virtual_peers(Profile::H200, gpus);
        devices.iter().try_for_each(|device| device.set_checks(Checks::All))?;
        let mut steps = 1;
        let (done, outputs) = match self {
            Self::Launch => attempt.launch(&devices[0], problem)?,
            Self::Gpus(_) => attempt.launch_on(&devices, problem)?,
            Self::Plan { parts } => {
                let parsed = plan::parse(plan, parts).and_then(|plan| Ok((plan::num_steps(&plan)?, plan)));
                match parsed {
                    Ok((count, plan)) => {
                        steps = count;
                        attempt.follow(&plan, &devices[0], problem)?
                    }
                    Err(wrong) => return Ok(Run { result: Err(wrong), reports: Vec::new(), steps: 0 }),
                }
            }
        };
        // Each device has the report of a launch on all of them.
        let reports = devices[0].take_reports();
        let result = match done {
            Ok(()) => match &outputs {
                Outputs::OnHost(output) => problem.compare(output),
                Outputs::OnDevices(outputs) => {
                    let outputs = outputs.iter().map(Buffer::download).collect::<Result<Vec<_>, _>>()?;
                    outputs.iter().try_for_each(|output| problem.compare(output))
                }
            },
            Err(error) if matches!(error.kind(), DeviceErrorKind::LaunchFailed { .. }) => Err(error.to_string()),
            Err(error) => return Err(error.into()),
        };
        // What the host reads that nobody has written is wrong, and said as that.
        devices.iter().for_each(|device| drop(device.take_reports()));
        Ok(Run { result, reports, steps })
    }
}

/// How the launches ended, and what they wrote.
type Ended = (Result<(), DeviceError>, Outputs);

enum Outputs {
    OnDevices(Vec<Buffer<f32>>),
    OnHost(Vec<f32>),
}

impl Attempt<'_> {
    fn launch(&self, device: &Device, problem: &Arrays<f32>) -> Result<Ended, Error> {
        let inputs = problem.inputs.iter().map(|input| uploaded(device, input)).collect::<Result<Vec<_>, _>>()?;
        let mut output = device.alloc_named::<f32>("output", problem.expected.len())?;
        let arguments = inputs.iter().fold(Arguments::new(), Arguments::input);
        let mut arguments = arguments.output(&mut output).value(self.n);
        let function = (self.prepare)(device)?;
        // Kernels of Triton end with two pointers to scratch memory, which these do not use.
        if function.info().params.as_ref().is_some_and(|params| params.len() == inputs.len() + 4) {
            arguments = arguments.value(0_u64).value(0_u64);
        }
        let launched = device.default_stream().launch_raw(&function, self.config, &arguments);
        let done = launched.and_then(|()| device.synchronize());
        Ok((done, Outputs::OnDevices(vec![output])))
    }

    fn launch_on(&self, devices: &[Device], problem: &Arrays<f32>) -> Result<Ended, Error> {
        let owners = devices.iter().cycle().zip(&problem.inputs);
        let inputs = owners.map(|(device, input)| uploaded(device, input)).collect::<Result<Vec<_>, _>>()?;
        let outputs = devices.iter().map(|device| device.alloc_named::<f32>("output", problem.expected.len()));
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        let group = PeerGroup::new(devices.to_vec(), Duration::from_secs(30))?;
        let functions = devices.iter().map(self.prepare).collect::<Result<Vec<_>, _>>()?;
        let (config, n) = (self.config, self.n);
        let launch = |rank: usize| {
            let address =
                |arguments: Arguments<'static>, buffer: &Buffer<f32>| arguments.raw(&buffer.address().to_le_bytes(), 8);
            let arguments = inputs.iter().chain([&outputs[rank]]).fold(Arguments::new(), address).value(n);
            let stream = devices[rank].default_stream();
            group.launch(rank, &stream, &functions[rank], config, &arguments)?;
            devices[rank].synchronize()
        };
        let launch = &launch;
        let ended = std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..devices.len()).map(|rank| scope.spawn(move || launch(rank))).collect();
            ranks.into_iter().map(|rank| rank.join().expect("a launch does not panic")).collect::<Vec<_>>()
        });
        Ok((ended.into_iter().collect(), Outputs::OnDevices(outputs)))
    }

    fn follow(&self, plan: &[plan::Step], device: &Device, problem: &Arrays<f32>) -> Result<Ended, Error> {
        let (input, n) = (&problem.inputs[0], self.n as usize);
        let mut x = device.alloc_named::<f32>("input", input.len())?;
        let mut y = device.alloc_named::<f32>("output", problem.expected.len())?;
        let mut output = vec![f32::NAN; problem.expected.len()];
        let function = (self.prepare)(device)?;
        let streams = (0..plan::STREAMS).map(|_| device.new_stream()).collect::<Result<Vec<Stream>, _>>()?;
        let mut issue = |step: &plan::Step| {
            let (stream, part) = (&streams[step.stream], step.at * n..(step.at + 1) * n);
            match step.what {
                What::In => stream.copy_from_host(x.view_mut(part.clone())?, &input[part]),
                What::Run => {
                    let arguments = Arguments::new().input(x.view(part.clone())?).output(y.view_mut(part)?);
                    stream.launch_raw(&function, self.config, &arguments.value(self.n))
                }
                What::Out => stream.copy_to_host(y.view(part.clone())?, &mut output[part]),
                // `plan::num_steps` has judged them; here each call ends before the next one begins.
                What::Record | What::Wait => Ok(()),
            }
        };
        let done = plan.iter().try_for_each(&mut issue).and_then(|()| device.synchronize());
        Ok((done, Outputs::OnHost(output)))
    }
}

fn uploaded(device: &Device, input: &[f32]) -> Result<Buffer<f32>, DeviceError> {
    let mut buffer = device.alloc_named("input", input.len())?;
    device.default_stream().copy_from_host(&mut buffer, input)?;
    Ok(buffer)
}
