//! From an operation and element types to a map: what is computed in which type, and what the result is.

use std::sync::Arc;

use warpfold_lang::Val;

use super::{Operation, binary, ternary, unary};
use crate::elements::{Compute, Sink, Source};
use crate::map::{AnyMap, Map, Weight};
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

/// A function of items: to a number of the type that is computed in, or to a truth.
pub(super) enum Function<I, C> {
    Number(fn(I) -> Val<C>),
    Truth(fn(I) -> Val<bool>),
}

pub(super) fn make(operation: Operation, dtypes: &[Dtype], to: Option<Dtype>) -> Result<Arc<dyn AnyMap>, Error> {
    let (expected, found) = (operation.inputs(), dtypes.len());
    if found != expected {
        let op = operation.name().to_owned();
        return Err(ErrorKind::NumInputs { op, least: expected, most: expected, found }.into());
    }
    if operation == Operation::Where && dtypes[0] != Dtype::Bool {
        return Err(ErrorKind::DtypeMismatch { left: dtypes[0], right: Dtype::Bool }.into());
    }
    let of_one_type = if operation == Operation::Where { &dtypes[1..] } else { dtypes };
    if let Some(other) = of_one_type.iter().find(|dtype| **dtype != of_one_type[0]) {
        return Err(ErrorKind::DtypeMismatch { left: of_one_type[0], right: *other }.into());
    }
    if to.is_none() && matches!(operation, Operation::Cast | Operation::Fill) {
        return Err(ErrorKind::MissingOption { op: operation.name().to_owned(), option: "dtype" }.into());
    }
    let dtype = of_one_type.first().copied().or(to).expect("a type is given with the inputs or as an option");
    let making = Making { operation, dtype, to };
    let unsupported = || ErrorKind::Unsupported { op: operation.name().to_owned(), dtype }.into();
    match (operation, found) {
        (Operation::Fill, _) => Ok(computing!(dtype, C => making.fill::<C>(), making.fill::<C>())),
        (Operation::Scale, _) if dtype == Dtype::Bool => Err(unsupported()),
        (Operation::Scale, _) => Ok(computing!(dtype, C => making.scale::<C>(), making.scale::<C>())),
        (Operation::Where | Operation::Copy, _) if to.is_none_or(|to| to == dtype) => Ok(match dtype.bytes() {
            8 => making.moved::<u64>(),
            _ => making.moved::<u32>(),
        }),
        (Operation::Where, _) => Ok(computing!(dtype, C => making.chosen::<C>(), making.chosen::<C>())),
        (_, 1) if dtype == Dtype::Bool => unary::of_bool(operation).map(|f| making.one(f)).ok_or_else(unsupported),
        (_, 2) if dtype == Dtype::Bool => binary::of_bool(operation).map(|f| making.two(f)).ok_or_else(unsupported),
        (_, 1) => computing!(dtype, C => unary::of_floats::<C>(operation).map(|f| making.one(f)),
            unary::of_integers::<C>(operation).map(|f| making.one(f)))
        .ok_or_else(unsupported),
        (_, 2) => computing!(dtype, C => binary::of_floats::<C>(operation).map(|f| making.two(f)),
            binary::of_integers::<C>(operation).map(|f| making.two(f)))
        .ok_or_else(unsupported),
        _ => computing!(dtype, C => ternary::of_numbers::<C>(operation, dtype).map(|f| making.three(f)),
            ternary::of_numbers::<C>(operation, dtype).map(|f| making.three(f)))
        .ok_or_else(unsupported),
    }
}

/// One of two, by a `bool` before them.
fn choice<C: Compute>(yes: Source<Val<C>>, no: Source<Val<C>>) -> Source<Val<C>> {
    let source = Source::one::<u32>(Dtype::Bool).zip(yes).zip(no);
    source.map(|((condition, yes), no)| condition.ne(0).select::<C>(yes, no))
}

/// What a map is being made for.
struct Making {
    operation: Operation,
    /// Of the inputs, or of the result if there are none.
    dtype: Dtype,
    to: Option<Dtype>,
}

impl Making {
    fn one<C: Compute>(&self, function: Function<Val<C>, C>) -> Arc<dyn AnyMap> {
        self.of(Source::one::<C>(self.dtype), function)
    }

    fn two<C: Compute>(&self, function: Function<(Val<C>, Val<C>), C>) -> Arc<dyn AnyMap> {
        self.of(Source::one::<C>(self.dtype).zip(Source::one::<C>(self.dtype)), function)
    }

    fn three<C: Compute>(&self, function: Function<((Val<C>, Val<C>), Val<C>), C>) -> Arc<dyn AnyMap> {
        let input = || Source::one::<C>(self.dtype);
        self.of(input().zip(input()).zip(input()), function)
    }

    fn of<I: Copy + 'static, C: Compute>(&self, source: Source<I>, function: Function<I, C>) -> Arc<dyn AnyMap> {
        match function {
            Function::Number(function) => self.map(source.map(function), self.dtype),
            Function::Truth(function) => {
                let truth = source.map(move |item| function(item).cast::<u32>());
                self.map(truth, Dtype::Bool)
            }
        }
    }

    /// `copy` and `where` of elements that stay as they are, to the last bit of a NaN.
    fn moved<C: Compute>(&self) -> Arc<dyn AnyMap> {
        let input = || Source::<Val<C>>::bits(self.dtype);
        let source = if self.operation == Operation::Copy { input() } else { choice(input(), input()) };
        Arc::new(Map::new(self.name(self.dtype), source, Sink::<Val<C>>::bits(self.dtype)))
    }

    /// `where` with a result of another type.
    fn chosen<C: Compute>(&self) -> Arc<dyn AnyMap> {
        let input = || Source::one::<C>(self.dtype);
        self.map(choice(input(), input()), self.dtype)
    }

    fn map<C: Compute>(&self, source: Source<Val<C>>, natural: Dtype) -> Arc<dyn AnyMap> {
        let sink = Sink::one::<C>(self.to.unwrap_or(natural));
        Arc::new(Map::new(self.name(natural), source, sink).weight(self.weight()))
    }

    fn scale<C: Compute>(&self) -> Arc<dyn AnyMap> {
        let (source, sink) = (Source::one::<C>(self.dtype), Sink::one::<C>(self.to.unwrap_or(self.dtype)));
        let function = |x: Val<C>, scalars: crate::map::Scalars| x * scalars.get::<C>(0) + scalars.get::<C>(1);
        Arc::new(Map::with_scalars(self.name(self.dtype), source, function, sink))
    }

    fn fill<C: Compute>(&self) -> Arc<dyn AnyMap> {
        let function = |(), scalars: crate::map::Scalars| scalars.get::<C>(0);
        Arc::new(Map::with_scalars(self.name(self.dtype), Source::nothing(), function, Sink::one::<C>(self.dtype)))
    }

    /// `lt_f16_bool`: operation, type of the inputs, type of the result.
    fn name(&self, natural: Dtype) -> String {
        format!("{}_{}_{}", self.operation.identifier(), self.dtype, self.to.unwrap_or(natural))
    }

    fn weight(&self) -> Weight {
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
