"""Tensors put together along a dimension, taken apart, and elements taken by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _native
from .errors import ArgumentError
from .promotion import promoted, tensor_of
from .tensors import Tensor, _wrap

__all__ = ["cat", "chunk", "concat", "gather", "split", "stack", "take_along_dim", "unbind"]


def cat(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """The tensors one after the other along a dimension."""
    parts = promoted(*tensors) if tensors else []
    return _wrap(_native.Tensor.cat([part._native for part in parts], dim))


concat = cat


def stack(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """The tensors, all of one shape, along a new dimension."""
    parts = promoted(*tensors) if tensors else []
    if parts and not -parts[0].ndim - 1 <= dim <= parts[0].ndim:
        raise ArgumentError(f"axis {dim} is out of range for {parts[0].ndim + 1} dimension(s)")
    axis = dim % (parts[0].ndim + 1) if parts else dim
    return cat([part.unsqueeze(axis) for part in parts], axis)


def split(input: Any, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of a dimension: each of this size, or of these sizes."""
    tensor = tensor_of(input)
    size = tensor.shape[tensor._axis(dim)]
    if isinstance(split_size_or_sections, int):
        step = split_size_or_sections
        if step < 1:
            raise ArgumentError(f"parts have at least one element, not {step}")
        sizes = [min(step, size - start) for start in range(0, size, step)] or [0]
    else:
        sizes = [int(n) for n in split_size_or_sections]
        if sum(sizes) != size:
            raise ArgumentError(f"sizes {sizes} add up to {sum(sizes)}, the dimension has {size}")
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(tensor.narrow(dim, start, n) for start, n in zip(starts, sizes, strict=True))


def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """So many parts of a dimension at most, all of one size but the last."""
    tensor = tensor_of(input)
    if chunks < 1:
        raise ArgumentError(f"chunks is at least 1, not {chunks}")
    return split(tensor, max(1, -(-tensor.shape[tensor._axis(dim)] // chunks)), dim)


def unbind(input: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """The parts along a dimension, without it."""
    tensor = tensor_of(input)
    return tuple(tensor.narrow(dim, i, 1).squeeze(dim) for i in range(tensor.shape[tensor._axis(dim)]))


def gather(input: Any, dim: int, index: Any) -> Tensor:
    """At each place of index the element whose index along the dimension it says."""
    tensor = tensor_of(input)
    return _wrap(tensor._native.gather(tensor_of(index, tensor)._native, dim))


def take_along_dim(input: Any, indices: Any, dim: int) -> Tensor:
    """As gather, with the other dimensions broadcast."""
    tensor, index = tensor_of(input), tensor_of(indices)
    axis = tensor._axis(dim)
    if index.ndim != tensor.ndim:
        raise ArgumentError(f"indices have {index.ndim} dimension(s), the tensor has {tensor.ndim}")
    shape = [max(a, b) if a and b else 0 for a, b in zip(tensor.shape, index.shape, strict=True)]
    index = index.expand(*shape[:axis], index.shape[axis], *shape[axis + 1 :])
    return gather(tensor.expand(*shape[:axis], tensor.shape[axis], *shape[axis + 1 :]), axis, index)
