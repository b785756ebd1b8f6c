//! Constant expressions, evaluated while parsing (PTX ISA, "Constants").

use super::{Parser, Result};
use crate::Immediate;
use crate::lexer::{Token, TokenKind};

/// Threads of a warp: the value of `WARP_SZ` on every architecture.
const WARP_SIZE: i64 = 32;

/// A value of a constant expression with its type.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    /// `0f…`, which keeps its bits.
    Single(u32),
}

impl Value {
    fn immediate(self) -> Immediate {
        match self {
            Self::Signed(v) => Immediate::Int(v.into()),
            Self::Unsigned(v) => Immediate::Int(v.into()),
            Self::Float(v) => Immediate::F64(v.to_bits()),
            Self::Single(bits) => Immediate::F32(bits),
        }
    }

    /// The 64 bits of an integer.
    fn bits(self) -> Option<u64> {
        match self {
            Self::Signed(v) => Some(v as u64),
            Self::Unsigned(v) => Some(v),
            Self::Float(_) | Self::Single(_) => None,
        }
    }

    /// An integer that is not negative.
    pub(super) fn to_u64(self) -> Option<u64> {
        match self {
            Self::Signed(v) => u64::try_from(v).ok(),
            Self::Unsigned(v) => Some(v),
            Self::Float(_) | Self::Single(_) => None,
        }
    }

    /// Gives `bits` the type of `self`.
    fn with_bits(self, bits: u64) -> Self {
        if matches!(self, Self::Signed(_)) { Self::Signed(bits as i64) } else { Self::Unsigned(bits) }
    }

    /// `None` for `0f…`, which no operator takes.
    fn negate(self) -> Option<Self> {
        Some(match self {
            // The literal has no signed value, its negation has.
            Self::Unsigned(v) if v == i64::MIN.unsigned_abs() => Self::Signed(i64::MIN),
            Self::Signed(v) => Self::Signed(v.wrapping_neg()),
            Self::Unsigned(v) => Self::Unsigned(v.wrapping_neg()),
            Self::Float(v) => Self::Float(-v),
            Self::Single(_) => return None,
        })
    }
}

const fn truth(value: bool) -> Value {
    Value::Signed(value as i64)
}

/// Precedence of a binary operator; `None` for any other token.
const fn precedence(kind: TokenKind) -> Option<u8> {
    Some(match kind {
        TokenKind::Symbol(b'*' | b'/' | b'%') => 10,
        TokenKind::Symbol(b'+' | b'-') => 9,
        TokenKind::Double([b'<', b'<'] | [b'>', b'>']) => 8,
        TokenKind::Symbol(b'<' | b'>') | TokenKind::Double([b'<' | b'>', b'=']) => 7,
        TokenKind::Double([b'=' | b'!', b'=']) => 6,
        TokenKind::Symbol(b'&') => 5,
        TokenKind::Symbol(b'^') => 4,
        TokenKind::Symbol(b'|') => 3,
        TokenKind::Double([b'&', b'&']) => 2,
        TokenKind::Double([b'|', b'|']) => 1,
        _ => return None,
    })
}

impl Parser<'_> {
    pub(super) fn immediate(&mut self) -> Result<Immediate> {
        Ok(self.constant()?.immediate())
    }

    /// The rest of an expression that starts with the literal `first`.
    pub(super) fn immediate_from(&mut self, first: Value) -> Result<Immediate> {
        Ok(self.constant_from(first)?.immediate())
    }

    /// An expression whose value is an integer that is not negative.
    pub(super) fn constant_u64(&mut self) -> Result<u64> {
        let token = self.token;
        let value = self.constant()?;
        value.to_u64().ok_or_else(|| self.error_at(token, "an integer that is not negative"))
    }

    /// `+ expression` after a name, modulo 2^64; zero when there is none.
    pub(super) fn offset(&mut self) -> Result<i64> {
        if !self.accept(b'+') {
            return Ok(0);
        }
        let token = self.token;
        let bits = self.constant()?.bits().ok_or_else(|| self.error_at(token, "an integer"))?;
        Ok(bits as i64)
    }

    fn constant(&mut self) -> Result<Value> {
        let first = self.unary()?;
        self.constant_from(first)
    }

    /// The rest of an expression whose first sign is taken already.
    pub(super) fn constant_after(&mut self, sign: Token) -> Result<Immediate> {
        let operand = self.unary()?;
        let first = self.apply_unary(sign, operand)?;
        Ok(self.constant_from(first)?.immediate())
    }

    fn constant_from(&mut self, first: Value) -> Result<Value> {
        let value = self.binary(first, 1)?;
        if !self.at(b'?') {
            return Ok(value);
        }
        let question = self.bump();
        let condition = value.bits().ok_or_else(|| self.error_at(question, "an integer condition before it"))? != 0;
        let yes = self.nested(Self::constant)?;
        self.expect(b':')?;
        let no = self.nested(Self::constant)?;
        let (yes, no) = match (yes.bits(), no.bits()) {
            (Some(a), Some(b)) if matches!(yes, Value::Unsigned(_)) || matches!(no, Value::Unsigned(_)) => {
                (Value::Unsigned(a), Value::Unsigned(b))
            }
            (None, None) | (Some(_), Some(_)) => (yes, no),
            _ => return Err(self.error_at(question, "two integers or two floats after it")),
        };
        Ok(if condition { yes } else { no })
    }

    /// Precedence climbing: operators that bind at least as tightly as `least`.
    fn binary(&mut self, mut left: Value, least: u8) -> Result<Value> {
        while let Some(level) = precedence(self.token.kind).filter(|&level| level >= least) {
            let operator = self.bump();
            let right = self.unary()?;
            let right = self.nested(|p| p.binary(right, level + 1))?;
            left = apply_binary(operator.kind, left, right).map_err(|expected| self.error_at(operator, expected))?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Value> {
        match self.token.kind {
            TokenKind::Symbol(b'+' | b'-' | b'!' | b'~') => {
                let sign = self.bump();
                let operand = self.nested(Self::unary)?;
                self.apply_unary(sign, operand)
            }
            TokenKind::Symbol(b'(') => {
                self.bump();
                if self.token.kind == TokenKind::Dotted && matches!(self.current(), ".s64" | ".u64") {
                    return self.cast();
                }
                let value = self.nested(Self::constant)?;
                self.expect(b')')?;
                Ok(value)
            }
            TokenKind::Word if self.current() == "WARP_SZ" => {
                self.bump();
                Ok(Value::Signed(WARP_SIZE))
            }
            _ => self.literal(),
        }
    }

    /// `(.s64) value` or `(.u64) value`, from the type on.
    fn cast(&mut self) -> Result<Value> {
        let signed = self.current() == ".s64";
        self.bump();
        self.expect(b')')?;
        let token = self.token;
        let bits = self.nested(Self::unary)?.bits().ok_or_else(|| self.error_at(token, "an integer"))?;
        Ok(if signed { Value::Signed(bits as i64) } else { Value::Unsigned(bits) })
    }

    fn apply_unary(&self, sign: Token, operand: Value) -> Result<Value> {
        let integer = || operand.bits().ok_or_else(|| self.error_at(sign, "an operator for floats"));
        Ok(match sign.kind {
            TokenKind::Symbol(b'-') => operand.negate().ok_or_else(|| self.error_at(sign, "a number"))?,
            TokenKind::Symbol(b'!') => truth(integer()? == 0),
            TokenKind::Symbol(b'~') => Value::Unsigned(!integer()?),
            _ => operand,
        })
    }

    /// A literal number.
    pub(super) fn literal(&mut self) -> Result<Value> {
        if self.token.kind == TokenKind::Dotted {
            self.token = self.lexer.fraction(self.token);
        }
        let value = match self.token.kind {
            TokenKind::Integer => integer(self.current()),
            TokenKind::Float => float(self.current()),
            _ => return self.error("a number"),
        };
        let Some(value) = value else { return self.error("an integer of 64 bits") };
        self.bump();
        Ok(value)
    }
}

fn integer(text: &str) -> Option<Value> {
    let (digits, unsigned) = text.strip_suffix('U').map_or((text, false), |digits| (digits, true));
    let value = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => u64::from_str_radix(&digits[2..], 16),
        [b'0', b'b' | b'B', ..] => u64::from_str_radix(&digits[2..], 2),
        [b'0', _, ..] => u64::from_str_radix(digits, 8),
        _ => digits.parse(),
    }
    .ok()?;
    Some(match i64::try_from(value) {
        Ok(value) if !unsigned => Value::Signed(value),
        _ => Value::Unsigned(value),
    })
}

fn float(text: &str) -> Option<Value> {
    match text.as_bytes() {
        [b'0', b'f' | b'F', ..] => u32::from_str_radix(&text[2..], 16).ok().map(Value::Single),
        [b'0', b'd' | b'D', ..] => {
            u64::from_str_radix(&text[2..], 16).ok().map(|bits| Value::Float(f64::from_bits(bits)))
        }
        _ => text.parse().ok().map(Value::Float),
    }
}

/// The error says what should have been there instead of the operator.
fn apply_binary(operator: TokenKind, left: Value, right: Value) -> Result<Value, &'static str> {
    match (left, right) {
        (Value::Float(a), Value::Float(b)) => float_binary(operator, a, b),
        _ => match (left.bits(), right.bits()) {
            (Some(a), Some(b)) => integer_binary(operator, left, a, right, b),
            _ => Err("an operator between two integers or two 64-bit floats"),
        },
    }
}

fn float_binary(operator: TokenKind, a: f64, b: f64) -> Result<Value, &'static str> {
    Ok(match operator {
        TokenKind::Symbol(b'+') => Value::Float(a + b),
        TokenKind::Symbol(b'-') => Value::Float(a - b),
        TokenKind::Symbol(b'*') => Value::Float(a * b),
        TokenKind::Symbol(b'/') => Value::Float(a / b),
        TokenKind::Symbol(b'<') => truth(a < b),
        TokenKind::Symbol(b'>') => truth(a > b),
        TokenKind::Double([b'<', b'=']) => truth(a <= b),
        TokenKind::Double([b'>', b'=']) => truth(a >= b),
        TokenKind::Double([b'=', b'=']) => truth(a == b),
        TokenKind::Double([b'!', b'=']) => truth(a != b),
        _ => return Err("an operator for floats"),
    })
}

/// PTX ISA, "Summary of Constant Expression Evaluation Rules"; `a` and `b` are the bits of `left`
/// and `right`.
fn integer_binary(operator: TokenKind, left: Value, a: u64, right: Value, b: u64) -> Result<Value, &'static str> {
    let signed = matches!((left, right), (Value::Signed(_), Value::Signed(_)));
    let common = if signed { left } else { Value::Unsigned(0) };
    let (sa, sb) = (a as i64, b as i64);
    let less = if signed { sa < sb } else { a < b };
    let shift = u32::try_from(b).ok().filter(|&by| by < 64);
    Ok(match operator {
        TokenKind::Symbol(b'+') => common.with_bits(a.wrapping_add(b)),
        TokenKind::Symbol(b'-') => common.with_bits(a.wrapping_sub(b)),
        TokenKind::Symbol(b'*') => common.with_bits(a.wrapping_mul(b)),
        TokenKind::Symbol(b'/' | b'%') if b == 0 => return Err("a divisor that is not zero"),
        TokenKind::Symbol(b'/') if signed => Value::Signed(sa.wrapping_div(sb)),
        TokenKind::Symbol(b'/') => Value::Unsigned(a / b),
        TokenKind::Symbol(b'%') => Value::Signed((a % b) as i64),
        TokenKind::Double([b'<', b'<']) => left.with_bits(shift.map_or(0, |by| a << by)),
        TokenKind::Double([b'>', b'>']) => match left {
            Value::Signed(_) => Value::Signed(sa >> shift.unwrap_or(63)),
            _ => Value::Unsigned(shift.map_or(0, |by| a >> by)),
        },
        TokenKind::Symbol(b'<') => truth(less),
        TokenKind::Symbol(b'>') => truth(!less && a != b),
        TokenKind::Double([b'<', b'=']) => truth(less || a == b),
        TokenKind::Double([b'>', b'=']) => truth(!less),
        TokenKind::Double([b'=', b'=']) => truth(a == b),
        TokenKind::Double([b'!', b'=']) => truth(a != b),
        TokenKind::Symbol(b'&') => common.with_bits(a & b),
        TokenKind::Symbol(b'^') => common.with_bits(a ^ b),
        TokenKind::Symbol(b'|') => common.with_bits(a | b),
        TokenKind::Double([b'&', b'&']) => truth(a != 0 && b != 0),
        TokenKind::Double([b'|', b'|']) => truth(a != 0 || b != 0),
        _ => return Err("a binary operator"),
    })
}
