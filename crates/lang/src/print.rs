//! Printing from a running kernel.

use crate::intrinsics::{convert, print};
use crate::recorder::{Raw, with};
use crate::types::{Scalar, Type};
use crate::{ErrorKind, Operand, Val, Var};

/// A value that can be printed: anything but packed pairs.
pub trait Printable {
    #[doc(hidden)]
    fn printed(self) -> (Type, Val<()>);
}

macro_rules! printable {
    ($($rust:ty),*) => {$(
        impl Printable for Val<$rust> {
            fn printed(self) -> (Type, Val<()>) {
                (<$rust>::TYPE, Val::from_raw(self.raw()))
            }
        }
        impl Printable for Var<$rust> {
            fn printed(self) -> (Type, Val<()>) {
                self.get().printed()
            }
        }
        impl Printable for $rust {
            fn printed(self) -> (Type, Val<()>) {
                self.val().printed()
            }
        }
    )*};
}

printable!(bool, u8, u16, u32, u64, i8, i16, i32, i64, half::f16, half::bf16, f32, f64);

/// A tuple of up to eight [`Printable`] values.
pub trait PrintArgs {
    #[doc(hidden)]
    fn printed(self) -> Vec<(Type, Val<()>)>;
}

impl PrintArgs for () {
    fn printed(self) -> Vec<(Type, Val<()>)> {
        Vec::new()
    }
}

macro_rules! tuples {
    ($($argument:ident)*) => {
        impl<$($argument: Printable),*> PrintArgs for ($($argument,)*) {
            #[allow(non_snake_case, reason = "one name for the type and the value of each element")]
            fn printed(self) -> Vec<(Type, Val<()>)> {
                let ($($argument,)*) = self;
                vec![$($argument.printed()),*]
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);

/// Prints to the host's standard output, as C's `printf` does: `%d %i %u %x %X %o %c` for integers
/// of up to 32 bits and `bool`, the same with `l` or `ll` for 64 bits, `%e %f %g %a` for floats,
/// `%%`.
///
/// [`crate::Kernel::build`] fails if the format does not fit the arguments.
///
/// ```
/// use warpfold_lang::{Arch, Global, Target, kernel, print, thread_idx};
/// let hello = kernel("hello", |_: Global<u32>| print("hello from thread %u\n", (thread_idx().x,)));
/// assert!(hello.ptx(&Target::new(Arch::SM_80, (7, 0))).unwrap().contains("vprintf"));
/// ```
#[track_caller]
pub fn print(format: &str, arguments: impl PrintArgs) {
    let arguments = arguments.printed();
    with(|r| {
        let promoted: Vec<_> = arguments
            .iter()
            .map(|(ty, value)| {
                let to = promotion(*ty);
                (to, convert::convert(r, *ty, to, value.raw(), None))
            })
            .collect();
        match check(format, &promoted) {
            Ok(()) => print::printf(r, format, &promoted),
            Err(problem) => r.fail(ErrorKind::Misuse(format!("print({format:?}): {problem}"))),
        }
    });
}

/// The default argument promotions of C.
fn promotion(ty: Type) -> Type {
    match ty {
        Type::Bool | Type::U8 | Type::U16 | Type::U32 => Type::U32,
        Type::I8 | Type::I16 | Type::I32 => Type::I32,
        Type::U64 | Type::I64 => ty,
        Type::F8E4M3 | Type::F8E5M2 | Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2 | Type::F32 | Type::F64 => {
            Type::F64
        }
    }
}

/// Checks that each conversion of the format has an argument of its kind.
fn check(format: &str, arguments: &[(Type, Raw)]) -> Result<(), String> {
    let mut types = arguments.iter().map(|(ty, _)| *ty);
    let mut rest = format;
    while let Some(start) = rest.find('%') {
        let conversion = &rest[start + 1..];
        let end = conversion
            .find(|c: char| c.is_ascii_alphabetic() && c != 'l' && c != 'h' || c == '%')
            .ok_or("a conversion without its letter")?;
        let (modifiers, letter) = (&conversion[..end], conversion.as_bytes()[end]);
        rest = &conversion[end + 1..];
        if letter == b'%' {
            continue;
        }
        if modifiers.contains('*') {
            return Err("a width must be written out, not '*'".to_owned());
        }
        let wide = modifiers.contains('l');
        let expected = match letter {
            b'd' | b'i' | b'u' | b'x' | b'X' | b'o' if wide => "a 64-bit integer",
            b'd' | b'i' | b'u' | b'x' | b'X' | b'o' | b'c' => "an integer of up to 32 bits",
            b'e' | b'E' | b'f' | b'F' | b'g' | b'G' | b'a' | b'A' => "a float",
            other => return Err(format!("no conversion '%{}'", char::from(other))),
        };
        let fits = match types.next() {
            None => return Err(format!("no argument for '%{modifiers}{}'", char::from(letter))),
            Some(Type::F64) => expected == "a float",
            Some(Type::U64 | Type::I64) => expected == "a 64-bit integer",
            Some(_) => expected == "an integer of up to 32 bits",
        };
        if !fits {
            return Err(format!("'%{modifiers}{}' takes {expected}", char::from(letter)));
        }
    }
    if types.next().is_some() { Err("more arguments than conversions".to_owned()) } else { Ok(()) }
}
