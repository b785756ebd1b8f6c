"""What a run did: counters, findings, and where in the source they are."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from .errors import FindingsError, FindingWarning
from .source import Frame, frames_of

__all__ = ["Access", "Counters", "Finding", "Instruction", "Prediction", "Report", "listen"]

Size3 = tuple[int, int, int]


@dataclasses.dataclass(frozen=True)
class Access:
    """One side of a finding: which instruction, by whom."""

    ptx_line: int
    instruction: str
    block: Size3
    thread: Size3
    frames: tuple[Frame, ...] = ()

    @property
    def frame(self) -> Frame | None:
        """The line to look at: the innermost one that is the user's."""
        own = [frame for frame in self.frames if not frame.is_library]
        return own[0] if own else self.frames[0] if self.frames else None

    @property
    def file(self) -> str | None:
        """The source file, where the PTX names one."""
        return self.frame.file if self.frame else None

    @property
    def line(self) -> int:
        """The line in the source file, or else in the PTX."""
        return self.frame.line if self.frame else self.ptx_line

    def _place(self) -> str:
        ptx = f"line {self.ptx_line} `{self.instruction}`"
        return f"{self.frame} (PTX {ptx})" if self.frame else ptx


@dataclasses.dataclass(frozen=True)
class Finding:
    """One broken rule, once for each pair of instructions."""

    kind: str
    severity: str
    kernel: str
    rule: str
    count: int
    access: Access
    other: Access | None = None
    address: int | None = None
    place: str | None = None

    @property
    def file(self) -> str | None:
        """The source file of the access that broke the rule."""
        return self.access.file

    @property
    def line(self) -> int:
        """Its line there, or else in the PTX."""
        return self.access.line

    @property
    def is_error(self) -> bool:
        """Whether it is wrong, and not merely works by luck."""
        return self.severity == "error"

    def is_failure(self, allow: Collection[str] = ()) -> bool:
        """Whether a test fails by it: an error, or a warning of what works only where hardware happens to run lanes in
        step or to leave out threads that a barrier or an exchange waits for, unless its kind is in ``allow``."""
        relies_on_luck = self.kind in ("warp_sync", "invalid_sync", "barrier_divergence")
        return self.is_error or self.severity == "warning" and relies_on_luck and self.kind not in allow

    def __str__(self) -> str:
        a, b = self.access, self.other
        if a.ptx_line == 0:
            # A copy to the host.
            return f"{self.severity}: {self.kind} of {self.place} after kernel {self.kernel}: {self.rule}"
        text = f"{self.severity}: {self.kind} in kernel {self.kernel} at {a._place()}"
        text += f" by block {list(a.block)} thread {list(a.thread)}"
        if self.address is not None:
            text += f", address {self.address:#x} ({self.place})"
        if b is not None:
            text += f"; other side: {b._place()} by block {list(b.block)} thread {list(b.thread)}"
        text += f": {self.rule}"
        return f"{text} ({self.count} times)" if self.count > 1 else text

    def explain(self) -> str:
        """The finding, and the source lines of both sides."""
        lines = [str(self)]
        frames = [side.frame for side in (self.access, self.other) if side and side.frame]
        by_line = {str(frame): frame.text for frame in frames}
        lines += [f"  {place}: {text}" for place, text in by_line.items() if text]
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class Instruction:
    """What one PTX instruction did."""

    function: str
    ptx_line: int
    instruction: str
    executions: int
    active_lanes: int
    divergent: int
    wavefronts: int
    bank_conflicts: int
    sectors: int
    frames: tuple[Frame, ...] = ()


class Counters(Mapping[str, int]):
    """Counters of a launch by name, with the meaning that NVIDIA's profilers give them; also as attributes."""

    def __init__(self, counters: Mapping[str, int]) -> None:
        self._counters = dict(counters)

    def __getitem__(self, name: str) -> int:
        return self._counters[name]

    def __getattr__(self, name: str) -> int:
        try:
            return int(self.__dict__["_counters"][name])
        except KeyError:
            raise AttributeError(f"no counter '{name}'; there are: {', '.join(self)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._counters)

    def __len__(self) -> int:
        return len(self._counters)

    def __repr__(self) -> str:
        return f"Counters({', '.join(f'{name}={count}' for name, count in self.items() if count)})"

    def __str__(self) -> str:
        width = max(map(len, self), default=0)
        return "\n".join(f"{name:{width}}  {count:>16,}" for name, count in self.items())


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The time that a launch would take on a GPU, launched again and again: predicted, not measured."""

    gpu: str
    seconds: float
    #: The range: what a twentieth of the launches that were measured on a GPU were below and above, by what binds them.
    low: float
    high: float
    #: The unit that takes longest, and the one that would bind next.
    binds: str
    next: str | None
    #: Blocks over those that the GPU keeps resident.
    waves: float
    blocks_per_sm: int
    dram_bytes: int
    #: The median relative error of predictions of this class that were measured on a GPU.
    median_error: float
    #: Seconds that each unit would take alone, the longest first; they overlap.
    parts: Mapping[str, float]
    #: All of it for people.
    text: str

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True)
class Report:
    """What a launch gave: outputs, counters, findings."""

    kernel: str
    grid: Size3
    block: Size3
    check: str
    #: Every array among the arguments, in order, as the launch left it.
    outputs: tuple[Any, ...]
    counters: Counters
    findings: tuple[Finding, ...]
    #: What each instruction did; empty unless asked for.
    instructions: tuple[Instruction, ...] = ()
    #: Whether the run ended at a fault, as hardware would have ended it.
    aborted: bool = False
    #: What the kernel printed.
    printed: str = ""
    #: The predicted time; none unless asked for.
    prediction: Prediction | None = None

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings of severity error."""
        return tuple(finding for finding in self.findings if finding.is_error)

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return not self.errors and not self.aborted

    def raise_for_findings(self, allow: Collection[str] = ()) -> None:
        """Raises a :class:`FindingsError` if the run ended at a fault or any finding is a failure."""
        if self.aborted or any(finding.is_failure(allow) for finding in self.findings):
            raise FindingsError(self)

    def summary(self) -> str:
        """The findings, with their source lines."""
        n = len(self.findings)
        head = f"{self.kernel}: {n or 'no'} finding{'' if n == 1 else 's'}"
        return "\n".join([head, *(finding.explain() for finding in self.findings)])

    def __str__(self) -> str:
        size = "x".join
        head = f"{self.kernel} on the virtual GPU: grid {size(map(str, self.grid))}, block {size(map(str, self.block))}"
        predicted = f"{self.prediction}\n\n" if self.prediction else ""
        return f"{head}, check {self.check}\n\n{self.counters}\n\n{predicted}{self.summary()}"


def make_report(
    raw: Mapping[str, Any],
    *,
    kernel: str,
    grid: Sequence[int],
    block: Sequence[int],
    check: str,
    outputs: Sequence[Any],
    source_file: str | None,
) -> Report:
    """A report of what the compiled half gives."""

    def access(side: Mapping[str, Any]) -> Access:
        block, thread = tuple(side["block"]), tuple(side["thread"])
        frames = frames_of(side["frames"], source_file)
        return Access(side["ptx_line"], side["instruction"], block, thread, frames)

    def finding(f: Mapping[str, Any]) -> Finding:
        sides = {"access": access(f["access"]), "other": access(f["other"]) if f["other"] else None}
        return Finding(**{**f, **sides})

    instructions = (
        Instruction(**{**i, "frames": frames_of(i["frames"], source_file)}) for i in raw.get("instructions", ())
    )
    return Report(
        kernel=kernel,
        grid=tuple(grid),  # type: ignore[arg-type]
        block=tuple(block),  # type: ignore[arg-type]
        check=check,
        outputs=tuple(outputs),
        counters=Counters(raw["counters"]),
        findings=tuple(finding(f) for f in raw["findings"]),
        instructions=tuple(instructions),
        aborted=raw["aborted"],
        printed=raw.get("printed", ""),
        prediction=Prediction(**raw["prediction"]) if raw.get("prediction") else None,
    )


_listeners: list[Callable[[Report], None]] = []


class listen:
    """Calls a function with the report of every launch inside of the ``with`` block."""

    def __init__(self, heard: Callable[[Report], None]) -> None:
        self._heard = heard

    def __enter__(self) -> None:
        _listeners.append(self._heard)

    def __exit__(self, *_: object) -> None:
        _listeners.remove(self._heard)


def publish(report: Report) -> None:
    """Tells who listens; raises where ``check="deny"`` was asked for."""
    for heard in list(_listeners):
        heard(report)
    if report.check == "deny":
        report.raise_for_findings()


def warn(report: Report) -> None:
    """Shows errors as warnings at their source lines."""
    for finding in report.errors:
        frame = finding.access.frame
        where = (frame.file, frame.line) if frame else (f"<PTX of {report.kernel}>", finding.access.ptx_line)
        warnings.warn_explicit(str(finding), FindingWarning, *where, module="warpfold", registry={})
