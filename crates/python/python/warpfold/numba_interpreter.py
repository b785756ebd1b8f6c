"""Kernels of numba-cuda on the virtual GPU: compiled by numba and NVVM, which need no GPU."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .arrays import Out, host_array
from .errors import ArgumentError, Error
from .launch import Check, Module, Size
from .report import Report
from .triton_interpreter import Interpreter

__all__ = ["interpret_numba", "run_numba"]


def _flat(name: str, value: Any) -> Iterator[Any]:
    """The parameters that an argument becomes: of an array what numba's data model has."""
    made = host_array(value, name)
    if made is None:
        if isinstance(value, bool | np.bool_):
            yield struct.pack("<B", value)
        elif isinstance(value, int | float | np.generic):
            yield value if isinstance(value, np.generic) else np.int64(value) if isinstance(value, int) else float(value)
        else:
            raise ArgumentError(f"{name} is a {type(value).__name__}: expected an array or a number")
        return
    array = np.asarray(value.array if isinstance(value, Out) else value)
    # Owner of the memory, parent object, elements, bytes of each; then the memory, sizes, strides.
    yield from (None, None, np.int64(array.size), np.int64(array.itemsize), value)
    yield from map(np.int64, (*array.shape, *array.strides))


def _compiled(function: Callable[..., Any], types: tuple[Any, ...], arch: str) -> str:
    """The PTX, its kernel called as the function is."""
    try:
        from numba import cuda
    except ImportError as error:
        raise Error(f"running numba's kernels needs numba-cuda: pip install numba-cuda ({error})") from error
    number = int(re.sub(r"\D", "", arch))
    try:
        ptx, _ = cuda.compile_ptx(function, types, cc=(number // 10, number % 10), lineinfo=True)
    except Exception as error:
        if "nvvm" in str(error).lower():
            raise Error(f"compiling numba's kernels needs NVVM: pip install nvidia-nvvm ({error})") from error
        raise
    found = re.search(r"\.entry\s+(\w+)", ptx)
    assert found, "numba compiles a kernel"
    name = function.__name__ if function.__name__.isidentifier() else "kernel"
    return re.sub(rf"\b{found[1]}(?=\b|_param_)", name, ptx)


#: By function, types and architecture: the function, which keeps its id its own, and its module.
_modules: dict[Any, tuple[Any, Module]] = {}


def run_numba(
    kernel: Any, grid: Size, block: Size, args: Sequence[Any], *, arch: str = "sm_90", **launch: Any
) -> Report:
    """Compiles a function of ``numba.cuda.jit`` for these arguments and runs it, as :func:`warpfold.run` does.

    Needs numba-cuda and nvidia-nvvm, no GPU. Arguments are NumPy arrays, CPU tensors of PyTorch and numbers.
    """
    import numba

    function = getattr(kernel, "py_func", kernel)
    hosts = [arg.array if isinstance(arg, Out) else arg for arg in args]
    types = tuple(numba.typeof(np.asarray(host) if host_array(host, "an argument") else host) for host in hosts)
    key = (id(function), types, arch)
    if key not in _modules or _modules[key][0] is not function:
        ptx = _compiled(function, types, arch)
        module = Module(ptx, arch="sm_90a" if arch == "sm_90" else arch, source_file=function.__code__.co_filename)
        _modules[key] = (function, module)
    names = function.__code__.co_varnames
    flat = [(names[i], value) for i, arg in enumerate(args) for value in _flat(names[i], arg)]
    values, called = [value for _, value in flat], [name for name, _ in flat]
    return _modules[key][1].launch(None, grid, block, values, names=called, **launch)


class NumbaInterpreter(Interpreter):
    """See :func:`interpret_numba`."""

    _name = "interpret_numba"

    def __init__(self, check: Check, arch: str, **options: Any) -> None:
        super().__init__(check, **options)
        self._arch = arch

    def _install(self) -> None:
        try:
            from numba.cuda.dispatcher import CUDADispatcher
        except ImportError as error:
            raise Error(f"interpret_numba needs numba-cuda: pip install numba-cuda ({error})") from error
        configured, for_all = CUDADispatcher.__getitem__, CUDADispatcher.forall

        def here(dispatcher: Any, sizes: Any) -> Callable[..., None]:
            if len(sizes) not in (2, 3, 4):
                raise ArgumentError("a kernel of numba is launched as kernel[grid, block, stream, shared]")
            grid, block, shared = sizes[0], sizes[1], sizes[3] if len(sizes) == 4 else 0

            def launch(*args: Any) -> None:
                run_numba(
                    dispatcher, grid, block, args, arch=self._arch, check=self.check, shared=shared, **self._options
                )

            return launch

        def for_all_here(
            dispatcher: Any, ntasks: int, tpb: int = 0, stream: object = 0, sharedmem: int = 0
        ) -> Callable[..., None]:
            # numba asks a GPU how many threads suit it.
            threads = tpb or 128
            return here(dispatcher, (max(1, -(-ntasks // threads)), threads, stream, sharedmem))

        def undo() -> None:
            CUDADispatcher.__getitem__, CUDADispatcher.forall = configured, for_all

        CUDADispatcher.__getitem__, CUDADispatcher.forall = here, for_all_here
        self._undo = undo

    def _remove(self) -> None:
        self._undo()


def interpret_numba(
    check: Check = "all",
    *,
    arch: str = "sm_90",
    seed: int = 0,
    workers: int | None = None,
    limit: int | None = None,
    instructions: bool = False,
    predict: str | None = None,
) -> NumbaInterpreter:
    """Makes kernels of ``numba.cuda.jit`` run on the virtual GPU inside of a ``with`` block, as ``interpret_triton`` does.

    They are launched as ever, ``kernel[grid, block](a, b)``, or ``kernel.forall(n)(a, b)``, with NumPy arrays. A kernel
    with a signature in its decorator is not caught: numba compiles it at once, and for a GPU.
    """
    return NumbaInterpreter(check, arch, seed=seed, workers=workers, limit=limit, instructions=instructions, predict=predict)
