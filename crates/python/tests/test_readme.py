"""The README's program does what the README says."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest

README = (pathlib.Path(__file__).parents[1] / "README.md").read_text()


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_the_race_of_the_first_program_is_found_at_its_line(tmp_path):
    program = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
    path = tmp_path / "total.py"
    path.write_text(program)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True, timeout=300)
    line = next(n for n, text in enumerate(program.splitlines(), start=1) if "should be tl.atomic_add" in text)
    assert f"error: race in kernel total_kernel at {path}:{line} (PTX line" in done.stdout
    assert "total_kernel: 2 findings" in done.stdout and "total_kernel: 2 findings" in README
    assert f"total.py:{line} (PTX line" in README
    assert f"{path}:{line}: FindingWarning: error: race" in done.stderr
