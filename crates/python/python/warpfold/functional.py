"""Operators by PyTorch's names and argument names. ``warpfold.ops`` has every operator by the libraries' own name.

Types are promoted as NumPy promotes them; numbers of Python take the tensor's type.
"""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from . import _native, joining, order, pooling, random, resizing, scattering
from .dtypes import dtype_name
from .errors import ArgumentError
from .indexing import checked
from .joining import *  # noqa: F403 (they are functions of this module, too)
from .order import *  # noqa: F403
from .pooling import *  # noqa: F403
from .promotion import Dim, promoted as _promoted, tensor_of as _tensor
from .promotion import axes_of as _axes, floating as _floating, is_float as _is_float
from .random import *  # noqa: F403
from .resizing import *  # noqa: F403
from .scattering import *  # noqa: F403
from .tensors import Tensor, _wrap, device_of, operate

# Element by element.


def _unary(name: str, operator: str, doc: str, *, floating: bool = False, integral_is_same: bool = False) -> Callable[[Any], Tensor]:
    def function(input: Any) -> Tensor:
        tensor = _floating(input) if floating else _tensor(input)
        if integral_is_same and not _is_float(tensor):
            return tensor
        return operate(operator, [tensor])[0]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _binary(name: str, operator: str, doc: str, *, floating: bool = False) -> Callable[[Any, Any], Tensor]:
    def function(input: Any, other: Any) -> Tensor:
        a, b = _promoted(input, other)
        if floating:
            a, b = _floating(a), _floating(b)
        return operate(operator, [a, b])[0]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


abs = _unary("abs", "abs", "The absolute value.")
neg = negative = _unary("neg", "neg", "The negative.")
exp = _unary("exp", "exp", "e to the power.", floating=True)
exp2 = _unary("exp2", "exp2", "2 to the power.", floating=True)
expm1 = _unary("expm1", "expm1", "e to the power, less 1.", floating=True)
log = _unary("log", "log", "The natural logarithm.", floating=True)
log2 = _unary("log2", "log2", "The logarithm to base 2.", floating=True)
log10 = _unary("log10", "log10", "The logarithm to base 10.", floating=True)
log1p = _unary("log1p", "log1p", "The natural logarithm of 1 + input.", floating=True)
sqrt = _unary("sqrt", "sqrt", "The square root.", floating=True)
rsqrt = _unary("rsqrt", "rsqrt", "The reciprocal of the square root.", floating=True)
reciprocal = _unary("reciprocal", "recip", "The reciprocal.", floating=True)
tanh = _unary("tanh", "tanh", "The hyperbolic tangent.", floating=True)
sigmoid = _unary("sigmoid", "sigmoid", "1 / (1 + exp(-input)).", floating=True)
relu = _unary("relu", "relu", "input, or 0 if that is larger.")
silu = _unary("silu", "silu", "input * sigmoid(input).", floating=True)
erf = _unary("erf", "erf", "The error function.", floating=True)
sin = _unary("sin", "sin", "The sine.", floating=True)
cos = _unary("cos", "cos", "The cosine.", floating=True)
tan = _unary("tan", "tan", "The tangent.", floating=True)
floor = _unary("floor", "floor", "The next integer not above.", integral_is_same=True)
ceil = _unary("ceil", "ceil", "The next integer not below.", integral_is_same=True)
round = _unary("round", "round", "The nearest integer, ties to even.", integral_is_same=True)
trunc = _unary("trunc", "trunc", "The next integer towards zero.", integral_is_same=True)
sign = _unary("sign", "sign", "-1, 0 or 1.")
square = _unary("square", "square", "input * input.")
bitwise_not = _unary("bitwise_not", "not", "Every bit inverted; of booleans, not.")
isnan = _unary("isnan", "is-nan", "Whether it is NaN.")
isinf = _unary("isinf", "is-inf", "Whether it is infinite.")
isfinite = _unary("isfinite", "is-finite", "Whether it is neither infinite nor NaN.")

mul = multiply = _binary("mul", "mul", "input * other.")
div = divide = true_divide = _binary("div", "div", "input / other, of integers as floats.", floating=True)
fmod = _binary("fmod", "rem", "The remainder of input / other, with the sign of input.")
pow = _binary("pow", "pow", "input to the power of other.")
maximum = _binary("maximum", "maximum", "The larger one; NaN if either is.")
minimum = _binary("minimum", "minimum", "The smaller one; NaN if either is.")
fmax = _binary("fmax", "fmax", "The larger one; the number if the other is NaN.")
fmin = _binary("fmin", "fmin", "The smaller one; the number if the other is NaN.")
eq = _binary("eq", "eq", "Whether input == other.")
ne = not_equal = _binary("ne", "ne", "Whether input != other.")
lt = less = _binary("lt", "lt", "Whether input < other.")
le = less_equal = _binary("le", "le", "Whether input <= other.")
gt = greater = _binary("gt", "gt", "Whether input > other.")
ge = greater_equal = _binary("ge", "ge", "Whether input >= other.")
bitwise_and = _binary("bitwise_and", "and", "input & other.")
bitwise_or = _binary("bitwise_or", "or", "input | other.")
bitwise_xor = _binary("bitwise_xor", "xor", "input ^ other.")
bitwise_left_shift = _binary("bitwise_left_shift", "shl", "input << other.")
bitwise_right_shift = _binary("bitwise_right_shift", "shr", "input >> other.")


def _scaled(other: Any, alpha: float, like: Any) -> Any:
    return other if alpha == 1 else mul(_tensor(other, like if isinstance(like, Tensor) else None), alpha)


def add(input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    """input + alpha * other."""
    return operate("add", _promoted(input, _scaled(other, alpha, input)))[0]


def sub(input: Any, other: Any, *, alpha: float = 1) -> Tensor:
    """input - alpha * other."""
    return operate("sub", _promoted(input, _scaled(other, alpha, input)))[0]


subtract = sub


def gelu(input: Any, approximate: str = "none") -> Tensor:
    """GELU; with ``approximate="tanh"`` by its approximation."""
    if approximate not in ("none", "tanh"):
        raise ArgumentError(f"approximate is 'none' or 'tanh', not {approximate!r}")
    return operate("gelu" if approximate == "none" else "gelu-tanh", [_floating(input)])[0]


def floor_divide(input: Any, other: Any) -> Tensor:
    """input / other, rounded down."""
    a, b = _promoted(input, other)
    if _is_float(a):
        return floor(div(a, b))
    return div_floor(a, b)


def div_floor(a: Tensor, b: Tensor) -> Tensor:
    """Of integers: truncated, and one less where the signs differ and something is left."""
    quotient, rest = operate("div", [a, b])[0], operate("rem", [a, b])[0]
    if a._native.dtype[0] == "u":
        return quotient
    is_less = bitwise_and(ne(rest, 0), ne(lt(rest, 0), lt(b, 0)))
    return where(is_less, sub(quotient, 1), quotient)


def remainder(input: Any, other: Any) -> Tensor:
    """The remainder of input / other, with the sign of other."""
    a, b = _promoted(input, other)
    rest = operate("rem", [a, b])[0]
    if a._native.dtype[0] == "u":
        return rest
    is_less = lt(b, 0)
    result = where(bitwise_and(ne(rest, 0), ne(lt(rest, 0), is_less)), add(rest, b), rest)
    if not _is_float(a):
        return result
    # As Python and NumPy: nothing that is left has other's sign, too.
    return where(eq(result, 0), where(is_less, _tensor(-0.0, a), _tensor(0.0, a)), result)


def _truth(value: Any) -> Tensor:
    tensor = _tensor(value)
    return tensor if tensor._native.dtype == "bool" else ne(tensor, 0)


def logical_not(input: Any) -> Tensor:
    """Whether input is zero."""
    return bitwise_not(_truth(input))


def logical_and(input: Any, other: Any) -> Tensor:
    """Whether neither is zero."""
    return bitwise_and(_truth(input), _truth(other))


def logical_or(input: Any, other: Any) -> Tensor:
    """Whether either is not zero."""
    return bitwise_or(_truth(input), _truth(other))


def logical_xor(input: Any, other: Any) -> Tensor:
    """Whether one of both is not zero."""
    return bitwise_xor(_truth(input), _truth(other))


def where(condition: Any, input: Any, other: Any) -> Tensor:
    """input where the condition holds, else other."""
    chosen = _tensor(condition)
    like = next((v for v in (input, other) if isinstance(v, Tensor)), None)
    if like is None:
        input = _tensor(input)
    a, b = _promoted(input, other)
    return operate("where", [_truth(chosen), a, b])[0]


def clamp(input: Any, min: Any = None, max: Any = None) -> Tensor:
    """input within min and max; either may be None."""
    if min is None and max is None:
        raise ArgumentError("clamp takes a min, a max or both")
    if min is not None and max is not None:
        return operate("clamp", _promoted(input, min, max))[0]
    return maximum(input, min) if max is None else minimum(input, max)


clip = clamp


def masked_fill(input: Any, mask: Any, value: Any) -> Tensor:
    """value where the mask is true, else input."""
    tensor = _tensor(input)
    return where(mask, _tensor(value, tensor).to(tensor._native.dtype), tensor)


def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Tensor:
    """input + value * tensor1 * tensor2."""
    tensor1, tensor2, input = _promoted(tensor1, tensor2, input)
    return operate("fma", [_scaled(tensor1, value, tensor1), tensor2, input])[0]


def clone(input: Tensor) -> Tensor:
    """A contiguous copy."""
    return operate("copy", [input])[0]


# Reductions.


def _fold(operator: str, input: Any, dim: Dim, keepdim: bool, dtype: Any = None, **options: Any) -> list[Tensor]:
    name = dtype_name(dtype) if dtype is not None else None
    return operate(operator, [_tensor(input)], axes=_axes(dim), keepdims=keepdim or None, dtype=name, **options)


def _sum_dtype(input: Tensor, dtype: Any) -> Any:
    """As PyTorch: integers are summed as 64-bit ones."""
    return dtype if dtype is not None or _is_float(input) else "u64" if input._native.dtype == "u64" else "i64"


def _summand(input: Any) -> Tensor:
    tensor = _tensor(input)
    return tensor.to("i64") if tensor._native.dtype == "bool" else tensor


def sum(input: Any, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum over dimensions, or over all."""
    tensor = _summand(input)
    return _fold("sum", tensor, dim, keepdim, _sum_dtype(tensor, dtype))[0]


def prod(input: Any, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The product."""
    tensor = _summand(input)
    return _fold("prod", tensor, dim, keepdim, _sum_dtype(tensor, dtype))[0]


def mean(input: Any, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The mean."""
    return _fold("mean", _floating(input), dim, keepdim, dtype)[0]


def amin(input: Any, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The smallest element."""
    return _fold("min", input, dim, keepdim)[0]


def amax(input: Any, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The largest element."""
    return _fold("max", input, dim, keepdim)[0]


def aminmax(input: Any, *, dim: Dim = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest and the largest element."""
    smallest, largest = _fold("min-max", input, dim, keepdim)
    return smallest, largest


def min(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest element; along a dimension, also its index."""
    smallest = amin(input, dim, keepdim)
    return smallest if dim is None else (smallest, argmin(input, dim, keepdim))


def max(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The largest element; along a dimension, also its index."""
    largest = amax(input, dim, keepdim)
    return largest if dim is None else (largest, argmax(input, dim, keepdim))


def any(input: Any, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether any element is not zero."""
    return _fold("any", input, dim, keepdim)[0]


def all(input: Any, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether no element is zero."""
    return _fold("all", input, dim, keepdim)[0]


def count_nonzero(input: Any, dim: Dim = None) -> Tensor:
    """How many elements are not zero."""
    return _fold("count-nonzero", input, dim, False)[0]


def argmin(input: Any, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of the smallest element, the first of equals."""
    return _fold("argmin", input, dim, keepdim)[0]


def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The index of the largest element, the first of equals."""
    return _fold("argmax", input, dim, keepdim)[0]


def _correction(unbiased: bool | None, correction: int | None) -> int:
    if unbiased is not None and correction is not None:
        raise ArgumentError("unbiased and correction say the same: give one of them")
    return (1 if unbiased in (None, True) else 0) if correction is None else correction


def var(
    input: Any, dim: Dim = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: int | None = None
) -> Tensor:
    """The variance. The divisor is the number of elements less ``correction``: 1 unless given, 0 with ``unbiased=False``."""
    return _fold("var", _floating(input), dim, keepdim, ddof=_correction(unbiased, correction))[0]


def std(
    input: Any, dim: Dim = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: int | None = None
) -> Tensor:
    """The standard deviation. The divisor is the number of elements less ``correction``: 1 unless given, 0 with ``unbiased=False``."""
    return _fold("std", _floating(input), dim, keepdim, ddof=_correction(unbiased, correction))[0]


def var_mean(
    input: Any, dim: Dim = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: int | None = None
) -> tuple[Tensor, Tensor]:
    """The variance and the mean, in one pass."""
    mean, variance = _fold("mean-var", _floating(input), dim, keepdim, ddof=_correction(unbiased, correction))
    return variance, mean


def std_mean(
    input: Any, dim: Dim = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: int | None = None
) -> tuple[Tensor, Tensor]:
    """The standard deviation and the mean."""
    variance, mean = var_mean(input, dim, unbiased, keepdim, correction=correction)
    return sqrt(variance), mean


_SEGMENTED = ("sum", "mean", "max", "min", "prod")


def segment_reduce(data: Any, reduce: str, *, lengths: Any = None, offsets: Any = None) -> Tensor:
    """Sums, means, largest, smallest elements or products of parts of a vector.

    They have these lengths, or begin at these offsets, the last of which is where the last part ends.
    """
    if reduce not in _SEGMENTED:
        raise ArgumentError(f"reduce is one of {', '.join(_SEGMENTED)}, not {reduce!r}")
    if (lengths is None) == (offsets is None):
        raise ArgumentError("segment_reduce takes lengths or offsets, one of them")
    tensor = _tensor(data)
    if lengths is not None:
        zero = full(1, 0, dtype="i64", device=tensor.device)
        offsets = joining.cat([zero, cumsum(_tensor(lengths, tensor).to("i64"), 0)])
    return operate(reduce, [tensor, _tensor(offsets, tensor)], offsets=True)[0]


def vector_norm(x: Any, ord: float = 2, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The norm of order 1, 2 or infinity."""
    names = {1: "l1", 2: "l2", float("inf"): "linf"}
    if ord not in names:
        raise ArgumentError(f"ord is 1, 2 or infinity, not {ord}")
    return _fold(names[ord], _floating(x), dim, keepdim)[0]


def norm(input: Any, p: float = 2, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The norm of order 1, 2 or infinity."""
    return vector_norm(input, p, dim, keepdim)


def logsumexp(input: Any, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """The logarithm of the sum of exponentials."""
    return _fold("log-sum-exp", _floating(input), dim, keepdim)[0]


def cumsum(input: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """The sums up to each element."""
    tensor = _summand(input)
    name = _sum_dtype(tensor, dtype)
    return operate("cumsum", [tensor], axes=[dim], dtype=name and dtype_name(name))[0]


def cumprod(input: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """The products up to each element."""
    tensor = _summand(input)
    name = _sum_dtype(tensor, dtype)
    return operate("cumprod", [tensor], axes=[dim], dtype=name and dtype_name(name))[0]


def bincount(input: Any, minlength: int = 0) -> Tensor:
    """How often each number comes, up to the largest or up to minlength."""
    tensor = _tensor(input)
    largest = int(amax(tensor)) + 1 if tensor.size else 0
    return operate("histogram", [tensor], bins=builtins.max(largest, minlength, 1))[0].to("i64")


# Rows.


def softmax(input: Any, dim: int = -1, *, dtype: Any = None) -> Tensor:
    """exp(input) over its sum along a dimension."""
    tensor = _floating(input if dtype is None else _tensor(input).to(dtype))
    return operate("softmax", [tensor], axes=[dim])[0]


def log_softmax(input: Any, dim: int = -1, *, dtype: Any = None) -> Tensor:
    """The logarithm of softmax."""
    tensor = _floating(input if dtype is None else _tensor(input).to(dtype))
    return operate("log-softmax", [tensor], axes=[dim])[0]


def _norm(operator: str, input: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Tensor:
    tensor = _floating(input)
    sizes = [shape] if isinstance(shape, int) else list(shape)
    if not sizes or list(tensor.shape[-len(sizes) :]) != sizes:
        raise ArgumentError(f"normalized_shape {sizes} is not the end of the shape {list(tensor.shape)}")
    if bias is not None and weight is None:
        raise ArgumentError("a norm takes a bias only after a weight")
    others = [_tensor(other, tensor) for other in (weight, bias) if other is not None]
    return operate(operator, [tensor, *others], axes=list(range(-len(sizes), 0)), eps=eps)[0]


def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """Rows of mean 0 and variance 1, scaled and shifted."""
    return _norm("layer-norm", input, normalized_shape, weight, bias, eps)


def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Tensor:
    """Rows over their root mean square, scaled. ``eps`` is the type's epsilon unless given, as PyTorch has it."""
    if eps is None:
        name = _floating(input)._native.dtype
        eps = {"f16": 2.0**-10, "bf16": 2.0**-7, "f64": 2.0**-52}.get(name, 2.0**-23)
    return _norm("rms-norm", input, normalized_shape, weight, None, eps)


# Products.


def matmul(input: Any, other: Any) -> Tensor:
    """The product of matrices, of stacks of them, or of vectors."""
    a, b = _promoted(input, other)
    if a.ndim == 1 and b.ndim == 1:
        return dot(a, b)
    if a.ndim == 0 or b.ndim == 0:
        raise ArgumentError("matmul takes tensors of at least one dimension; for numbers say mul")
    left = a.unsqueeze(0) if a.ndim == 1 else a
    right = b.unsqueeze(1) if b.ndim == 1 else b
    product = operate("matmul", [left, right])[0]
    return product.squeeze(-2) if a.ndim == 1 else product.squeeze(-1) if b.ndim == 1 else product


def mm(input: Any, mat2: Any) -> Tensor:
    """The product of two matrices."""
    return matmul(input, mat2)


def bmm(input: Any, mat2: Any) -> Tensor:
    """The products of stacks of matrices."""
    return matmul(input, mat2)


def mv(input: Any, vec: Any) -> Tensor:
    """The product of a matrix and a vector."""
    return operate("gemv", _promoted(input, vec))[0]


def dot(input: Any, other: Any) -> Tensor:
    """The sum of the products of two vectors."""
    a, b = _promoted(input, other)
    return operate("dot", [a, b], dtype=None if _is_float(a) else a._native.dtype)[0]


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * mat1 @ mat2."""
    a, b, c = _promoted(mat1, mat2, input)
    return operate("matmul", [a, b, c.expand(a.shape[0], b.shape[-1])], alpha=float(alpha), beta=float(beta))[0]


def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * batch1 @ batch2, of stacks of matrices."""
    a, b, c = _promoted(batch1, batch2, input)
    shape = (*a.shape[:-1], b.shape[-1])
    return operate("matmul", [a, b, c.expand(*shape)], alpha=float(alpha), beta=float(beta))[0]


def outer(input: Any, vec2: Any) -> Tensor:
    """The products of all pairs of elements of two vectors."""
    a, b = _promoted(input, vec2)
    if a.ndim != 1 or b.ndim != 1:
        raise ArgumentError(f"outer takes two vectors, not tensors of {a.ndim} and {b.ndim} dimensions")
    return mul(a.unsqueeze(1), b)


def linear(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """input @ weight.T + bias."""
    a, b = _promoted(input, weight)
    flags = {} if bias is None else {"bias": True}
    return operate("matmul", [a, b, *([] if bias is None else [_tensor(bias, a)])], transpose_b=True, **flags)[0]


def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """A convolution of images [N, C, H, W] with filters [K, C / groups, R, S]."""
    a, b = _promoted(input, weight)
    if isinstance(padding, str):
        padding = _sizes_of_padding(padding, b, dilation)
    options: dict[str, Any] = {} if bias is None else {"bias": True}
    for name, value in (("stride", stride), ("padding", padding), ("dilation", dilation)):
        options[name] = [value] if isinstance(value, int) else list(value)
    return operate("conv2d", [a, b, *([] if bias is None else [_tensor(bias, a)])], groups=groups, **options)[0]


def conv1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Tensor:
    """A convolution of rows [N, C, L] with filters [K, C / groups, R]."""
    a, b = _promoted(input, weight)
    if a.ndim != 3 or b.ndim != 3:
        raise ArgumentError(f"rows [N, C, L] and filters [K, C / groups, R] are expected, not {a.ndim} and {b.ndim} dimensions")

    def along(value: Any, across: int) -> Any:
        return value if isinstance(value, str) else [across, value if isinstance(value, int) else value[0]]

    sizes = along(stride, 1), along(padding, 0), along(dilation, 1)
    return conv2d(a.unsqueeze(2), b.unsqueeze(2), bias, *sizes, groups).squeeze(2)


def _sizes_of_padding(padding: str, weight: Tensor, dilation: Any) -> list[int]:
    """PyTorch's words for padding as numbers."""
    if padding == "valid":
        return [0, 0]
    if padding != "same":
        raise ArgumentError(f"padding is 'same', 'valid' or numbers, not {padding!r}")
    steps = [dilation] * 2 if isinstance(dilation, int) else list(dilation) * (3 - len(dilation))
    spans = [step * (n - 1) for step, n in zip(steps, weight.shape[2:], strict=True)]
    if builtins.any(span % 2 for span in spans):
        raise ArgumentError(f"filters of {list(weight.shape[2:])} would pad one side more than the other: pad the images first")
    return [span // 2 for span in spans]


def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    """softmax(query @ key.T * scale + attn_mask) @ value, of [batch, heads, sequence, head size].

    A mask of booleans says which keys a query sees. With ``enable_gqa`` several heads of queries share one of keys.
    """
    if dropout_p:
        raise ArgumentError(f"there is no dropout: dropout_p is 0, not {dropout_p}")
    q, k, v = _promoted(query, key, value)
    if not enable_gqa and q.ndim > 2 and q.shape[-3] != k.shape[-3]:
        raise ArgumentError(f"queries have {q.shape[-3]} heads, keys {k.shape[-3]}: that takes enable_gqa=True")
    mask = [] if attn_mask is None else [_tensor(attn_mask, q)]
    if mask and mask[0]._native.dtype == "bool":
        numbers = [full((), number, dtype=q._native.dtype, device=q.device) for number in (0.0, float("-inf"))]
        mask = [where(mask[0], *numbers)]
    causal = "top-left" if is_causal else None
    return operate("attention", [q, k, v, *mask], causal=causal, scale=scale)[0]


def cross_entropy(input: Any, target: Any, *, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    """The loss of logits [rows, classes] at labels [rows]."""
    logits, labels = _floating(input), _tensor(target)
    loss = operate("cross-entropy", [logits, labels], ignore_index=ignore_index)[0]
    if reduction == "none":
        return loss
    if reduction == "sum":
        return sum(loss)
    if reduction == "mean":
        return div(sum(loss), sum(ne(labels, ignore_index)).to(loss._native.dtype))
    raise ArgumentError(f"reduction is 'none', 'sum' or 'mean', not {reduction!r}")


# By index.


def index_select(input: Tensor, dim: int, index: Any) -> Tensor:
    """The entries of a dimension at these indices; negative ones count from the end."""
    axis = input._axis(dim)
    where_to = checked(_tensor(index, input), input.shape[axis])
    if axis == 0:
        return operate("gather", [input.contiguous(), where_to])[0]
    front = [axis, *(i for i in range(input.ndim) if i != axis)]
    back = [front.index(i) for i in range(input.ndim)]
    return operate("gather", [input.permute(front).contiguous(), where_to])[0].permute(back)


def embedding(input: Any, weight: Any) -> Tensor:
    """Rows of weight by index."""
    indices, table = _tensor(input), _tensor(weight)
    rows = operate("gather", [table.contiguous(), indices.flatten()])[0]
    return rows.reshape(*indices.shape, *table.shape[1:])


def nms(boxes: Any, scores: Any, iou_threshold: float) -> Tensor:
    """The indices of the boxes that are kept, as torchvision has it."""
    return operate("nms", [_tensor(boxes), _tensor(scores)], threshold=iou_threshold)[0]


# Making tensors.


def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of one number."""
    if dtype is None:
        dtype = "bool" if isinstance(fill_value, bool) else "i64" if isinstance(fill_value, int) else "f32"
    sizes = [size] if isinstance(size, int) else list(size)
    if isinstance(fill_value, int) and builtins.abs(fill_value) > 1 << 53:
        return Tensor(np.full(sizes, fill_value), dtype, device)
    return _wrap(_native.Tensor.full(device_of(device), dtype_name(dtype), float(fill_value), sizes))


def zeros(*size: Any, dtype: Any = "f32", device: Any = None) -> Tensor:
    """Zeros."""
    return full(size[0] if len(size) == 1 else size, 0, dtype=dtype, device=device)


def ones(*size: Any, dtype: Any = "f32", device: Any = None) -> Tensor:
    """Ones."""
    return full(size[0] if len(size) == 1 else size, 1, dtype=dtype, device=device)


def arange(start: float, end: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Numbers from start up to but without end."""
    if end is None:
        start, end = 0, start
    is_whole = builtins.all(isinstance(n, int) for n in (start, end, step))
    return Tensor(np.arange(start, end, step), dtype if dtype is not None else "i64" if is_whole else "f32", device)


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    made = inspect.signature(function)
    first, *others = made.parameters.values()
    shown = made.replace(parameters=[first.replace(name="self", annotation=inspect.Parameter.empty), *others])
    method.__signature__ = shown  # type: ignore[attr-defined]
    return method


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Tensor, other: Any) -> Any:
        return function(_tensor(other, self), self)

    return method


def _attach() -> None:
    """Makes methods of functions, and operators of Python of some."""
    parts = (joining, order, pooling, random, resizing, scattering)
    of_others = {name: getattr(part, name) for part in parts for name in part.__all__}
    own: dict[str, Any] = {name: f for name, f in globals().items() if inspect.isfunction(f) and f.__module__ == __name__}
    for name, function in {**own, **of_others}.items():
        is_method = next(iter(inspect.signature(function).parameters), None) == "input"
        if is_method and not name.startswith("_") and name not in vars(Tensor):
            setattr(Tensor, name, _method(function))
    unary: dict[str, Any] = {"neg": neg, "pos": lambda x: x, "abs": abs, "invert": bitwise_not}
    binary: dict[str, Any] = {
        "add": add, "sub": sub, "mul": mul, "truediv": div, "floordiv": floor_divide, "mod": remainder, "pow": pow,
        "matmul": matmul, "and": bitwise_and, "or": bitwise_or, "xor": bitwise_xor, "lshift": bitwise_left_shift,
        "rshift": bitwise_right_shift,
    }  # fmt: skip
    compare = {"eq": eq, "ne": ne, "lt": lt, "le": le, "gt": gt, "ge": ge}
    for name, function in {**unary, **binary, **compare}.items():
        setattr(Tensor, f"__{name}__", _method(function))
    for name, function in binary.items():
        setattr(Tensor, f"__r{name}__", _reflected(function))


_attach()
