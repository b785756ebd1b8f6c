"""Runs PTX on the virtual GPU: :func:`run`, and what the interpreters of Triton and numba launch through."""

from __future__ import annotations

import os
import pathlib
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from . import _native
from .arrays import AtAddress, HostArray, LaunchMemory, host_array
from .errors import ArgumentError, LaunchError
from .report import Report, make_report, publish

__all__ = ["Check", "Module", "run"]

Check = Literal["all", "deny", "none"]
Size = int | Sequence[int]

#: Of the largest GPU that is stood in for; nothing is reserved before it is used.
MEMORY_BYTES = 141_000_000_000


def check_of(check: str) -> str:
    """What the compiled half is asked for."""
    if check not in ("all", "deny", "none"):
        raise ArgumentError(f"check is 'all', 'deny' or 'none', not {check!r}")
    return "none" if check == "none" else "all"


def size3(what: str, size: Size) -> tuple[int, int, int]:
    """Sizes in one to three dimensions, none of them zero."""
    sizes = (size,) if isinstance(size, int | np.integer) else tuple(size)
    if not 1 <= len(sizes) <= 3:
        raise ArgumentError(f"{what} has {len(sizes)} dimensions; 1 to 3 are possible")
    for n in sizes:
        if not isinstance(n, int | np.integer) or not 1 <= n < 1 << 32:
            raise ArgumentError(f"{what} {size!r}: {n!r} is not a whole number from 1 to {(1 << 32) - 1}")
    x, y, z = (*map(int, sizes), 1, 1)[:3]
    return x, y, z


def _num_bytes(n: int) -> str:
    return f"{n} byte{'' if n == 1 else 's'}"


class Param:
    """A parameter of a kernel."""

    def __init__(self, number: int, name: str, offset: int, num_bytes: int, dtype: str | None) -> None:
        self.number, self.name, self.offset, self.num_bytes = number, name, offset, num_bytes
        self.dtype = dtype.lstrip(".") if dtype else None

    def __str__(self) -> str:
        return f"parameter {self.number} ({self.name})"

    def _refuse(self, what: str) -> ArgumentError:
        declared = f"is declared as {self.dtype} of" if self.dtype else "takes"
        return ArgumentError(f"{self} {declared} {_num_bytes(self.num_bytes)}, but {what} is given")

    def address(self, address: int) -> bytes:
        """The address of an array as the kernel takes it."""
        if self.num_bytes != 8 or self.dtype in ("f32", "f64"):
            raise self._refuse("the address of an array")
        return struct.pack("<Q", address)

    def encode(self, value: Any) -> bytes:
        """A value that is no array as the kernel takes it."""
        is_float = self.dtype in ("f16", "f32", "f64")
        if value is None:
            return self.address(0)
        if isinstance(value, np.generic):
            is_typed = self.dtype is not None and self.dtype[0] != "b"
            if value.nbytes != self.num_bytes or is_typed and (value.dtype.kind == "f") != is_float:
                raise self._refuse(f"a {value.dtype} of {_num_bytes(value.nbytes)}")
            return value.tobytes()
        if isinstance(value, bool | int):
            if is_float:
                return self.encode(float(value))
            bits = 8 * self.num_bytes
            if bits > 64:
                raise self._refuse(f"the number {value}")
            low, high = (-1 << bits - 1, 1 << bits)
            if not low <= value < high:
                raise ArgumentError(f"{self} has {_num_bytes(self.num_bytes)}, into which {value} does not fit")
            return (int(value) % (1 << bits)).to_bytes(self.num_bytes, "little")
        if isinstance(value, float):
            if not is_float:
                hint = "say np.float32(x) or np.float64(x)" if self.dtype and self.dtype[0] == "b" else "say int(x)"
                raise self._refuse(f"the float {value} (if that is meant, {hint})")
            try:
                return struct.pack({2: "<e", 4: "<f", 8: "<d"}[self.num_bytes], value)
            except OverflowError as error:
                raise ArgumentError(f"{self}: {value} is beyond {self.dtype}") from error
        try:
            content = bytes(memoryview(value))
        except TypeError:
            raise ArgumentError(f"{self}: a {type(value).__name__} is neither an array nor a number nor bytes") from None
        if len(content) != self.num_bytes:
            raise self._refuse(f"a {type(value).__name__} of {_num_bytes(len(content))}")
        return content


class Module:
    """PTX text, loaded into a memory of its own; its variables keep their values from launch to launch."""

    def __init__(self, ptx: str, *, arch: str = "sm_90a", source_file: str | None = None) -> None:
        self._memory = _native.Memory(MEMORY_BYTES)
        self._program = _native.Program(self._memory, ptx, arch)
        self.source_file = source_file
        self.kernels: dict[str, dict[str, Any]] = {}
        for kernel in self._program.kernels():
            params = [Param(i, *param) for i, param in enumerate(kernel["params"], start=1)]
            self.kernels[kernel["name"]] = {**kernel, "params": params}

    def kernel(self, entry: str | None) -> dict[str, Any]:
        """A kernel by name, as the PTX has it or before C++ mangled it; the only one without a name."""
        known = ", ".join(self.kernels)
        if entry is None:
            if len(self.kernels) == 1:
                return next(iter(self.kernels.values()))
            raise LaunchError(f"the module has {len(self.kernels)} kernels ({known}): entry must name one")
        if entry not in self.kernels:
            mangled = [name for name in self.kernels if name.startswith("_Z") and f"{len(entry)}{entry}" in name]
            if len(mangled) == 1:
                return self.kernels[mangled[0]]
            raise LaunchError(f"no kernel named '{entry}'; the module has: {known}")
        return self.kernels[entry]

    def launch(
        self,
        entry: str | None,
        grid: Size,
        block: Size | None,
        args: Sequence[Any],
        *,
        check: Check = "all",
        shared: int = 0,
        cluster: Size = 1,
        cooperative: bool = False,
        seed: int = 0,
        workers: int | None = None,
        limit: int | None = None,
        instructions: bool = False,
        predict: str | None = None,
        names: Sequence[str | None] = (),
        scratch: Callable[[_native.Memory], Sequence[int]] | None = None,
    ) -> Report:
        """As :func:`run`. ``names`` are what findings call the arrays, by argument."""
        kernel = self.kernel(entry)
        params: list[Param] = kernel["params"]
        native_check = check_of(check)
        if len(params) != len(args):
            declared = ", ".join(f"{p.name}: {_num_bytes(p.num_bytes)}" for p in params)
            raise ArgumentError(
                f"kernel {kernel['name']} has {len(params)} parameter{'' if len(params) == 1 else 's'}"
                f"{f' ({declared})' if declared else ''}, but {len(args)} argument{'' if len(args) == 1 else 's'} "
                f"{'is' if len(args) == 1 else 'are'} given"
            )
        if block is None:
            block = kernel["required_block"]
            if block is None:
                raise ArgumentError(f"kernel {kernel['name']} does not declare its block: block must be given")
        grid3, block3, cluster3 = size3("grid", grid), size3("block", block), size3("cluster", cluster)
        names = [*names, *[None] * (len(args) - len(names))]
        arrays: list[HostArray | None] = [
            host_array(arg, name or param.name) for arg, name, param in zip(args, names, params, strict=True)
        ]
        present = [array for array in arrays if array is not None]
        with LaunchMemory(self._memory, present) as memory:
            packed = bytearray(kernel["param_bytes"])
            for param, arg, array in zip(params, args, arrays, strict=True):
                if array is None:
                    content = param.encode(arg)
                elif isinstance(arg, AtAddress):
                    content = param.encode(arg.encode(memory.address(array)))
                else:
                    content = param.address(memory.address(array))
                packed[param.offset : param.offset + len(content)] = content
            raw = self._program.launch(
                kernel["name"], grid3, block3, cluster3, shared, bytes(packed), native_check,
                cooperative=cooperative, seed=seed, workers=workers, limit=limit, per_instruction=instructions,
                predict=predict,
            )  # fmt: skip
            if native_check != "none":
                raw["findings"].extend({**f, "kernel": f["kernel"] or kernel["name"]} for f in memory.unwritten())
            memory.read_back()
        if raw["printed"]:
            sys.stdout.write(raw["printed"])
        report = make_report(
            raw, kernel=kernel["name"], grid=grid3, block=block3, check=check,
            outputs=[array.result for array in present], source_file=self.source_file,
        )  # fmt: skip
        publish(report)
        return report


def text_of(ptx: str | os.PathLike[str]) -> str:
    """PTX text, or the text of the file of that name."""
    if isinstance(ptx, str) and "\n" in ptx:
        return ptx
    try:
        return pathlib.Path(ptx).read_text()
    except UnicodeDecodeError:
        raise ArgumentError(f"{ptx} is not text; compile with -ptx, or take it out with cuobjdump -ptx") from None


def run(
    ptx: str | os.PathLike[str],
    entry: str | None,
    grid: Size,
    block: Size | None,
    args: Sequence[Any],
    *,
    check: Check = "all",
    shared: int = 0,
    cluster: Size = 1,
    arch: str = "sm_90a",
    cooperative: bool = False,
    seed: int = 0,
    workers: int | None = None,
    limit: int | None = None,
    instructions: bool = False,
    predict: str | None = None,
) -> Report:
    """Runs a kernel of PTX text on the virtual GPU: outputs, counters, findings.

    ``args`` has one value for each parameter: arrays (NumPy's, CPU tensors of PyTorch, anything with ``__dlpack__``),
    which are written in place as a GPU would write them, :class:`Out` for an output that is not initialised, numbers,
    NumPy scalars, ``None`` for a null pointer, bytes for structures. ``ptx`` is the text or a file's name; ``entry``
    may be ``None`` where the text has one kernel, ``block`` where the kernel declares it (``.reqntid``).

    ``check="all"`` looks for races, uninitialised reads, outputs that are read back and hold what nothing wrote, divergent barriers and more, and goes on after a finding;
    ``"deny"`` raises :class:`FindingsError` after a run with an error; ``"none"`` stops at what hardware traps.

    ``predict="h100"`` or ``"h200"`` gives the report a :class:`Prediction` of the launch's time on that GPU.

    The run releases the interpreter's lock, and Ctrl-C ends it.
    """
    module = Module(text_of(ptx), arch=arch)
    return module.launch(
        entry, grid, block, args, check=check, shared=shared, cluster=cluster, cooperative=cooperative, seed=seed,
        workers=workers, limit=limit, instructions=instructions, predict=predict,
    )  # fmt: skip
