"""Lines of source: where the ``.loc`` directives of PTX say that an instruction comes from."""

from __future__ import annotations

import dataclasses
import linecache
import os
from collections.abc import Sequence

__all__ = ["Frame", "frames_of"]


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


def frames_of(frames: Sequence[tuple[str, int, int]], source_file: str | None) -> tuple[Frame, ...]:
    """The calls that an instruction comes from, innermost first; empty without debug information.

    ``source_file`` is where the kernel's own source lies: compilers cache by text and may name another folder.
    """
    name = os.path.basename(source_file) if source_file else None
    return tuple(
        Frame(source_file if source_file and os.path.basename(file) == name else file, line, column)
        for file, line, column in frames
    )
