"""The README's programs do what the README says."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

README = (pathlib.Path(__file__).parents[1] / "README.md").read_text()
#: Those that stand for themselves.
PROGRAMS = [text for text in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if text.startswith("import numpy")]


def output(program, folder, name):
    path = folder / name
    path.write_text(program)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return path, done


def program_with(text):
    (program,) = (each for each in PROGRAMS if text in each)
    return program


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_the_race_of_the_first_program_is_found_at_its_line(tmp_path):
    program = program_with("triton.language")
    path, done = output(program, tmp_path, "total.py")
    line = next(n for n, text in enumerate(program.splitlines(), start=1) if "should be tl.atomic_add" in text)
    assert f"error: race in kernel total_kernel at {path}:{line} (PTX line" in done.stdout
    assert "total_kernel: 3 findings" in done.stdout and "total_kernel: 3 findings" in README
    assert f"total.py:{line} (PTX line" in README
    assert f"{path}:{line}: FindingWarning: error: race" in done.stderr


def test_the_program_with_tensors_runs(tmp_path):
    _, done = output(program_with("import warpfold.functional"), tmp_path, "tensors.py")
    assert done.stdout.startswith("(8, 8) (8, 3) (")


def test_the_program_with_cuda_finds_the_missing_barrier(tmp_path):
    import warpfold

    try:
        warpfold.compile_cuda("__global__ void k() {}\n")
    except warpfold.Error:
        pytest.skip("NVRTC is not installed")
    _, done = output(program_with("run_cuda"), tmp_path, "reverse.py")
    assert "race in kernel" in done.stdout and "// __syncthreads() is missing" in done.stdout


def test_every_program_is_run():
    assert len(PROGRAMS) == 3
