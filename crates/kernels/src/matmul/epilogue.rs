//! The epilogue: what is done to each sum, in registers, before it is stored.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use warpfold_lang::Val;

use crate::operations::{Number, Operation};
use crate::{Dtype, Error, ErrorKind};

/// [`Epilogue::MAX_INPUTS`].
pub(crate) const MAX_INPUTS: usize = 6;
/// [`Epilogue::MAX_SCALARS`].
pub(crate) const MAX_SCALARS: usize = 4;

/// Where a value of the result belongs.
#[derive(Debug, Clone, Copy)]
pub struct OutputCoord {
    /// Its position in the batch, all dimensions as one.
    pub batch: Val<u32>,
    /// Its row.
    pub row: Val<u32>,
    /// Its column.
    pub column: Val<u32>,
}

/// A function of a value and its place, and of the element of each input of the epilogue there, in
/// kernel language.
pub(crate) type Function = dyn Fn(Val<f32>, OutputCoord, &[Val<f32>]) -> Val<f32> + Send + Sync;

/// A function that a user wrote. Clones are the same function; two functions are never equal.
#[derive(Clone)]
pub struct Custom {
    name: String,
    id: u64,
    function: Arc<Function>,
}

/// One step of an epilogue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Step {
    /// The value times the next number of the launch, which is whole where sums are integers.
    Scale,
    /// The value times the element of the next input; of sums of floats only.
    Multiply,
    /// The value plus the element of the next input.
    Add,
    /// The value plus the element of the next input times the next number of the launch, which is
    /// whole there, too.
    AddScaled,
    /// A function of the value: `relu`, `gelu`, `gelu-tanh`, `silu`, `sigmoid`, `tanh`.
    Activate(Activation),
    /// A function of the caller; of sums in `f32` only.
    Apply(Custom),
    /// The activation of a column times another one: of groups of eight columns every other one is
    /// of gates, and the result has half as many. The only step, and of products of two matrices.
    Gate(Activation),
}

/// What stands between layers of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `max(x, 0)`; NaN stays.
    Relu,
    /// `x (1 + erf(x / sqrt 2)) / 2`.
    Gelu,
    /// Its approximation by a hyperbolic tangent.
    GeluTanh,
    /// `x / (1 + e^-x)`.
    Silu,
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
}

impl Activation {
    /// Every one.
    pub const ALL: [Self; 6] = [Self::Relu, Self::Gelu, Self::GeluTanh, Self::Silu, Self::Sigmoid, Self::Tanh];

    /// `relu`, `gelu-tanh`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Relu => "relu",
            Self::Gelu => "gelu",
            Self::GeluTanh => "gelu-tanh",
            Self::Silu => "silu",
            Self::Sigmoid => "sigmoid",
            Self::Tanh => "tanh",
        }
    }

    /// The one of this name.
    ///
    /// # Errors
    /// [`ErrorKind::UnknownOperation`].
    pub fn named(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|activation| activation.name() == name);
        found.ok_or_else(|| ErrorKind::UnknownOperation(name.to_owned()).into())
    }

    /// The element-wise operation that it is.
    pub(super) const fn operation(self) -> Operation {
        match self {
            Self::Relu => Operation::Relu,
            Self::Gelu => Operation::Gelu,
            Self::GeluTanh => Operation::GeluTanh,
            Self::Silu => Operation::Silu,
            Self::Sigmoid => Operation::Sigmoid,
            Self::Tanh => Operation::Tanh,
        }
    }
}

/// Steps from a sum of products to what is stored, which rounds to the element type of the result.
///
/// ```
/// use warpfold_kernels::matmul::{Activation, Epilogue};
///
/// // relu(alpha * (a b) + bias) + residual
/// let layer = Epilogue::new().scale(0.5).add().activate(Activation::Relu).add();
/// assert_eq!(layer.to_string(), "scale, add, relu, add");
/// // A function of the caller, in the kernel language: what stands above the diagonal becomes minus infinity.
/// let causal = Epilogue::new().scale(0.125).apply("causal", |x, at, _| at.column.le(at.row).select(x, f32::NEG_INFINITY));
/// assert_eq!(causal.num_inputs(), 0);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Epilogue {
    steps: Vec<Step>,
    scalars: Vec<f64>,
    /// Inputs that only functions look at.
    more_inputs: usize,
}

impl Epilogue {
    /// Inputs at most: scales of both factors and of the result, and three tensors that are added.
    pub const MAX_INPUTS: usize = MAX_INPUTS;
    /// Numbers of the launch at most.
    pub const MAX_SCALARS: usize = MAX_SCALARS;

    /// The sums as they are.
    #[must_use]
    pub const fn new() -> Self {
        Self { steps: Vec::new(), scalars: Vec::new(), more_inputs: 0 }
    }

    /// Then: times a number.
    #[must_use]
    pub fn scale(mut self, alpha: f64) -> Self {
        self.steps.push(Step::Scale);
        self.scalars.push(alpha);
        self
    }

    /// Then: times the next input (a scale for each row, for each column, or for all: by strides of
    /// 0).
    #[must_use]
    pub fn multiply(mut self) -> Self {
        self.steps.push(Step::Multiply);
        self
    }

    /// Then: plus the next input (a bias, a residual).
    #[must_use]
    pub fn add(mut self) -> Self {
        self.steps.push(Step::Add);
        self
    }

    /// Then: plus the next input times a number.
    #[must_use]
    pub fn add_scaled(mut self, beta: f64) -> Self {
        self.steps.push(Step::AddScaled);
        self.scalars.push(beta);
        self
    }

    /// Then: an activation.
    #[must_use]
    pub fn activate(mut self, activation: Activation) -> Self {
        self.steps.push(Step::Activate(activation));
        self
    }

    /// Then: a function in the kernel language, of the value, its place, and the elements there of
    /// every input. Its name becomes part of the kernel's. Make an epilogue once and keep it: each
    /// call makes a function that differs from all others, with kernels of its own.
    ///
    /// # Panics
    /// Unless the name is made of letters, digits and `_`.
    #[must_use]
    pub fn apply(
        mut self,
        name: &str,
        function: impl Fn(Val<f32>, OutputCoord, &[Val<f32>]) -> Val<f32> + Send + Sync + 'static,
    ) -> Self {
        static NUM_FUNCTIONS: AtomicU64 = AtomicU64::new(0);
        let is_fine = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        assert!(is_fine, "the name of a function has letters, digits and _ only, not '{name}'");
        let id = NUM_FUNCTIONS.fetch_add(1, Ordering::Relaxed);
        self.steps.push(Step::Apply(Custom { name: name.to_owned(), id, function: Arc::new(function) }));
        self
    }

    /// Half as many columns: the activation of those of a gate times others. Columns of the right
    /// matrix come in groups of eight, of the gate and of the others in turns; both are rounded to
    /// the type of the result first. It stands alone.
    ///
    /// ```
    /// use warpfold_kernels::Dtype;
    /// use warpfold_kernels::matmul::{Activation, Epilogue, Problem};
    ///
    /// let swiglu = Epilogue::new().gate(Activation::Silu);
    /// let problem = Problem { epilogue: swiglu, ..Problem::new(Dtype::Bf16, 4, 32, 64) };
    /// assert_eq!(problem.result_columns(), 16);
    /// ```
    #[must_use]
    pub fn gate(mut self, activation: Activation) -> Self {
        self.steps.push(Step::Gate(activation));
        self
    }

    /// The activation of the gate, if there is one.
    pub(crate) fn gate_activation(&self) -> Option<Activation> {
        self.steps.iter().find_map(|step| match step {
            Step::Gate(activation) => Some(*activation),
            _ => None,
        })
    }

    /// Gives functions this many inputs beside those that steps take.
    #[must_use]
    pub const fn with_inputs(mut self, more: usize) -> Self {
        self.more_inputs += more;
        self
    }

    /// The steps.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The numbers of the launch, in the order of the steps that take them.
    #[must_use]
    pub fn scalars(&self) -> &[f64] {
        &self.scalars
    }

    /// How many inputs it reads.
    #[must_use]
    pub fn num_inputs(&self) -> usize {
        let takes_input = |step: &&Step| matches!(step, Step::Multiply | Step::Add | Step::AddScaled);
        self.steps.iter().filter(takes_input).count() + self.more_inputs
    }

    /// As part of a kernel's name: equal epilogues have equal names, and different ones different
    /// names.
    pub(super) fn key(&self) -> String {
        let step = |step: &Step| match step {
            Step::Scale => "_s".to_owned(),
            Step::Multiply => "_m".to_owned(),
            Step::Add => "_a".to_owned(),
            Step::AddScaled => "_as".to_owned(),
            Step::Activate(activation) => format!("_{}", activation.name().replace('-', "_")),
            Step::Apply(custom) => format!("_{}{}", custom.name, custom.id),
            Step::Gate(activation) => format!("_gate_{}", activation.name().replace('-', "_")),
        };
        let more = if self.more_inputs > 0 { format!("_i{}", self.more_inputs) } else { String::new() };
        self.steps.iter().map(step).collect::<String>() + &more
    }

    /// Refuses what kernels have no room for.
    pub(crate) fn check(&self, accumulator: Dtype) -> Result<(), Error> {
        let room = [(self.num_inputs(), MAX_INPUTS, "inputs"), (self.scalars.len(), MAX_SCALARS, "numbers")];
        for (found, most, what) in room {
            if found > most {
                return Err(super::problem::refused(format!("an epilogue takes {most} {what} at most, not {found}")));
            }
        }
        let is_for_f32 = |step: &Step| match step {
            Step::Apply(_) | Step::Gate(_) => true,
            Step::Multiply => accumulator.is_integer(),
            Step::Activate(activation) => *activation != Activation::Relu && accumulator.is_integer(),
            Step::Scale | Step::Add | Step::AddScaled => false,
        };
        if self.gate_activation().is_some() && (self.steps.len() > 1 || self.more_inputs > 0) {
            return Err(super::problem::refused(format!("a gate stands alone, not in the epilogue ({self})")));
        }
        if accumulator != Dtype::F32 && self.steps.iter().any(is_for_f32) {
            return Err(ErrorKind::Unsupported { op: format!("the epilogue ({self})"), dtype: accumulator }.into());
        }
        if !accumulator.is_integer() {
            return Ok(());
        }
        let options = self.steps.iter().filter_map(|step| match step {
            Step::Scale => Some("alpha"),
            Step::AddScaled => Some("beta"),
            Step::Multiply | Step::Add | Step::Activate(_) | Step::Apply(_) | Step::Gate(_) => None,
        });
        let mut numbers = options.zip(&self.scalars);
        numbers.try_for_each(|(option, number)| Number::from(*number).expect_whole("matmul", option))
    }
}

/// Equal in every bit of the numbers, so that equal ones may share what was made for one.
impl PartialEq for Epilogue {
    fn eq(&self, other: &Self) -> bool {
        let bits = |epilogue: &Self| epilogue.scalars.iter().map(|scalar| scalar.to_bits()).collect::<Vec<_>>();
        self.steps == other.steps && self.more_inputs == other.more_inputs && bits(self) == bits(other)
    }
}

impl Eq for Epilogue {}

impl Hash for Epilogue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.steps.hash(state);
        self.more_inputs.hash(state);
        self.scalars.iter().for_each(|scalar| scalar.to_bits().hash(state));
    }
}

impl Custom {
    pub(super) fn call(&self, value: Val<f32>, place: OutputCoord, inputs: &[Val<f32>]) -> Val<f32> {
        (self.function)(value, place, inputs)
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Custom").field(&self.name).field(&self.id).finish()
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Custom {}

impl Hash for Custom {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl fmt::Display for Epilogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.steps.iter().map(|step| match step {
            Step::Scale => "scale",
            Step::Multiply => "multiply",
            Step::Add => "add",
            Step::AddScaled => "add scaled",
            Step::Activate(activation) => activation.name(),
            Step::Apply(custom) => &custom.name,
            Step::Gate(Activation::Silu) => "silu gate",
            Step::Gate(Activation::GeluTanh) => "gelu-tanh gate",
            Step::Gate(_) => "gate",
        });
        f.write_str(&names.collect::<Vec<_>>().join(", "))
    }
}
