//! Every operator as the program names it: inputs and options in, outputs out.
//!
//! [`operators`] lists them; [`run`] finds an operator, refuses options that it does not take, and
//! runs it. An operator is added by one entry in the table of its family.

mod elementwise;
mod options;
mod others;
mod pooling;
mod products;
mod reductions;
mod rows;
mod scans;
mod scatters;
mod segments;

use warpfold_kernels::{Error, ErrorKind};

pub use options::{Choice, Options};

use crate::Tensor;

/// An operator.
#[derive(Debug)]
pub struct Operator {
    /// Its name: `layer-norm`.
    pub name: &'static str,
    /// Inputs and outputs in a line: `X → sum over the axes`.
    pub summary: &'static str,
    /// Inputs, at least and at most, but for offsets of segments.
    pub inputs: (usize, usize),
    /// Outputs at most.
    pub outputs: usize,
    /// The options that it takes.
    pub options: &'static [Choice],
    /// Runs it on as many inputs as it takes, with options that it takes.
    body: fn(&Operator, &[Tensor], &Options) -> Result<Vec<Tensor>, Error>,
}

impl Operator {
    /// Returns an error unless the operator takes this number of inputs and these options.
    ///
    /// # Errors
    /// [`ErrorKind::NumInputs`], [`ErrorKind::OptionNotTaken`].
    pub fn check(&self, num_inputs: usize, options: &Options) -> Result<(), Error> {
        // Offsets of segments are an input more.
        let offsets = usize::from(options.offsets == Some(true));
        let (op, (least, most)) = (self.name.to_owned(), (self.inputs.0 + offsets, self.inputs.1 + offsets));
        if !(least..=most).contains(&num_inputs) {
            return Err(ErrorKind::NumInputs { op, least, most, found: num_inputs }.into());
        }
        match options.chosen().find(|choice| !self.options.contains(choice)) {
            Some(choice) => Err(ErrorKind::OptionNotTaken { op, option: choice.name() }.into()),
            None => Ok(()),
        }
    }

    /// Runs it: at most [`Operator::outputs`] tensors.
    ///
    /// # Errors
    /// Those of [`Operator::check`], and its own.
    pub fn run(&self, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
        self.check(inputs.len(), options)?;
        (self.body)(self, inputs, options)
    }
}

impl Operator {
    /// Runs it with its first result in the place of its first input, whose memory nobody else may
    /// see; gives the other results.
    ///
    /// # Errors
    /// [`ErrorKind::OptionNotTaken`] for an operator that works on neither elements nor rows one by
    /// one, [`ErrorKind::DtypeMismatch`] if the result is of another type,
    /// [`ErrorKind::SharedMemory`], [`ErrorKind::OverlappingOutput`], and those of
    /// [`Operator::run`].
    pub fn run_in_place(&self, first: &mut Tensor, others: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
        self.check(1 + others.len(), options)?;
        let refused = || Err(ErrorKind::OptionNotTaken { op: self.name.to_owned(), option: "in-place" }.into());
        rows::run_in_place(self.name, first, others, options)
            .or_else(|| elementwise::run_in_place(self.name, first, others, options))
            .unwrap_or_else(refused)
    }
}

/// Every operator, family by family.
pub fn operators() -> impl Iterator<Item = &'static Operator> {
    [
        reductions::OPERATORS,
        rows::OPERATORS,
        products::OPERATORS,
        others::OPERATORS,
        pooling::OPERATORS,
        elementwise::OPERATORS,
        scans::OPERATORS,
        scatters::OPERATORS,
    ]
    .into_iter()
    .flatten()
}

/// The operator of this name.
///
/// # Errors
/// [`ErrorKind::UnknownOperation`].
pub fn find(name: &str) -> Result<&'static Operator, Error> {
    let operator = operators().find(|operator| operator.name == name);
    operator.ok_or_else(|| ErrorKind::UnknownOperation(name.to_owned()).into())
}

/// Runs the operator of this name.
///
/// ```
/// use warpfold::by_name::{self, Options};
/// use warpfold::{Device, Profile, Tensor};
///
/// let device = Device::virtual_gpu(Profile::H200);
/// let x = Tensor::from_slice(&[1_i32, 2, 3, 4], &[2, 2], &device)?;
/// let options = Options { axes: Some(vec![-1]), ..Options::default() };
/// let sums = by_name::run("sum", &[x], &options)?;
/// assert_eq!(sums[0].to_vec::<i64>()?, [3, 7]);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::UnknownOperation`], and those of [`Operator::run`].
pub fn run(name: &str, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    find(name)?.run(inputs, options)
}
