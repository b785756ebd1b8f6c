"""The stub of ``warpfold.tensors`` lists the methods that ``warpfold.functional`` adds, and every name of the stubs is real.

``UPDATE_STUBS=1 pytest tests/test_stubs.py`` writes it anew, into the sources that are installed or found.
"""

import ast
import inspect
import os
import pathlib

import warpfold
import warpfold.functional
import warpfold.tensors
from warpfold import Tensor, _native

HEADER = '''"""Written by tests/test_stubs.py: what a type checker is to know of Tensor, methods of functional among it."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from . import _native

Device = _native.Device
Dim = int | Sequence[int] | None

class Tensor:
    _native: _native.Tensor
    def _axis(self, axis: int) -> int: ...
'''


def signature(function, is_method):
    made = inspect.signature(function)
    params = list(made.parameters.values())
    if is_method:
        params[0] = params[0].replace(name="self", annotation=inspect.Parameter.empty, default=inspect.Parameter.empty)
    text = str(made.replace(parameters=params)).replace("'", "").replace('"none"', "none")
    for param in params:
        if isinstance(param.default, str):
            text = text.replace(f"= {param.default}", f"= {param.default!r}")
    return text


def stub():
    lines = [HEADER]
    for name, member in vars(Tensor).items():
        function = member.fget if isinstance(member, property) else member
        if not inspect.isfunction(function) or name.startswith("_") and not name.startswith("__"):
            continue
        function = inspect.unwrap(function)
        if name.startswith("__r") and name not in ("__repr__",):
            text = "(self, other: Any) -> Tensor"
        elif function.__name__ == "<lambda>":
            text = "(self) -> Tensor"
        else:
            text = signature(function, is_method=True)
        note = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
        lines.append("    @property\n" * isinstance(member, property) + f"    def {name}{text}: ...{note}\n")
    for name in warpfold.tensors.__all__:
        if name not in ("Device", "Tensor"):
            lines.append(f"def {name}{signature(getattr(warpfold.tensors, name), is_method=False)}: ...\n")
    for name in ("device_of", "operate", "_wrap"):
        lines.append(f"def {name}{signature(getattr(warpfold.tensors, name), is_method=False)}: ...\n")
    return "".join(lines)


def test_the_stub_of_tensors_is_fresh():
    path = pathlib.Path(warpfold.__file__).with_name("tensors.pyi")
    expected = stub()
    ast.parse(expected)
    if os.environ.get("UPDATE_STUBS") == "1":
        path.write_text(expected)
    assert path.read_text() == expected


def test_the_stub_of_the_compiled_half_names_what_is_there():
    path = pathlib.Path(warpfold.__file__).with_name("_native.pyi")
    named = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            named[node.name] = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            named[node.name] = set()
    real = {name for name in vars(_native) if not name.startswith("_")}
    assert set(named) == real
    for name, members in named.items():
        if members:
            there = {member for member in vars(getattr(_native, name)) if not member.startswith("__")} | {"__new__"}
            assert members - {"__new__"} == there - {"__new__"}, name
