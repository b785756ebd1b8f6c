"""The array API standard as far as the operators go: ``import warpfold.array_api as xp``.

Absent, as there is no operator: complex numbers, and the extensions ``linalg`` and ``fft``.
``array_api_fails.txt`` beside the package's sources lists what of the standard's own tests fails.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import functional as F
from . import inverse, joining, order
from .dtypes import dtype_name
from .errors import ArgumentError, DtypeError
from .tensors import Tensor, _wrap, default_device, from_dlpack, operate

__array_api_version__ = "2024.12"

e, inf, nan, newaxis, pi = math.e, math.inf, math.nan, None, math.pi

bool = np.dtype("bool")
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float32, float64 = np.dtype("float32"), np.dtype("float64")

Axis = int | Sequence[int] | None
_DTYPES: dict[str, list[Any]] = {
    "bool": [bool],
    "signed integer": [int8, int16, int32, int64],
    "unsigned integer": [uint8, uint16, uint32, uint64],
    "real floating": [float32, float64],
    "complex floating": [],
}
_DTYPES["integral"] = _DTYPES["signed integer"] + _DTYPES["unsigned integer"]
_DTYPES["numeric"] = _DTYPES["integral"] + _DTYPES["real floating"]


# Types and information.


class _Info:
    """What is known of the namespace."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self) -> Any:
        return default_device()

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        return {"real floating": float32, "complex floating": None, "integral": int64, "indexing": int64}

    def devices(self) -> list[Any]:
        return [default_device()]

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        return {dtype.name: dtype for each in kinds for dtype in _DTYPES[each]}


def __array_namespace_info__() -> _Info:
    return _Info()


def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Whether an element type is of a kind, or of one of several."""
    if isinstance(kind, tuple):
        return builtins.any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, str):
        if kind not in _DTYPES:
            raise ArgumentError(f"no kind of element types is '{kind}': expected one of {', '.join(_DTYPES)}")
        return dtype in _DTYPES[kind]
    return builtins.bool(dtype == kind)


def _kind(dtype: Any) -> str:
    return {"b": "bool", "i": "integral", "u": "integral", "f": "real floating"}[np.dtype(dtype).kind]


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The common element type."""
    dtypes = [each.dtype if isinstance(each, Tensor) else each for each in arrays_and_dtypes]
    numbers = [each for each in dtypes if isinstance(each, builtins.bool | int | float)]
    dtypes = [np.dtype(each) for each in dtypes if not isinstance(each, builtins.bool | int | float)]
    common = np.result_type(*dtypes)
    if builtins.any(isinstance(n, float) for n in numbers) and common.kind != "f":
        raise DtypeError(f"a float and elements of type {common} have no common type")
    if {"bool"} != {_kind(d) for d in dtypes} and "bool" in {_kind(d) for d in dtypes}:
        raise DtypeError("booleans and numbers have no common type")
    if "real floating" in {_kind(d) for d in dtypes} and "integral" in {_kind(d) for d in dtypes}:
        raise DtypeError("integers and floats have no common type in the array API")
    if common == np.float64 and float64 not in dtypes:
        raise DtypeError("uint64 and a signed integer have no common type")
    return common


def can_cast(from_: Any, to: Any) -> builtins.bool:
    """Whether the conversion loses nothing, as NumPy has it."""
    source = from_.dtype if isinstance(from_, Tensor) else from_
    return builtins.bool(np.can_cast(source, to))


class _FloatInfo:
    def __init__(self, info: Any) -> None:
        self.bits, self.dtype = info.bits, info.dtype
        self.eps, self.max, self.min = float(info.eps), float(info.max), float(info.min)
        self.smallest_normal = float(info.smallest_normal)


def finfo(type: Any, /) -> _FloatInfo:
    """Limits of a floating type."""
    return _FloatInfo(np.finfo(type.dtype if isinstance(type, Tensor) else type))


def iinfo(type: Any, /) -> Any:
    """Limits of an integer type."""
    return np.iinfo(type.dtype if isinstance(type, Tensor) else type)


def astype(x: Tensor, dtype: Any, /, *, copy: builtins.bool = True, device: Any = None) -> Tensor:
    """The elements in another type; converted as NumPy converts them."""
    if dtype_name(dtype) == "bool" and x.dtype != bool:
        return F.ne(x, 0)
    return x.to(dtype) if x.dtype != dtype else F.clone(x) if copy else x


# Creation.


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: builtins.bool | None = None) -> Tensor:
    """A tensor of numbers, lists, or anything with ``__dlpack__``."""
    if isinstance(obj, Tensor):
        made = obj if dtype is None else astype(obj, dtype, copy=False)
        return F.clone(made) if copy else made
    if copy is False:
        raise ArgumentError("what is no tensor yet cannot be one without a copy")
    return Tensor(np.asarray(obj, dtype) if isinstance(obj, builtins.bool | int) and dtype is not None else obj, dtype, device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of one number."""
    return F.full(shape, fill_value, dtype=dtype, device=device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros."""
    return F.full(shape, 0, dtype=float32 if dtype is None else dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones."""
    return F.full(shape, 1, dtype=float32 if dtype is None else dtype, device=device)


empty = zeros


def full_like(x: Tensor, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor of one number and another's shape."""
    return F.full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=device or x.device)


def zeros_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros in another tensor's shape."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones in another tensor's shape."""
    return full_like(x, 1, dtype=dtype, device=device)


empty_like = zeros_like


def _of_numpy(made: np.ndarray, dtype: Any, device: Any) -> Tensor:
    if dtype is None and made.dtype == float64:
        dtype = float32
    return Tensor(made, dtype, device)


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Numbers from start up to but without stop."""
    made = np.arange(start, step=step) if stop is None else np.arange(start, stop, step)
    return _of_numpy(made, dtype, device)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: builtins.bool = True
) -> Tensor:
    """So many numbers at equal distances."""
    return _of_numpy(np.linspace(start, stop, num, endpoint=endpoint), dtype, device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones on a diagonal."""
    return _of_numpy(np.eye(n_rows, n_cols, k), dtype, device)


def _below(x: Tensor, k: int) -> Tensor:
    """Whether an element is on the k-th diagonal or below it."""
    rows, columns = (arange(n, device=x.device) for n in x.shape[-2:])
    return F.ge(F.add(rows.unsqueeze(1), k), columns)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Zeros above a diagonal."""
    return F.where(_below(x, k), x, zeros_like(x))


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Zeros below a diagonal."""
    return F.where(_below(x, k - 1), zeros_like(x), x)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Coordinates on a grid."""
    order = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        order[:2] = [1, 0]
    shape = [arrays[i].size for i in order]
    views = []
    for i, x in enumerate(arrays):
        place = order.index(i)
        views.append(x.reshape([x.size if at == place else 1 for at in range(len(shape))]).expand(shape))
    return views


# Element by element: what has another name or other rules than PyTorch's.


def _numeric(x1: Any, x2: Any) -> tuple[Any, Any]:
    if isinstance(x1, Tensor) or isinstance(x2, Tensor):
        result_type(x1, x2)
    return x1, x2


def _unary(function: Callable[..., Tensor], *kinds: str) -> Callable[[Tensor], Tensor]:
    def checked(x: Tensor, /) -> Tensor:
        if kinds and not isdtype(x.dtype, kinds):
            raise DtypeError(f"{function.__name__} does not take elements of type {x.dtype}")
        return function(x)

    checked.__name__ = function.__name__
    checked.__doc__ = function.__doc__
    return checked


def _binary(function: Callable[..., Tensor], *kinds: str) -> Callable[[Any, Any], Tensor]:
    def checked(x1: Any, x2: Any, /) -> Tensor:
        for x in (x1, x2):
            if isinstance(x, Tensor) and kinds and not isdtype(x.dtype, kinds):
                raise DtypeError(f"{function.__name__} does not take elements of type {x.dtype}")
        return function(*_numeric(x1, x2))

    checked.__name__ = function.__name__
    checked.__doc__ = function.__doc__
    return checked


_REAL = "real floating"
abs, negative, square = (_unary(f, "numeric") for f in (F.abs, F.neg, F.square))
exp, expm1, log, log2, log10, log1p = (_unary(f, _REAL) for f in (F.exp, F.expm1, F.log, F.log2, F.log10, F.log1p))
sqrt, reciprocal, sin, cos, tan, tanh = (_unary(f, _REAL) for f in (F.sqrt, F.reciprocal, F.sin, F.cos, F.tan, F.tanh))
floor, ceil, round, trunc = (_unary(f, "numeric") for f in (F.floor, F.ceil, F.round, F.trunc))
logical_not, bitwise_invert = _unary(F.logical_not, "bool"), _unary(F.bitwise_not, "integral", "bool")
add, subtract, multiply = (_binary(f, "numeric") for f in (F.add, F.sub, F.mul))
divide, pow, remainder = _binary(F.div, _REAL), _binary(F.pow, "numeric"), _binary(F.remainder, "numeric")
floor_divide = _binary(F.floor_divide, "numeric")
maximum, minimum = _binary(F.maximum, "numeric"), _binary(F.minimum, "numeric")
equal, not_equal = _binary(F.eq), _binary(F.ne)
less, less_equal, greater, greater_equal = (_binary(f, "numeric") for f in (F.lt, F.le, F.gt, F.ge))
logical_and, logical_or, logical_xor = (_binary(f, "bool") for f in (F.logical_and, F.logical_or, F.logical_xor))
bitwise_and, bitwise_or, bitwise_xor = (
    _binary(f, "integral", "bool") for f in (F.bitwise_and, F.bitwise_or, F.bitwise_xor)
)
bitwise_left_shift = _binary(F.bitwise_left_shift, "integral")
bitwise_right_shift = _binary(F.bitwise_right_shift, "integral")


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; of -0 too it is 0."""
    if not isdtype(x.dtype, "numeric"):
        raise DtypeError(f"sign does not take elements of type {x.dtype}")
    return F.where(F.eq(x, 0), zeros_like(x), F.sign(x))


acos, acosh, asin, asinh, atan, atanh, cosh, sinh = (
    _unary(f, _REAL)
    for f in (
        inverse.acos, inverse.acosh, inverse.asin, inverse.asinh, inverse.atan, inverse.atanh, inverse.cosh, inverse.sinh
    )
)  # fmt: skip
signbit = _unary(inverse.signbit, _REAL)
atan2, copysign, hypot, logaddexp = (
    _binary(f, _REAL) for f in (inverse.atan2, inverse.copysign, inverse.hypot, inverse.logaddexp)
)


def nextafter(x1: Any, x2: Any, /) -> Tensor:
    """The float after x1 towards x2. No operator counts floats: this is computed on the host."""
    a, b = (x if isinstance(x, Tensor) else asarray(x) for x in (x1, x2))
    common = np.dtype(result_type(*(x for x in (x1, x2) if isinstance(x, Tensor))))
    if not isdtype(common, _REAL):
        raise DtypeError(f"nextafter does not take elements of type {common}")
    return Tensor(np.nextafter(a.to(common).numpy(), b.to(common).numpy()), device=a.device)


def positive(x: Tensor, /) -> Tensor:
    """x."""
    return x


def _of_floats(function: Callable[[Any], Tensor]) -> Callable[[Tensor], Tensor]:
    def of(x: Tensor, /) -> Tensor:
        return function(x if isdtype(x.dtype, _REAL) else x.to(float32))

    of.__name__ = function.__name__
    of.__doc__ = function.__doc__
    return of


isnan, isinf, isfinite = (_of_floats(f) for f in (F.isnan, F.isinf, F.isfinite))


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """x1 where the condition holds, else x2."""
    return F.where(condition, *_numeric(x1, x2))


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """x within min and max."""
    return x if min is None and max is None else F.clamp(x, min, max).to(x.dtype)


# Reductions.


def _sum_dtype(x: Tensor, dtype: Any) -> Any:
    return dtype if dtype is not None else uint64 if x.dtype.kind == "u" else x.dtype if x.dtype.kind == "f" else int64


def sum(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: builtins.bool = False) -> Tensor:
    """The sum."""
    to = _sum_dtype(x, dtype)
    return F.sum(astype(x, to, copy=False), axis, keepdims, dtype=to)


def prod(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: builtins.bool = False) -> Tensor:
    """The product."""
    to = _sum_dtype(x, dtype)
    return F.prod(astype(x, to, copy=False), axis, keepdims, dtype=to)


def _reduction(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def reduce(x: Tensor, /, *, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
        return function(x, axis, keepdims)

    reduce.__name__ = function.__name__
    reduce.__doc__ = function.__doc__
    return reduce


mean, min, max = _reduction(F.mean), _reduction(F.amin), _reduction(F.amax)
any, all, argmin, argmax = _reduction(F.any), _reduction(F.all), _reduction(F.argmin), _reduction(F.argmax)


def count_nonzero(x: Tensor, /, *, axis: Axis = None, keepdims: builtins.bool = False) -> Tensor:
    """How many elements are not zero."""
    return F._fold("count-nonzero", x, axis, keepdims)[0]


def var(x: Tensor, /, *, axis: Axis = None, correction: float = 0, keepdims: builtins.bool = False) -> Tensor:
    """The variance."""
    return F.var(x, axis, correction=int(correction), keepdim=keepdims)


def std(x: Tensor, /, *, axis: Axis = None, correction: float = 0, keepdims: builtins.bool = False) -> Tensor:
    """The standard deviation."""
    return F.std(x, axis, correction=int(correction), keepdim=keepdims)


def _cumulative(name: str, first: int) -> Callable[..., Tensor]:
    def scan(
        x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: builtins.bool = False
    ) -> Tensor:
        if axis is None and x.ndim != 1:
            raise ArgumentError(f"{name} of {x.ndim} dimensions needs an axis")
        to = _sum_dtype(x, dtype)
        along = 0 if axis is None else x._axis(axis)
        result = operate(name, [astype(x, to, copy=False)], axes=[along], dtype=dtype_name(to))[0]
        if not include_initial:
            return result
        shape = [1 if i == along else n for i, n in enumerate(x.shape)]
        return joining.cat([full(shape, first, dtype=to, device=x.device), result], along)

    return scan


cumulative_sum, cumulative_prod = _cumulative("cumsum", 0), _cumulative("cumprod", 1)


# Products.


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of matrices."""
    return F.matmul(*_numeric(x1, x2))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two dimensions exchanged."""
    if x.ndim < 2:
        raise ArgumentError(f"a matrix has two dimensions, not {x.ndim}")
    return x.mT


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The sums of products along an axis."""
    common = result_type(x1, x2)
    sizes = [x.shape[axis] for x in (x1, x2)]
    if sizes[0] != sizes[1]:
        raise ArgumentError(f"axis {axis} has {sizes[0]} elements in the first tensor and {sizes[1]} in the second")
    return sum(F.mul(x1.to(common), x2.to(common)), axis=axis, dtype=common)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """The product over several axes."""
    if isinstance(axes, int):
        axes = (list(range(x1.ndim - axes, x1.ndim)), list(range(axes)))
    left, right = ([x._axis(a) for a in ([each] if isinstance(each, int) else each)] for x, each in zip((x1, x2), axes, strict=True))
    kept = [[i for i in range(x.ndim) if i not in gone] for x, gone in ((x1, left), (x2, right))]
    shape = [x1.shape[i] for i in kept[0]] + [x2.shape[i] for i in kept[1]]
    inner = math.prod(x1.shape[i] for i in left)
    a = x1.permute(kept[0] + left).reshape(math.prod(x1.shape[i] for i in kept[0]), inner)
    b = x2.permute(right + kept[1]).reshape(inner, math.prod(x2.shape[i] for i in kept[1]))
    return matmul(a, b).to(result_type(x1, x2)).reshape(shape)


# Shapes.


def reshape(x: Tensor, /, shape: Any, *, copy: builtins.bool | None = None) -> Tensor:
    """Another shape."""
    if copy is False:
        return x.view(shape)
    return F.clone(x).reshape(shape) if copy else x.reshape(shape)


def permute_dims(x: Tensor, /, axes: Sequence[int]) -> Tensor:
    """The dimensions in another order."""
    return x.permute(axes)


def moveaxis(x: Tensor, source: Any, destination: Any, /) -> Tensor:
    """Dimensions at other places."""
    sources, places = ([x._axis(a) for a in ([each] if isinstance(each, int) else each)] for each in (source, destination))
    order = [i for i in range(x.ndim) if i not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return x.permute(order)


def expand_dims(x: Tensor, /, axis: int) -> Tensor:
    """With a dimension of size 1."""
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise IndexError(f"axis {axis} is out of range for {x.ndim + 1} dimension(s)")
    return x.unsqueeze(axis % (x.ndim + 1))


def squeeze(x: Tensor, /, axis: Any) -> Tensor:
    """Without dimensions of size 1."""
    axes = [axis] if isinstance(axis, int) else list(axis)
    if bad := [a for a in axes if x.shape[x._axis(a)] != 1]:
        raise ArgumentError(f"axis {bad[0]} has the size {x.shape[bad[0]]}, not 1")
    return x.squeeze(axes)


def flip(x: Tensor, /, *, axis: Axis = None) -> Tensor:
    """Dimensions in reverse order."""
    return x.flip(list(range(x.ndim)) if axis is None else axis)


def broadcast_to(x: Tensor, /, shape: Any) -> Tensor:
    """Repeated to a larger shape."""
    return _wrap(x._native.broadcast(list(shape)))


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The common shape."""
    return tuple(np.broadcast_shapes(*shapes))


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """All repeated to their common shape."""
    shape = broadcast_shapes(*(x.shape for x in arrays))
    return [broadcast_to(x, shape) for x in arrays]


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts along an axis."""
    return tuple(moveaxis(x, axis, 0))


def take(x: Tensor, indices: Any, /, *, axis: int | None = None) -> Tensor:
    """The entries of an axis at these indices."""
    if axis is None and x.ndim != 1:
        raise ArgumentError(f"take of {x.ndim} dimensions needs an axis")
    return F.index_select(x, 0 if axis is None else axis, indices)


def roll(x: Tensor, /, shift: Any, *, axis: Axis = None) -> Tensor:
    """Entries moved along axes, those that fall off put in front."""
    if axis is None:
        return roll(x.flatten(), shift, axis=0).reshape(x.shape)
    axes = [axis] if isinstance(axis, int) else list(axis)
    shifts = [shift] * len(axes) if isinstance(shift, int) else list(shift)
    for by, each in zip(shifts, axes, strict=True):
        n = x.shape[each]
        if n:
            x = F.index_select(x, each, Tensor((np.arange(n) - by) % n, device=x.device))
    return x


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """Repeated as a whole."""
    shape = (1,) * (len(repetitions) - x.ndim) + x.shape
    repetitions = (1,) * (len(shape) - len(repetitions)) + tuple(repetitions)
    x = x.reshape(shape)
    for axis, (n, times) in enumerate(zip(shape, repetitions, strict=True)):
        if times != 1:
            x = F.index_select(x, axis, Tensor(np.tile(np.arange(n), times), device=x.device))
    return x


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Each entry repeated: all as often, or each as a tensor says."""
    if axis is None:
        x, axis = x.flatten(), 0
    times = repeats.numpy() if isinstance(repeats, Tensor) else repeats
    return F.index_select(x, axis, Tensor(np.repeat(np.arange(x.shape[axis]), times), device=x.device))


def _of_one_type(arrays: Sequence[Tensor]) -> list[Tensor]:
    common = result_type(*arrays)
    return [x.to(common) for x in arrays]


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """One after the other along an axis; along None all of their elements."""
    parts = _of_one_type(arrays)
    return joining.cat([x.flatten() for x in parts]) if axis is None else joining.cat(parts, axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Side by side along a new axis."""
    return joining.stack(_of_one_type(arrays), axis)


def diff(x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Tensor:
    """The differences of neighbours, n times."""
    parts = [part for part in (prepend, x, append) if part is not None]
    x = concat(parts, axis=axis) if len(parts) > 1 else x
    for _ in range(n):
        size = x.shape[axis]
        x = x if size == 0 else F.sub(x.narrow(axis, 1, size - 1), x.narrow(axis, 0, size - 1))
    return x


# Order.


def sort(x: Tensor, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True) -> Tensor:
    """The elements along an axis in order."""
    return order.sort(x, axis, descending).values


def argsort(x: Tensor, /, *, axis: int = -1, descending: builtins.bool = False, stable: builtins.bool = True) -> Tensor:
    """The indices of the elements in order."""
    return order.sort(x, axis, descending).indices


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of elements that are not zero, a vector for each dimension."""
    if x.ndim == 0:
        raise ArgumentError("nonzero takes a tensor of at least one dimension")
    return tuple(order.nonzero(x, as_tuple=True))


def searchsorted(x1: Tensor, x2: Any, /, *, side: str = "left", sorter: Tensor | None = None) -> Tensor:
    """Where elements of x2 belong among the sorted elements of x1: before equal ones, or with side "right" after them."""
    if side not in ("left", "right"):
        raise ArgumentError(f"side is 'left' or 'right', not {side!r}")
    x1 = x1 if sorter is None else F.index_select(x1, 0, sorter)
    wanted = x2 if isinstance(x2, Tensor) else asarray(x2, dtype=x1.dtype, device=x1.device)
    known, asked = _of_one_type([x1, wanted.flatten()])
    num_known, num_asked = known.size, asked.size
    # A stable sort of both puts each before or behind its equals; how many of x1 come before is its place.
    ranks = order.argsort(joining.cat([asked, known] if side == "left" else [known, asked]))
    is_known = F.ge(ranks, num_asked) if side == "left" else F.lt(ranks, num_known)
    before = F.cumsum(is_known.to("i64"), 0)
    places = order.argsort(ranks).narrow(0, 0 if side == "left" else num_known, num_asked)
    return F.index_select(before, 0, places).reshape(wanted.shape) if num_asked else zeros(wanted.shape, dtype=int64)


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """The elements along an axis at the indices at the same place."""
    size = x.shape[axis]
    return joining.take_along_dim(x, F.where(F.lt(indices, 0), F.add(indices, size), indices), axis)


class UniqueAll(NamedTuple):
    """What unique_all gives."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What unique_counts gives."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What unique_inverse gives."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """The distinct elements, where each comes first, which of them each element is, and their counts."""
    values, indices, inverse_indices, counts = operate("unique", [x])
    flat = x.flatten()
    if x.dtype.kind == "f" and values.size and builtins.bool(F.isnan(values[-1])):
        # The operator takes all NaN for one element, the standard takes each for one of its own.
        is_nan = F.isnan(flat)
        found = order._true_positions(is_nan)
        rest = values.size - 1
        values = joining.cat([values[:-1], F.index_select(flat, 0, found)])
        indices = joining.cat([indices[:-1], found])
        counts = joining.cat([counts[:-1], ones(found.size, dtype=int64, device=x.device)])
        number = F.add(F.cumsum(is_nan.to("i64"), 0), rest - 1)
        inverse_indices = F.where(is_nan, number, inverse_indices.flatten())
    return UniqueAll(values, indices, inverse_indices.reshape(x.shape), counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The distinct elements and their counts."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The distinct elements, and which of them each element is."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct elements."""
    return unique_all(x).values


def real(x: Tensor, /) -> Tensor:
    """x, as there are no complex numbers."""
    return x


def conj(x: Tensor, /) -> Tensor:
    """x, as there are no complex numbers."""
    return x


def imag(x: Tensor, /) -> Tensor:
    """Zeros, as there are no complex numbers."""
    return zeros_like(x)


_NOT_OURS = (
    "Any", "ArgumentError", "Axis", "Callable", "DtypeError", "F", "NamedTuple", "Sequence", "Tensor", "annotations",
    "builtins", "default_device", "dtype_name", "inverse", "joining", "math", "np", "operate", "order",
)  # fmt: skip
__all__ = [name for name in dir() if not name.startswith("_") and name not in _NOT_OURS]
