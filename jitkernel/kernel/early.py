"""The session is started here, before any Jupyter library is imported.

Not the place where settings are checked: whatever is wrong with them is left to the application,
which has the means to say so.  Start from `start_session`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["begin", "read_settings", "start_session"]

# With one of these the application prints something and ends: nothing is to be started.
_ENDS = ("--help", "--help-all", "-h", "--version", "--generate-config", "--show-config")


def start_session(argv: Sequence[str]) -> Session | None:
    """A session by the configuration files and `argv`, its processes on their way.

    None where that does not work: the application tries again, and its error is the one seen.
    """
    if any(argument.startswith(_ENDS) for argument in argv):
        return None
    try:
        return begin(read_settings(argv))
    except Exception:
        return None


def begin(settings: dict[str, Any]) -> Session:
    """A session that gets ready by itself: the runtime is compiled and the executor started."""
    from jitkernel.session import Session

    session = Session(**settings)
    # What it runs into is met again, and told, by the first cell.
    threading.Thread(target=suppressed, args=(session.engine.ready,), daemon=True).start()
    return session


def suppressed(call: Callable[[], None]) -> None:
    """Call and say nothing of errors."""
    with contextlib.suppress(Exception):
        call()


def read_settings(argv: Sequence[str]) -> dict[str, Any]:
    """The session's settings, from the files on Jupyter's configuration path and from `argv`."""
    from jitkernel.kernel.settings import config_path, load_files, read_arguments, session_settings

    config = load_files(config_path())
    config.merge(read_arguments(argv))
    return session_settings(config)
