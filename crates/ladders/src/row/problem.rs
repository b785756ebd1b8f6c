//! A row operator's problem on a device: rows in, rows and statistics out, each row judged against
//! its reference.

use warpfold_device::{Arguments, Device};

use super::RowElement;
use crate::Error;
use crate::ladder::{Guarded, Guards, Instance, Rows, Rung, Verdict};

/// A result in double precision, and how far from it a computed one may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Expected {
    pub(crate) value: f64,
    pub(crate) bound: f64,
}

impl Expected {
    /// The difference of a computed value, and whether it is within the bound.
    fn judge(self, computed: f64) -> (f64, bool) {
        let error = (computed - self.value).abs();
        (error, error <= self.bound)
    }

    /// The largest difference of computed values, and whether all are within their bounds.
    pub(crate) fn judge_all(computed: impl Iterator<Item = f64>, expected: impl Iterator<Item = Self>) -> (f64, bool) {
        let judged = computed.zip(expected).map(|(computed, expected)| expected.judge(computed));
        judged.fold((0.0, true), |(worst, all), (error, ok)| (if error > worst { error } else { worst }, all && ok))
    }
}

/// Result of an operator for one row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RowResult {
    pub(crate) output: Vec<Expected>,
    /// One value a row of each statistic.
    pub(crate) statistics: Vec<Expected>,
}

/// The operator for one row, in double precision.
pub(crate) type Reference = Box<dyn Fn(&[f64]) -> RowResult>;

/// Definition of an operator.
pub(crate) struct Operator<'a, T> {
    /// One vector of the row's length each: a scale, a bias.
    pub(crate) vectors: &'a [(&'static str, Vec<T>)],
    /// The names of the statistics: one `f32` a row each.
    pub(crate) statistics: &'static [&'static str],
    /// Epsilon added below a root, if there is one.
    pub(crate) eps: Option<f32>,
    pub(crate) reference: Reference,
}

/// Rows on a device. Kernels take the input, the operator's vectors, the output, the statistics,
/// the number of rows, their length, and eps where there is one.
pub(crate) struct RowProblem<T: RowElement> {
    device: Device,
    guards: Guards,
    rows: Rows,
    elements: Vec<T>,
    input: Guarded<T>,
    vectors: Vec<Guarded<T>>,
    output: Guarded<T>,
    statistics: Vec<(&'static str, Guarded<f32>)>,
    eps: Option<f32>,
    reference: Reference,
}

impl<T: RowElement> RowProblem<T> {
    pub(crate) fn new(
        device: &Device,
        rows: Rows,
        elements: Vec<T>,
        operator: Operator<'_, T>,
        guards: Guards,
    ) -> Result<Self, Error> {
        let Operator { vectors, statistics, eps, reference } = operator;
        let vector = |(name, data): &(&str, Vec<T>)| Guarded::of(device, name, data, guards);
        let statistic = |name: &&'static str| Ok((*name, Guarded::new(device, name, rows.num_rows, guards)?));
        Ok(Self {
            device: device.clone(),
            guards,
            rows,
            input: Guarded::of(device, "input", &elements, guards)?,
            vectors: vectors.iter().map(vector).collect::<Result<_, _>>()?,
            output: Guarded::new(device, "output", elements.len(), guards)?,
            statistics: statistics.iter().map(statistic).collect::<Result<_, Error>>()?,
            eps,
            elements,
            reference,
        })
    }
}

impl<T: RowElement> Instance for RowProblem<T> {
    fn reset(&mut self, _rung: &Rung) -> Result<(), Error> {
        self.output.renew(&self.device, "output", self.guards)?;
        self.statistics.iter_mut().try_for_each(|(name, values)| values.renew(&self.device, name, self.guards))
    }

    fn arguments(&mut self, _rung: &Rung, _launch_idx: usize) -> Result<Arguments<'_>, Error> {
        let mut arguments = Arguments::new().input(self.input.view()?);
        for vector in &self.vectors {
            arguments = arguments.input(vector.view()?);
        }
        arguments = arguments.output(self.output.view_mut()?);
        for (_, statistic) in &mut self.statistics {
            arguments = arguments.output(statistic.view_mut()?);
        }
        arguments = arguments.value(self.rows.num_rows as u32).value(self.rows.row_len as u32);
        Ok(self.eps.into_iter().fold(arguments, Arguments::value))
    }

    fn verdict(&self, _rung: &Rung) -> Result<Verdict, Error> {
        let (output, mut ok) = self.output.read()?;
        ok &= self.input.is_intact()?;
        let mut statistics = Vec::new();
        for (_, guarded) in &self.statistics {
            let (values, is_intact) = guarded.read()?;
            ok &= is_intact;
            statistics.push(values);
        }
        let mut max_error = 0.0;
        for row_idx in 0..self.rows.num_rows {
            let row = row_idx * self.rows.row_len..(row_idx + 1) * self.rows.row_len;
            let elements: Vec<f64> = self.elements[row.clone()].iter().map(|x| x.as_f64()).collect();
            let expected = (self.reference)(&elements);
            let computed = output[row].iter().map(|y| y.as_f64());
            let computed = computed.chain(statistics.iter().map(|values| f64::from(values[row_idx])));
            let expected = expected.output.into_iter().chain(expected.statistics);
            let (error, is_right) = Expected::judge_all(computed, expected);
            ok &= is_right;
            max_error = f64::max(max_error, error);
        }
        Ok(Verdict { ok, max_error })
    }

    fn bytes(&self) -> u64 {
        let rows = 2 * self.elements.len() as u64 * T::DTYPE.bytes();
        let vectors = (self.vectors.len() * self.rows.row_len) as u64 * T::DTYPE.bytes();
        rows + vectors + 4 * (self.statistics.len() * self.rows.num_rows) as u64
    }
}
