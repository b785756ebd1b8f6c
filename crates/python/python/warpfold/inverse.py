"""Functions of the array API that are no operators and are composed of them: hyperbolic ones, inverse ones, angles."""

from __future__ import annotations

import math
from typing import Any

from . import functional as F
from .promotion import promoted
from .tensors import Tensor

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cosh", "hypot", "logaddexp", "signbit", "sinh",
]  # fmt: skip


def _full(number: float, like: Tensor) -> Tensor:
    return F.full((), number, dtype=like._native.dtype, device=like.device)


def _large(x: Tensor) -> float:
    """From where on a square is not representable, or 1 is lost beside it."""
    return 1e150 if x._native.dtype == "f64" else 1e18


def signbit(x: Tensor) -> Tensor:
    """Whether it is negative, or -0. (The sign of NaN is not looked at.)"""
    if x._native.dtype[0] == "u":
        return F.ne(x, x)
    if not x.dtype.kind == "f":
        return F.lt(x, 0)
    return F.where(F.eq(x, 0), F.lt(F.reciprocal(x), 0), F.lt(x, 0))


def copysign(a: Any, b: Any) -> Tensor:
    """a with the sign of b."""
    a, b = promoted(a, b)
    return F.where(F.ne(signbit(a), signbit(b)), F.neg(a), a)


def _odd(x: Tensor, of_magnitude: Tensor) -> Tensor:
    """A function of x that is odd and keeps 0 as it is, from its values for magnitudes."""
    return F.where(F.eq(x, 0), x, F.where(F.lt(x, 0), F.neg(of_magnitude), of_magnitude))


def sinh(x: Tensor) -> Tensor:
    """The hyperbolic sine."""
    a = F.abs(x)
    less_one, root = F.expm1(F.clamp(a, max=1.0)), F.exp(a / 2)
    return _odd(x, F.where(a < 1, (less_one + less_one / (less_one + 1)) / 2, root / 2 * root - 0.5 / root / root))


def cosh(x: Tensor) -> Tensor:
    """The hyperbolic cosine."""
    root = F.exp(F.abs(x) / 2)
    return root / 2 * root + 0.5 / root / root


def asinh(x: Tensor) -> Tensor:
    """The inverse hyperbolic sine."""
    a, most = F.abs(x), _large(x)
    b = F.clamp(a, max=most)
    return _odd(x, F.where(a < most, F.log1p(b + b * b / (1 + F.sqrt(1 + b * b))), F.log(a) + math.log(2)))


def acosh(x: Tensor) -> Tensor:
    """The inverse hyperbolic cosine."""
    most = _large(x)
    b = F.clamp(x, 0.0, most) - 1
    return F.where(x > most, F.log(x) + math.log(2), F.log1p(b + F.sqrt(b * (b + 2))))


def atanh(x: Tensor) -> Tensor:
    """The inverse hyperbolic tangent."""
    a = F.abs(x)
    return _odd(x, F.log1p(2 * a / (1 - a)) / 2)


def _atan_of_fraction(x: Tensor) -> Tensor:
    """Of 0 to 1: a first guess, right to 0.004, and what the angle of the rest adds."""
    guess = x * (math.pi / 4 + 0.273 * (1 - x))
    sine, cosine = F.sin(guess), F.cos(guess)
    rest = (x * cosine - sine) / (cosine + x * sine)
    square = rest * rest
    return guess + rest * (1 - square * (1 / 3 - square / 5))


def atan(x: Tensor) -> Tensor:
    """The inverse tangent."""
    a = F.abs(x)
    is_steep = a > 1
    small = _atan_of_fraction(F.where(is_steep, F.reciprocal(a), a))
    return _odd(x, F.where(is_steep, math.pi / 2 - small, small))


def atan2(y: Any, x: Any) -> Tensor:
    """The angle of the point (x, y), from -pi to pi."""
    y, x = promoted(y, x)
    a, b = F.abs(x), F.abs(y)
    is_steep, is_diagonal = b > a, F.logical_and(F.isinf(a), F.isinf(b))
    low, high = F.where(is_steep, a, b), F.where(is_steep, b, a)
    fraction = F.where(F.eq(high, 0), F.mul(high, low), low / high)
    angle = _atan_of_fraction(F.where(is_diagonal, _full(1, x), fraction))
    angle = F.where(is_steep, math.pi / 2 - angle, angle)
    angle = F.where(signbit(x), math.pi - angle, angle)
    return F.where(F.logical_or(F.isnan(x), F.isnan(y)), x + y, F.where(signbit(y), F.neg(angle), angle))


def asin(x: Tensor) -> Tensor:
    """The inverse sine."""
    return F.where(F.eq(x, 0), x, atan2(x, F.sqrt((1 - x) * (1 + x))))


def acos(x: Tensor) -> Tensor:
    """The inverse cosine."""
    return 2 * atan2(F.sqrt(1 - x), F.sqrt(1 + x))


def hypot(a: Any, b: Any) -> Tensor:
    """The root of the sum of both squares."""
    a, b = (F.abs(each) for each in promoted(a, b))
    high, low = F.fmax(a, b), F.fmin(a, b)
    fraction = F.where(F.eq(high, 0), high, low / high)
    length = high * F.sqrt(1 + fraction * fraction)
    is_infinite = F.logical_or(F.isinf(a), F.isinf(b))
    is_nan = F.logical_or(F.isnan(a), F.isnan(b))
    return F.where(is_infinite, _full(math.inf, a), F.where(is_nan, a + b, length))


def logaddexp(a: Any, b: Any) -> Tensor:
    """log(exp(a) + exp(b))."""
    a, b = promoted(a, b)
    high = F.maximum(a, b)
    return F.where(F.eq(a, b), a + math.log(2), high + F.log1p(F.exp(F.neg(F.abs(a - b)))))
