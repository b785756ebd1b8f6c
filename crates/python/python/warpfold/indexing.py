"""``tensor[...]``: numbers, slices, ``None``, ``...``, tensors of indices, and masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import ArgumentError, AxisError
from .tensors import Tensor, _wrap, operate

__all__ = ["item"]


def item(tensor: Tensor, index: Any) -> Tensor:
    """Part of a tensor, as NumPy has it."""
    parts = [_part(part, tensor) for part in (index if isinstance(index, tuple) else (index,))]
    num_taken = sum(_num_axes(part) for part in parts)
    if num_taken > tensor.ndim:
        raise AxisError(f"{num_taken} indices are more than the {tensor.ndim} dimension(s)")
    ellipses = sum(part is Ellipsis for part in parts)
    if ellipses > 1:
        raise AxisError("an index has one ellipsis at most")
    if not ellipses:
        parts.append(Ellipsis)
    at = next(i for i, part in enumerate(parts) if part is Ellipsis)
    parts[at : at + 1] = [slice(None)] * (tensor.ndim - num_taken)
    lists = [i for i, part in enumerate(parts) if isinstance(part, Tensor)]
    if len(lists) > 1 or lists and any(isinstance(part, int) for part in parts):
        return _pointwise(tensor, parts)
    result, axis = tensor, 0
    for part in parts:
        if part is None:
            result, axis = result.unsqueeze(axis), axis + 1
        elif isinstance(part, slice):
            result, axis = _sliced(result, axis, part), axis + 1
        elif isinstance(part, int):
            result = _one(result, axis, part)
        elif part._native.dtype == "bool":
            result, axis = _masked(result, axis, part), axis + 1
        else:
            result, axis = _listed(result, axis, part), axis + part.ndim
    return result


def _part(part: Any, tensor: Tensor) -> Any:
    """A part of an index as one of the kinds that there are."""
    if part is None or part is Ellipsis or isinstance(part, slice):
        return part
    if isinstance(part, int | np.integer) and not isinstance(part, bool):
        return int(part)
    where = part if isinstance(part, Tensor) else Tensor(_of_list(part), device=tensor.device)
    name = where._native.dtype
    if name != "bool" and name[0] not in "iu":
        raise AxisError(f"an index is of whole numbers or booleans, not of {where.dtype}")
    if name != "bool" and where.ndim == 0:
        return int(where.item())
    return where


def _of_list(part: Any) -> Any:
    # NumPy takes a list of nothing for floats.
    return np.zeros(0, np.int64) if isinstance(part, list | tuple) and len(part) == 0 else part


def _num_axes(part: Any) -> int:
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if isinstance(part, Tensor) and part._native.dtype == "bool" else 1


def _one(tensor: Tensor, axis: int, at: int) -> Tensor:
    n = tensor.shape[axis]
    if not -n <= at < n:
        raise AxisError(f"index {at} is out of range for a dimension of {n}")
    taken = _wrap(tensor._native.slice(axis, at % n, at % n + 1))
    return taken.reshape(taken.shape[:axis] + taken.shape[axis + 1 :])


def _sliced(tensor: Tensor, axis: int, part: slice) -> Tensor:
    n = tensor.shape[axis]
    start, stop, step = part.indices(n)
    if step == 1:
        return _wrap(tensor._native.slice(axis, start, max(start, stop)))
    if step == -1:
        whole = _wrap(tensor._native.slice(axis, min(stop + 1, start + 1), start + 1))
        return whole.flip(axis)
    return _listed(tensor, axis, Tensor(np.arange(start, stop, step, dtype=np.int64), device=tensor.device))


def _listed(tensor: Tensor, axis: int, where: Tensor) -> Tensor:
    from .functional import index_select

    taken = index_select(tensor, axis, where.flatten())
    return taken.reshape(tensor.shape[:axis] + where.shape + tensor.shape[axis + 1 :])


def _masked(tensor: Tensor, axis: int, mask: Tensor) -> Tensor:
    from .order import _true_positions

    masked = tensor.shape[axis : axis + mask.ndim]
    if masked != mask.shape:
        raise AxisError(f"a mask of shape {list(mask.shape)} is for dimensions of these sizes, not {list(masked)}")
    rest = tensor.shape[axis + mask.ndim :]
    joined = tensor.reshape(*tensor.shape[:axis], mask.size, *rest)
    return _listed(joined, axis, _true_positions(mask))


def _pointwise(tensor: Tensor, parts: list[Any]) -> Tensor:
    """Several lists: elements at pairs (triples ..) of indices, and what slices after them take of each."""
    from . import functional

    chosen = [part for part in parts if not isinstance(part, slice) or part != slice(None)]
    first = parts[: len(chosen)]
    if any(part is None or isinstance(part, slice) or isinstance(part, Tensor) and part._native.dtype == "bool" for part in first):
        raise ArgumentError("several lists of indices stand before any slice, mask or None: index in two steps")
    shape = np.broadcast_shapes(*(part.shape for part in first if isinstance(part, Tensor)))
    flat: Any = None
    for n, part in zip(tensor.shape, first, strict=False):
        if isinstance(part, int):
            if not -n <= part < n:
                raise AxisError(f"index {part} is out of range for a dimension of {n}")
            place = functional.full((), part % n, dtype="i64", device=tensor.device)
        else:
            place = checked(part, n)
        flat = place if flat is None else functional.add(functional.mul(flat, n), place)
    rows = tensor.reshape(-1 if tensor.size else 0, *tensor.shape[len(first) :])
    return _listed(rows, 0, flat.expand(*shape))


def checked(where: Tensor, n: int) -> Tensor:
    """Indices of a dimension of n, those that count from the end counted from the start."""
    from . import functional

    places = where if where._native.dtype == "i64" else where.to("i64")
    if places.size:
        least, most = (int(each) for each in operate("min-max", [places]))
        if least < -n or most >= n:
            raise AxisError(f"index {least if least < -n else most} is out of range for a dimension of {n}")
        if least < 0:
            places = functional.where(functional.lt(places, 0), functional.add(places, n), places)
    return places


def assigned(tensor: Tensor, index: Any, value: Any) -> Tensor:
    """A tensor with other elements at an index, which may be all that NumPy takes."""
    from .joining import cat
    from .promotion import tensor_of

    parts = tuple(np.asarray(p) if isinstance(p, Tensor) else p for p in (index if isinstance(index, tuple) else (index,)))
    try:
        places = np.arange(tensor.size).reshape(tensor.shape)[parts]
    except IndexError as error:
        raise AxisError(str(error)) from None
    if not places.size:
        return tensor
    new = tensor_of(value, tensor).to(tensor._native.dtype).expand(*places.shape).reshape(places.size)
    sources = np.arange(tensor.size) + places.size
    sources[places.reshape(-1)] = np.arange(places.size)
    all_elements = cat([new, tensor.reshape(tensor.size)])
    return operate("gather", [all_elements, Tensor(sources, device=tensor.device)])[0].reshape(tensor.shape)
