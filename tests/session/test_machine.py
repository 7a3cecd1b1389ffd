"""A random walk over everything a session does, beside a model in plain Python.

The model knows cells as sets of names: who defines what, who uses what, and what each function
must answer.  After every step the session's books are proved and every answer is compared.
"""

from __future__ import annotations

import copy
import os
import signal
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from programs import interrupting

from jitkernel import Session
from jitkernel.errors import (
    CompileError,
    EvictError,
    Exited,
    Fault,
    Interrupted,
    JitError,
    LinkError,
    TypeMismatch,
    UndefinedSymbol,
    UsageError,
)

FUNCTIONS = [f"f{i}" for i in range(5)]
GLOBALS = [f"g{i}" for i in range(3)]
EXECUTORS = ("process", "inline")


@dataclass
class Model:
    """`bodies[f]` is `(number, called or "", read or "")`; `owner` the cell of each defined name."""

    bodies: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)
    owner: dict[str, int] = field(default_factory=dict)
    uses: dict[int, frozenset[str]] = field(default_factory=dict)

    def answer(self, name: str) -> int | str:
        """What a call gives; the missing name as text where it meets one."""
        if name not in self.bodies:
            return name
        number, called, read = self.bodies[name]
        if read:
            number += self.values.get(read, 0)
        if called:
            other = self.answer(called)
            return other if isinstance(other, str) else number + other
        return number

    def names(self, cell: int) -> set[str]:
        return {n for n, c in self.owner.items() if c == cell}

    def take(self, cell: int, names: set[str], uses: frozenset[str]) -> None:
        """A cell defines names: others lose them, and go when nothing is left."""
        losers = {self.owner[n] for n in names if n in self.owner}
        for name in names:
            self.owner[name] = cell
        self.uses[cell] = uses
        for loser in losers - {cell}:
            if not self.names(loser):
                del self.uses[loser]

    def users(self, names: set[str]) -> set[int]:
        return {c for c, uses in self.uses.items() if uses & names}

    def dependents(self, cell: int) -> set[int]:
        return self.users(self.names(cell)) - {cell}

    def closure(self, cell: int) -> set[int]:
        found, todo = {cell}, [cell]
        while todo:
            for other in self.dependents(todo.pop()) - found:
                found.add(other)
                todo.append(other)
        return found

    def drop(self, cells: set[int]) -> None:
        for cell in cells:
            for name in self.names(cell):
                del self.owner[name]
                self.bodies.pop(name, None)
                self.values.pop(name, None)
            self.uses.pop(cell, None)


class Machine(RuleBasedStateMachine):
    session: Session

    @property
    def inline(self) -> bool:
        """Code runs in this process, which nothing of it may end."""
        return self.session.settings.executor == "inline"

    @initialize()
    def empty(self) -> None:
        self.s = self.session
        self.s.budget = 0
        self.s.reset()
        self.model = Model()
        # The runs that can be taken back: what was before each, and whether it changed anything.
        self.past: list[tuple[Model, bool]] = []
        self.count = 100

    def fresh(self) -> int:
        self.count += 1
        return self.count

    def ran(self, before: Model | None = None) -> None:
        """A cell ran; `before` is what it changed."""
        self.past.append((before or copy.deepcopy(self.model), before is not None))
        del self.past[:-20]

    # -- cells -----------------------------------------------------------------------------------

    @rule(data=st.data())
    def define(self, data: st.DataObject) -> None:
        before = copy.deepcopy(self.model)
        names = data.draw(
            st.lists(st.sampled_from(FUNCTIONS + GLOBALS), min_size=1, max_size=4, unique=True)
        )
        lines: list[str] = []
        bodies: dict[str, tuple[int, str, str]] = {}
        values: dict[str, int] = {}
        uses: set[str] = set()
        for name in names:
            number = self.fresh()
            if name in GLOBALS:
                values[name] = number
                lines.append(f"@{name} = global i32 {number}")
                continue
            called = data.draw(st.sampled_from(["", *FUNCTIONS[: FUNCTIONS.index(name)]]))
            readable = [g for g in GLOBALS if g in self.model.values or g in names]
            read = data.draw(st.sampled_from(["", *readable]))
            bodies[name] = number, called, read
            uses |= {called, read} - {""}
            lines.append(body(name, number, called, read))
        lines += [f"declare i32 @{f}()" for f in sorted(uses & set(FUNCTIONS) - set(names))]
        r = self.s.run("\n".join(lines))
        assert r.cell is not None
        self.model.take(r.cell.number, set(names), frozenset(uses))
        self.model.bodies |= bodies
        self.model.values |= values
        self.ran(before)

    @rule(name=st.sampled_from(GLOBALS), crash=st.booleans())
    def store(self, name: str, crash: bool) -> None:
        before = copy.deepcopy(self.model)
        number = self.fresh()
        stopped = "@exit(1)" if self.inline else "@strlen(null)"
        source = f"@{name} = {number}" + (f"\n{stopped}" if crash else "")
        if name not in self.model.values:
            with pytest.raises(CompileError):
                self.s.run(source)
            self.ran()
            return
        if crash:
            with pytest.raises((Fault, Exited)):
                self.s.run(source)
        else:
            self.s.run(source)
        self.model.values[name] = number
        self.ran(before)

    @rule(
        name=st.sampled_from(FUNCTIONS),
        made=st.lists(st.sampled_from(GLOBALS), min_size=1, max_size=2, unique=True),
    )
    def assign(self, name: str, made: list[str]) -> None:
        """Statements make variables: the cell's own where they are new."""
        before = copy.deepcopy(self.model)
        number = self.fresh()
        values = {g: self.fresh() for g in made}
        lines = [body(name, number, "", ""), *(f"@{g} = i32 {v}" for g, v in values.items())]
        r = self.s.run("\n".join(lines))
        assert r.cell is not None
        new = {g for g in made if g not in self.model.values}
        self.model.take(r.cell.number, {name} | new, frozenset())
        self.model.bodies[name] = number, "", ""
        self.model.values |= values
        self.ran(before)

    @precondition(lambda self: self.model.values)
    @rule(data=st.data())
    def poke(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.values)))
        if self.past:  # it counts to the run before
            self.past[-1] = self.past[-1][0], True
        self.s[name].value = self.model.values[name] = self.fresh()

    # -- failures --------------------------------------------------------------------------------

    @rule(
        name=st.sampled_from(FUNCTIONS),
        how=st.sampled_from(["syntax", "link", "constructor", "gc"]),
    )
    def fail(self, name: str, how: str) -> None:
        number = self.fresh()
        stores = "".join(
            f"@{g} = global i32 {self.fresh()}\n" for g in GLOBALS if g in self.model.values
        )
        stops = "call void @exit(i32 1)" if self.inline else "store volatile i32 1, ptr null"
        sources: dict[str, tuple[str, Any]] = {
            "syntax": (stores + f"define i32 @{name}() {{\n  ret i64 1\n}}", CompileError),
            "link": (
                stores + f"@nowhere = external global i32\n{body(name, number, '', 'nowhere')}",
                LinkError,
            ),
            "constructor": (
                stores + body(name, number, "", "") + "\n@llvm.global_ctors = appending global "
                "[1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 65535, ptr @bad, ptr null }]\n"
                f"declare void @exit(i32)\ndefine void @bad() {{\n  {stops}\n  ret void\n}}",
                (Fault, Exited),
            ),
            "gc": (stores + f'define i32 @{name}() gc "nothing" {{\n  ret i32 1\n}}', CompileError),
        }
        source, kind = sources[how]
        with pytest.raises(kind):
            self.s.run(source)

    @rule(name=st.sampled_from(FUNCTIONS))
    def change_type(self, name: str) -> None:
        owner = self.model.owner.get(name)
        if any(name in uses for c, uses in self.model.uses.items() if c != owner):
            with pytest.raises(TypeMismatch):
                self.s.run(f"define i64 @{name}(i64 %x) {{\n  ret i64 1\n}}")

    @rule(how=st.sampled_from(["null", "division", "exit", "abort", "undefined", "recursion"]))
    def crash(self, how: str) -> None:
        if self.inline and how not in ("exit", "undefined"):
            return  # that would be the end of this process
        sources = {
            "null": "store volatile i32 1, ptr null",
            "division": '%x = call i32 asm sideeffect "xorl %ecx, %ecx; movl $$1, %eax; cltd; idivl %ecx", "={ax},~{ecx},~{edx}"()',
            "exit": "@exit(3)",
            "abort": "@abort()",
            "undefined": "declare i32 @never()\n@never()",
            "recursion": "define i32 @deep(i32 %n) {\n  %a = alloca [100 x i64]\n  store volatile i64 1, ptr %a\n  %r = call i32 @deep(i32 %n)\n  %s = load volatile i64, ptr %a\n  %t = trunc i64 %s to i32\n  %u = add i32 %t, %r\n  ret i32 %u\n}\n@deep(1)",
        }
        with pytest.raises(JitError):
            self.s.run(sources[how])
        self.ran()
        if how == "recursion":
            self.s.undo()
            self.past.pop()

    @precondition(lambda self: not self.inline)
    @rule()
    def interrupt(self) -> None:
        with interrupting(self.s, 0.01), pytest.raises(Interrupted) as caught:
            self.s.run("entry:\n  br label %l\nl:\n  br label %l")
        if caught.value.where:  # else it came before the cell ran
            self.ran()

    @precondition(lambda self: not self.inline)
    @rule()
    def kill(self) -> None:
        os.kill(self.s._core.engine.executor.pid, signal.SIGKILL)

    # -- taking away -----------------------------------------------------------------------------

    @precondition(lambda self: self.model.uses)
    @rule(data=st.data(), how=st.sampled_from(["", "cascade", "force"]))
    def evict(self, data: st.DataObject, how: str) -> None:
        cell = data.draw(st.sampled_from(sorted(self.model.uses)))
        before = copy.deepcopy(self.model)
        going = {
            "": self.model.closure(cell),
            "cascade": self.model.closure(cell),
            "force": {cell},
        }[how]
        if how == "" and self.model.dependents(cell):
            with pytest.raises(EvictError):
                self.s.evict(cell)
            return
        data_of = {n for n in self.model.names(cell) if n in GLOBALS}
        if self.inline and how == "force" and self.model.users(data_of) - {cell}:
            with pytest.raises(UsageError, match="would end this process"):
                self.s.evict(cell, force=True)
            return
        gone = self.s.evict(cell, **({how: True} if how else {}))
        assert {c.number for c in gone} == going
        self.model.drop(going)
        self.ran(before)

    @precondition(lambda self: self.model.uses)
    @rule(data=st.data())
    def hibernate(self, data: st.DataObject) -> None:
        """Code leaves memory; nothing but where it is may differ."""
        cells = st.lists(st.sampled_from(sorted(self.model.uses)), min_size=1, unique=True)
        for cell in data.draw(cells):
            try:
                self.s.hibernate(cell)
            except LinkError as error:
                assert "no code in memory" in str(error)  # variables alone

    @rule(size=st.sampled_from([0, 16, 64, 200]))
    def budget(self, size: int) -> None:
        self.s.budget = size

    @rule()
    def undo(self) -> None:
        while self.past and not self.past[-1][1]:
            self.past.pop()
        if not self.past:
            with pytest.raises(UsageError):
                self.s.undo()
            return
        self.s.undo()
        self.model, _ = self.past.pop()

    @rule()
    def gc(self) -> None:
        self.s.gc()

    # -- what must hold --------------------------------------------------------------------------

    @invariant()
    def books(self) -> None:
        if hasattr(self, "s"):
            self.s.check()

    @invariant()
    def answers(self) -> None:
        if not hasattr(self, "s"):
            return
        s, model = self.s, self.model
        assert {c.number: set(c.names) for c in s.cells} == {c: model.names(c) for c in model.uses}
        for name, value in model.values.items():
            assert s[name].value == value
        for name in model.bodies:
            wanted = model.answer(name)
            missing = reads_missing(model, name)
            if isinstance(wanted, int) and not missing:
                assert s.call(name) == wanted
            else:
                with pytest.raises(UndefinedSymbol) as caught:
                    s.call(name)
                assert caught.value.symbol in {wanted, *missing}


def body(name: str, number: int, called: str, read: str) -> str:
    lines = [f"define i32 @{name}() {{", "  %a = add i32 0, " + str(number)]
    value = "%a"
    if called:
        lines += [f"  %c = call i32 @{called}()", f"  %d = add i32 {value}, %c"]
        value = "%d"
    if read:
        lines += [f"  %v = load i32, ptr @{read}", f"  %w = add i32 {value}, %v"]
        value = "%w"
    return "\n".join([*lines, f"  ret i32 {value}", "}"])


def reads_missing(model: Model, name: str) -> set[str]:
    """Variables that a call of `name` reads although they were taken away by force."""
    found: set[str] = set()
    while name in model.bodies:
        _, called, read = model.bodies[name]
        if read and read not in model.values:
            found.add(read)
        name = called
    return found


def walk(executor: str, examples: int, steps: int) -> None:
    with Session(capacity=64 << 20, executor=executor) as session:
        Machine.session = session
        test = Machine.TestCase
        test.settings = settings(
            max_examples=examples, stateful_step_count=steps, deadline=None, derandomize=True,
            database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        test().runTest()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_random_walk_agrees_with_the_model(executor):
    walk(executor, 25, 30)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("executor", EXECUTORS)
def test_1500_steps_agree_with_the_model(executor):
    walk(executor, 50, 30)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_long_random_walk_agrees_with_the_model(executor):
    walk(executor, 400, 50)
