"""CUDA C++ on the virtual GPU: compiled by NVRTC, which needs no GPU. CuPy's ``RawKernel`` brings its source along."""

from __future__ import annotations

import ctypes
import functools
import glob
import hashlib
import importlib.util
import linecache
import os
from collections.abc import Sequence
from typing import Any

from .errors import Error, PtxError
from .launch import Module, Size
from .report import Report

__all__ = ["CompileError", "compile_cuda", "run_cuda"]


class CompileError(PtxError):
    """NVRTC refuses the source; the message is its log."""


@functools.cache
def _nvrtc() -> ctypes.CDLL:
    """NVRTC of its Python package, or else the system's."""
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = [path for folder in folders for path in glob.glob(f"{folder}/**/libnvrtc.so.*", recursive=True)]
    # Beside it lies libnvrtc-builtins, and a variant named .alt.
    for name in [*sorted((p for p in found if ".alt" not in p), reverse=True), "libnvrtc.so.13", "libnvrtc.so.12"]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise Error("compiling CUDA C++ needs NVRTC: pip install nvidia-cuda-nvrtc")


def _check(library: ctypes.CDLL, code: int, what: str) -> None:
    if code:
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise Error(f"{what} failed: {library.nvrtcGetErrorString(code).decode()}")


def _text(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> str:
    size = ctypes.c_size_t()
    _check(library, getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), what)
    buffer = ctypes.create_string_buffer(size.value)
    _check(library, getattr(library, f"nvrtcGet{what}")(program, buffer), what)
    return buffer.value.decode()


def _name_of(source: str) -> str:
    """What a source without a file is called."""
    return f"<CUDA {hashlib.sha256(source.encode()).hexdigest()[:8]}>.cu"


def compile_cuda(
    source: str | os.PathLike[str],
    *,
    name: str | None = None,
    arch: str = "sm_90a",
    options: Sequence[str] = (),
) -> str:
    """PTX of CUDA C++, with source lines. ``source`` is the text or a file's name, ``name`` what messages call it.

    ``options`` are NVRTC's: ``("-I/usr/local/cuda/include", "-DN=3", "--use_fast_math")``. What stands in no
    ``extern "C"`` has a mangled name; :func:`run_cuda` finds it by its own name.
    """
    if not isinstance(source, str) or "\n" not in source:
        name = name or os.fspath(source)
        with open(source) as file:
            source = file.read()
    if name is None:
        name = _name_of(source)
        # So that reports can show its lines.
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    library, program = _nvrtc(), ctypes.c_void_p()
    made = library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
    _check(library, made, "nvrtcCreateProgram")
    try:
        flags = [f"--gpu-architecture={arch.replace('sm_', 'compute_')}", "-lineinfo", *options]
        array = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
        if library.nvrtcCompileProgram(program, len(flags), array):
            raise CompileError(_text(library, program, "ProgramLog").strip())
        return _text(library, program, "PTX")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def run_cuda(
    source: Any,
    entry: str | None,
    grid: Size,
    block: Size | None,
    args: Sequence[Any],
    *,
    name: str | None = None,
    arch: str = "sm_90a",
    options: Sequence[str] = (),
    **launch: Any,
) -> Report:
    """Compiles CUDA C++ and runs a kernel of it, as :func:`warpfold.run` does.

    ``source`` is the text, a file's name, or a CuPy ``RawKernel`` or ``RawModule``, whose source, name and options are taken.
    Arguments are NumPy arrays: CuPy's lie on a GPU. Python's integers and floats take the parameter's type.
    """
    if hasattr(source, "code") and hasattr(source, "options"):
        # A RawModule has no name.
        entry = entry or getattr(source, "name", None)
        options = (*(source.options or ()), *options)
        source = source.code
    ptx = compile_cuda(source, name=name, arch=arch, options=options)
    # NVRTC puts the working folder before a name.
    is_text = isinstance(source, str) and "\n" in source
    source_file = name or (_name_of(source) if is_text else os.fspath(source))
    return Module(ptx, arch=arch, source_file=source_file).launch(entry, grid, block, args, **launch)
