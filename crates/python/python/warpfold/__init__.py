"""A sanitizer for PTX and Triton kernels that needs no GPU, and tensors on an NVIDIA GPU or the virtual one.

``run`` runs PTX text, ``interpret_triton`` makes Triton's kernels run on the virtual GPU, ``Tensor`` is a tensor.
"""

from . import errors, functional, ops
from ._native import __version__
from .arrays import Out
from .errors import *  # noqa: F403 (the exceptions, by their own names)
from .launch import Module, run
from .report import Access, Counters, Finding, Instruction, Report
from .source import Frame
from .tensor import Device, Tensor, default_device, from_dlpack, set_default_device, tensor
from .triton_interpreter import interpret_triton

__all__ = [
    *errors.__all__,
    "Access",
    "Counters",
    "Device",
    "Finding",
    "Frame",
    "Instruction",
    "Module",
    "Out",
    "Report",
    "Tensor",
    "__version__",
    "default_device",
    "from_dlpack",
    "functional",
    "interpret_triton",
    "ops",
    "run",
    "set_default_device",
    "tensor",
]
