//! From an operation and element types to a map: the type that is computed in, and that of the
//! result.

use warpfold_lang::Val;

use super::{Operation, binary, ternary, unary};
use crate::elements::{Compute, Sink, Source};
use crate::error::input_of;
use crate::map::{Map, Scalars, Weight};
use crate::plan::Key;
use crate::{Dtype, Error, ErrorKind};

/// The type that elements compute in.
pub(super) fn compute_dtype(dtype: Dtype) -> Dtype {
    match dtype {
        Dtype::Bool | Dtype::U8 | Dtype::U16 | Dtype::U32 => Dtype::U32,
        Dtype::I8 | Dtype::I16 | Dtype::I32 => Dtype::I32,
        Dtype::F8E4M3 | Dtype::F8E5M2 | Dtype::F16 | Dtype::Bf16 | Dtype::F32 => Dtype::F32,
        Dtype::U64 | Dtype::I64 | Dtype::F64 => dtype,
    }
}

/// Runs code with `$C` standing for the Rust type that elements of a dtype compute in.
macro_rules! computing {
    ($dtype:expr, $C:ident => $float:expr, $integer:expr) => {
        match compute_dtype($dtype) {
            Dtype::F32 => {
                type $C = f32;
                $float
            }
            Dtype::F64 => {
                type $C = f64;
                $float
            }
            Dtype::I32 => {
                type $C = i32;
                $integer
            }
            Dtype::I64 => {
                type $C = i64;
                $integer
            }
            Dtype::U64 => {
                type $C = u64;
                $integer
            }
            _ => {
                type $C = u32;
                $integer
            }
        }
    };
}

/// A function of items: to a number of the type that is computed in, or to a Boolean.
#[derive(Clone, Copy)]
pub(super) enum Function<I, C> {
    Number(fn(I) -> Val<C>),
    Truth(fn(I) -> Val<bool>),
}

/// The map of an operation. Its closures are made when it is planned.
pub(super) fn make(operation: Operation, dtypes: &[Dtype], to: Option<Dtype>) -> Result<Map, Error> {
    let (expected, found) = (operation.inputs(), dtypes.len());
    if found != expected {
        let op = operation.name().to_owned();
        return Err(ErrorKind::NumInputs { op, least: expected, most: expected, found }.into());
    }
    if operation == Operation::Where && dtypes[0] != Dtype::Bool {
        let (operand, found) = (input_of(0, operation), dtypes[0]);
        return Err(ErrorKind::DtypeMismatch { operand, found, expected: Dtype::Bool }.into());
    }
    let of_one_type = if operation == Operation::Where { &dtypes[1..] } else { dtypes };
    if let Some(other) = of_one_type.iter().position(|dtype| *dtype != of_one_type[0]) {
        let operand = input_of(found - of_one_type.len() + other, operation);
        return Err(ErrorKind::DtypeMismatch { operand, found: of_one_type[other], expected: of_one_type[0] }.into());
    }
    if to.is_none() && matches!(operation, Operation::Cast | Operation::Fill) {
        return Err(ErrorKind::MissingOption { op: operation.name().to_owned(), option: "dtype" }.into());
    }
    let dtype = of_one_type.first().copied().or(to).expect("a type is given with the inputs or as an option");
    let recipe = Recipe { operation, dtype, to };
    let unsupported = || ErrorKind::Unsupported { op: operation.name().to_owned(), dtype }.into();
    match (operation, found) {
        (Operation::Fill, _) => Ok(computing!(dtype, C => recipe.fill::<C>(), recipe.fill::<C>())),
        (Operation::Scale, _) if dtype == Dtype::Bool => Err(unsupported()),
        (Operation::Scale, _) => Ok(computing!(dtype, C => recipe.scale::<C>(), recipe.scale::<C>())),
        (Operation::Where | Operation::Copy, _) if to.is_none_or(|to| to == dtype) => Ok(match dtype.bytes() {
            8 => recipe.of_bits::<u64>(),
            _ => recipe.of_bits::<u32>(),
        }),
        (Operation::Where, _) => Ok(computing!(dtype, C => recipe.chosen::<C>(), recipe.chosen::<C>())),
        (_, 1) if dtype == Dtype::Bool => unary::of_bool(operation).map(|f| recipe.one(f)).ok_or_else(unsupported),
        (_, 2) if dtype == Dtype::Bool => binary::of_bool(operation).map(|f| recipe.two(f)).ok_or_else(unsupported),
        (_, 1) => computing!(dtype, C => unary::of_floats::<C>(operation).map(|f| recipe.one(f)),
            unary::of_integers::<C>(operation).map(|f| recipe.one(f)))
        .ok_or_else(unsupported),
        (_, 2) => computing!(dtype, C => binary::of_floats::<C>(operation).map(|f| recipe.two(f)),
            binary::of_integers::<C>(operation).map(|f| recipe.two(f)))
        .ok_or_else(unsupported),
        _ => computing!(dtype, C => ternary::of_numbers::<C>(operation, dtype).map(|f| recipe.three(f)),
            ternary::of_numbers::<C>(operation, dtype).map(|f| recipe.three(f)))
        .ok_or_else(unsupported),
    }
}

/// One of two, by a `bool` before them.
fn choice<C: Compute>(yes: Source<Val<C>>, no: Source<Val<C>>) -> Source<Val<C>> {
    let source = Source::one::<u32>(Dtype::Bool).zip(yes).zip(no);
    source.map(|((condition, yes), no)| condition.ne(0).select::<C>(yes, no))
}

/// What a map is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Recipe {
    operation: Operation,
    /// Of the inputs, or of the result if there are none.
    dtype: Dtype,
    to: Option<Dtype>,
}

impl Recipe {
    /// The map to results of this type, made when it is planned.
    fn lazy(self, result: Dtype, make: impl Fn(Self) -> Map + Send + Sync + 'static) -> Map {
        let inputs = match self.operation {
            Operation::Where => vec![Dtype::Bool, self.dtype, self.dtype],
            operation => vec![self.dtype; operation.inputs()],
        };
        Map::lazy(Key::of(self), inputs, vec![result], move || make(self)).weight(self.weight())
    }

    fn one<C: Compute>(self, function: Function<Val<C>, C>) -> Map {
        self.of(function, |recipe| Source::one::<C>(recipe.dtype))
    }

    fn two<C: Compute>(self, function: Function<(Val<C>, Val<C>), C>) -> Map {
        self.of(function, |recipe| Source::one::<C>(recipe.dtype).zip(Source::one::<C>(recipe.dtype)))
    }

    fn three<C: Compute>(self, function: Function<((Val<C>, Val<C>), Val<C>), C>) -> Map {
        let input = |recipe: Self| Source::one::<C>(recipe.dtype);
        self.of(function, move |recipe| input(recipe).zip(input(recipe)).zip(input(recipe)))
    }

    fn of<I: Copy + 'static, C: Compute>(
        self,
        function: Function<I, C>,
        source: impl Fn(Self) -> Source<I> + Send + Sync + 'static,
    ) -> Map {
        match function {
            Function::Number(function) => self.map(self.dtype, move |recipe| source(recipe).map(function)),
            Function::Truth(function) => {
                let truth = move |item| function(item).cast::<u32>();
                self.map(Dtype::Bool, move |recipe| source(recipe).map(truth))
            }
        }
    }

    /// `copy` and `where` of elements whose bits stay as they are.
    fn of_bits<C: Compute>(self) -> Map {
        self.lazy(self.dtype, |recipe| {
            let input = || Source::<Val<C>>::bits(recipe.dtype);
            let source = if recipe.operation == Operation::Copy { input() } else { choice(input(), input()) };
            Map::new(recipe.name(recipe.dtype), source, Sink::<Val<C>>::bits(recipe.dtype))
        })
    }

    /// `where` with a result of another type.
    fn chosen<C: Compute>(self) -> Map {
        let input = |recipe: Self| Source::one::<C>(recipe.dtype);
        self.map(self.dtype, move |recipe| choice(input(recipe), input(recipe)))
    }

    /// A map whose result has this type, unless another one is asked for.
    fn map<C: Compute>(self, natural: Dtype, source: impl Fn(Self) -> Source<Val<C>> + Send + Sync + 'static) -> Map {
        let result = self.to.unwrap_or(natural);
        self.lazy(result, move |recipe| Map::new(recipe.name(natural), source(recipe), Sink::one::<C>(result)))
    }

    fn scale<C: Compute>(self) -> Map {
        let result = self.to.unwrap_or(self.dtype);
        let function = |x: Val<C>, scalars: Scalars| x * scalars.get::<C>(0) + scalars.get::<C>(1);
        self.lazy(result, move |recipe| {
            let (name, source) = (recipe.name(recipe.dtype), Source::one::<C>(recipe.dtype));
            Map::with_scalars(name, source, function, Sink::one::<C>(result))
        })
    }

    fn fill<C: Compute>(self) -> Map {
        let function = |(), scalars: Scalars| scalars.get::<C>(0);
        self.lazy(self.dtype, move |recipe| {
            let sink = Sink::one::<C>(recipe.dtype);
            Map::with_scalars(recipe.name(recipe.dtype), Source::nothing(), function, sink)
        })
    }

    /// `lt_f16_bool`: operation, type of the inputs, type of the result.
    fn name(self, natural: Dtype) -> String {
        format!("{}_{}_{}", self.operation.identifier(), self.dtype, self.to.unwrap_or(natural))
    }

    fn weight(self) -> Weight {
        use Operation as O;
        let is_double = self.dtype == Dtype::F64;
        match self.operation {
            O::Expm1 | O::Log | O::Log2 | O::Log10 | O::Log1p | O::Tanh | O::Gelu | O::GeluTanh | O::Erf => {
                Weight::Heavy
            }
            O::Sin | O::Cos | O::Tan | O::Rem | O::Pow | O::Div | O::Sqrt | O::Recip => Weight::Heavy,
            O::Exp | O::Exp2 | O::Rsqrt | O::Sigmoid | O::Silu if is_double => Weight::Heavy,
            _ => Weight::Light,
        }
    }
}
