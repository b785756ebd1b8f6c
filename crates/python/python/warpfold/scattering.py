"""Elements put where indices say, by PyTorch's names: with the same bits on every run, in the order of the indices."""

from __future__ import annotations

from typing import Any

from .errors import ArgumentError
from .promotion import tensor_of
from .tensors import Tensor, operate

__all__ = [
    "index_add", "index_copy", "index_fill", "index_reduce", "scatter", "scatter_add", "scatter_reduce",
    "select_scatter", "slice_scatter",
]  # fmt: skip

#: PyTorch's names of combinations, and the libraries'.
_REDUCTIONS = {"sum": "sum", "prod": "prod", "amax": "max", "amin": "min"}


def _combined(
    operator: str, tensors: list[Tensor], dim: int, reduce: str | None = None, include_self: bool = True
) -> Tensor:
    options = {"reduce": reduce, "exclude_self": None if include_self else True}
    return operate(operator, tensors, axes=[dim], **options)[0]


def _reduced(operator: str, tensors: list[Tensor], dim: int, reduce: str, include_self: bool) -> Tensor:
    """A combination by PyTorch's name, the mean among them: sums divided by counts."""
    from . import functional

    if reduce in _REDUCTIONS:
        return _combined(operator, tensors, dim, _REDUCTIONS[reduce], include_self)
    if reduce != "mean":
        raise ArgumentError(f"reduce is one of {', '.join([*_REDUCTIONS, 'mean'])}, not {reduce!r}")
    tensor, index, src = tensors
    sums = _combined(operator, tensors, dim, "sum", include_self)
    dtype, device = tensor._native.dtype, tensor.device
    begin = functional.full(tensor.shape, int(include_self), dtype="i64", device=device)
    ones = functional.full(src.shape, 1, dtype="i64", device=device)
    counts = functional.clamp(_combined(operator, [begin, index, ones], dim, "sum"), min=1).to(dtype)
    return functional.floor_divide(sums, counts) if dtype[0] in "iu" else functional.div(sums, counts)


def _three(input: Any, index: Any, src: Any) -> list[Tensor]:
    tensor = tensor_of(input)
    return [tensor, tensor_of(index, tensor), tensor_of(src, tensor)]


def scatter(
    input: Any, dim: int, index: Any, src: Any = None, *, value: float | None = None, reduce: str | None = None
) -> Tensor:
    """A copy with each element of src (or a number) where its index along a dimension says; of several the last."""
    if (src is None) == (value is None):
        raise ArgumentError("scatter takes either src, a tensor or a number, or value")
    if reduce not in (None, "add", "multiply"):
        raise ArgumentError(f"reduce is add or multiply, not {reduce!r}; scatter_reduce has more")
    tensor, where = tensor_of(input), tensor_of(index)
    if src is None or isinstance(src, int | float):
        src = _filled(tensor, where.shape, value if src is None else src)
    how = None if reduce is None else {"add": "sum", "multiply": "prod"}[reduce]
    return _combined("scatter", [tensor, where, tensor_of(src, tensor)], dim, how)


def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Tensor:
    """A copy with each element of src added where its index along a dimension says, in the order of the indices."""
    return _combined("scatter", _three(input, index, src), dim, "sum")


def scatter_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Tensor:
    """The sum, prod, mean, amax or amin of all that goes to an element and, unless told not to, of itself."""
    return _reduced("scatter", _three(input, index, src), dim, reduce, include_self)


def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: float = 1) -> Tensor:
    """A copy with each part of source along a dimension, times alpha, added to the one that its index names."""
    from . import functional

    tensor, where, parts = _three(input, index, source)
    if alpha != 1:
        parts = functional.mul(parts, alpha)
    return _combined("index-scatter", [tensor, where, parts], dim, "sum")


def index_copy(input: Any, dim: int, index: Any, source: Any) -> Tensor:
    """A copy with each part of source along a dimension in the place of the one that its index names."""
    return _combined("index-scatter", _three(input, index, source), dim)


def index_fill(input: Any, dim: int, index: Any, value: float) -> Tensor:
    """A copy with a number at these indices of a dimension."""
    tensor, where = tensor_of(input), tensor_of(index)
    shape = list(tensor.shape)
    shape[tensor._axis(dim)] = where.size
    return _combined("index-scatter", [tensor, where, _filled(tensor, tuple(shape), value)], dim)


def index_reduce(
    input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Tensor:
    """As scatter_reduce, with whole parts of source along a dimension."""
    return _reduced("index-scatter", _three(input, index, source), dim, reduce, include_self)


def slice_scatter(
    input: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy with src in the place of a slice of a dimension."""
    tensor = tensor_of(input)
    if step < 1:
        raise ArgumentError(f"step is 1 or more, not {step}")
    positions = range(*slice(start, end, step).indices(tensor.shape[tensor._axis(dim)]))
    return index_copy(tensor, dim, _positions(tensor, positions), src)


def select_scatter(input: Any, src: Any, dim: int, index: int) -> Tensor:
    """A copy with src at one index of a dimension."""
    tensor = tensor_of(input)
    axis = tensor._axis(dim)
    return index_copy(tensor, axis, _positions(tensor, [index]), tensor_of(src, tensor).unsqueeze(axis))


def _positions(tensor: Tensor, positions: range | list[int]) -> Tensor:
    import numpy as np

    return Tensor(np.asarray(positions, np.int64), device=tensor.device)


def _filled(tensor: Tensor, shape: tuple[int, ...], value: Any) -> Tensor:
    from . import functional

    return functional.full(shape, value, dtype=tensor._native.dtype, device=tensor.device)
