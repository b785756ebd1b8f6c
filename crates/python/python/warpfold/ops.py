"""Every operator by the libraries' own name, with dashes as underscores: ``ops.layer_norm(x, scale, axes=[-1])``.

Each takes its tensors in order and gives one tensor, or a tuple of several. Options have the libraries' names, or
PyTorch's where it has one: ``dim`` for ``axes``, ``keepdim`` for ``keepdims``, and those of ``PYTORCH``.
``ops.names()`` lists the operators, ``help(ops.topk)`` says what one takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import _native
from .dtypes import dtype_name
from .errors import ArgumentError
from .tensors import Tensor, operate

#: PyTorch's name of an option, the libraries', and what becomes of its value.
PYTORCH: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "dim": ("axes", lambda value: value),
    "keepdim": ("keepdims", bool),
    "correction": ("ddof", lambda value: value),
    "unbiased": ("ddof", int),
    "normalized_shape": ("axes", lambda value: list(range(-1 if isinstance(value, int) else -len(value), 0))),
    "iou_threshold": ("threshold", float),
    "kernel_size": ("kernel", lambda value: value),
    "norm_type": ("p", int),
    "minlength": ("bins", lambda value: value),
    "sorted": ("unsorted", lambda value: not value),
    "is_causal": ("causal", lambda value: "top-left" if value else None),
}

#: Options that are lists of numbers; one number is a list of one.
_LISTS = ("axes", "stride", "padding", "dilation", "kernel", "output_size", "scale_factor")


def _operator(name: str, summary: str, num_outputs: int, options: list[str]) -> Callable[..., Any]:
    known = {option.replace("-", "_") for option in options}
    theirs = {key: option for key, (option, _) in PYTORCH.items() if option in known and key not in known}
    # A norm's rows are said by their shape, everything else by its dimensions.
    if not name.endswith("norm"):
        theirs.pop("normalized_shape", None)
    listed = ", ".join(sorted(known)) or "none"

    def function(*inputs: Any, **chosen: Any) -> Any:
        given: dict[str, Any] = {}
        for key, value in chosen.items():
            if key not in known and key not in theirs:
                raise ArgumentError(f"{name} takes no option '{key}'; it takes: {listed}")
            option = theirs.get(key, key)
            if option in given:
                raise ArgumentError(f"{name} is given the option '{option}' twice, by two names")
            if key in theirs and value is not None:
                value = PYTORCH[key][1](value)
            if option in _LISTS and isinstance(value, int | float):
                value = [value]
            given[option] = dtype_name(value) if option == "dtype" and value is not None else value
        tensors = [each if isinstance(each, Tensor) else Tensor(each) for each in inputs]
        results = operate(name, tensors, **given)
        return results[0] if num_outputs == 1 else tuple(results)

    function.__name__ = function.__qualname__ = name.replace("-", "_")
    by_pytorch = ", ".join(f"{key} for {option}" for key, option in sorted(theirs.items()))
    function.__doc__ = f"{summary}\n\nOptions: {listed}." + (f" By PyTorch's names: {by_pytorch}." if by_pytorch else "")
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
    return sorted(["PYTORCH", "names", *_OPERATORS])
