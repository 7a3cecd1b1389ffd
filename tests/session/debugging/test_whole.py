"""Random walks of a debugger's requests and of a session's operations, beside a session that nobody
debugs: what cells and calls give is the same, and so is what they leave."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.errors import Fault, JitError, UsageError
from jitkernel.session.debugging.records import Breakpoint, Event
from jitkernel.session.program.cell import CellState
from tests.seeds import seeds

MOTIONS = ("continue", "next", "next", "step_in", "step_out", "instruction")
LANGUAGES = {"c": "c", "ir": "", "kaleidoscope": "kaleidoscope"}


class Walk:
    """A session with a debugger, one without, and what is done to both."""

    def __init__(self, seed: int, folder: Path):
        self.rng, self.folder, self.did = random.Random(seed), folder, [f"seed {seed}"]
        self.sources: list[str] = []
        self.stops = self.calls = 0
        self.motions = 0  # left in this call
        self.quiet = False
        with contextlib.ExitStack() as stack:
            settings: dict[str, Any] = {"capacity": 64 << 20, "spare": False}
            self.s = stack.enter_context(Session(**settings))
            self.twin = stack.enter_context(Session(**settings))
            self.close = stack.pop_all().close
        self.d = self.s.debugger
        self.d.start()
        self.d.listener = self.hear

    # -- what is done ----------------------------------------------------------------------------

    def source(self) -> tuple[str, str]:
        """A cell and its language."""
        rng, n = self.rng, self.rng.randrange(1, 9)
        i = rng.randrange(3)
        kind = rng.choice(["c", "c", "c", "ir", "ir", "kaleidoscope", "use", "value", "block"])
        if kind == "c":
            return (
                f"int c{i}(int x) {{\n  int all = {n};\n  for (int i = 0; i < (x & 3); i++)\n"
                f"    all += x * {n};\n  return all;\n}}\n"
            ), "c"
        if kind == "ir":
            return (
                f"define i32 @i{i}(i32 %x) {{\n  %y = mul i32 %x, {n}\n  %odd = and i32 %y, 1\n"
                "  %is = icmp eq i32 %odd, 0\n  br i1 %is, label %even, label %done\n"
                f"even:\n  %z = add i32 %y, {n}\n  br label %done\n"
                "done:\n  %r = phi i32 [ %y, %0 ], [ %z, %even ]\n  ret i32 %r\n}"
            ), ""
        if kind == "kaleidoscope":
            return f"def k{i}(x)\n  if x < 3 then\n    x * {n}\n  else\n    x + {n}", "kaleidoscope"
        names = [name for name in ("c0", "c1", "c2") if name in self.twin] or ["abs"]
        a, b = rng.choice(names), rng.choice(names)
        if kind == "use":
            return (
                f"int u{i}(int x) {{\n  int a = {a}(x);\n  int b = {b}(a & 7);\n"
                f"  return a - b + {n};\n}}\n"
            ), "c"
        if kind == "value":
            return f"{a}({n}) + {b}(1)", "c"
        name = rng.choice([x for x in ("i0", "i1", "i2") if x in self.twin] or ["abs"])
        return f"%a = call i32 @{name}(i32 {n})\n%b = add i32 %a, {n}", ""

    def define(self) -> None:
        source, language = self.source()
        self.sources = [*self.sources[-8:], source]
        cell_id = f"id{self.rng.randrange(6)}" if self.rng.random() < 0.4 else ""
        more = {"cell_id": cell_id} if cell_id else {}
        if self.rng.random() < 0.3:  # before it has ever run
            self.points_at(source)
        self.both(lambda s: value_of(s.run(source, language or "llvm", **more)), source)

    def again(self) -> None:
        if self.sources:
            source = self.rng.choice(self.sources)
            language = "kaleidoscope" if source.startswith("def ") else "c"
            language = "llvm" if source[:1] in "%d" and "@" in source else language
            self.both(lambda s: value_of(s.run(source, language)), source)

    def names(self) -> list[str]:
        every = [f"{kind}{i}" for kind in "ciku" for i in range(3)]
        return [name for name in every if name in self.twin]

    def call(self) -> None:
        if names := self.names():
            name, x = self.rng.choice(names), self.rng.randrange(-2, 6)
            number = float(x) if name.startswith("k") else x
            before, symbols = text(self.s), self.symbols(self.s)
            self.calls += 1
            cells = self.twin.inspect.program.cells.values()
            away = any(cell.state is CellState.HIBERNATED for cell in cells)
            self.both(lambda s: s.call(name, number), f"call {name} {x}")
            if not away:  # else what it needs of that comes back
                assert text(self.s).items() >= before.items()
            assert self.symbols(self.s) == symbols

    def undo(self) -> None:
        self.both(lambda s: s.undo(), "undo")

    def redo(self) -> None:
        self.both(lambda s: s.redo(), "redo")

    def evict(self) -> None:
        if names := self.names():
            name, how = self.rng.choice(names), self.rng.choice([{}, {"force": True}])
            self.both(lambda s: len(s.evict(name, **how) or ()), f"evict {name} {how}")

    def hibernate(self) -> None:
        if names := self.names():
            name = self.rng.choice(names)
            self.both(lambda s: len(s.hibernate(name)), f"hibernate {name}")

    def wake(self) -> None:
        if names := self.names():
            name = self.rng.choice(names)
            self.both(lambda s: len(s.wake(name)), f"wake {name}")

    def save(self) -> None:
        self.both(lambda s: s.save(self.folder / "saved.jks") and None, "save")

    def kill(self) -> None:
        def kill(s: Session) -> None:
            os.kill(s.inspect.engine.executor.pid, signal.SIGKILL)

        self.both(kill, "kill")

    def restart(self) -> None:
        self.did.append("debugger off and on")
        self.d.close()
        self.d.start()
        self.d.listener = self.hear

    # -- the debugger ----------------------------------------------------------------------------

    def points(self) -> None:
        if self.sources:
            self.points_at(self.rng.choice(self.sources))

    def some(self) -> dict[str, Any]:
        pick = self.rng.random()
        if pick < 0.1:
            return {"condition": self.rng.choice(["x == 3", "%x > 2", "nothing", "1", "x <"])}
        if pick < 0.2:
            return {"hit_condition": self.rng.choice(["2", ">= 2", "% 2"])}
        if pick < 0.3:
            return {"log": "x is {x}"}
        return {"temporary": True} if pick < 0.4 else {}

    def points_at(self, source: str) -> None:
        last = source.count("\n") + 1
        lines = {self.rng.randrange(1, last + 1) for _ in range(self.rng.randrange(1, 4))}
        wanted = [Breakpoint(line=line, **self.some()) for line in sorted(lines)]
        self.did.append(f"breakpoints {[p.line for p in wanted]} in {source!r}")
        found = self.d.set_breakpoints(source, wanted)
        assert len(found) == len(wanted)

    def function(self) -> None:
        name = self.rng.choice(self.names() or NAMES)
        self.did.append(f"breakpoint at {name}")
        self.d.add(Breakpoint(function=name, **self.some()))

    def remove(self) -> None:
        if points := self.d.breakpoints:
            number = self.rng.choice(points).number
            self.did.append(f"remove {number}")
            self.d.remove(number)
            assert number not in {p.number for p in self.d.breakpoints}

    def hear(self, event: Event) -> None:
        if event.kind != "stopped":
            return
        self.stops += 1
        self.motions -= 1
        frames = self.d.frames()
        assert frames
        for scope in self.d.scopes(0)[:2]:
            for variable in self.d.variables(scope.reference):
                if variable.reference:
                    self.d.variables(variable.reference)
        pick = self.rng.random()
        if self.motions <= 0:
            for point in self.d.breakpoints:
                self.d.remove(point.number)
            self.go("continue")
        elif pick < 0.06:
            self.change()
        elif pick < 0.1:
            self.rng.choice([self.points, self.function, self.remove])()
            self.go(self.rng.choice(MOTIONS))
        elif pick < 0.12:
            self.quiet = True
            self.did.append("  killed")
            os.kill(self.s.inspect.engine.executor.pid, signal.SIGKILL)
            self.go("continue") if self.rng.random() < 0.5 else None
        elif pick < 0.14:
            self.quiet = True
            self.did.append("  interrupt")
            self.s.interrupt() if self.rng.random() < 0.5 else self.d.end()
        elif pick < 0.16:
            for job in (lambda: self.s.undo(), lambda: self.s.run("1 + 1", "c")):
                with pytest.raises(JitError):
                    job()
            self.go("next")
        else:
            self.go(self.rng.choice(MOTIONS))

    def go(self, motion: Any) -> None:
        self.did.append(f"  {motion}")
        self.d.go(motion)

    def change(self) -> None:
        """A variable is set to what it is."""
        for scope in self.d.scopes(0):
            if scope.name != "Locals":
                continue
            for variable in self.d.variables(scope.reference):
                if variable.value.lstrip("-").isdigit():
                    self.did.append(f"  {variable.name} = {variable.value}")
                    set_ = self.d.set_variable(scope.reference, variable.name, variable.value)
                    assert set_.value == variable.value
        self.go("continue")

    # -- both ------------------------------------------------------------------------------------

    def symbols(self, s: Session) -> dict[str, str]:
        linker = s.inspect.program.linker
        return {n: str(y.state) for n, y in linker.symbols.items() if y.image is not None}

    def both(self, what: Callable[[Session], Any], words: str) -> None:
        self.did.append(words)
        self.motions, self.quiet = self.rng.randrange(1, 40), False
        wanted, found = tried(what, self.twin), tried(what, self.s)
        if not self.quiet:
            assert found == wanted
        elif not words.startswith("call"):  # it was ended: both are to be where they were
            stands = {name: (name in self.s, name in self.twin) for name in {*self.names(), *NAMES}}
            if any(a != b for a, b in stands.values()):
                raise Ended

    def check(self) -> None:
        self.s.check()
        assert self.d.stop is None
        assert set(self.symbols(self.s)) == set(self.symbols(self.twin))
        if any(
            cell.state is CellState.HIBERNATED
            for s in (self.s, self.twin) for cell in s.inspect.program.cells.values()
        ):  # fmt: skip
            return
        mine, theirs = (
            [size for at, size in s.inspect.engine.arena.zones["text"].list.live.items()
             if not s._core.places.is_thunk(at)]
            for s in (self.s, self.twin)
        )  # fmt: skip
        assert sorted(mine) == sorted(theirs)

    def step(self) -> None:
        operations: dict[Callable[[], None], int] = {
            self.define: 8, self.again: 3, self.call: 18, self.undo: 2, self.redo: 1,
            self.evict: 1, self.hibernate: 1, self.wake: 1, self.save: 1, self.kill: 1,
            self.points: 8, self.function: 5, self.remove: 2, self.restart: 1,
        }  # fmt: skip
        self.rng.choices(list(operations), list(operations.values()))[0]()
        self.check()


NAMES = [f"{kind}{i}" for kind in "ciku" for i in range(3)]


class Ended(Exception):
    """The debugger ended a cell that the other session has done."""


def value_of(result: Any) -> Any:
    return result.value


def tried(what: Callable[[Session], Any], s: Session) -> Any:
    """What it gives, or which error it is."""
    try:
        return what(s)
    except UsageError:
        return "refused"
    except Fault:
        return "fault"
    except JitError as error:
        return type(error).__name__


def text(s: Session) -> dict[int, bytes]:
    arena = s.inspect.engine.arena
    return {start: arena.read(start, size) for start, size in arena.zones["text"].list.live.items()}


def walk(seed: int, folder: Path, count: int) -> Walk:
    one = Walk(seed, folder)
    try:
        for _ in range(count):
            try:
                one.step()
            except Ended:
                break
        return one
    except BaseException:
        print("\n".join(one.did[-60:]))
        raise
    finally:
        one.close()


@pytest.mark.parametrize("seed", seeds(2, 4))
def test_a_walk(seed: int, tmp_path: Path) -> None:
    one = walk(seed, tmp_path, 40)
    assert one.calls


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_thousand_steps_of_walks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stops = calls = 0
    began = time.monotonic()
    for seed in range(1000, 1000 + int(os.environ.get("WALKS", "25"))):
        one = walk(seed, tmp_path, 40)
        stops, calls = stops + one.stops, calls + one.calls
    with capsys.disabled():
        print(f"\n{calls} calls, {stops} stops, {time.monotonic() - began:.0f} s")
    assert stops > 100
