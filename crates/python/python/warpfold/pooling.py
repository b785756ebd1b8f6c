"""Pooling by PyTorch's names: images [N, C, ..] (or [C, ..]), window by window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .errors import ArgumentError
from .promotion import tensor_of
from .tensors import Tensor, operate

__all__ = [
    f"{kind}_pool{rank}d" for kind in ("max", "avg", "lp", "adaptive_avg", "adaptive_max") for rank in (1, 2, 3)
]


def _sizes(what: str, value: Any, rank: int) -> list[int]:
    sizes = [value] * rank if isinstance(value, int) else list(value)
    if len(sizes) == 1:
        sizes *= rank
    if len(sizes) != rank:
        raise ArgumentError(f"{what} {value} has {len(sizes)} sizes, the images have {rank} dimensions")
    return [int(n) for n in sizes]


def _pool(operator: str, input: Any, rank: int, **options: Any) -> list[Tensor]:
    images = tensor_of(input)
    if images.ndim not in (rank + 1, rank + 2):
        raise ArgumentError(f"images [N, C] and {rank} more dimension(s) are expected, not {list(images.shape)}")
    for name in ("kernel", "stride", "padding", "dilation", "output_size"):
        if options.get(name) is not None:
            options[name] = _sizes(name, options[name], rank)
    results = operate(operator, [images if images.ndim == rank + 2 else images.unsqueeze(0)], **options)
    return results if images.ndim == rank + 2 else [result.squeeze(0) for result in results]


def _max(rank: int) -> Callable[..., Any]:
    def function(
        input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:  # fmt: skip
        stride = kernel_size if stride is None else stride
        values, indices = _pool(
            "max-pool", input, rank, kernel=kernel_size, stride=stride, padding=padding, dilation=dilation,
            ceil_mode=ceil_mode or None, indices="channel",
        )  # fmt: skip
        return (values, indices) if return_indices else values

    return _named(function, f"max_pool{rank}d", "The largest element of each window, and where it is in its channel if asked.")


def _avg(rank: int) -> Callable[..., Tensor]:
    def function(
        input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> Tensor:  # fmt: skip
        stride = kernel_size if stride is None else stride
        return _pool(
            "avg-pool", input, rank, kernel=kernel_size, stride=stride, padding=padding, ceil_mode=ceil_mode or None,
            count_include_pad=count_include_pad,
        )[0]  # fmt: skip

    return _named(function, f"avg_pool{rank}d", "The mean of each window.")


def _lp(rank: int) -> Callable[..., Tensor]:
    def function(
        input: Any, norm_type: int, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> Tensor:
        if norm_type != int(norm_type):
            raise ArgumentError(f"norm_type is a whole number, not {norm_type}")
        stride = kernel_size if stride is None else stride
        return _pool(
            "lp-pool", input, rank, kernel=kernel_size, stride=stride, p=int(norm_type), ceil_mode=ceil_mode or None
        )[0]

    return _named(function, f"lp_pool{rank}d", "The norm of each window.")


def _adaptive_avg(rank: int) -> Callable[..., Tensor]:
    def function(input: Any, output_size: Any) -> Tensor:
        return _pool("avg-pool", input, rank, output_size=output_size)[0]

    return _named(function, f"adaptive_avg_pool{rank}d", "The means of so many windows, which share the image evenly.")


def _adaptive_max(rank: int) -> Callable[..., Any]:
    def function(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        values, indices = _pool("max-pool", input, rank, output_size=output_size, indices="channel")
        return (values, indices) if return_indices else values

    return _named(function, f"adaptive_max_pool{rank}d", "The largest elements of so many windows, which share the image evenly.")


def _named(function: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


max_pool1d, max_pool2d, max_pool3d = map(_max, (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = map(_avg, (1, 2, 3))
lp_pool1d, lp_pool2d, lp_pool3d = map(_lp, (1, 2, 3))
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = map(_adaptive_avg, (1, 2, 3))
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = map(_adaptive_max, (1, 2, 3))
