"""Images of other sizes, by PyTorch's name and arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .errors import ArgumentError
from .promotion import tensor_of
from .tensors import Tensor, operate

__all__ = ["interpolate"]

#: PyTorch's names of linear interpolation, by how many dimensions the images have beside N and C.
_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def interpolate(
    input: Any,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Images [N, C, ..] of another size: nearest, linear, bilinear, trilinear, or area (the mean of adaptive windows).

    A scale_factor makes whole sizes; for others give the size.
    """
    images = tensor_of(input)
    rank = images.ndim - 2
    if rank not in _LINEAR:
        raise ArgumentError(f"images [N, C] and one to three more dimensions are expected, not {list(images.shape)}")
    if (size is None) == (scale_factor is None):
        raise ArgumentError("interpolate takes either size or scale_factor")
    if size is not None:
        sizes = _each("size", size, rank)
    else:
        factors = _each("scale_factor", scale_factor, rank)
        scaled = [n * factor for n, factor in zip(images.shape[2:], factors, strict=True)]
        if any(n != int(n) for n in scaled):
            given = list(images.shape[2:])
            raise ArgumentError(f"scale_factor {scale_factor} of {given} gives no whole sizes: give size")
        sizes = scaled
    options: dict[str, Any] = {"output_size": [int(n) for n in sizes]}
    if mode in ("nearest", "area"):
        if align_corners is not None:
            raise ArgumentError(f"align_corners is an option of linear interpolation, not of {mode}")
        return operate("interpolate" if mode == "nearest" else "avg-pool", [images], **options)[0]
    if mode != _LINEAR[rank]:
        raise ArgumentError(f"mode of images of {rank} dimension(s) is nearest, {_LINEAR[rank]} or area, not {mode!r}")
    return operate("interpolate", [images], mode="linear", align_corners=align_corners or None, **options)[0]


def _each(what: str, value: Any, rank: int) -> list[Any]:
    values = [value] * rank if isinstance(value, int | float) else list(value)
    if len(values) != rank:
        raise ArgumentError(f"{what} {value} has {len(values)} numbers, the images have {rank} dimensions")
    return values
