"""Tensors whose elements nothing has written: what ``torch.empty`` and its like give inside of an interpreter's block.

Such a tensor is filled with a number that no computation gives (a NaN with a payload), and counts as not initialised
where it still has that number and no kernel has written it: a kernel that uses such an element is found. An operation of
PyTorch that writes in place raises the tensor's version; from then on elements of integers of 16 bits, of which any may
have that number, count as written. Not followed: elements of one byte, NumPy's arrays, tensors of other devices, and
what ``from torch import empty`` took before the block.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

__all__ = ["UnwrittenTensors", "unwritten_in"]

#: Half of the number; a NaN in each floating-point type of 16 bits or more.
_FILL = 0xFFA5
_MAKERS = (("torch", "empty"), ("torch", "empty_like"), ("torch", "empty_strided"), ("Tensor", "new_empty"))


class _Storage:
    """The memory of a tensor, in units of two bytes."""

    def __init__(self, tensor: Any) -> None:
        storage = tensor.untyped_storage()
        self.address: int = storage.data_ptr()
        self.item: int = tensor.element_size()
        self.is_float: bool = tensor.is_floating_point() or tensor.is_complex()
        self.tensor = weakref.ref(tensor)
        self.content = np.ctypeslib.as_array(
            (ctypes.c_uint16 * (storage.nbytes() // 2)).from_address(self.address)
        )
        self.content[:] = _FILL
        self.version = tensor._version
        #: Which units no kernel has written.
        self.is_left = np.ones(self.content.size, bool)

    def unwritten(self, low: int, high: int) -> np.ndarray:
        """Which units between two addresses nothing has written."""
        tensor = self.tensor()
        first, last = (low - self.address) // 2, (high - self.address) // 2
        if tensor is None or tensor._version != self.version and self.item == 2 and not self.is_float:
            return np.zeros(last - first, bool)
        unwritten = self.is_left & (self.content == _FILL)
        units = self.item // 2
        whole = unwritten.size // units * units
        rows = unwritten[:whole].reshape(-1, units)
        # An element is written by all of its bytes.
        rows[:] = rows.all(axis=1, keepdims=True)
        unwritten[whole:] = False
        between: np.ndarray = unwritten[first:last]
        return between


_storages: dict[int, _Storage] = {}


class UnwrittenRange:
    """A range of addresses of which parts are not written."""

    def __init__(self, storage: _Storage, low: int, high: int) -> None:
        self._storage, self._low, self._high = storage, low, high
        self._unwritten = storage.unwritten(low, high)

    def __bool__(self) -> bool:
        return bool(self._unwritten.any())

    def written(self) -> Iterator[tuple[int, int]]:
        """The runs that are written, each by its first byte from the start on and the one behind it."""
        edges = np.flatnonzero(np.diff(self._unwritten, prepend=True, append=True)) * 2
        yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        if (self._high - self._low) % 2:
            yield self._high - self._low - 1, self._high - self._low

    def leave(self, runs: list[tuple[int, int]]) -> None:
        """A launch has left these runs unwritten, and no others; what it has copied back there is of no meaning."""
        first = (self._low - self._storage.address) // 2
        left = np.zeros(self._unwritten.size, bool)
        for start, end in runs:
            left[start // 2 : -(-end // 2)] = True
        left &= self._unwritten
        self._storage.is_left[first : first + left.size] = left
        self._storage.content[first : first + left.size][left] = _FILL


def unwritten_in(owner: int, low: int, high: int) -> UnwrittenRange | None:
    """What is not written between two addresses of the memory that starts at ``owner``; None where all is."""
    storage = _storages.get(owner)
    if storage is None or (low - owner) % 2 or high - owner > 2 * storage.content.size + 1:
        return None
    return UnwrittenRange(storage, low, high) or None


def _follow(tensor: Any) -> Any:
    """Notes that nothing has written a tensor."""
    is_plain = tensor.device.type == "cpu" and str(tensor.layout) == "torch.strided" and tensor.element_size() > 1
    if is_plain and tensor.numel() and tensor.untyped_storage().data_ptr():
        storage = _Storage(tensor)
        _storages[storage.address] = storage
        address = storage.address

        def gone(_: object) -> None:
            if _storages.get(address) is storage:
                del _storages[address]

        storage.tensor = weakref.ref(tensor, gone)
    return tensor


class UnwrittenTensors:
    """Follows the tensors that PyTorch's functions make without writing them, from ``install`` until ``remove``."""

    #: How many are installed.
    _open = 0
    _undo: list[Callable[[], None]] = []

    def install(self) -> None:
        torch = sys.modules.get("torch")
        if torch is None:
            return
        cls = UnwrittenTensors
        cls._open += 1
        if cls._open == 1:
            for where, name in _MAKERS:
                self._replace(torch if where == "torch" else torch.Tensor, name)
        self._is_installed = True

    def remove(self) -> None:
        cls = UnwrittenTensors
        if not getattr(self, "_is_installed", False):
            return
        self._is_installed = False
        cls._open -= 1
        if cls._open == 0:
            while cls._undo:
                cls._undo.pop()()
            _storages.clear()

    @staticmethod
    def _replace(place: Any, name: str) -> None:
        made = getattr(place, name)
        has_own = name in vars(place)

        def make(*args: Any, **kwargs: Any) -> Any:
            tensor = made(*args, **kwargs)
            return tensor if kwargs.get("out") is not None else _follow(tensor)

        def undo() -> None:
            if has_own:
                setattr(place, name, made)
            else:
                delattr(place, name)

        make.__name__, make.__doc__ = name, made.__doc__
        setattr(place, name, make)
        UnwrittenTensors._undo.append(undo)
