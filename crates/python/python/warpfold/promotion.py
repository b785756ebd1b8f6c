"""What operators make of their arguments: tensors of one type, as NumPy and PyTorch promote them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _native
from .dtypes import dtype_name
from .tensors import Tensor, _wrap

__all__ = ["Dim", "axes_of", "floating", "is_float", "promoted", "tensor_of"]

Dim = int | Sequence[int] | None

_FLOATS = ("f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2")


def is_float(tensor: Tensor) -> bool:
    """Whether its elements are floats."""
    return tensor._native.dtype in _FLOATS


def tensor_of(value: Any, like: Tensor | None = None) -> Tensor:
    """A tensor of anything; a number of Python takes the type of ``like`` where it can."""
    if isinstance(value, Tensor):
        return value
    if like is not None and isinstance(value, bool | int | float):
        name = like._native.dtype
        if isinstance(value, float) and not is_float(like):
            name = "f32"
        elif isinstance(value, int) and not isinstance(value, bool) and name == "bool":
            name = "i64"
        # Beyond 2^53 a float does not hold the number.
        if isinstance(value, int) and abs(value) > 1 << 53:
            return Tensor(np.array(value, np.dtype({"i": "int64", "u": "uint64"}.get(name[0], "float64"))), device=like.device)
        return _wrap(_native.Tensor.full(like.device, name, float(value), []))
    return Tensor(value, device=like.device if like is not None else None)


def promoted(*values: Any) -> list[Tensor]:
    """Tensors of one type: NumPy's common type of theirs."""
    like = next((value for value in values if isinstance(value, Tensor)), None)
    if like is not None and not is_float(like) and any(isinstance(value, float) for value in values):
        # As PyTorch: an integer tensor and a float of Python's give float32.
        values = tuple(value.to("f32") if isinstance(value, Tensor) and not is_float(value) else value for value in values)
        like = next(value for value in values if isinstance(value, Tensor))
    tensors = [tensor_of(value, like) for value in values]
    names = {tensor._native.dtype for tensor in tensors}
    if len(names) == 1:
        return tensors
    floats = [name for name in names if name in ("bf16", "f8e4m3", "f8e5m2")]
    others = names - set(floats)
    if floats and (len(floats) > 1 or any(name in ("f16", *floats) for name in others)):
        common = "f32"
    elif floats:
        common = "f64" if "f64" in others else "f32" if "f32" in others else floats[0]
    else:
        common = dtype_name(np.result_type(*(tensor.dtype for tensor in tensors)))
    return [tensor.to(common) for tensor in tensors]


def floating(input: Any) -> Tensor:
    """As PyTorch: what has only floats as results takes integers as float32."""
    tensor = tensor_of(input)
    return tensor if is_float(tensor) else tensor.to("f32")


def axes_of(dim: Dim) -> list[int] | None:
    """Dimensions as operators take them; None for all."""
    return None if dim is None else [dim] if isinstance(dim, int | np.integer) else list(dim)
