"""``warpfold.run_cuda``: CUDA C++ by NVRTC, without a GPU."""

import importlib.util

import numpy as np
import pytest

import warpfold


def has_nvrtc():
    try:
        warpfold.compile_cuda("__global__ void k() {}\n")
    except warpfold.Error:
        return False
    return True


pytestmark = pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")

REVERSE = """\
template <typename T> __device__ T twice(T x) { return x + x; }

__global__ void reverse(float* out, const float* in, int n, float scale) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    tile[t] = in[t];
    // __syncthreads() is missing
    out[t] = twice(tile[n - 1 - t]) * scale;
}
"""


def test_a_missing_barrier_is_found_at_its_line():
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    report = warpfold.run_cuda(REVERSE, "reverse", 1, 64, [out, x, 64, 0.5])
    race = next(finding for finding in report.errors if finding.kind == "race")
    assert {race.line, race.other.line} == {6, 8} and "tile" in race.place
    assert "out[t] = twice(tile[n - 1 - t]) * scale;" in race.explain()
    right = REVERSE.replace("// __syncthreads() is missing", "__syncthreads();")
    report = warpfold.run_cuda(right, "reverse", 1, 64, [out, x, 64, 0.5], check="deny")
    assert np.array_equal(out, x[::-1])


def test_a_file_and_options_are_taken(tmp_path):
    path = tmp_path / "fill.cu"
    path.write_text('extern "C" __global__ void fill(int* out) {\n    out[threadIdx.x] = VALUE;\n}\n')
    out = np.zeros(30, np.int32)
    report = warpfold.run_cuda(path, None, 1, 32, [out], options=["-DVALUE=7"])
    assert (out == 7).all() and report.errors[0].file == str(path) and report.errors[0].line == 2


def test_the_compilers_log_is_the_message():
    with pytest.raises(warpfold.CompileError, match='identifier "y" is undefined'):
        warpfold.compile_cuda("__global__ void k(int* x) { *x = y; }\n")


def test_a_raw_kernel_brings_its_source():
    class RawKernel:
        code, name, options, backend = REVERSE, "reverse", ("-DUNUSED=1",), "nvrtc"

    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    assert warpfold.run_cuda(RawKernel(), None, 1, 64, [out, x, 64, 1.0]).errors


@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="CuPy is not installed")
def test_a_raw_kernel_of_cupy_brings_its_source():
    import cupy

    kernel = cupy.RawKernel('extern "C" ' + REVERSE.partition("\n\n")[2].replace("twice", ""), "reverse")
    module = cupy.RawModule(code='extern "C" ' + REVERSE.partition("\n\n")[2].replace("twice", ""))
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    for source in (kernel, module):
        report = warpfold.run_cuda(source, "reverse" if source is module else None, 1, 64, [out, x, 64, 1.0])
        assert "race" in {finding.kind for finding in report.errors}
