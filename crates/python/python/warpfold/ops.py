"""Every operator by the libraries' own name, with dashes as underscores: ``ops.layer_norm(x, scale, axes=[-1])``.

Each takes its tensors in order and gives one tensor, or a tuple of several. Options have the libraries' names, or
PyTorch's: ``dim`` for ``axes``, ``keepdim`` for ``keepdims``, ``correction`` for ``ddof``, ``iou_threshold`` for
``threshold``. ``ops.names()`` lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _native
from .dtypes import dtype_name
from .errors import ArgumentError
from .tensors import Tensor, operate

_ALIASES = {"dim": "axes", "keepdim": "keepdims", "correction": "ddof", "iou_threshold": "threshold"}


def _operator(name: str, summary: str, num_outputs: int, options: list[str]) -> Callable[..., Any]:
    known = {option.replace("-", "_") for option in options}

    def function(*inputs: Any, **chosen: Any) -> Any:
        given = {}
        for key, value in chosen.items():
            option = key if key in known else _ALIASES.get(key, key)
            if option not in known:
                listed = ", ".join(sorted(known)) or "none"
                raise ArgumentError(f"{name} takes no option '{key}'; it takes: {listed}")
            if option in ("axes", "stride", "padding", "dilation") and isinstance(value, int):
                value = [value]
            given[option] = dtype_name(value) if option == "dtype" and value is not None else value
        tensors = [each if isinstance(each, Tensor) else Tensor(each) for each in inputs]
        results = operate(name, tensors, **given)
        return results[0] if num_outputs == 1 else tuple(results)

    function.__name__ = function.__qualname__ = name.replace("-", "_")
    function.__doc__ = f"{summary}\n\nOptions: {', '.join(sorted(known)) or 'none'}."
    return function


_OPERATORS = {
    name.replace("-", "_"): _operator(name, summary, outputs, options)
    for name, summary, _, _, outputs, options in _native.operators()
}


def names() -> list[str]:
    """Every operator."""
    return list(_OPERATORS)


def __getattr__(name: str) -> Callable[..., Any]:
    # Some are keywords: and, or, not.
    if (key := name.rstrip("_")) in _OPERATORS:
        return _OPERATORS[key]
    raise AttributeError(f"unknown operation '{name}'; warpfold.ops.names() lists all")


def __dir__() -> list[str]:
    return sorted(["names", *_OPERATORS])
