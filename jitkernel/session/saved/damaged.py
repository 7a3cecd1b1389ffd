"""What is said of a session's file that is not what was written.  Start from `Damaged`."""

from __future__ import annotations

from jitkernel.errors import UsageError


class Damaged(UsageError):
    """A file that is not what was written."""


class Unopened(UsageError):
    """A file that the system does not let us open: its folder is full, say, or another's."""
