"""For pytest: the fixture ``warpfold_check``, and ``--warpfold`` which gives it to every test.

A test fails if a kernel that it ran on the virtual GPU broke a rule. Warnings of what only luck orders (``warp_sync``,
``invalid_sync``, ``barrier_divergence``) fail it, too, unless ``--warpfold-allow KIND`` or the fixture's ``allow`` has
their kind.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .report import Finding, Report
    from .triton_interpreter import Interpreter

_SEVERITIES = ("info", "warning", "error")


class WarpfoldCheck:
    """What the kernels of a test did. ``fail_on`` is the least severity that fails it, whatever the kind; ``allow`` has
    kinds of warnings that rely on luck and fail nothing."""

    def __init__(self, allow: Iterable[str] = ()) -> None:
        self.reports: list[Report] = []
        self.fail_on = "error"
        self.allow = set(allow)

    @property
    def findings(self) -> list[Finding]:
        """All findings so far."""
        return [finding for report in self.reports for finding in report.findings]

    @property
    def failures(self) -> list[Finding]:
        """Those that fail the test."""
        least = _SEVERITIES.index(self.fail_on)
        return [
            finding
            for finding in self.findings
            if _SEVERITIES.index(finding.severity) >= least or finding.is_failure(self.allow)
        ]

    def clear(self) -> None:
        """Forgets what was found so far: for tests that expect findings."""
        self.reports.clear()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("warpfold")
    group.addoption(
        "--warpfold", action="store_true", help="fail tests whose kernels break rules; Triton's and numba's run on the virtual GPU"
    )
    group.addoption(
        "--warpfold-allow", action="append", default=[], metavar="KIND",
        help="let warnings of a kind that relies on luck pass: warp_sync, invalid_sync, barrier_divergence",
    )  # fmt: skip


def _run(check: WarpfoldCheck) -> Iterator[WarpfoldCheck]:
    import importlib.util

    from .report import listen

    interpreters: list[Interpreter] = []
    if importlib.util.find_spec("triton") is not None:
        from .triton_interpreter import TritonInterpreter

        interpreters.append(TritonInterpreter("all", "sm_90"))
    if "numba.cuda" in sys.modules:
        from .numba_interpreter import NumbaInterpreter

        interpreters.append(NumbaInterpreter("all", "sm_90"))
    try:
        for interpreter in interpreters:
            # It does not listen: the fixture says what was found.
            interpreter._install()
        with listen(check.reports.append):
            yield check
    finally:
        for interpreter in reversed(interpreters):
            interpreter._remove()
    if failures := check.failures:
        n = len(failures)
        text = "\n".join(finding.explain() for finding in failures)
        pytest.fail(f"warpfold: {n} finding{'' if n == 1 else 's'}\n{text}", pytrace=False)


@pytest.fixture
def warpfold_check(request: pytest.FixtureRequest) -> Iterator[WarpfoldCheck]:
    """Runs the test's kernels of Triton and numba on the virtual GPU, and fails the test on findings of any kernel that it ran."""
    yield from _run(WarpfoldCheck(request.config.getoption("--warpfold-allow")))


@pytest.fixture(autouse=True)
def _warpfold_everywhere(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.config.getoption("--warpfold") and "warpfold_check" not in request.fixturenames:
        yield from _run(WarpfoldCheck(request.config.getoption("--warpfold-allow")))  # type: ignore[misc]
    else:
        yield
