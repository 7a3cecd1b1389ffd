"""The compiler worker: a process that holds LLVM and answers requests.  Start from `main`.

Forked by a process that `worker_process.py` starts as a script (`forks.py`), on a socket that is
its only tie to the kernel process: when the socket ends, so does the worker, also in the middle of
a compile.  LLVM may end the process (`report_fatal_error`); what it said then is in the file that
is this process's standard error.
"""

from __future__ import annotations

import gc
import sys


def _without_packages() -> None:
    """Import jitkernel's modules without running the packages' own `__init__`, which start more."""
    from os.path import dirname, realpath
    from types import ModuleType

    here = dirname(realpath(__file__))
    for name, folder in (("jitkernel", dirname(here)), ("jitkernel.compiler", here)):
        package = ModuleType(name)
        package.__path__ = [folder]
        sys.modules[name] = package


if __name__ == "__main__":
    gc.disable()  # imports leave next to nothing to collect
    sys.path += sys.argv[2:]
    _without_packages()

import _signal  # type: ignore[import-not-found]  # noqa: E402
import os  # noqa: E402
import resource  # noqa: E402
import select  # noqa: E402
from _thread import start_new_thread  # noqa: E402
from collections.abc import Callable  # noqa: E402
from importlib import import_module  # noqa: E402
from typing import Any  # noqa: E402

from jitkernel.compiler import binding, memory, pipeline, questions  # noqa: E402
from jitkernel.compiler.diagnose import warnings  # noqa: E402
from jitkernel.compiler.forks import next_socket  # noqa: E402
from jitkernel.compiler.records import Request  # noqa: E402
from jitkernel.compiler.wire import FrameReader, frame  # noqa: E402
from jitkernel.errors import CompileError  # noqa: E402
from jitkernel.sockets import Socket  # noqa: E402

WARM_UP = "define i32 @warm(i32 %x) {\n  %y = mul i32 %x, %x\n  ret i32 %y\n}\n"
_COLLECT_EVERY = 256
_MEASURE_EVERY = 16
_SPIN = 300_000  # nanoseconds; a loop of cells sends the next one within that time
_LARGE = 1 << 18  # after an object of so many bytes memory is measured at once
_STDERR_LIMIT = 1 << 16
_STDERR = 2
_STACK = 64 << 20


def main() -> None:
    """Fork workers as the socket whose descriptor is the first argument has it; in each, serve its
    own socket, for ever."""
    _prepare_process()
    sock = next_socket(Socket(fileno=int(sys.argv[1])), _warm_up)
    # First of all: who has forked it can wait for its end only by this number.
    sock.sendall(frame({"ready": os.getpid(), "who": binding.identity()}))
    start_new_thread(_end_with, (sock.fileno(),))
    inbox = FrameReader(sock)
    inbox.idle, inbox.on_idle = memory.IDLE, memory.give_back
    _take_stderr()
    gc.freeze()
    # Nothing here makes cycles; what an error path leaves is collected now and then.
    gc.disable()
    served = 0
    own: tuple[int, int] | None = None
    while True:
        try:
            header, _ = inbox.receive(_SPIN if served else 0)
        except (EOFError, ConnectionError):
            os._exit(0)
        try:
            reply, data = _answer(header)
        except CompileError as error:
            reply, data = {"error": error.diagnostics}, b""
        except RecursionError:
            reply, data = {"error": [["too deeply nested to compile"]]}, b""
        except MemoryError:
            reply, data = {"error": [["the compiler ran out of memory"]]}, b""
        except Exception:
            import traceback  # not needed to compile

            reply, data = {"broken": traceback.format_exc()}, b""
        if own:
            reply["own"] = own
        if os.lseek(_STDERR, 0, os.SEEK_CUR):
            reply["words"] = list(warnings(_take_stderr()))
        sock.sendall(frame(reply, data))
        pipeline.tidy()
        pipeline.contexts.end()
        served += 1
        measure = served % _MEASURE_EVERY == 0 or len(data) > _LARGE
        own = memory.held() if measure else None
        if served % _COLLECT_EVERY == 0:
            gc.collect()


def _prepare_process() -> None:
    """No core files, no signals from the terminal, and a folder that is always there.

    LLVM recurses over nested types and long expressions: the stack may grow further than usual.
    Where memory runs out the system is to end this process rather than the session.
    """
    os.chdir("/")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    if most == resource.RLIM_INFINITY or most >= _STACK:
        resource.setrlimit(resource.RLIMIT_STACK, (_STACK, most))
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("900")
    except OSError:
        pass
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)


def _end_with(descriptor: int) -> None:
    """End this process when the other end of its socket closes, whatever LLVM is doing."""
    poll = select.poll()
    poll.register(descriptor, select.POLLRDHUP)
    poll.poll()
    os._exit(0)


def _warm_up() -> None:
    """Compile something, so that the first cell does not pay for LLVM's tables and first pages."""
    try:
        pipeline.compile_module(Request(WARM_UP))
    except CompileError:
        pass
    pipeline.tidy()


def _answer(header: list[Any]) -> tuple[dict[str, Any], bytes]:
    """The answer to a question; its module is imported when it is first asked for."""
    module, _, name = header[0].partition(":")
    serve: Callable[..., Any] = getattr(import_module(f"jitkernel.compiler.{module}"), name)
    return serve(*questions.read(serve.__annotations__, header[1:]))  # type: ignore[no-any-return]


def _take_stderr() -> str:
    """The text that LLVM wrote to standard error since the last call; the file is begun again."""
    size = os.lseek(_STDERR, 0, os.SEEK_CUR)
    text = os.pread(_STDERR, min(size, _STDERR_LIMIT), 0)
    os.lseek(_STDERR, 0, os.SEEK_SET)
    return text.decode("utf-8", "replace")


if __name__ == "__main__":
    main()
