"""Order among elements: sorting, the largest and smallest, what is distinct, and where something is true."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .errors import ArgumentError
from .promotion import tensor_of
from .tensors import Tensor, operate

__all__ = ["argsort", "kthvalue", "median", "msort", "nonzero", "sort", "topk", "unique", "masked_select", "take"]


class ValuesAndIndices(NamedTuple):
    """Elements and where they were, as PyTorch names them."""

    values: Tensor
    indices: Tensor


def sort(input: Any, dim: int = -1, descending: bool = False, stable: bool = True) -> ValuesAndIndices:
    """The elements along a dimension in order, and their indices. Equal ones keep their order; NaN is the largest."""
    del stable  # It always is.
    tensor = tensor_of(input)
    if tensor.ndim == 0:
        return ValuesAndIndices(tensor, Tensor(0, device=tensor.device))
    return ValuesAndIndices(*operate("sort", [tensor], axes=[dim], descending=descending or None))


def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices of the elements in order."""
    return sort(input, dim, descending, stable).indices


def msort(input: Any) -> Tensor:
    """The elements in order along the first dimension."""
    return sort(input, 0).values


def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesAndIndices:
    """The k largest (or smallest) elements along a dimension, in order, and their indices."""
    del sorted  # They always are.
    tensor = tensor_of(input)
    if largest:
        return ValuesAndIndices(*operate("topk", [tensor], axes=[dim], k=k))
    size = tensor.shape[tensor._axis(dim)]
    if not 0 <= k <= size:
        raise ArgumentError(f"the {k} smallest of {size} elements were asked for")
    values, indices = sort(tensor, dim)
    return ValuesAndIndices(values.narrow(dim, 0, k), indices.narrow(dim, 0, k))


def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> ValuesAndIndices:
    """The k-th smallest element along a dimension, counted from 1, and its index."""
    tensor = tensor_of(input)
    size = tensor.shape[tensor._axis(dim)]
    if not 1 <= k <= size:
        raise ArgumentError(f"the {k}-th smallest of {size} elements was asked for")
    parts = [part.narrow(dim, k - 1, 1) for part in sort(tensor, dim)]
    return ValuesAndIndices(*(part if keepdim else part.squeeze(dim) for part in parts))


def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The element in the middle of the order, of two the smaller; along a dimension, also its index.

    As in PyTorch, NaN is the median of what has one.
    """
    tensor = tensor_of(input)
    if dim is None:
        return median(tensor.flatten(), 0).values
    size = tensor.shape[tensor._axis(dim)]
    if not size:
        raise ArgumentError("nothing has no median")
    values, indices = kthvalue(tensor, (size + 1) // 2, dim, keepdim=True)
    if tensor._native.dtype[0] in "bf" and tensor._native.dtype != "bool":
        from .functional import isnan, where

        # NaN comes last in the order.
        last_values, last_indices = kthvalue(tensor, size, dim, keepdim=True)
        is_nan = isnan(last_values)
        values, indices = where(is_nan, last_values, values), where(is_nan, last_indices, indices)
    parts = (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))
    return ValuesAndIndices(*parts)


def unique(
    input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The distinct elements (or parts along a dimension), and if asked which of them each is, and how often each comes."""
    del sorted  # They always are.
    tensor = tensor_of(input)
    values, _, inverse, counts = operate("unique", [tensor], axes=None if dim is None else [dim])
    parts = [values]
    if return_inverse:
        parts.append(inverse.reshape(tensor.shape) if dim is None else inverse)
    if return_counts:
        parts.append(counts)
    return values if len(parts) == 1 else tuple(parts)


def _true_positions(tensor: Tensor) -> Tensor:
    """Where the elements in C order are not zero: what a stable sort of the truth puts first. Waits for the device."""
    from .functional import ne

    truth = (tensor if tensor._native.dtype == "bool" else ne(tensor, 0)).flatten()
    if not truth.size:
        return Tensor(np.zeros(0, np.int64), device=tensor.device)
    number = int(operate("count-nonzero", [truth])[0])
    return sort(truth.to("u8"), 0, descending=True).indices.narrow(0, 0, number)


def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """The indices of elements that are not zero: a row for each, or a vector for each dimension."""
    from .functional import floor_divide, remainder
    from .joining import stack

    tensor = tensor_of(input)
    positions = _true_positions(tensor)
    indices: list[Tensor] = []
    for size in reversed(tensor.shape):
        indices.append(remainder(positions, max(size, 1)))
        positions = floor_divide(positions, max(size, 1))
    indices.reverse()
    if as_tuple:
        return tuple(indices)
    if not indices:
        return Tensor(np.zeros((positions.size, 0), np.int64), device=tensor.device)
    return stack(indices, 1)


def masked_select(input: Any, mask: Any) -> Tensor:
    """The elements where the mask is true, in C order."""
    tensor, chosen = tensor_of(input), tensor_of(mask)
    shape = np.broadcast_shapes(tensor.shape, chosen.shape)
    return take(tensor.expand(*shape), _true_positions(chosen.expand(*shape)))


def take(input: Any, index: Any) -> Tensor:
    """The elements at these positions in C order."""
    tensor, positions = tensor_of(input), tensor_of(index)
    taken = operate("gather", [tensor.contiguous().reshape(tensor.size), positions.flatten()])[0]
    return taken.reshape(positions.shape)
