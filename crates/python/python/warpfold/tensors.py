"""Tensors: memory of a device with a shape and an element type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from . import _native
from .dtypes import dtype_name, numpy_dtype
from .errors import ArgumentError, AxisError, DtypeError

__all__ = ["Device", "Tensor", "default_device", "from_dlpack", "set_default_device", "tensor"]

Device = _native.Device

_default: list[_native.Device] = []


def default_device() -> _native.Device:
    """The device of tensors that are told none: WARPFOLD_DEVICE's, or else the best there is."""
    if not _default:
        _default.append(_native.Device())
    return _default[0]


def set_default_device(device: str | _native.Device) -> None:
    """Chooses it: ``virtual``, ``virtual:a100``, ``cuda``, ``cuda:1``, or a :class:`Device`."""
    _default[:] = [device_of(device)]


def device_of(device: str | _native.Device | None) -> _native.Device:
    """A device by its name. All tensors of one name are on one device."""
    if device is None:
        return default_device()
    if not isinstance(device, str):
        return device
    if _default and str(_default[0]) == device:
        return _default[0]
    if device not in _by_name:
        _by_name[device] = _native.Device(device)
    return _by_name[device]


_by_name: dict[str, _native.Device] = {}


#: Of DLPack: the version that we know, its flags, and its kinds of memory that the CPU reads (its own, pinned, managed).
_VERSION, _READ_ONLY, _IS_COPIED, _HOST_KINDS = (1, 1), 1, 2, (1, 3, 13)


class Tensor:
    """A tensor. Views share memory, which no operator changes. Every function of ``warpfold.functional`` whose first
    argument is ``input`` is a method."""

    __slots__ = ("_native",)
    __array_priority__ = 1000
    __array_ufunc__ = None
    _native: _native.Tensor

    def __init__(self, array: Any, dtype: Any = None, device: str | _native.Device | None = None) -> None:
        """A copy of an array of NumPy, a number, nested lists, or anything with ``__dlpack__``.

        What is on the same GPU already is not copied: it shares the other library's memory, as PyTorch's
        ``from_dlpack`` does.
        """
        if isinstance(array, Tensor):
            same_device = device is None or device_of(device) is array.device
            source = array if same_device else Tensor(array.numpy(), device=device)
            self._native = (source if dtype is None else source.to(dtype))._native
            return
        if isinstance(array, np.ndarray | np.generic):
            content = np.asarray(array)
        elif hasattr(array, "__dlpack__"):
            shared = _of_dlpack(array, device_of(device))
            self._native = (shared if dtype is None else shared.to(dtype))._native
            return
        else:
            content = np.asarray(array)
            if content.dtype == np.float64 and dtype is None:
                # As PyTorch: Python's floats are float32.
                content = content.astype(np.float32)
        if dtype is not None and dtype_name(dtype) not in ("bf16", "f8e4m3", "f8e5m2"):
            content = content.astype(numpy_dtype(dtype_name(dtype)), copy=False)
        content = np.ascontiguousarray(content.astype(content.dtype.newbyteorder("="), copy=False)).reshape(content.shape)
        made = _native.Tensor.from_bytes(
            device_of(device), dtype_name(content.dtype), content.tobytes(), list(content.shape)
        )
        wrapped = _wrap(made)
        self._native = (wrapped if dtype is None else wrapped.to(dtype))._native

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, outermost first."""
        return tuple(self._native.shape)

    @property
    def ndim(self) -> int:
        """How many dimensions there are."""
        return len(self._native.shape)

    @property
    def size(self) -> int:
        """How many elements there are, as the array API has it."""
        return int(np.prod(self.shape, dtype=np.int64))

    def numel(self) -> int:
        """How many elements there are, as PyTorch has it."""
        return self.size

    def stride(self) -> tuple[int, ...]:
        """The strides, in elements."""
        return tuple(self._native.strides)

    @property
    def dtype(self) -> Any:
        """The element type: NumPy's, or the name of one that NumPy lacks."""
        try:
            return numpy_dtype(self._native.dtype)
        except DtypeError:
            return self._native.dtype

    @property
    def device(self) -> _native.Device:
        """Where it is."""
        return self._native.device

    def data_ptr(self) -> int:
        """The device address of the first element."""
        return self._native.address

    def is_contiguous(self) -> bool:
        """Whether the elements lie side by side in C order."""
        return self._native.is_contiguous

    def numpy(self) -> np.ndarray:
        """The elements as a new array of NumPy."""
        return np.frombuffer(bytearray(self._native.to_bytes()), numpy_dtype(self._native.dtype)).reshape(self.shape)

    def tolist(self) -> Any:
        """The elements as nested lists."""
        return (self if self._native.dtype not in ("bf16", "f8e4m3", "f8e5m2") else self.to("f32")).numpy().tolist()

    def item(self) -> Any:
        """The only element as a number."""
        if self.size != 1:
            raise ArgumentError(f"a tensor of shape {list(self.shape)} is not one number")
        return self.reshape(()).tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ArgumentError("a tensor's elements are in a device's memory: NumPy cannot have them without a copy")
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None) -> Any:
        """Its memory, in place, as a capsule; of the virtual GPU it is memory of the CPU.

        Who takes it may read it and not write to it. A capsule from before DLPack 1.0 cannot say so: such a capsule has
        a copy, as does one for the CPU of what is on a GPU.
        """
        here = self.__dlpack_device__()
        wanted = here if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
        if wanted not in (here, (1, 0)):
            raise BufferError(f"a tensor on device {here} of DLPack is given away there or on the CPU, (1, 0), not on {wanted}")
        is_versioned = max_version is not None and tuple(max_version) >= (1, 0)
        must_copy = wanted != here or not is_versioned
        if copy is False and must_copy:
            reason = "is on a GPU" if wanted != here else "may only be read, which capsules say from DLPack 1.0 on"
            raise BufferError(f"a tensor that {reason} is given away as a copy")
        if wanted != here:
            return self.numpy().__dlpack__(max_version=max_version) if is_versioned else self.numpy().__dlpack__()
        shared = self._native
        if copy or must_copy:
            shared = operate("copy", [self])[0]._native
            return _native.to_dlpack(shared, _IS_COPIED if is_versioned else None)
        return _native.to_dlpack(shared, _READ_ONLY)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Type and number of the device, as DLPack has them: CPU for the virtual GPU."""
        return self.device.dlpack_device

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        from . import array_api

        return array_api

    # Views.

    def permute(self, *dims: Any) -> Tensor:
        """The dimensions in another order."""
        return _wrap(self._native.permute(_sizes(dims)))

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """Two dimensions exchanged."""
        axes = list(range(self.ndim))
        dim0, dim1 = self._axis(dim0), self._axis(dim1)
        axes[dim0], axes[dim1] = axes[dim1], axes[dim0]
        return self.permute(axes)

    def t(self) -> Tensor:
        """A matrix transposed."""
        if self.ndim > 2:
            raise ArgumentError(f"t() takes a tensor of at most 2 dimensions, not {self.ndim}")
        return self.permute(list(reversed(range(self.ndim))))

    @property
    def T(self) -> Tensor:
        """The dimensions in reverse order."""
        return self.permute(list(reversed(range(self.ndim))))

    @property
    def mT(self) -> Tensor:
        """The last two dimensions exchanged."""
        return self.transpose(-2, -1)

    def reshape(self, *shape: Any) -> Tensor:
        """Another shape: a view where strides can say it, else a copy. One size may be -1."""
        return _wrap(self._native.reshape(self._inferred(_sizes(shape))))

    def view(self, *shape: Any) -> Tensor:
        """Another shape of the same memory; an error where strides cannot say it."""
        return _wrap(self._native.view_as(self._inferred(_sizes(shape))))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """Dimensions joined to one."""
        if self.ndim == 0:
            return self.reshape(1)
        start, end = self._axis(start_dim), self._axis(end_dim)
        joined = int(np.prod(self.shape[start : end + 1], dtype=np.int64))
        return self.reshape(*self.shape[:start], joined, *self.shape[end + 1 :])

    def unsqueeze(self, dim: int) -> Tensor:
        """With a dimension of size 1."""
        return _wrap(self._native.unsqueeze(dim))

    def squeeze(self, dim: int | Sequence[int] | None = None) -> Tensor:
        """Without dimensions of size 1."""
        dims = range(self.ndim) if dim is None else [self._axis(d) for d in ([dim] if isinstance(dim, int) else dim)]
        return self.reshape([n for i, n in enumerate(self.shape) if n != 1 or i not in dims])

    def expand(self, *sizes: Any) -> Tensor:
        """Repeated to a larger shape, by strides of 0. A size of -1 stays as it is."""
        wanted = _sizes(sizes)
        old = [None] * (len(wanted) - self.ndim) + list(self.shape)
        for n, was in zip(wanted, old, strict=False):
            if n == -1 and was is None:
                raise ArgumentError("a new dimension cannot have the size -1")
        return _wrap(self._native.broadcast([was if n == -1 else n for n, was in zip(wanted, old, strict=True)]))

    def flip(self, dims: int | Sequence[int]) -> Tensor:
        """Dimensions in reverse order."""
        flipped = self._native
        for dim in [dims] if isinstance(dims, int) else dims:
            flipped = flipped.flip(dim)
        return _wrap(flipped)

    def contiguous(self) -> Tensor:
        """Its elements side by side in C order: itself, or a copy."""
        return _wrap(self._native.contiguous())

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """Part of a dimension."""
        return _wrap(self._native.slice(dim, start, start + length))

    def __getitem__(self, index: Any) -> Tensor:
        """Part of it: a view for numbers, slices, ``None`` and ``...``; a copy for tensors of indices or a mask."""
        from .indexing import item

        return item(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Gives this tensor other memory, with other elements at an index; views and others that share it keep theirs."""
        from .indexing import assigned

        self._native = assigned(self, index, value)._native

    def to_device(self, device: str | _native.Device, /, *, stream: Any = None) -> Tensor:
        """On another device, as the array API has it."""
        if stream is not None:
            raise ArgumentError("a tensor is moved on its device's own stream: stream is None")
        return self.to(device_of(device))

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a tensor of no dimensions has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if not np.issubdtype(self.dtype, np.integer):
            raise TypeError("only a tensor of one whole number is an index")
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __repr__(self) -> str:
        shown = self if self._native.dtype not in ("bf16", "f8e4m3", "f8e5m2") else self.to("f32")
        body = np.array2string(shown.numpy(), separator=", ", prefix="Tensor(")
        return f"Tensor({body}, dtype={self.dtype}, device='{self.device}')"

    def __hash__(self) -> int:
        return id(self)

    # What functional has under `to` is a method like the others; named here for the type checker.
    def to(self, target: Any) -> Tensor:
        """In another element type, or on another device."""
        if isinstance(target, _native.Device) or isinstance(target, str) and target.split(":")[0] in ("virtual", "cuda"):
            return Tensor(self, device=target)
        name = dtype_name(target)
        if name == self._native.dtype:
            return self
        return operate("cast", [self], dtype=name)[0]

    def _axis(self, axis: int) -> int:
        if not -self.ndim <= axis < self.ndim:
            raise AxisError(f"axis {axis} is out of range for {self.ndim} dimension(s)")
        return axis % self.ndim

    def _inferred(self, shape: list[int]) -> list[int]:
        if shape.count(-1) > 1:
            raise ArgumentError("one size may be -1")
        if -1 in shape:
            rest = int(np.prod([n for n in shape if n != -1], dtype=np.int64))
            if rest == 0 or self.size % rest:
                raise ArgumentError(f"shape {shape} does not fit {self.size} element(s)")
            shape = [self.size // rest if n == -1 else n for n in shape]
        return shape


def _sizes(sizes: tuple[Any, ...]) -> list[int]:
    """Sizes given one by one or as a sequence."""
    if len(sizes) == 1 and not isinstance(sizes[0], int | np.integer):
        sizes = tuple(sizes[0])
    return [int(n) for n in sizes]


def _wrap(made: _native.Tensor) -> Tensor:
    tensor = Tensor.__new__(Tensor)
    tensor._native = made
    return tensor


def _of_dlpack(array: Any, device: _native.Device) -> Tensor:
    """What another library has, in place where it is the device's own memory, else as a copy."""
    kind, number = (int(n) for n in array.__dlpack_device__())
    options: dict[str, Any] = {}
    if (kind, number) == device.dlpack_device and device.dlpack_stream is not None:
        options = {"stream": device.dlpack_stream}
    elif kind not in _HOST_KINDS:
        options = {"dl_device": (1, 0)}
    try:
        capsule = array.__dlpack__(max_version=_VERSION, **options)
    except (TypeError, BufferError) as error:
        if "dl_device" in options:
            raise ArgumentError(
                f"DLPack device {kind} is not the CPU (1), and its owner gives no copy there ({error}): "
                "copy the array to the CPU first"
            ) from error
        if isinstance(error, BufferError):
            raise
        # From before DLPack 1.0.
        capsule = array.__dlpack__(**options)
    return _wrap(_native.from_dlpack(device, capsule))


def operate(name: str, inputs: Sequence[Tensor], **options: Any) -> list[Tensor]:
    """Runs an operator by the Rust libraries' name."""
    chosen = {key: value for key, value in options.items() if value is not None}
    return [_wrap(made) for made in _native.operate(name, [tensor._native for tensor in inputs], chosen)]


def tensor(data: Any, *, dtype: Any = None, device: str | _native.Device | None = None) -> Tensor:
    """As :class:`Tensor`, by PyTorch's name."""
    return Tensor(data, dtype, device)


def from_dlpack(x: Any, /, *, device: str | _native.Device | None = None, copy: bool | None = None) -> Tensor:
    """Anything with ``__dlpack__`` as a tensor: in place if it is memory of the device, else a copy."""
    if isinstance(x, Tensor):
        moved = Tensor(x, device=device)
        return operate("copy", [moved])[0] if copy else moved
    if not hasattr(x, "__dlpack__"):
        raise ArgumentError(f"a {type(x).__name__} has no __dlpack__")
    on = device_of(device)
    shared = on.dlpack_stream is not None and tuple(map(int, x.__dlpack_device__())) == on.dlpack_device
    if copy is False and not shared:
        raise BufferError(f"memory that is not of {on} is taken as a copy")
    made = _of_dlpack(x, on)
    return operate("copy", [made])[0] if copy and shared else made
