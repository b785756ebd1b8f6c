"""A sanitizer for PTX and Triton kernels that needs no GPU, and tensors on an NVIDIA GPU or the virtual one.

``run`` runs PTX text, ``interpret_triton`` makes Triton's kernels run on the virtual GPU, ``Tensor`` is a tensor.
"""

from . import errors, functional, ops
from ._native import __version__
from .arrays import Out
from .cuda import CompileError, compile_cuda, run_cuda
from .errors import *  # noqa: F403 (the exceptions, by their own names)
from .launch import Module, run
from .numba_interpreter import interpret_numba, run_numba
from .report import Access, Counters, Finding, Instruction, Prediction, Report
from .source import Frame
from .tensors import Device, Tensor, default_device, from_dlpack, set_default_device, tensor
from .triton_interpreter import interpret_triton

__all__ = [
    *errors.__all__,
    "Access",
    "CompileError",
    "Counters",
    "Device",
    "Finding",
    "Frame",
    "Instruction",
    "Module",
    "Out",
    "Prediction",
    "Report",
    "Tensor",
    "__version__",
    "compile_cuda",
    "default_device",
    "from_dlpack",
    "functional",
    "interpret_numba",
    "interpret_triton",
    "ops",
    "run",
    "run_cuda",
    "run_numba",
    "set_default_device",
    "tensor",
]
