"""DLPack both ways: whose memory it is, who may write to it, and when it is given back."""

import gc

import numpy as np
import pytest

import warpfold
from warpfold import Tensor, _native

DEVICE = warpfold.Device("virtual")
X = np.arange(12, dtype=np.float32).reshape(3, 4)


class Versioned:
    """Asks as a consumer of DLPack 1.0 does; of NumPy only from 2.1 on."""

    def __init__(self, tensor, **options):
        self.tensor, self.options = tensor, options

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**{**options, "max_version": (1, 1), **self.options})

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def test_others_read_the_tensors_own_memory_and_cannot_write_to_it():
    t = Tensor(X, device=DEVICE)
    first, second = np.from_dlpack(Versioned(t)), np.from_dlpack(Versioned(t))
    assert np.shares_memory(first, second) and np.array_equal(first, X)
    view = np.from_dlpack(Versioned(t.T[::-1]))
    assert np.shares_memory(view, first) and np.array_equal(view, X.T[::-1]) and view.strides == (-4, 16)
    assert not first.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 5
    assert t.__dlpack_device__() == (1, 0)


def test_a_copy_is_the_takers_own():
    t = Tensor(X, device=DEVICE)
    copy = np.from_dlpack(Versioned(t, copy=True))
    copy[0, 0] = 5
    assert copy.flags.writeable and t[0, 0].item() == 0
    before_versions = t.__dlpack__()
    assert '"dltensor"' in repr(before_versions)
    taken = warpfold.tensors._wrap(_native.from_dlpack(DEVICE, before_versions))
    assert np.array_equal(taken.numpy(), X)
    for options, reason in [
        ({"copy": False}, "may only be read, which capsules say from DLPack 1.0 on"),
        ({"dl_device": (2, 0)}, r"on device \(1, 0\) of DLPack is given away there or on the CPU, \(1, 0\), not on \(2, 0\)"),
    ]:
        with pytest.raises(BufferError, match=reason):
            t.__dlpack__(**options)


def test_memory_lives_as_long_as_somebody_has_it_and_no_longer():
    gc.collect()
    before = DEVICE.allocated_bytes
    t = Tensor(X, device=DEVICE)
    array = np.from_dlpack(Versioned(t[1]))
    del t
    gc.collect()
    Tensor(np.full((3, 4), 7, np.float32), device=DEVICE)
    assert DEVICE.allocated_bytes > before and np.array_equal(array, X[1])
    del array
    gc.collect()
    assert DEVICE.allocated_bytes == before
    for version in (None, (1, 0)):
        capsule = Tensor(X, device=DEVICE).__dlpack__(max_version=version)
        assert DEVICE.allocated_bytes > before
        # Nobody took it.
        del capsule
        gc.collect()
        assert DEVICE.allocated_bytes == before


def test_a_capsule_is_taken_once():
    for version, name in ((None, "dltensor"), ((1, 1), "dltensor_versioned")):
        capsule = Tensor(X, device=DEVICE).__dlpack__(max_version=version)
        made = _native.from_dlpack(DEVICE, capsule)
        assert list(made.shape) == [3, 4] and f'"used_{name}"' in repr(capsule)
        with pytest.raises(warpfold.ArgumentError, match="holds no DLPack tensor, or somebody took it already"):
            _native.from_dlpack(DEVICE, capsule)


class OfGpu:
    """An array of another library on a GPU."""

    def __init__(self, copies):
        self.copies, self.asked = copies, None

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, *, max_version=None, dl_device=None, stream=None):
        self.asked = dl_device
        if not self.copies or dl_device != (1, 0):
            raise BufferError("stays on its GPU")
        return X.__dlpack__(max_version=max_version)


def test_what_is_on_a_gpu_comes_as_the_copy_that_its_owner_makes():
    array = OfGpu(copies=True)
    assert np.array_equal(Tensor(array, device=DEVICE).numpy(), X) and array.asked == (1, 0)
    with pytest.raises(warpfold.ArgumentError, match=r"DLPack device 2 is not the CPU .*stays on its GPU.*copy the array"):
        Tensor(OfGpu(copies=False), device=DEVICE)


def test_what_is_taken_from_the_cpu_is_a_copy():
    class Other:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            # From before DLPack 1.0.
            if options:
                raise TypeError("unexpected keyword argument")
            return self.array.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    source = X.copy()
    for array in (source, source.T, source[::2, ::-1], source[:0], source[0, 0, ...]):
        t = warpfold.from_dlpack(Other(np.asarray(array)), device=DEVICE)
        assert np.array_equal(t.numpy(), array) and t.shape == array.shape
    t = warpfold.from_dlpack(Other(source), device=DEVICE)
    source[0, 0] = 5
    assert t[0, 0].item() == 0
    with pytest.raises(BufferError, match="memory that is not of virtual:h200 is taken as a copy"):
        warpfold.from_dlpack(Other(source), device=DEVICE, copy=False)
    with pytest.raises(warpfold.ArgumentError, match="a list has no __dlpack__"):
        warpfold.from_dlpack([1])
    with pytest.raises(warpfold.ArgumentError, match="code 5, 64 bits"):
        warpfold.from_dlpack(Other(np.zeros(2, np.complex64)), device=DEVICE)
