"""Random programs for the stack machine of the course's lesson on deoptimisation, and its parts.

Start from `lesson`, which gives the parts, and `programs`.
"""

from __future__ import annotations

import random
from functools import cache
from types import SimpleNamespace
from typing import Any

from jitkernel import Session
from tests.kernel.answers import maker, parts

Program = list[tuple[str, int]]


@cache
def _parts() -> tuple[list[str], str]:
    """The lesson's C, cell by cell, and its Python."""
    [lesson] = [found for found in maker().lessons() if found.stem == "13_deopt"]
    cells, _ = parts(lesson)
    c = [cell.removeprefix("%%c\n") for cell in cells if cell.startswith("%%c\n")]
    python = [cell for cell in cells if cell[0] != "%" and "jitkernel" not in cell]
    return c, "import struct\n" + "\n".join(python)


def handler() -> str:
    """The cells that define `__llvm_deoptimize` and `leave`, which calls `resume`."""
    return "\n".join(cell for cell in _parts()[0] if "struct saved" in cell)


def lesson(session: Session) -> Any:
    """Run the lesson's C in a session; its Python functions: `put`, `translate`, `word`, ..."""
    c, python = _parts()
    for cell in c:
        session.run(cell, "c")
    names: dict[str, Any] = {"session": session}
    exec(python, names)
    return SimpleNamespace(**names)


class _Writer:
    """Writes one function; locals 0 to 2 are its values, 3 counts rounds of its loop."""

    def __init__(self, rng: random.Random, begin: int, callees: list[int]):
        self.rng, self.begin, self.callees = rng, begin, callees
        self.code: Program = []

    def _here(self) -> int:
        return self.begin + len(self.code)

    def expression(self, deep: int = 0) -> None:
        rng = self.rng
        if deep > 2 or rng.random() < 0.3:
            number = ("push", rng.choice((0, 1, 2, 3, 7, -1, 50, 1000)))
            self.code.append(("load", rng.randrange(3)) if rng.random() < 0.7 else number)
        elif self.callees and rng.random() < 0.25:
            self.expression(deep + 1)
            self.code.append(("call", rng.choice(self.callees)))
        else:
            self.expression(deep + 1)
            self.expression(deep + 1)
            self.code.append((rng.choice(("add", "add", "mul", "div", "lt")), 0))

    def assignment(self) -> None:
        self.expression()
        self.code.append(("store", self.rng.randrange(3)))

    def choice(self) -> None:
        self.expression()
        test = len(self.code)
        self.code.append(("jz", 0))
        self.assignment()
        end = len(self.code)
        self.code.append(("jmp", 0))
        self.code[test] = "jz", self._here()
        self.assignment()
        self.code[end] = "jmp", self._here()

    def loop(self) -> None:
        self.code += [("push", self.rng.randrange(1, 9)), ("store", 3)]
        top, test = self._here(), len(self.code) + 1
        self.code += [("load", 3), ("jz", 0)]
        self.rng.choice((self.assignment, self.choice))()
        self.code += [("load", 3), ("push", -1), ("add", 0), ("store", 3), ("jmp", top)]
        self.code[test] = "jz", self._here()

    def function(self) -> Program:
        for _ in range(self.rng.randrange(2, 5)):
            self.rng.choice((self.assignment, self.choice, self.loop))()
        self.expression()
        return [*self.code, ("ret", 0)]


def programs(rng: random.Random, count: int) -> tuple[Program, list[int]]:
    """So many functions, each behind those that it calls, and where they begin."""
    code: Program = []
    starts = []
    for _ in range(count):
        callees: list[int] = []
        for _ in range(rng.randrange(3)):
            begin = len(code)
            code += _Writer(rng, begin, list(callees)).function()
            callees.append(begin)
        starts.append(len(code))
        code += _Writer(rng, len(code), callees).function()
    return code, starts
