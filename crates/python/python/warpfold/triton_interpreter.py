"""Triton's kernels on the virtual GPU: compiled as for a GPU, by Triton, and run without one."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from . import _native
from .arrays import AtAddress, Out, Scratch, host_array
from .errors import ArgumentError, Error
from .launch import Check, Module, check_of
from .report import Finding, Report, listen, warn
from .unwritten import UnwrittenTensors

__all__ = ["Interpreter", "interpret_triton"]


class Interpreter:
    """What runs inside of an ``interpret_…`` block, and what was found there."""

    #: What messages call it.
    _name = "an interpreter"

    def __init__(self, check: Check, **options: Any) -> None:
        check_of(check)
        self.check = check
        #: The report of every launch, in order.
        self.reports: list[Report] = []
        self._options = options
        self._listener = listen(self._heard)
        self._is_open = False

    def _heard(self, report: Report) -> None:
        self.reports.append(report)
        if self.check == "all":
            warn(report)

    @property
    def findings(self) -> list[Finding]:
        """The findings of all launches."""
        return [finding for report in self.reports for finding in report.findings]

    @property
    def errors(self) -> list[Finding]:
        """Those of severity error."""
        return [finding for finding in self.findings if finding.is_error]

    def __enter__(self) -> Interpreter:
        if self._is_open:
            raise Error(f"{self._name} is open already; make another one")
        self._install()
        self._is_open = True
        self._listener.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listener.__exit__(kind, error, at)
        self._is_open = False
        self._remove()

    def __str__(self) -> str:
        return "\n".join(report.summary() for report in self.reports)

    def _install(self) -> None:
        raise NotImplementedError

    def _remove(self) -> None:
        raise NotImplementedError


class _Array:
    """An array that has what Triton asks of tensors: an address and an element type."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self._made = host_array(array, "an argument")

    def data_ptr(self) -> int:
        assert self._made is not None
        return self._made.address

    def stride(self) -> tuple[int, ...]:
        """In elements, as PyTorch has them."""
        return tuple(n // self.array.itemsize for n in self.array.strides)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.array, name)


def _adapted(value: Any) -> Any:
    """An argument as Triton takes it."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Out):
        return value
    if isinstance(value, np.ndarray) or (
        not hasattr(value, "data_ptr") and (hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__"))
    ):
        return _Array(value)
    return value


class _Driver:
    """What Triton's run time asks of a GPU's driver."""

    def __init__(self, capability: int) -> None:
        self._capability = capability

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self._capability, 32)

    def get_current_device(self) -> str:
        # Kernels are cached by device: not one of them is taken for a GPU's.
        return f"warpfold:sm_{self._capability}"

    def get_current_stream(self, _device: object) -> int:
        return 0

    def get_benchmarker(self) -> Callable[..., Sequence[float]]:
        """For autotuners: runs each configuration once. The virtual GPU has no clock, so the first one is chosen."""

        def run_once(kernel_call: Callable[[], Any], *, quantiles: Sequence[float] = (), **_: Any) -> Sequence[float]:
            kernel_call()
            return [0.0] * len(quantiles)

        return run_once

    def __getattr__(self, name: str) -> Any:
        raise Error(f"Triton asks its driver for '{name}', which the virtual GPU does not have")


_SCALARS = {
    "i1": "<B", "u1": "<B", "i8": "<b", "u8": "<B", "i16": "<h", "u16": "<H", "i32": "<i", "u32": "<I", "i64": "<q",
    "u64": "<Q", "fp16": "<e", "fp32": "<f", "f32": "<f", "fp64": "<d",
}  # fmt: skip


def _scalar(kind: str, value: Any) -> bytes:
    if kind == "bf16":
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    return struct.pack(_SCALARS[kind], value)


def _flat(name: str, kind: Any, value: Any, maps: Iterator[Any]) -> Iterator[tuple[str, Any]]:
    """The parameters that an argument becomes, each with its name. ``maps`` has what Triton says of each tensor map."""
    if kind == "constexpr":
        return
    if isinstance(kind, tuple):
        for i, (inner, item) in enumerate(zip(kind, value, strict=True)):
            yield from _flat(f"{name}[{i}]", inner, item, maps)
    elif kind.startswith("*"):
        if value is None or isinstance(value, int):
            yield name, value
            return
        array = value.array if isinstance(value, _Array) else value
        if host_array(array, name) is None:
            raise ArgumentError(f"{name} is a {type(array).__name__}: expected a NumPy array or a tensor on the CPU")
        yield name, array
    elif kind in _SCALARS or kind == "bf16":
        yield name, _scalar(kind, value)
    elif kind.startswith("tensordesc"):
        yield from _descriptor(name, next(maps, None), value)
    else:
        raise ArgumentError(f"{name} is a {kind}, which the virtual GPU does not take")


#: The number of TF32 in PTX's `tensormap.replace`.
_TF32 = 11


def _descriptor(name: str, meta: Any, value: Any) -> Iterator[tuple[str, Any]]:
    """The parameters that a descriptor made on the host becomes: a tensor map, or what the kernel needs without TMA."""
    array = value.base.array if isinstance(value.base, _Array) else value.base
    made = host_array(array, name)
    if made is None:
        raise ArgumentError(f"{name} is of a {type(array).__name__}: expected a NumPy array or a tensor on the CPU")
    shape, strides = [int(n) for n in value.shape], [int(n) for n in value.strides]
    sizes = [*map(np.int32, shape), *map(np.int64, strides)]
    is_nan, is_tf32 = getattr(value, "padding", "zero") == "nan", getattr(value, "round_f32_to_tf32", False)
    if meta is None:
        yield name, array
        # Triton 3.4 has no padding, and 3.5 no rounding.
        flags = [flag for at, flag in (("padding", is_nan), ("round_f32_to_tf32", is_tf32)) if hasattr(value, at)]
        for each in (*map(np.int64, (*shape, *strides)), *flags, *sizes):
            yield name, each
        return
    if meta.get("is_im2col") or meta["fp4_padded"]:
        raise ArgumentError(f"{name} is a descriptor of im2col or of 4-bit elements, which kernels for sm_90 do not use")
    item = meta["elem_size"]

    def encode(address: int) -> bytes:
        return _native.encode_tensor_map(
            _TF32 if is_tf32 else meta["elem_type"], address, shape[::-1], [n * item for n in strides[-2::-1]],
            meta["block_size"][::-1], swizzle=meta["swizzle"], fills_nan=is_nan,
        )  # fmt: skip

    yield name, AtAddress(array, encode)
    for each in sizes:
        yield name, each


class _DescriptorsOfNumpy:
    """Lets ``TensorDescriptor`` take NumPy arrays until it is undone."""

    undo: Callable[[], None]

    def __init__(self) -> None:
        try:
            from triton.tools.tensor_descriptor import TensorDescriptor
        except ImportError:
            self.undo = lambda: None
            return
        check, of_tensor = TensorDescriptor.__post_init__, TensorDescriptor.from_tensor

        def check_here(descriptor: Any) -> None:
            descriptor.base = _adapted(descriptor.base)
            if not isinstance(descriptor.base, _Array) or getattr(descriptor, "padding", "zero") != "nan":
                check(descriptor)
                return
            # NumPy's types do not say it as PyTorch's do.
            if descriptor.base.dtype.kind != "f":
                raise ArgumentError(f"padding 'nan' is of floating-point elements, not of {descriptor.base.dtype}")
            descriptor.padding = "zero"
            check(descriptor)
            descriptor.padding = "nan"

        def of_tensor_here(tensor: Any, *args: Any, **options: Any) -> Any:
            return of_tensor(_adapted(tensor), *args, **options)

        def undo() -> None:
            TensorDescriptor.__post_init__, TensorDescriptor.from_tensor = check, staticmethod(of_tensor)

        TensorDescriptor.__post_init__, TensorDescriptor.from_tensor = check_here, staticmethod(of_tensor_here)
        self.undo = undo


class _Launcher:
    """A compiled kernel, ready to be launched as its run time launches it."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        code = getattr(getattr(kernel.src.fn, "fn", None), "__code__", None)
        arch = f"sm_{kernel.metadata.target.arch}"
        self._module = Module(
            kernel.asm["ptx"],
            arch="sm_90a" if arch == "sm_90" else arch,
            source_file=code.co_filename if code else None,
        )

    def __call__(self, x: int, y: int, z: int, *rest: Any) -> None:
        _stream, _function, _packed, _metadata, _enter, _exit, *args = rest
        metadata = self._kernel.metadata
        maps = iter(getattr(metadata, "tensordesc_meta", None) or ())
        params = [
            param
            for (name, kind), arg in zip(self._kernel.src.signature.items(), args, strict=True)
            for param in _flat(name, kind, arg, maps)
        ]
        num_ctas = getattr(metadata, "num_ctas", 1)
        declared = self._module.kernel(metadata.name)["params"]
        sizes = (getattr(metadata, "global_scratch_size", 0), getattr(metadata, "profile_scratch_size", 0))
        for name, size in zip(("global_scratch", "profile_scratch"), sizes, strict=True):
            if len(params) < len(declared):
                params.append((name, Scratch(x * y * z * num_ctas * size, np.uint8) if size else None))
        interpreter = TritonInterpreter.current
        self._module.launch(
            metadata.name, (x * num_ctas, y, z), self._block(metadata), [value for _, value in params],
            check=interpreter.check, shared=metadata.shared, cluster=num_ctas,
            cooperative=bool(getattr(metadata, "launch_cooperative_grid", False)),
            names=[name for name, _ in params], **interpreter._options,
        )  # fmt: skip

    def _block(self, metadata: Any) -> Any:
        declared = self._module.kernel(metadata.name)["required_block"]
        return declared or 32 * metadata.num_warps


class TritonInterpreter(Interpreter):
    """See :func:`interpret_triton`."""

    _name = "interpret_triton"
    #: The innermost open one; kernels that are compiled once serve later ones too.
    current: TritonInterpreter

    def __init__(self, check: Check, arch: str, **options: Any) -> None:
        super().__init__(check, **options)
        if arch not in ("sm_80", "sm_86", "sm_89", "sm_90"):
            raise ArgumentError(f"arch is sm_80, sm_86, sm_89 or sm_90, not {arch!r}")
        self._driver = _Driver(int(arch.removeprefix("sm_")))

    def _install(self) -> None:
        try:
            from triton.compiler.compiler import CompiledKernel
            from triton.runtime.driver import driver
            from triton.runtime.jit import JITFunction
        except ImportError as error:
            raise Error(f"interpret_triton needs Triton: pip install triton ({error})") from error
        outer = getattr(TritonInterpreter, "current", None)
        run, init_handles, active = JITFunction.run, CompiledKernel._init_handles, driver._active

        def run_here(function: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            args = tuple(map(_adapted, args))
            return run(
                function, *args, grid=grid, warmup=warmup, **{name: _adapted(value) for name, value in kwargs.items()}
            )

        def init_here(kernel: Any) -> None:
            if kernel._run is None:
                kernel._run = _Launcher(kernel)

        descriptor, tensors = _DescriptorsOfNumpy(), UnwrittenTensors()
        if self.check != "none":
            tensors.install()

        def undo() -> None:
            tensors.remove()
            descriptor.undo()
            JITFunction.run, CompiledKernel._init_handles, driver._active = run, init_handles, active
            TritonInterpreter.current = outer  # type: ignore[assignment]

        self._undo = undo
        TritonInterpreter.current = self
        JITFunction.run, CompiledKernel._init_handles = run_here, init_here
        driver.set_active(self._driver)

    def _remove(self) -> None:
        self._undo()


def interpret_triton(
    check: Check = "all",
    *,
    arch: str = "sm_90",
    seed: int = 0,
    workers: int | None = None,
    limit: int | None = None,
    instructions: bool = False,
    predict: str | None = None,
) -> TritonInterpreter:
    """Makes Triton's kernels run on the virtual GPU, without a GPU, inside of a ``with`` block.

    Kernels are compiled by Triton for ``arch`` and launched as ever, ``kernel[grid](x, y, n, BLOCK=128)``, with NumPy
    arrays or tensors on the CPU, which are written in place. What comes after ``as`` has the ``reports`` and the
    ``findings`` so far, with lines of the Python source::

        with warpfold.interpret_triton(check="all") as session:
            add_kernel[(8,)](x, y, out, n, BLOCK=1024)
        assert not session.errors

    With ``check="all"`` findings of severity error are warnings, too, at their Python lines; ``"deny"`` raises
    :class:`FindingsError` at the launch; ``"none"`` checks only what hardware traps. An autotuner runs each
    configuration once, checked, and chooses the first, as the virtual GPU has no clock. ``predict="h200"`` gives each
    report a :class:`Prediction` of the launch's time on that GPU.
    """
    return TritonInterpreter(check, arch, seed=seed, workers=workers, limit=limit, instructions=instructions, predict=predict)
