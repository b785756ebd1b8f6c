"""Exceptions: each says the sentence that the Rust libraries say."""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from .report import Report

__all__ = [
    "ArgumentError",
    "AxisError",
    "DeviceError",
    "DtypeError",
    "Error",
    "FindingWarning",
    "FindingsError",
    "LaunchError",
    "OutOfMemoryError",
    "PtxError",
    "TrapError",
]


class Error(Exception):
    """What this package raises."""


class ArgumentError(Error, ValueError):
    """An argument that does not fit."""


class AxisError(Error, IndexError, ValueError):
    """An axis or an index that is not there."""


class DtypeError(Error, TypeError):
    """An element type that does not fit."""


class DeviceError(Error, RuntimeError):
    """The device refused or failed."""


class PtxError(Error, ValueError):
    """Text that is no PTX, or PTX that the virtual GPU does not execute."""


class LaunchError(Error, ValueError):
    """A launch that cannot start: no such kernel, or a limit is broken."""


class OutOfMemoryError(Error, MemoryError):
    """The device's memory is used up."""


class TrapError(Error, RuntimeError):
    """The kernel executed ``trap``: a failed ``assert``, for example."""


class FindingsError(Error, AssertionError):
    """A launch broke rules, and ``check="deny"`` was asked for; ``report`` has the findings."""

    def __init__(self, report: Report) -> None:
        super().__init__(report.summary())
        self.report = report


class FindingWarning(UserWarning):
    """A kernel that ran on the virtual GPU broke a rule."""
