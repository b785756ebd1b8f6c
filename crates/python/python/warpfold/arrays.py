"""Arrays of the host as memory of a launch: NumPy's, CPU tensors of PyTorch, anything with ``__dlpack__``."""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from . import _native
from .errors import ArgumentError
from .unwritten import UnwrittenRange, unwritten_in

__all__ = ["HostArray", "LaunchMemory", "Out", "Scratch", "host_array"]

#: Allocations of a device start at multiples of this; a view keeps its distance from one.
_ALIGNMENT = 256


class Out:
    """An output whose content counts as not initialised: a kernel that reads it before it wrote it is found.

    ``Out(shape, dtype)`` makes the array, ``Out(array)`` takes one; it is in ``array``.
    """

    def __init__(self, shape: Any, dtype: Any = None) -> None:
        is_array = dtype is None and hasattr(shape, "dtype") and hasattr(shape, "shape")
        self.array = shape if is_array else np.zeros(shape, np.float32 if dtype is None else dtype)

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    @property
    def shape(self) -> Any:
        return self.array.shape

    def data_ptr(self) -> int:
        """The address of its first element, as PyTorch's tensors have it."""
        made = host_array(self.array, "out")
        assert made is not None
        return made.address


class Scratch(Out):
    """Memory that a kernel uses, and nobody reads afterwards."""


@dataclasses.dataclass
class AtAddress:
    """A parameter that depends on where an array of the launch is: a tensor map."""

    array: Any
    #: The parameter's bytes for a device address.
    encode: Callable[[int], bytes]


@dataclasses.dataclass
class HostArray:
    """An array in the host's memory: the bytes from ``low`` up to ``high``."""

    name: str
    #: Of the element at index 0.
    address: int
    low: int
    high: int
    #: Where the allocation starts that it is a view of.
    owner: int
    is_writable: bool
    is_initialized: bool
    #: What the report's outputs have.
    result: Any
    #: Whether anybody reads it after the launch.
    is_read: bool = True

    def runs(self) -> Iterator[tuple[int, int]]:
        """Where its elements lie: pieces without gaps, each by its first byte from ``address`` on and its length."""
        result = self.result
        if self.low == self.high:
            return
        item = result.element_size() if hasattr(result, "element_size") else result.itemsize
        strides = [n * item for n in result.stride()] if hasattr(result, "stride") else result.strides
        sizes = [(abs(stride), n) for n, stride in zip(result.shape, strides, strict=True) if n > 1 and stride]
        start, num_bytes = self.low - self.address, item
        rows: list[range] = []
        for distance, n in sorted(sizes):
            if distance == num_bytes and not rows:
                num_bytes *= n
            else:
                rows.append(range(0, distance * n, distance))
        for offsets in itertools.product(*rows):
            yield start + sum(offsets), num_bytes


def _span(address: int, shape: Sequence[int], strides: Sequence[int], item: int) -> tuple[int, int]:
    """The bytes that the elements lie in; strides are in bytes."""
    if 0 in shape:
        return address, address
    reach = [(n - 1) * stride for n, stride in zip(shape, strides, strict=True)]
    return address + sum(r for r in reach if r < 0), address + sum(r for r in reach if r > 0) + item


def _of_numpy(array: np.ndarray, name: str) -> HostArray:
    if array.dtype.hasobject:
        raise ArgumentError(f"{name} is an array of Python objects, which no kernel reads")
    address = array.__array_interface__["data"][0]
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    start = owner.__array_interface__["data"][0]
    low, high = _span(address, array.shape, array.strides, array.itemsize)
    return HostArray(name, address, low, high, min(start, low), array.flags.writeable, True, array)


def _of_torch(tensor: Any, name: str) -> HostArray:
    device = getattr(getattr(tensor, "device", None), "type", "cpu")
    if device != "cpu":
        raise ArgumentError(f"{name} is on {device}; the virtual GPU takes tensors on the CPU: move it with .cpu()")
    item = tensor.element_size()
    address = tensor.data_ptr()
    strides = [n * item for n in tensor.stride()]
    low, high = _span(address, tuple(tensor.shape), strides, item)
    start = tensor.untyped_storage().data_ptr() if hasattr(tensor, "untyped_storage") else low
    return HostArray(name, address, low, high, start, True, True, tensor)


def host_array(value: Any, name: str) -> HostArray | None:
    """The memory of an array of any library; None for what is no array."""
    if isinstance(value, Out):
        made = host_array(value.array, name)
        is_read = not isinstance(value, Scratch)
        return made and dataclasses.replace(made, is_initialized=False, is_read=is_read)
    if isinstance(value, AtAddress):
        return host_array(value.array, name)
    if isinstance(value, np.generic | int | float | bytes | None):
        return None
    if isinstance(value, np.ndarray):
        return _of_numpy(value, name)
    if hasattr(value, "data_ptr") and hasattr(value, "element_size"):
        return _of_torch(value, name)
    if hasattr(value, "__array_interface__"):
        return _of_numpy(np.asarray(value), name)
    if hasattr(value, "__dlpack__"):
        # What has no writable memory here is copied: its result is a new array.
        array = np.from_dlpack(value)
        return _of_numpy(array if array.flags.writeable else array.copy(), name)
    return None


@dataclasses.dataclass
class _Block:
    """Arrays that overlap, and so share an allocation."""

    arrays: list[HostArray]
    low: int
    high: int
    allocation: int = 0
    start: int = 0
    #: What nothing has written of tensors that are followed.
    unwritten: UnwrittenRange | None = None

    def bytes(self) -> memoryview:
        return memoryview((ctypes.c_ubyte * (self.high - self.low)).from_address(self.low)).cast("B")


class LaunchMemory:
    """The arrays of a launch, brought to a device's memory; brought back and freed with the ``with`` block."""

    def __init__(self, memory: _native.Memory, arrays: Sequence[HostArray]) -> None:
        self._memory = memory
        self._blocks: list[_Block] = []
        for array in sorted(arrays, key=lambda a: a.low):
            last = self._blocks[-1] if self._blocks else None
            is_same = last is not None and (array.low < last.high or (array.low, array.high) == (last.low, last.high))
            if last is not None and is_same:
                last.arrays.append(array)
                last.high = max(last.high, array.high)
            else:
                self._blocks.append(_Block([array], array.low, array.high))

    def __enter__(self) -> LaunchMemory:
        for block in self._blocks:
            # The first array names it. A view keeps the alignment that it has on a GPU.
            before = (block.low - min(a.owner for a in block.arrays)) % _ALIGNMENT
            num_bytes = max(1, block.high - block.low)
            block.allocation = self._memory.allocate(before + num_bytes, block.arrays[0].name)
            block.start = block.allocation + before
            if block.high > block.low and any(a.is_initialized for a in block.arrays):
                if all(a.is_initialized for a in block.arrays):
                    block.unwritten = unwritten_in(block.arrays[0].owner, block.low, block.high)
                for start, end in block.unwritten.written() if block.unwritten else [(0, block.high - block.low)]:
                    self._memory.write(block.start + start, block.bytes()[start:end])
        return self

    def address(self, array: HostArray) -> int:
        """The device address of an array's element at index 0."""
        block = next(b for b in self._blocks if any(a is array for a in b.arrays))
        return block.start + array.address - block.low

    def unwritten(self) -> list[dict[str, Any]]:
        """What the checks say of reading the arrays back: findings, one for each array that has any."""
        findings: list[dict[str, Any]] = []
        # Whether the program reads all of a tensor that it has not written is not known.
        blocks = (block for block in self._blocks if not block.unwritten)
        for array in (array for block in blocks for array in block.arrays if array.is_read):
            start = self.address(array)
            reads = (self._memory.host_read(start + offset, num_bytes) for offset, num_bytes in array.runs())
            findings += next((found for found in reads if found), [])
        return findings

    def read_back(self) -> None:
        """Copies what a launch left over the arrays that can be written."""
        for block in self._blocks:
            for array in block.arrays:
                if not array.is_writable:
                    array.result = self._copy_of(array)
            if block.high > block.low and any(a.is_writable for a in block.arrays):
                self._memory.read(block.start, block.bytes())
            if block.unwritten:
                block.unwritten.leave(self._memory.unwritten(block.start, block.high - block.low))

    def _copy_of(self, array: HostArray) -> np.ndarray:
        """What a launch left of an array that cannot be written."""
        old = array.result
        content = np.zeros(array.high - array.low, np.uint8)
        if content.size:
            self._memory.read(self.address(array) - (array.address - array.low), content.data)
        return np.ndarray(old.shape, old.dtype, content, array.address - array.low, old.strides)

    def __exit__(self, *_: object) -> None:
        for block in self._blocks:
            if block.allocation:
                self._memory.free(block.allocation)
                block.allocation = 0
