"""From lines of PTX to lines of the source that they were compiled from, by the ``.loc`` directives of PTX."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import linecache
import os
import re

__all__ = ["Frame", "SourceMap"]

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"')
_LOC = re.compile(
    r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)"
    r"(?:\s*,\s*function_name\s+([^\s,]+)\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?"
)
_START = re.compile(r"^\s*(?:\.(?:visible|weak|extern|noreturn)\s+)*\.(?:entry|func)\b")


@dataclasses.dataclass(frozen=True)
class Frame:
    """A place in a source file."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def text(self) -> str:
        """The line itself, without its indentation; empty if the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def is_library(self) -> bool:
        """Whether it lies inside Triton or numba and not in a kernel of the user's."""
        parts = os.path.normpath(self.file).replace("\\", "/").split("/")
        return "triton" in parts[:-1] and "language" in parts[:-1] or "numba" in parts[:-1]


class SourceMap:
    """The source lines of a PTX text."""

    def __init__(self, ptx: str, source_file: str | None = None) -> None:
        """``source_file`` is where the kernel's own source lies: compilers cache by text and may name another folder."""
        files: dict[str, str] = {}
        self._lines: list[int] = []
        self._places: list[tuple[str, int, int] | None] = []
        self._callers: dict[tuple[str, int, int], tuple[str, int, int]] = {}
        is_inline = False
        for number, line in enumerate(ptx.splitlines(), start=1):
            if "inline asm" in line:
                # LLVM adds a line of the source for each line of inline assembly (Triton writes loads and stores so):
                # what stands before the assembly is right.
                is_inline = line.strip() == "// begin inline asm" or is_inline and line.strip() != "// end inline asm"
            elif (found := _LOC.match(line)) and not is_inline:
                place = (found[1], int(found[2]), int(found[3]))
                self._lines.append(number)
                self._places.append(place)
                if found[5] is not None:
                    self._callers.setdefault(place, (found[5], int(found[6]), int(found[7])))
            elif found := _FILE.match(line):
                files[found[1]] = found[2]
            elif _START.match(line):
                # A function's first lines do not belong to the one before.
                self._lines.append(number)
                self._places.append(None)
        if source_file is not None:
            name = os.path.basename(source_file)
            files = {k: source_file if os.path.basename(file) == name else file for k, file in files.items()}
        self._files = files

    @functools.lru_cache(maxsize=1024)  # noqa: B019 (a map lives as long as its report)
    def frames(self, ptx_line: int) -> tuple[Frame, ...]:
        """Where an instruction comes from, innermost call first; empty without debug information."""
        at = bisect.bisect_right(self._lines, ptx_line) - 1
        place = self._places[at] if at >= 0 else None
        frames: list[Frame] = []
        seen = set()
        while place is not None and place not in seen:
            seen.add(place)
            file, line, column = place
            # Line 0 is code that the compiler made up.
            if line > 0 and file in self._files:
                frames.append(Frame(self._files[file], line, column))
            place = self._callers.get(place)
        return tuple(frames)
