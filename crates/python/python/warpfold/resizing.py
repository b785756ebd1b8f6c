"""Images of other sizes, by PyTorch's name and arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .errors import ArgumentError
from .promotion import tensor_of
from .tensors import Tensor, operate

__all__ = ["interpolate"]

#: PyTorch's names of mixtures, by how many dimensions the images have beside N and C, and what we call them.
_MIXTURES = {1: {"linear": "linear"}, 2: {"bilinear": "linear", "bicubic": "cubic"}, 3: {"trilinear": "linear"}}


def interpolate(
    input: Any,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Images [N, C, ..] of another size: nearest, nearest-exact, linear, bilinear, bicubic, trilinear, or area.

    Area is the mean of adaptive windows. A scale_factor that gives no whole size is also what places are computed by,
    unless recompute_scale_factor. There is no antialias.
    """
    images = tensor_of(input)
    rank = images.ndim - 2
    if rank not in _MIXTURES:
        raise ArgumentError(f"images [N, C] and one to three more dimensions are expected, not {list(images.shape)}")
    if (size is None) == (scale_factor is None):
        raise ArgumentError("interpolate takes either size or scale_factor")
    if antialias:
        raise ArgumentError("interpolate has no antialias: make images smaller by mode 'area', or smooth them before")
    if recompute_scale_factor and size is not None:
        raise ArgumentError("recompute_scale_factor goes with scale_factor, not with size")
    options: dict[str, Any] = {}
    if scale_factor is None:
        options["output_size"] = [int(n) for n in _each("size", size, rank)]
    elif recompute_scale_factor or mode == "area":
        factors = _each("scale_factor", scale_factor, rank)
        options["output_size"] = [math.floor(n * x) for n, x in zip(images.shape[2:], factors, strict=True)]
    else:
        options["scale_factor"] = [float(x) for x in _each("scale_factor", scale_factor, rank)]
    if min(options.get("output_size", [1])) < 1:
        raise ArgumentError(f"sizes are 1 or more, not {options['output_size']}")
    if mode in ("nearest", "nearest-exact", "area"):
        if align_corners is not None:
            raise ArgumentError(f"align_corners is an option of linear and cubic interpolation, not of {mode}")
        if mode == "area":
            return operate("avg-pool", [images], **options)[0]
        return operate("interpolate", [images], mode=mode, **options)[0]
    if mode not in _MIXTURES[rank]:
        known = ", ".join(["nearest", "nearest-exact", *_MIXTURES[rank]])
        raise ArgumentError(f"mode of images of {rank} dimension(s) is {known} or area, not {mode!r}")
    chosen = _MIXTURES[rank][mode]
    return operate("interpolate", [images], mode=chosen, align_corners=align_corners or None, **options)[0]


def _each(what: str, value: Any, rank: int) -> list[Any]:
    values = [value] * rank if isinstance(value, int | float) else list(value)
    if len(values) != rank:
        raise ArgumentError(f"{what} {value} has {len(values)} numbers, the images have {rank} dimensions")
    return values
