"""For pytest: the fixture ``warpfold_check``, and ``--warpfold`` which gives it to every test.

A test fails if a kernel that it ran on the virtual GPU broke a rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .report import Finding, Report

_SEVERITIES = ("info", "warning", "error")


class WarpfoldCheck:
    """What the kernels of a test did. ``fail_on`` is the least severity that fails it."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.fail_on = "error"

    @property
    def findings(self) -> list[Finding]:
        """All findings so far."""
        return [finding for report in self.reports for finding in report.findings]

    @property
    def failures(self) -> list[Finding]:
        """Those that fail the test."""
        least = _SEVERITIES.index(self.fail_on)
        return [finding for finding in self.findings if _SEVERITIES.index(finding.severity) >= least]

    def clear(self) -> None:
        """Forgets what was found so far: for tests that expect findings."""
        self.reports.clear()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("warpfold")
    group.addoption(
        "--warpfold", action="store_true", help="fail tests whose kernels break rules; Triton's run on the virtual GPU"
    )


def _run(check: WarpfoldCheck) -> Iterator[WarpfoldCheck]:
    import importlib.util

    from .report import listen

    interpreter = None
    if importlib.util.find_spec("triton") is not None:
        from .triton_interpreter import TritonInterpreter

        interpreter = TritonInterpreter("all", "sm_90")
        # It does not listen: the fixture says what was found.
        interpreter._install()
    try:
        with listen(check.reports.append):
            yield check
    finally:
        if interpreter is not None:
            interpreter._remove()
    if failures := check.failures:
        n = len(failures)
        text = "\n".join(finding.explain() for finding in failures)
        pytest.fail(f"warpfold: {n} finding{'' if n == 1 else 's'}\n{text}", pytrace=False)


@pytest.fixture
def warpfold_check() -> Iterator[WarpfoldCheck]:
    """Runs the test's Triton kernels on the virtual GPU, and fails the test on findings of any kernel that it ran."""
    yield from _run(WarpfoldCheck())


@pytest.fixture(autouse=True)
def _warpfold_everywhere(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.config.getoption("--warpfold") and "warpfold_check" not in request.fixturenames:
        yield from _run(WarpfoldCheck())  # type: ignore[misc]
    else:
        yield
