"""Cells of C that are interrupted at every moment of their lives.  Start from `press`."""

from __future__ import annotations

import random
import threading
import time

from jitkernel import Session
from jitkernel.errors import Interrupted, JitError

_LONGEST = 20.0  # seconds that a cell goes on after the first press: longer is for ever
_AGAIN = 2.0  # seconds between presses
_ENDLESS = 0.06  # seconds after which a cell that does not end is pressed at the latest

CELLS = (
    "for (;;) ;",
    "int f(int x) { return x + {n}; }",
    "f({n})",
    "#include <stdlib.h>\nint g{n}(int x) { return abs(x); }",
    "struct pt { int x[{n}]; };\nint area(struct pt *p) { return sizeof *p; }",
    "int broken(void) { return nope{n}; }",
    "#define N {n}\nint t[N];\nstatic int s{n} = {n};\ns{n} + N",
    "int h{n}(void) { for (int i = 0; ; i++) t[i % N] = f(i); }\nh{n}()",
    '#if N\n#include <string.h>\n#endif\nstrlen("abc") + {n}',
    "/* {long} */ int long{n};",
)
ENDLESS = (0, 7)


class Stuck(AssertionError):
    """A cell that no press ends, or after which the session is of no use."""


def press(session: Session, presses: int, seed: int) -> int:
    """Run so many cells, each pressed at some moment; how many that has ended.  Raises Stuck."""
    chosen = random.Random(seed)
    lasts = [_ENDLESS] * len(CELLS)  # seconds that each takes where nobody presses
    ended = 0
    for number in range(presses):
        which = number % len(CELLS)
        if number % (5 * len(CELLS)) == 0:
            for index in range(len(CELLS)):
                if index not in ENDLESS:
                    lasts[index] = _lasts(session, _text(index, number))
        text = _text(which, number // len(CELLS))
        begun = time.monotonic()
        stopped = _pressed(session, text, chosen.random() * 1.1 * lasts[which])
        took = time.monotonic() - begun
        if took > _LONGEST:
            raise Stuck(f"press {number}: {text[:60]!r}")
        if not stopped:  # before it was pressed: the machine does less else than it did
            lasts[which] = min(lasts[which], took)
        ended += stopped
        if session.run("1 + 1", "c").value != 2:
            raise Stuck(f"after press {number}")
    return ended


def _text(which: int, number: int) -> str:
    return CELLS[which].replace("{n}", str(number % 7 + 1)).replace("{long}", "x" * 300_000)


def _lasts(session: Session, text: str) -> float:
    begun = time.monotonic()
    try:
        session.run(text, "c")
    except JitError:
        pass
    return time.monotonic() - begun


def _pressed(session: Session, text: str, moment: float) -> bool:
    """Run a cell that is pressed after so many seconds; whether that ended it."""
    begun, over = threading.Event(), threading.Event()

    def presses() -> None:
        begun.wait()
        wait = moment
        while not over.wait(wait):
            session.interrupt()
            wait = _AGAIN

    thread = threading.Thread(target=presses)
    thread.start()
    begun.set()
    try:
        session.run(text, "c")
    except Interrupted:
        return True
    except JitError:
        pass
    finally:
        over.set()
        thread.join()
    return False
