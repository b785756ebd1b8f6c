"""``warpfold.interpret_numba`` and ``run_numba``: kernels of numba-cuda without a GPU."""

import inspect

import numpy as np
import pytest

import warpfold

pytest.importorskip("numba")
cuda = pytest.importorskip("numba.cuda")
numba = pytest.importorskip("numba")


def nothing(x):
    pass


def has_nvvm():
    try:
        warpfold.run_numba(nothing, 1, 1, [1])
    except (warpfold.Error, ImportError):
        return False
    return True


pytestmark = pytest.mark.skipif(not has_nvvm(), reason="numba-cuda or NVVM is not installed")


@cuda.jit
def scale(out, x, factor):
    i = cuda.grid(1)
    if i < out.shape[0]:
        out[i] = x[i, 1] * factor


@cuda.jit
def reverse(out, x):
    tile = cuda.shared.array(64, numba.float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    out[t] = tile[63 - t]


def test_a_kernel_runs_with_arrays_of_any_layout():
    x = np.arange(300, dtype=np.float32).reshape(100, 3)
    for array in (x, np.asfortranarray(x), np.ascontiguousarray(x[::-1])[::-1]):
        out = np.zeros(100, np.float32)
        with warpfold.interpret_numba(check="deny") as session:
            scale[2, 64](out, array, 2.0)
        assert np.array_equal(out, x[:, 1] * 2)
        assert session.reports[0].kernel == "scale"


def test_forall_launches_as_many_threads_as_there_are_tasks():
    x, out = np.ones((200, 2), np.float32), np.zeros(200, np.float32)
    with warpfold.interpret_numba(check="deny") as session:
        scale.forall(200)(out, x, 3.0)
        scale.forall(200, tpb=64)(out, x, 3.0)
    assert (out == 3).all()
    assert [(report.grid[0], report.block[0]) for report in session.reports] == [(2, 128), (4, 64)]


def test_a_missing_barrier_is_found_at_its_python_line():
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    report = warpfold.run_numba(reverse, 1, 64, [out, x])
    races = [finding for finding in report.errors if finding.kind == "race"]
    start = inspect.getsourcelines(reverse.py_func)[1]
    assert races and {races[0].line, races[0].other.line} == {start + 4, start + 5}
    assert races[0].file == __file__
