"""The stub of ``warpfold.tensors`` lists the methods that ``warpfold.functional`` adds, and every name of the stubs is real.

``UPDATE_STUBS=1 pytest tests/test_stubs.py`` writes it anew, into the sources that are installed or found.
"""

import ast
import importlib.util
import inspect
import os
import pathlib
import subprocess
import sys

import pytest

import warpfold
import warpfold.functional
import warpfold.tensors
from warpfold import Tensor, _native

HEADER = '''"""Written by tests/test_stubs.py: what a type checker is to know of Tensor, methods of functional among it."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ._native import Device as Device
from ._native import Tensor as _Native
from .order import ValuesAndIndices

_Dim = int | Sequence[int] | None

class Tensor:
    _native: _Native
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
    for name in ("device_of", "operate", "_sizes", "_wrap"):
        lines.append(f"def {name}{signature(getattr(warpfold.tensors, name), is_method=False)}: ...\n")
    # In the class, `_native` is its attribute.
    head, *rest = lines
    return head + "".join(rest).replace("_native.Device", "Device").replace("_native.Tensor", "_Native").replace(" Dim", " _Dim")


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


HAS_MYPY = pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
SOURCES = pathlib.Path(__file__).parents[1] / "python"

PROGRAM = """\
import numpy as np
import warpfold
import warpfold.functional as F
from warpfold import Tensor

t = Tensor(np.ones((2, 3), np.float32))
total: Tensor = (t.softmax(-1) + 1).sum(dim=-1, keepdim=True)
values, indices = t.sort(dim=0, descending=True)
both: list[Tensor] = [values, indices, F.topk(t, k=1, largest=False).values, t[0, 1:], t @ t.T, 2 * t]
array: np.ndarray = np.from_dlpack(t)
report = warpfold.run("k.ptx", None, 1, (32, 1), [array, np.uint32(3)], check="deny", shared=128)
lines: list[int] = [finding.line for finding in report.errors] + [report.counters.branches]
with warpfold.interpret_triton(check="all", arch="sm_90") as session:
    assert not session.errors
"""

#: What is wrong in a line, and what a type checker says to it.
WRONG = {
    "t.sum(dims=1)": 'Unexpected keyword argument "dims"',
    "t.unsqueeze('x')": 'incompatible type "str"; expected "int"',
    "warpfold.run('k.ptx', None, 1, 1, [], check='some')": "check",
    "report.findingz": 'has no attribute "findingz"',
    "t.frobnicate()": 'has no attribute "frobnicate"',
}


def mypy(*arguments, cwd=None):
    """What mypy says, by the sources' own configuration."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(SOURCES.parent / "pyproject.toml")]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=cwd, timeout=600)
    return done.returncode, done.stdout + done.stderr


@HAS_MYPY
def test_a_type_checker_accepts_what_is_right_and_refuses_what_is_wrong(tmp_path):
    (tmp_path / "right.py").write_text(PROGRAM)
    (tmp_path / "wrong.py").write_text(PROGRAM + "\n".join(WRONG) + "\n")
    code, said = mypy("right.py", "wrong.py", cwd=tmp_path)
    assert code == 1 and "right.py" not in said, said
    first = PROGRAM.count("\n") + 1
    for number, (line, reason) in enumerate(WRONG.items(), start=first):
        found = [each for each in said.splitlines() if each.startswith(f"wrong.py:{number}: error")]
        assert found and reason in found[0], (line, said)


@HAS_MYPY
def test_the_packages_own_sources_are_typed():
    code, said = mypy("warpfold", cwd=SOURCES)
    assert code == 0, said


@HAS_MYPY
def test_stubs_agree_with_what_they_describe():
    command = [sys.executable, "-m", "mypy.stubtest", "warpfold._native", "warpfold.tensors", "--ignore-missing-stub"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
