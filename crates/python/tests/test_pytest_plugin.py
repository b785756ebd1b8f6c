"""The plugin for pytest: a test fails on findings."""

import importlib.util

import pytest

from kernels import RACE, VECTOR_ADD

if importlib.util.find_spec("triton") is not None:
    # pytester forgets what a test imports, and Triton's library does not bear to be loaded twice.
    import triton.compiler.compiler  # noqa: F401

PRELUDE = f"import numpy as np, pytest, warpfold\nADD = {VECTOR_ADD!r}\nRACE = {RACE!r}\n"

RACY = PRELUDE + "def test_racy(warpfold_check):\n    warpfold.run(RACE, None, 1, None, [np.zeros(1, np.uint32)])\n"


def test_a_test_with_findings_fails_and_says_which(pytester):
    pytester.makepyfile(RACY)
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*warpfold: * finding*", "*race in kernel race at made_up.py:*"])


def test_a_test_without_findings_passes(pytester):
    pytester.makepyfile(
        PRELUDE + "def test_clean(warpfold_check):\n"
        "    a = np.ones(64, np.float32)\n"
        "    warpfold.run(ADD, None, 1, 64, [a, a.copy(), a.copy(), 64])\n"
        "    assert len(warpfold_check.reports) == 1\n"
    )
    pytester.runpytest().assert_outcomes(passed=1)


def test_findings_that_are_expected_can_be_cleared(pytester):
    pytester.makepyfile(RACY + "    assert warpfold_check.failures\n    warpfold_check.clear()\n")
    pytester.runpytest().assert_outcomes(passed=1)


def test_the_option_gives_the_fixture_to_every_test(pytester):
    pytester.makepyfile(RACY.replace("warpfold_check", ""))
    pytester.runpytest().assert_outcomes(passed=1)
    pytester.runpytest("--warpfold").assert_outcomes(passed=1, errors=1)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_the_fixture_runs_tritons_kernels_on_the_virtual_gpu(pytester):
    pytester.makepyfile(
        kernel="import triton, triton.language as tl\n"
        "@triton.jit\n"
        "def racy(out):\n"
        "    tl.store(out, tl.load(out) + 1)\n",
        test_kernel="import numpy as np\nfrom kernel import racy\n"
        "def test_racy(warpfold_check):\n"
        "    racy[(4,)](np.zeros(1, np.float32))\n",
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*race in kernel racy at *kernel.py:4*"])


def test_the_fixture_runs_numbas_kernels_on_the_virtual_gpu(pytester):
    pytest.importorskip("numba.cuda")
    if importlib.util.find_spec("nvidia") is None:
        pytest.skip("NVVM is not installed")
    pytester.makepyfile(
        kernel="from numba import cuda\n"
        "@cuda.jit\n"
        "def racy(out):\n"
        "    out[0] += 1\n",
        test_kernel="import numpy as np\nfrom kernel import racy\n"
        "def test_racy(warpfold_check):\n"
        "    racy[4, 32](np.zeros(1, np.float32))\n",
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*race in kernel racy at *kernel.py:4*"])
