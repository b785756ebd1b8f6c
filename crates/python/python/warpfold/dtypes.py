"""Element types: NumPy's where NumPy has them, and the names that PyTorch and the Rust libraries use."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import DtypeError

__all__ = ["dtype_name", "numpy_dtype"]

_NAMES = {
    "bool": "bool", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "int8": "i8", "int16": "i16",
    "int32": "i32", "int64": "i64", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2", "float32": "f32", "float64": "f64",
}  # fmt: skip
_OTHER_WAY = {short: name for name, short in _NAMES.items()}
_ALIASES = {"half": "f16", "float": "f32", "double": "f64", "short": "i16", "int": "i32", "long": "i64"}
_PYTHON = {bool: "bool", int: "i64", float: "f32"}


def dtype_name(dtype: Any) -> str:
    """The short name, ``f32``, of an element type: NumPy's, PyTorch's, or a name of either or of ours."""
    if isinstance(dtype, type) and dtype in _PYTHON:
        return _PYTHON[dtype]
    text = dtype if isinstance(dtype, str) else None
    if text is None and type(dtype).__module__.partition(".")[0] == "torch":
        text = str(dtype).rpartition(".")[2]
    if text is not None:
        text = _ALIASES.get(text, text)
        if text in _OTHER_WAY:
            return text
        if text in _NAMES:
            return _NAMES[text]
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = str(dtype)
    if name in _NAMES:
        return _NAMES[name]
    raise DtypeError(f"no element type of a tensor is {dtype!r}: expected one of {', '.join(_NAMES)}")


def numpy_dtype(name: str) -> np.dtype[Any]:
    """NumPy's type; those that NumPy lacks are of the package ml_dtypes."""
    full = _OTHER_WAY[name]
    if name not in ("bf16", "f8e4m3", "f8e5m2"):
        return np.dtype(full)
    try:
        import ml_dtypes
    except ImportError:
        raise DtypeError(f"NumPy has no {full}: cast the tensor first, or install ml_dtypes") from None
    made: np.dtype[Any] = np.dtype(getattr(ml_dtypes, full))
    return made
