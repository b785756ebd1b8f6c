"""``warpfold.interpret_triton``: Triton's kernels without a GPU."""

import warnings

import numpy as np
import pytest

import warpfold

pytest.importorskip("triton")
import triton  # noqa: E402
import triton_kernels as kernels  # noqa: E402


def line_of(note):
    with open(kernels.__file__) as file:
        return next(number for number, line in enumerate(file, start=1) if line.rstrip().endswith(note))


def vectors(n=1000):
    x = np.random.default_rng(7).random(n, dtype=np.float32)
    return x, 2 * x, np.zeros_like(x)


def test_a_kernel_runs_and_writes_its_output():
    x, y, out = vectors()
    with warpfold.interpret_triton() as session:
        kernels.add_kernel[(triton.cdiv(x.size, 256),)](x, y, out, x.size, BLOCK=256)
    assert np.array_equal(out, x + y)
    (report,) = session.reports
    assert report.ok and report.grid == (4, 1, 1) and report.counters.global_load_requests > 0


def test_a_grid_may_be_a_function_and_arguments_may_be_named():
    x, y, out = vectors()
    with warpfold.interpret_triton():
        kernels.add_kernel[lambda meta: (triton.cdiv(x.size, meta["BLOCK"]),)](x, y, out=out, n=x.size, BLOCK=128)
    assert np.array_equal(out, x + y)


def test_a_race_is_found_at_its_python_lines():
    x, total = np.ones(1024, np.float32), np.zeros(1, np.float32)
    with pytest.warns(warpfold.FindingWarning, match="race in kernel count_kernel") as warned, \
            warpfold.interpret_triton() as session:
        kernels.count_kernel[(4,)](x, total, 1024, BLOCK=256)
    lines = {line_of("store it: read"), line_of("store it: written")}
    races = [finding for finding in session.errors if finding.kind == "race"]
    assert races and all(race.file == kernels.__file__ for race in races)
    assert {race.line for race in races} <= lines and {race.other.line for race in races} <= lines
    assert {race.line for race in races} | {race.other.line for race in races} == lines
    assert any((race.place or "").startswith("total") for race in races)
    assert {(warning.filename, warning.lineno) for warning in warned} <= {(kernels.__file__, line) for line in lines}
    assert "tl.load(total)" in races[0].explain() or "tl.store(total" in races[0].explain()


def test_deny_raises_at_the_launch():
    x, out = np.ones(100, np.float32), np.zeros(128, np.float32)
    with warpfold.interpret_triton(check="deny") as session, \
            pytest.raises(warpfold.FindingsError, match="out_of_bounds") as error:
        kernels.overrun_kernel[(1,)](x, out, BLOCK=128)
    assert {finding.line for finding in error.value.report.errors} == {line_of("no mask")}
    assert session.reports == [error.value.report]


def test_scalars_go_as_the_kernel_declares_them():
    x = np.arange(64, dtype=np.float32)
    with warpfold.interpret_triton(check="deny"):
        kernels.scale_kernel[(1,)](x, 3.0, 0.5, np.int32(60), BLOCK=64, num_warps=2)
    expected = np.arange(64, dtype=np.float32)
    expected[:60] = expected[:60] * 3 + 0.5
    assert np.array_equal(x, expected)


def test_every_configuration_of_an_autotuner_is_checked():
    x, _, out = vectors()
    with warpfold.interpret_triton(check="deny") as session:
        kernels.tuned_kernel[lambda meta: (triton.cdiv(x.size, meta["BLOCK"]),)](x, out, x.size)
    assert np.array_equal(out, x + 1)
    assert {report.grid for report in session.reports} == {(8, 1, 1), (4, 1, 1)}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_tensor_cores_multiply(arch):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 4, (64, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    with warpfold.interpret_triton(check="deny", arch=arch):
        kernels.matmul_kernel[(1,)](a, b, c, M=64, N=64, K=64, num_warps=4)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("makes", ["inside", "outside"])
def test_descriptors_that_the_host_made_are_taken(arch, makes):
    descriptors = pytest.importorskip("triton.tools.tensor_descriptor")
    of_tensor = lambda array, shape: descriptors.TensorDescriptor.from_tensor(array, shape)  # noqa: E731
    rng = np.random.default_rng(2)
    x, y = (rng.integers(-4, 4, (128, 128)).astype(np.float16) for _ in range(2))
    out = np.zeros((128, 128), np.float32)
    arrays = (x, y, out)
    if makes == "outside":
        # There, Triton takes tensors only.
        torch = pytest.importorskip("torch")
        args = [of_tensor(torch.from_numpy(array), [64, 64]) for array in arrays]
    with warpfold.interpret_triton(check="deny", arch=arch) as session:
        if makes == "inside":
            args = [of_tensor(array, [64, 64]) for array in arrays]
        kernels.descriptor_kernel[(2, 2)](*args, 128, M=64, N=64, STEP=64, num_warps=4)
    assert np.array_equal(out, x.astype(np.float32) @ y.astype(np.float32))
    assert len(session.reports[0].outputs) == 3


def test_a_descriptor_pads_with_what_it_says():
    from triton.tools.tensor_descriptor import TensorDescriptor

    x = np.arange(10, dtype=np.float32)
    for padding, beyond in (("zero", 0), ("nan", np.nan)):
        out = np.ones(8, np.float32)
        with warpfold.interpret_triton(check="deny"):
            kernels.edge_kernel[(1,)](TensorDescriptor(x, [10], [1], [8], padding), out, N=8)
        assert np.array_equal(out, [6, 7, 8, 9] + [beyond] * 4, equal_nan=True)
    with warpfold.interpret_triton(), pytest.raises(warpfold.ArgumentError, match="floating-point elements, not of int32"):
        TensorDescriptor(x.astype(np.int32), [10], [1], [8], "nan")


def test_a_race_through_descriptors_is_found_at_its_python_line():
    from triton.tools.tensor_descriptor import TensorDescriptor

    x, out = np.arange(256, dtype=np.float32), np.zeros(64, np.float32)
    with pytest.warns(warpfold.FindingWarning), warpfold.interpret_triton() as session:
        of_tensor = TensorDescriptor.from_tensor
        kernels.same_place_kernel[(4,)](of_tensor(x, [64]), of_tensor(out, [64]), N=64)
    races = [finding for finding in session.errors if finding.kind == "race"]
    assert races and {race.line for race in races} == {line_of("every program stores here")}
    assert (races[0].place or "").startswith("out")


def test_uninitialised_outputs_are_marked_by_out():
    x, y, _ = vectors()
    out = warpfold.Out(x.shape, np.float32)
    with warpfold.interpret_triton(check="deny"):
        kernels.add_kernel[(4,)](x, y, out, x.size, BLOCK=256)
        assert np.array_equal(out.array, x + y)
        with pytest.raises(warpfold.FindingsError, match="uninitialized"):
            kernels.add_kernel[(4,)](x, warpfold.Out(x.shape, np.float32), out, x.size, BLOCK=256)


def test_after_the_block_triton_is_as_before():
    from triton.runtime.jit import JITFunction

    before = JITFunction.run
    with warpfold.interpret_triton():
        assert JITFunction.run is not before
    assert JITFunction.run is before
    with pytest.raises(RuntimeError, match="[Aa]ctive"), warnings.catch_warnings():
        kernels.add_kernel[(1,)](*vectors(), 1000, BLOCK=256)


def test_what_cannot_be_is_refused():
    with pytest.raises(warpfold.ArgumentError, match="arch is sm_80"):
        warpfold.interpret_triton(arch="sm_100")
    with pytest.raises(warpfold.ArgumentError, match="check is"):
        warpfold.interpret_triton(check="some")


@pytest.mark.parametrize("n", [16, 32, 64, 128, 256])
def test_tiles_smaller_than_their_block_are_right_and_in_no_race(n):
    x, out = np.random.default_rng(3).random((5, n), dtype=np.float32), np.zeros(5, np.float32)
    with warpfold.interpret_triton(check="all") as session:
        kernels.square_kernel[(5,)](x, out, n, BLOCK=n, num_warps=4)
        kernels.scale_kernel[(1,)](x, 2.0, 1.0, n, BLOCK=n, num_warps=4)
    assert not session.errors, session


def test_what_lies_beyond_one_array_is_never_another_one():
    x, y, out = np.zeros(1024, np.float32), np.ones(4096, np.float32), np.zeros(256, np.float32)
    for distance in range(1024, 8192, 256):
        with warpfold.interpret_triton() as session, pytest.warns(warpfold.FindingWarning):
            kernels.far_kernel[(1,)](x, y, out, distance, BLOCK=256)
        assert [finding.kind for finding in session.errors] == ["out_of_bounds"], distance


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_sums_of_products_in_halves_are_right(arch):
    a, b = (np.random.default_rng(5).standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros_like(a)
    with warpfold.interpret_triton(arch=arch) as session:
        kernels.half_matmul_kernel[(1,)](a, b, c, 64, M=64, N=64, STEP=64)
    assert np.abs(c - a.astype(np.float32) @ b).max() < 0.1
    assert not session.errors and all("C7517" in finding.rule for finding in session.findings), session
