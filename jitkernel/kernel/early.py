"""The session is started here, before any Jupyter library is imported.

Not the place where settings are checked: whatever is wrong with them is left to the application,
which has the means to say so.  Start from `start_session`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["start_session"]

# With one of these the application prints something and ends: nothing is to be started.
_ENDS = ("--help", "--help-all", "-h", "--version", "--generate-config", "--show-config")


def start_session(argv: Sequence[str]) -> Session | None:
    """A session by the configuration files and `argv`, its processes on their way.

    None where that does not work: the application tries again, and its error is the one seen.
    """
    if any(argument.startswith(_ENDS) for argument in argv):
        return None
    from jitkernel.session import Session

    try:
        return Session(**read_settings(argv))
    except Exception:
        return None


def read_settings(argv: Sequence[str]) -> dict[str, object]:
    """The session's settings, from the files on Jupyter's configuration path and from `argv`."""
    from jitkernel.kernel.settings import config_path, load_files, read_arguments, session_settings

    config = load_files(config_path())
    config.merge(read_arguments(argv))
    return session_settings(config)
