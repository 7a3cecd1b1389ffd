"""A session beside a model of it in plain Python, step by step.  Start from `Walk`.

The model knows which cell defines what, what each uses, the bytes of every variable, the size of
every struct, and what each function must answer.  A step does something to both, and `check`
compares them.  Cells are IR or C.  `test_history` takes steps with hypothesis, and 200,000 with a
fixed seed; `away` adds code that leaves memory, and sessions that are saved.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
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
from jitkernel.session import CellOptions

FUNCTIONS = [f"f{i}" for i in range(10)]
TYPED = ["t0", "t1"]  # functions that change their type
NUMBERS = ["g0", "g1", "g2"]  # i32
ARRAYS = {"a0": 104, "a1": 3000}
POINTER = "p0"
CHANGING = "v0"  # a variable that changes its type
VARIABLES = [*NUMBERS, *ARRAYS, POINTER, CHANGING]
STRUCTS = ["s0", "s1"]  # of C; functions tell their sizes
IDS = ["x", "y", "z"]
PADDING = [0, 0, 40, 300, 1500]


@dataclass(frozen=True, slots=True)
class Piece:
    """One definition: a function's number, whom it calls and what it reads (with the types it
    takes them for), bytes of padding; a variable's initial value; or a struct's size."""

    name: str
    type: str
    value: int
    calls: str = ""
    reads: str = ""
    seen: str = ""  # the type that `calls` or `reads` is taken for, where that can change
    padding: int = 0
    language: str = "llvm"

    @property
    def uses(self) -> frozenset[str]:
        return frozenset({self.calls, self.reads} - {""})

    @property
    def data(self) -> bytes:
        if self.name in ARRAYS:
            return bytes([self.value]) * ARRAYS[self.name]
        return self.value.to_bytes({"i32": 4, "i64": 8, "ptr": 8}[self.type], "little")

    @property
    def text(self) -> str:
        if self.language == "c":
            return self._c
        if self.name in ARRAYS:
            size = ARRAYS[self.name]
            return f'@{self.name} = global [{size} x i8] c"{chr(self.value) * size}", align 16'
        if self.name in VARIABLES:
            value = "null" if self.name == POINTER else self.value
            return f"@{self.name} = global {self.type} {value}"
        lines = [f"define {self.type} @{self.name}() {{", f"  %a = add i32 0, {self.value}"]
        if self.padding:
            lines.append(f'  call void asm sideeffect ".skip {self.padding}, 0x90", ""()')
        value = "%a"
        if self.calls:
            type = self.seen if self.calls in TYPED else "i32"
            lines.append(f"  %c = call {type} @{self.calls}()")
            lines.append(f"  %k = {'trunc i64 %c to i32' if type == 'i64' else 'add i32 %c, 0'}")
            lines.append(f"  %d = add i32 {value}, %k")
            value = "%d"
        if self.reads:
            type = self.seen if self.reads == CHANGING else "i32"
            lines.append(f"  %v = load {type}, ptr @{self.reads}")
            lines.append(f"  %l = {'trunc i64 %v to i32' if type == 'i64' else 'add i32 %v, 0'}")
            lines.append(f"  %w = add i32 {value}, %l")
            value = "%w"
        if self.type == "i64":
            lines.append(f"  %r = sext i32 {value} to i64")
            value = "%r"
        return "\n".join([*lines, f"  ret {self.type} {value}", "}"])

    @property
    def _c(self) -> str:
        name, value = self.name, self.value
        if name in STRUCTS:
            return f"struct {name} {{ char c[{value}]; }};"
        if name in ARRAYS:
            return f'char {name}[{ARRAYS[name]}] = "{chr(value) * ARRAYS[name]}";'
        if name in VARIABLES:
            return f"void *{name} = 0;" if name == POINTER else f"int {name} = {value};"
        pad = f'__asm__ volatile (".skip {self.padding}, 0x90"); ' if self.padding else ""
        read = f"(int) sizeof(struct {self.reads})" if self.reads in STRUCTS else self.reads
        terms = [
            str(value),
            *([f"{self.calls}()"] if self.calls else []),
            *([read] if read else []),
        ]
        return f"int {name}(void) {{ {pad}return {' + '.join(terms)}; }}"

    @property
    def declarations(self) -> dict[str, str]:
        found = {}
        if self.language == "c":
            if self.calls:
                found[self.calls] = f"int {self.calls}(void);"
            if self.reads in VARIABLES:
                found[self.reads] = f"extern int {self.reads};"
            return found
        if self.calls:
            type = self.seen if self.calls in TYPED else "i32"
            found[self.calls] = f"declare {type} @{self.calls}()"
        if self.reads:
            type = self.seen if self.reads == CHANGING else "i32"
            found[self.reads] = f"@{self.reads} = external global {type}"
        return found


Spec = tuple[Piece, ...]


def taken(spec: Spec) -> dict[str, str]:
    """What a cell takes the names for whose type may change."""
    return {n: p.seen for p in spec for n in p.uses if n in TYPED or n == CHANGING}


def source_of(spec: Spec) -> str:
    """A cell's text; it declares all that it uses, so that it means the same at any time."""
    names = {p.name for p in spec}
    outside = {n: d for p in spec for n, d in p.declarations.items() if n not in names}
    return "\n".join([*outside.values(), *(p.text for p in spec)])


def random_spec(rng: Any, language: str = "llvm") -> Spec:
    """A cell; `rng` is a `random.Random`."""
    roll = rng.random()
    if language == "c":
        return _random_c(rng)
    if roll < 0.12:
        name, type = rng.choice([*TYPED, CHANGING]), rng.choice(["i32", "i64"])
        made = Piece(name, type, rng.randrange(1000))
        if rng.random() < 0.7:
            return (made,)
        calls, reads = ("", name) if name == CHANGING else (name, "")
        user = Piece(rng.choice(FUNCTIONS), "i32", rng.randrange(1000), calls, reads, type)
        return (made, user)
    names = sorted(rng.sample([*FUNCTIONS, *NUMBERS, *ARRAYS, POINTER], rng.randint(1, 4)))
    seen = rng.choice(["i32", "i64"])
    pieces = []
    for name in names:
        number = rng.randrange(1000)
        if name in ARRAYS:
            pieces.append(Piece(name, "array", 97 + number % 26))
        elif name in VARIABLES:
            pieces.append(
                Piece(name, "ptr" if name == POINTER else "i32", number * (name != POINTER))
            )
        else:
            lower = FUNCTIONS[: FUNCTIONS.index(name)]
            calls = rng.choice(["", "", *lower, *TYPED]) if lower else ""
            reads = "" if calls in TYPED else rng.choice(["", *NUMBERS, CHANGING])
            pieces.append(Piece(name, "i32", number, calls, reads, seen, rng.choice(PADDING)))
    return tuple(pieces)


def _random_c(rng: Any) -> Spec:
    order = [*STRUCTS, *NUMBERS, *ARRAYS, POINTER, *FUNCTIONS]
    pieces = []
    for name in sorted(rng.sample(order, rng.randint(1, 4)), key=order.index):
        number = rng.randrange(1, 1000)
        if name not in FUNCTIONS:
            type = "struct" if name in STRUCTS else "ptr" if name == POINTER else "i32"
            value = 97 + number % 26 if name in ARRAYS else number * (name != POINTER)
            pieces.append(Piece(name, "array" if name in ARRAYS else type, value, language="c"))
            continue
        calls = rng.choice(["", *FUNCTIONS[: FUNCTIONS.index(name)]])
        reads = rng.choice(["", *NUMBERS, *STRUCTS])
        padding = rng.choice(PADDING)
        pieces.append(Piece(name, "i32", number, calls, reads, "i32", padding, "c"))
    return tuple(pieces)


@dataclass(slots=True)
class State:
    """What the program is: `cells` by number, with what each was made from; `owner` the cell that
    defines a name now; `home` the cell in whose data a variable lies, `place` its address."""

    cells: dict[int, Spec] = field(default_factory=dict)
    owner: dict[str, int] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    values: dict[str, bytes] = field(default_factory=dict)
    home: dict[str, int] = field(default_factory=dict)
    place: dict[str, int] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    named: dict[int, str] = field(default_factory=dict)
    strings: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    ghosts: frozenset[tuple[int, str]] = frozenset()
    sizes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STRUCTS, 1))
    known: frozenset[str] = frozenset(STRUCTS)  # whose declaration has certainly not gone

    def copy(self) -> State:
        return State(
            dict(self.cells), dict(self.owner), dict(self.types), dict(self.values),
            dict(self.home), dict(self.place), dict(self.ids), dict(self.named),
            dict(self.strings), self.ghosts, dict(self.sizes), self.known,
        )  # fmt: skip

    def names(self, cell: int) -> set[str]:
        return {n for n, c in self.owner.items() if c == cell}

    def uses(self, cell: int) -> set[str]:
        """Names that a cell refers to as they are now, not as they were before they changed type."""
        found = {n for p in self.cells[cell] for n in p.uses}
        return {n for n in found if (cell, n) not in self.ghosts}

    def users(self, name: str) -> set[int]:
        return {c for c in self.cells if name in self.uses(c)}

    def takers(self, name: str, apart: set[int]) -> set[str]:
        """The types that a name is taken for, except by the cells `apart`; of those that may
        change."""
        return {
            t for c in self.users(name) - apart for n, t in taken(self.cells[c]).items()
            if n == name
        }  # fmt: skip

    def superseded(self, spec: Spec, old: int) -> set[int]:
        """The cells that leave when a cell takes the place of `old`, and their names."""
        new = {p.name for p in spec}
        used = {n for p in spec for n in p.uses}
        losers = {self.owner[n] for n in new if n in self.owner} - {old}
        found = {c for c in losers if self.names(c) <= new}
        if old in self.cells and not any(
            n in used or self.users(n) - {old} for n in self.names(old) - new
        ):
            found.add(old)
        return found

    def dependents(self, cell: int) -> set[int]:
        mine = self.names(cell)
        return {c for c in self.cells if c != cell and self.uses(c) & mine} if mine else set()

    def closure(self, cells: set[int]) -> set[int]:
        found, todo = set(cells), list(cells)
        while todo:
            for other in self.dependents(todo.pop()) - found:
                found.add(other)
                todo.append(other)
        return found

    def garbage(self) -> set[int]:
        found = {
            c for c, i in self.named.items()
            if self.cells.get(c) and self.ids.get(i, 0) > c
        }  # fmt: skip
        while True:
            kept = {c for c in found if self.dependents(c) - found}
            if not kept:
                return found
            found -= kept

    def drop(self, cells: set[int]) -> set[str]:
        """Cells leave; the names that nobody defines any more."""
        gone = {n for c in cells for n in self.names(c)}
        self.known = frozenset()
        for name in gone:
            del self.owner[name]
            for table in (self.values, self.home, self.place):
                table.pop(name, None)
        for cell in cells:
            del self.cells[cell]
            self.strings.pop(cell, None)
            name = self.named.pop(cell, "")
            if name and self.ids.get(name) == cell:
                del self.ids[name]
        self.ghosts = frozenset(g for g in self.ghosts if g[0] not in cells)
        return gone

    def answer(self, name: str) -> int | set[str]:
        """What a call gives, or the names that it could stumble over."""
        cell = self.owner[name]
        piece = next(p for p in self.cells[cell] if p.name == name)
        total = piece.value
        wrong: set[str] = set()
        if piece.calls:
            if piece.calls not in self.owner or (cell, piece.calls) in self.ghosts:
                return {piece.calls}
            other = self.answer(piece.calls)
            if isinstance(other, set):
                wrong |= other
            else:
                total += other
        if piece.reads in STRUCTS:
            total += self.sizes[piece.reads]
        elif piece.reads:
            if piece.reads not in self.values or (cell, piece.reads) in self.ghosts:
                wrong.add(piece.reads)
            else:
                total += int.from_bytes(self.values[piece.reads][:4], "little", signed=True)
        return wrong or (total + (1 << 31) & 0xFFFF_FFFF) - (1 << 31)


@dataclass(slots=True)
class Step:
    """A run that can be taken back: the state before it, and what it did."""

    before: State
    cell: int = 0
    moved: frozenset[str] = frozenset()
    removed: frozenset[int] = frozenset()
    arrived: bool = False
    ids: frozenset[str] = frozenset()
    again: bool = False  # it was undone, as only runs that changed something are, and redone


class Walk:
    """A session and its model, which every method changes alike."""

    def __init__(self, session: Session, depth: int = 20):
        self.s, self.depth = session, depth
        self.inline = session.settings.executor == "inline"  # nothing of it may end this process
        session.configure("undo_depth", depth)
        session.run("".join(f"struct {name} {{ char c[1]; }};\n" for name in STRUCTS), "c")
        session.gc(undo=True)
        self.now = State(cells={cell.number: () for cell in session.cells})
        self.done: list[Step] = []
        self.undone: list[tuple[Step, State]] = []
        self.made: dict[tuple[Spec, bool], Any] = {}
        self.specs: dict[int, Spec] = {}  # of cells, by number
        self.extra = 0
        self.handles: dict[str, Any] = {}  # the first of each function: they follow it

    def forget_specs(self) -> None:
        """Forget cells that cannot come back."""
        every = [self.now, *(step.before for step in self.done)]
        for step, state in self.undone:
            every += step.before, state
        known = set().union(*(state.cells for state in every))
        self.specs = {number: spec for number, spec in self.specs.items() if number in known}

    # -- steps -----------------------------------------------------------------------------------

    def define(self, spec: Spec, cell_id: str | None = None, run: bool = False) -> None:
        """A cell of definitions; refused where it takes a name for another type."""
        now, names = self.now, {p.name for p in spec}
        uses = {n for p in spec for n in p.uses} - names
        seen = {n: t for n, t in taken(spec).items() if n not in names}
        old = now.ids.get(cell_id, 0) if cell_id else 0
        if spec[0].language == "c":
            if not any(n in VARIABLES and n not in now.owner for n in uses):  # C would make them
                self._define_in_c(spec, cell_id, old)
            return
        compiled = self._compiled(spec)
        apart = now.superseded(spec, old)
        if any(
            now.types[n] != t if n in now.owner else now.takers(n, apart) - {t}
            for n, t in seen.items()
        ):
            with pytest.raises(TypeMismatch):
                self.s.place(compiled, cell_id)
            return
        if any(n in VARIABLES and n not in now.owner for n in uses):
            with pytest.raises(LinkError):
                self.s.place(compiled, cell_id)
            return
        if run:
            r = self.s.run(source_of(spec), cell_id=cell_id, options=CellOptions(retype=True))
        else:
            r = self.s.place(compiled, cell_id)
        assert r.cell is not None
        self._defined(r.cell.number, spec, cell_id, old)

    def _define_in_c(self, spec: Spec, cell_id: str | None, old: int) -> None:
        try:
            r = self.s.run(source_of(spec), "c", cell_id=cell_id)
        except CompileError as error:
            used = {p.reads for p in spec if p.reads in STRUCTS} - {p.name for p in spec}
            assert "incomplete type" in str(error) and not used <= self.now.known
            return
        assert r.cell is not None
        self._defined(r.cell.number, spec, cell_id, old)

    def _defined(
        self, number: int, spec: Spec, cell_id: str | None, old: int, **stored: bytes
    ) -> None:
        before, now = self.now, self.now.copy()
        sizes = {p.name: p.value for p in spec if p.name in STRUCTS}
        now.sizes |= sizes
        now.known = (frozenset() if old else now.known) | sizes.keys()
        spec = tuple(p for p in spec if p.name not in STRUCTS)
        names = frozenset(p.name for p in spec)
        losers = {now.owner[n] for n in names if n in now.owner} - {old}
        ghosts = set(now.ghosts)
        apart = now.superseded(spec, old)
        for piece in spec:
            name = piece.name
            if now.takers(name, apart) - {piece.type}:
                ghosts |= {(c, name) for c in now.users(name)}
            if name in VARIABLES:
                if name not in now.owner or now.types[name] != piece.type:
                    now.home[name] = number
                    now.place.pop(name, None)
                now.values[name] = piece.data
            now.types[name] = piece.type
            now.owner[name] = number
        now.ghosts = frozenset(ghosts)
        now.cells[number] = self.specs[number] = spec
        ids = {cell_id} if cell_id else set()
        if cell_id:
            now.ids[cell_id], now.named[number] = number, cell_id
        leaving = {c for c in losers if not now.names(c)}
        if old and old in now.cells and not now.dependents(old):
            leaving.add(old)
        ids |= {i for c in leaving if (i := now.named.get(c, "")) and now.ids.get(i) == c}
        lost = now.drop(leaving) if leaving else set()
        now.values |= stored
        self.now = now
        moved = names | lost | sizes.keys()
        self._ran(Step(before, number, moved, frozenset(leaving), True, frozenset(ids)))

    def assign(self, name: str, values: dict[str, int]) -> None:
        """A function, and statements behind it that make variables: the cell's own where new."""
        function = Piece(name, "i32", max(values.values()))
        new = [Piece(n, "i32", v) for n, v in values.items() if n not in self.now.owner]
        lines = [function.text, *(f"@{n} = i32 {v}" for n, v in values.items())]
        self.s.run("\n".join(lines))
        stored = {n: v.to_bytes(4, "little") for n, v in values.items()}
        self._defined(self.s.number, (function, *new), None, 0, **stored)

    def fail(self, how: str, name: str) -> None:
        """A cell that defines all numbers and a function, and is refused: nothing has changed."""
        lines = [f"@{n} = global i32 77" for n in NUMBERS if n in self.now.owner]
        stops = "call void @exit(i32 1)" if self.inline else "store volatile i32 1, ptr null"
        sources: dict[str, tuple[str, Any]] = {
            "syntax": (f"define i32 @{name}() {{\n  ret i64 1\n}}", CompileError),
            "link": (
                f"@nowhere = external global i32\ndefine i32 @{name}() {{\n"
                "  %v = load i32, ptr @nowhere\n  ret i32 %v\n}",
                LinkError,
            ),
            "constructor": (
                f"{Piece(name, 'i32', 1).text}\n@llvm.global_ctors = appending global "
                "[1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 65535, ptr @bad, ptr null }]\n"
                f"declare void @exit(i32)\ndefine void @bad() {{\n  {stops}\n  ret void\n}}",
                (Fault, Exited),
            ),
            "gc": (f'define i32 @{name}() gc "nothing" {{\n  ret i32 1\n}}', CompileError),
        }
        more, kind = sources[how]
        with pytest.raises(kind):
            self.s.run("\n".join([*lines, more]))

    def crash(self, how: str) -> None:
        """A run that stops and leaves everything as it was."""
        if self.inline and how not in ("exit", "undefined"):
            return  # that would be the end of this process
        if how == "killed":
            os.kill(self.s.inspect.executor[0], signal.SIGKILL)
            return
        if how == "interrupted":
            with interrupting(self.s, 0.1), pytest.raises(Interrupted):
                self.s.run("entry:\n  br label %l\nl:\n  br label %l")
            self._looked()
            return
        source = {
            "null": "store volatile i32 1, ptr null",
            "division": '%x = call i32 asm sideeffect "xorl %ecx, %ecx; movl $$1, %eax; cltd; '
            'idivl %ecx", "={ax},~{ecx},~{edx}"()',
            "exit": "@exit(3)",
            "abort": "@abort()",
            "undefined": "declare i32 @never()\n@never()",
        }[how]
        with pytest.raises(JitError):
            self.s.run(source)
        self._looked()

    def store(self, name: str, value: int, fault: bool = False) -> None:
        """An assignment, and perhaps a crash behind it."""
        stop = "@exit(1)" if self.inline else "@strlen(null)"
        source = f"@{name} = {value}" + (f"\n{stop}" if fault else "")
        if name not in self.now.owner:
            with pytest.raises(CompileError):
                self.s.run(source)
            self._looked()
            return
        if fault:
            with pytest.raises((Fault, Exited)):
                self.s.run(source)
        else:
            self.s.run(source)
        before, self.now = self.now, self.now.copy()
        self.now.values[name] = value.to_bytes(len(before.values[name]), "little")
        self._ran(Step(before, self.s.number))

    def text(self, text: str) -> None:
        """A string of the cell's own, and a pointer to it."""
        if POINTER not in self.now.owner:
            return
        at = int.from_bytes(self.now.values[POINTER], "little")
        if at and at not in [place for place, _ in self.now.strings.values()]:
            return  # the string might come to be where it leads, and nothing would have changed
        r = self.s.run(f'@{POINTER} = "{text}"')
        assert r.cell is not None
        before, now = self.now, self.now.copy()
        now.cells[r.cell.number] = ()
        now.values[POINTER] = value = self._read(POINTER)
        now.strings[r.cell.number] = int.from_bytes(value, "little"), text.encode() + b"\0"
        self.now = now
        self._ran(Step(before, r.cell.number, arrived=True))

    def poke(self, name: str, offset: int, data: bytes) -> None:
        """Somebody writes a variable between two runs."""
        value = self.now.values.get(name)
        if value is None or name == POINTER:
            return
        offset = min(offset % len(value), len(value) - 4)
        new = (value[:offset] + data + value[offset + len(data) :])[: len(value)]
        self.s[name].array.reshape(-1).view("u1")[:] = list(new)
        if new != value:
            self.now = self.now.copy()
            self.now.values[name] = new
            self.undone.clear()

    def evict(self, cell: int, how: str) -> None:
        """`how` is "", cascade or force."""
        before, now = self.now, self.now.copy()
        if not how and now.dependents(cell):
            with pytest.raises(EvictError):
                self.s.evict(cell)
            return
        going = {cell} if how == "force" else now.closure({cell})
        data = {n for n in now.names(cell) if n in VARIABLES}
        if self.inline and how == "force" and any(now.users(n) - {cell} for n in data):
            with pytest.raises(UsageError, match="would end this process"):
                self.s.evict(cell, force=True)
            return
        gone = self.s.evict(cell, **({how: True} if how else {}))
        assert {c.number for c in gone} == going
        ids = {i for c in going if (i := now.named.get(c, "")) and now.ids.get(i) == c}
        lost = now.drop(going)
        self.now = now
        self._ran(Step(before, 0, frozenset(lost), frozenset(going), ids=frozenset(ids)))

    def undo(self, count: int = 1) -> None:
        """Take back the last runs that changed something."""
        there = sum(self._changed(i) for i in range(len(self.done)))
        if count > there:
            with pytest.raises(UsageError):
                self.s.undo(count)
            return
        said = self.s.undo(count)
        assert len(said) == count
        for _ in range(count):
            while not self._changed(len(self.done) - 1):
                self.done.pop()
            step = self.done.pop()
            self.undone.append((step, self.now))
            self.now = step.before

    def redo(self, count: int = 1) -> None:
        """Do it again."""
        if count > len(self.undone):
            with pytest.raises(UsageError):
                self.s.redo(count)
            return
        self.s.redo(count)
        for _ in range(count):
            step, state = self.undone.pop()
            self.done.append(replace(step, before=self.now, again=True))
            self.now = state

    def undo_one(self, index: int, cascade: bool) -> None:
        """Take back one run out of the middle."""
        step = self.done[index]
        if not step.cell:
            return
        if not self._changed(index):
            with pytest.raises(UsageError):
                self.s.undo(cell=step.cell)
            return
        obstacles = [
            o.change
            for o in self.s.inspect.history.obstacles(self.s.inspect.history.find(step.cell))
        ]
        later = [i for i, c in enumerate(reversed(list(self.s.inspect.history))) if c in obstacles]
        assert set(self._later(index)) <= set(later), (self._later(index), later)
        self.extra += len(later) - len(self._later(index))
        if later and not cascade:
            with pytest.raises(EvictError) as caught:
                self.s.undo(cell=step.cell)
            assert len(caught.value.dependents) == len(later), (caught.value.dependents, later)
            return
        said = self.s.undo(cell=step.cell, cascade=cascade)
        assert len(said) == len(later) + 1, (said, [self.done[i].cell for i in later])
        for at in [*reversed(later), index]:
            self._take_out(at)

    def gc(self, undo: bool = False) -> None:
        """Collect garbage."""
        before, now = self.now, self.now.copy()
        garbage, most = {n for n, _ in self.s.gc(dry_run=True, undo=undo).cells}, now.garbage()
        # Cells of a string go where nothing points to that any more: the session looks it up.
        assert garbage - now.strings.keys() <= most
        assert all(now.dependents(c) <= garbage for c in garbage)
        pointed = self._pointed(most)  # by chance, or by a pointer to what was there before
        assert all(c in pointed or now.dependents(c) - garbage for c in most - garbage)
        found = self.s.gc(undo=undo)
        assert {n for n, _ in found.cells} == garbage
        if garbage:
            ids = {i for c in garbage if (i := now.named.get(c, "")) and now.ids.get(i) == c}
            lost = now.drop(garbage)
            self.now = now
            self._ran(Step(before, 0, frozenset(lost), frozenset(garbage), ids=frozenset(ids)))
        if undo:
            self.done.clear()
            self.undone.clear()

    def _pointed(self, cells: set[int]) -> set[int]:
        """Those of the cells that some word of data, live or kept for undo, seems to point into."""
        arena = self.s.inspect.engine.arena
        words = set()
        for start, size in arena.zones["data"].list.live.items():
            for at in range(-(-start // 8) * 8, start + size - 7, 8):
                words.add(int.from_bytes(arena.read(at, 8), "little"))
        found = set()
        for cell in cells:
            image = self.s.inspect.program.cells[cell].image
            extents = [b.extent for b in image.blocks] + ([image.text] if image.text else [])
            if any(e.start <= word < e.stop for e in extents for word in words):
                found.add(cell)
        return found

    # -- the model's history ---------------------------------------------------------------------

    def _looked(self) -> None:
        """A run has changed nothing: what was undone can still be redone, unless it might have."""
        undone, steps = self.undone, self.s.inspect.history.undone
        self._ran(Step(self.now, self.s.number))
        assert len(steps) in (0, len(undone))
        self.undone = undone if steps else []

    def _ran(self, step: Step) -> None:
        self.undone = []
        self.done.append(step)
        while (more := len(self.done) - self.depth) > 0:
            if more == 1 and not (step.moved or step.removed):  # what it wrote is seen later
                break
            unchanged = (i for i in range(len(self.done) - 1) if not self._changed(i))
            del self.done[next(unchanged, 0)]

    def _after(self, index: int) -> State:
        return self.done[index + 1].before if index + 1 < len(self.done) else self.now

    def _changed(self, index: int) -> bool:
        step = self.done[index]
        if step.moved or step.removed or step.arrived or step.again:
            return True
        return bool(written(step.before, self._after(index)))

    def _later(self, index: int) -> list[int]:
        """The later steps that build on one, or on one that does."""
        taken, found = [index], []
        for at in range(index + 1, len(self.done)):
            if any(self._builds_on(base, at) for base in taken):
                taken.append(at)
                found.append(at)
        return found

    def _builds_on(self, base: int, at: int) -> bool:
        first, other, now = self.done[base], self.done[at], self.now
        if first.moved & other.moved or first.ids & other.ids:
            return True
        if first.arrived and first.cell in other.removed:
            return True
        heirs = {first.before.owner.get(n) for n in first.moved}
        if (heirs | {first.before.ids.get(i) for i in first.ids}) & other.removed:
            return True
        new = {
            n for n in first.moved
            if first.arrived and now.owner.get(n) == first.cell
            and (n not in first.before.owner or first.before.types[n] != now.types[n])
        }  # fmt: skip
        made = self._after(at).cells.get(other.cell, ()) if other.arrived else ()
        if new & {n for p in made for n in p.uses}:
            return True
        after = self._after(at)
        lost = {n for n in other.moved if n in other.before.owner and n not in after.owner}
        back = {n: first.before.types[n] for n in first.moved if n in first.before.owner}
        for cell in first.removed:
            uses = first.before.uses(cell)
            if lost & uses:
                return True
            types = {n: t for n, t in taken(first.before.cells[cell]).items() if n in uses}
            back |= types
            if any(
                n in other.moved and n in after.owner and after.types[n] != t
                for n, t in types.items()
            ):
                return True
        for cell, name in self._after(base).ghosts - first.before.ghosts:
            if cell in first.before.cells:  # not one that came back as it was
                back[name] = taken(self.specs[cell])[name]
        if any(back.get(n, t) != t for n, t in taken(made).items()):
            return True
        mine = written(first.before, self._after(base))
        theirs = written(other.before, self._after(at))
        if mine & theirs:
            return True
        born = first.cell if first.arrived else -1
        return any(other.before.home.get(n) == born for n, _, _ in theirs)

    def _take_out(self, index: int) -> None:
        """The states after a step as if it had never been."""
        step = self.done[index]
        after = self._after(index)
        self.undone.append((step, self.now))
        for later in self.done[index + 1 :]:
            later.before = without(later.before, step, after)
        self.now = without(self.now, step, after)
        del self.done[index]

    # -- comparing -------------------------------------------------------------------------------

    def check(self, functions: list[str] | None = None) -> None:
        """Compare cells, every variable's bytes and place, and what functions answer (all of them
        where none are given)."""
        s, now = self.s, self.now
        cells = {cell.number: cell for cell in s.cells}
        if (
            gone := now.strings.keys() - cells.keys()
        ):  # those that nothing points to go by themselves
            there = {now.strings[c][0] for c in now.strings.keys() - gone}  # in the same place
            assert self._pointer() not in {now.strings[c][0] for c in gone} - there
            self.now = now = now.copy()
            now.drop(set(gone))
        assert cells.keys() == now.cells.keys()
        assert {n: set(c.names) for n, c in cells.items()} == {n: now.names(n) for n in now.cells}
        symbols = s.symbols
        for name, value in now.values.items():
            address = symbols[name].address
            assert now.place.setdefault(name, address) == address, name
            assert s.inspect.engine.arena.read(address, len(value)) == value, name
        for address, text in now.strings.values():
            assert s.inspect.engine.arena.read(address, len(text)) == text
        for name in functions if functions is not None else [*FUNCTIONS, *TYPED]:
            if name not in now.owner:
                assert name not in s
                continue
            wanted = now.answer(name)
            if isinstance(wanted, int):
                assert s.call(name) == wanted, name
                assert self.handles.setdefault(name, s[name])() == wanted, name
                continue
            with pytest.raises((UndefinedSymbol, TypeMismatch, Fault)):
                s.call(name)

    def _pointer(self) -> int:
        """Where the program's one pointer leads."""
        return int.from_bytes(self._read(POINTER), "little") if POINTER in self.now.owner else 0

    def _read(self, name: str) -> bytes:
        symbol = self.s.symbols[name]
        return self.s.inspect.engine.arena.read(symbol.address, symbol.size)

    def _compiled(self, spec: Spec) -> Any:
        retype = spec[0].name in (*TYPED, CHANGING)
        found = self.made.get((spec, retype))
        if found is None:
            found = self.s.compile(source_of(spec), CellOptions(retype=retype))
            self.made[spec, retype] = found
        return found


def written(before: State, after: State) -> set[tuple[str, int, int]]:
    """The values that differ, by variable and place and offset: a small variable is one, of a larger
    one every eight bytes."""
    found = set()
    for name, value in after.values.items():
        old, place = before.values.get(name), after.place[name]
        if old is None or old == value or before.place[name] != place:
            continue
        if len(value) <= 16:
            found.add((name, place, 0))
            continue
        found |= {
            (name, place, at)
            for at in range(0, len(value), 8)
            if old[at : at + 8] != value[at : at + 8]
        }
    return found


def without(state: State, step: Step, after: State) -> State:
    """A later state as if a step, after which the state was `after`, had never been."""
    new, before = state.copy(), step.before
    for name, place, at in written(before, after):
        if name in new.values and new.place[name] == place:
            value, old = new.values[name], before.values[name]
            size = len(value) if len(value) <= 16 else 8
            new.values[name] = value[:at] + old[at : at + size] + value[at + size :]
    for cell in step.removed:
        new.cells[cell] = before.cells[cell]
        if cell in before.named:
            new.named[cell] = before.named[cell]
        if cell in before.strings:
            new.strings[cell] = before.strings[cell]
    for name in step.moved:
        if name in before.owner:
            new.owner[name], new.types[name] = before.owner[name], before.types[name]
            if name in before.values and (
                name not in new.values or new.place.get(name) != before.place.get(name)
            ):
                new.values[name] = before.values[name]
            both: tuple[Any, ...] = ((new.home, before.home), (new.place, before.place))
            for table, old in both:
                if name in old:
                    table[name] = old[name]
    ghosts = set(new.ghosts) - (set(after.ghosts) - set(before.ghosts))
    new.ghosts = frozenset(ghosts | {g for g in before.ghosts if g[0] in step.removed})
    new.sizes |= {n: before.sizes[n] for n in step.moved if n in STRUCTS}
    new.known -= step.moved
    if step.arrived:
        leave(new, step, before)
    for name in step.ids:
        if name in before.ids:
            new.ids[name] = before.ids[name]
        else:
            new.ids.pop(name, None)
    return new


def leave(new: State, step: Step, before: State) -> None:
    """Take the cell that a step brought out of a state; names go back to whom they were of."""
    new.owner = {
        n: before.owner[n] if c == step.cell and n in before.owner else c
        for n, c in new.owner.items()
        if c != step.cell or n in before.owner
    }
    for table in (new.values, new.home, new.place):
        for name in [n for n in table if n not in new.owner]:
            del table[name]
    new.cells.pop(step.cell, None)
    new.strings.pop(step.cell, None)
    new.named.pop(step.cell, None)
    new.ghosts = frozenset(g for g in new.ghosts if g[0] != step.cell)
