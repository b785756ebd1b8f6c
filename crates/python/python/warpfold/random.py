"""Random tensors, by PyTorch's names: the n-th after a seed has the same elements on every device."""

from __future__ import annotations

from typing import Any

from . import _native
from .dtypes import dtype_name
from .errors import ArgumentError
from .tensors import Tensor, _sizes, _wrap, default_device, device_of

__all__ = ["manual_seed", "rand", "rand_like", "randint", "randn", "randn_like"]


def manual_seed(seed: int, *, device: Any = None) -> None:
    """The seed of the random tensors to come, of the default device unless another is named."""
    if not 0 <= seed < 1 << 64:
        raise ArgumentError(f"a seed is a whole number from 0 to 2^64 - 1, not {seed}")
    (default_device() if device is None else device_of(device)).manual_seed(seed)


def _random(distribution: str, a: float, b: float, size: Any, dtype: Any, device: Any) -> Tensor:
    return _wrap(_native.Tensor.random(device_of(device), distribution, a, b, dtype_name(dtype), _sizes(size)))


def rand(*size: Any, dtype: Any = "f32", device: Any = None) -> Tensor:
    """Numbers from 0 up to 1."""
    return _random("uniform", 0.0, 1.0, size, dtype, device)


def randn(*size: Any, dtype: Any = "f32", device: Any = None) -> Tensor:
    """Numbers of mean 0 and standard deviation 1."""
    return _random("normal", 0.0, 1.0, size, dtype, device)


def randint(low: int, high: int | None = None, size: Any = None, *, dtype: Any = "i64", device: Any = None) -> Tensor:
    """Whole numbers from low (0 unless given) up to, but not, high."""
    if size is None:
        if high is None or isinstance(high, int):
            raise ArgumentError("randint takes a size: randint(0, 10, (2, 3))")
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if max(abs(low), abs(high)) > 1 << 53:
        raise ArgumentError(f"random numbers are within -2^53 and 2^53, not from {low} to {high}")
    made = _random("integers", float(low), float(high), (size,), "i64", device)
    return made if dtype_name(dtype) == "i64" else made.to(dtype)


def rand_like(input: Tensor) -> Tensor:
    """Numbers from 0 up to 1 in another tensor's shape and type."""
    return _random("uniform", 0.0, 1.0, (input.shape,), input.dtype, input.device)


def randn_like(input: Tensor) -> Tensor:
    """Numbers of mean 0 and standard deviation 1 in another tensor's shape and type."""
    return _random("normal", 0.0, 1.0, (input.shape,), input.dtype, input.device)
