"""A random walk over everything that a session does to a linker; its books are proved each time."""

from __future__ import annotations

import functools
import os
import struct

from books import state
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from toolchain import compile_ir

from jitkernel.arena import Arena
from jitkernel.errors import ArenaFull, LinkError
from jitkernel.linker import Linker, SymbolState

FUNCTIONS = ("f0", "f1", "f2", "f3", "getpid")
VARIABLES = ("v0", "v1", "environ")
_FAR = {"getpid": 0x7F12_3456_7890, "environ": 0x7F12_3456_8000, "__cxa_atexit": 0x7F12_3456_9000}
KINDS = {**dict.fromkeys(FUNCTIONS, "function"), **dict.fromkeys(VARIABLES, "variable")}


@functools.cache
def _object(defines: tuple[str, ...], uses: tuple[str, ...], salt: int, mode: int) -> bytes:
    """A module that defines some names and refers to others in code, constants and data."""
    lines = []
    for name in sorted(set(defines) | set(uses)):
        if name in FUNCTIONS:
            body = f"define i64 @{name}() {{ ret i64 {salt} }}"
            lines.append(body if name in defines else f"declare i64 @{name}()")
        else:
            kind = (
                f"global [{1 + salt} x i64] zeroinitializer" if salt % 2 else f"global i64 {salt}"
            )
            lines.append(
                f"@{name} = {kind}" if name in defines else f"@{name} = external global i64"
            )
    pointers = ", ".join(f"ptr @{n}" for n in uses)
    suffix = f"{salt}_{mode}_{'_'.join((*defines, 'u', *uses))}"
    if uses:
        lines.append(f"@data_{suffix} = global [{len(uses)} x ptr] [{pointers}]")
        lines.append(f"@table_{suffix} = constant [{len(uses)} x ptr] [{pointers}]")
    lines.append(f"define i64 @user_{suffix}() uwtable {{")
    total = "0"
    for i, name in enumerate(uses):
        what = f"call i64 @{name}()" if name in FUNCTIONS else f"load volatile i64, ptr @{name}"
        lines.append(f"  %x{i} = {what}\n  %s{i} = add i64 %x{i}, {total}")
        total = f"%s{i}"
    lines.append(f"  ret i64 {total}\n}}")
    reloc, model = [("static", "small"), ("pic", "small"), ("pic", "large")][mode]
    return compile_ir("\n".join(lines), 0, reloc, model)


class LinkerMachine(RuleBasedStateMachine):
    """Places, redefines, evicts, restores and fails at random."""

    def __init__(self) -> None:
        super().__init__()
        self.arena = Arena(capacity=16 << 20)
        self.far = dict(_FAR)
        self.linker = Linker(
            self.arena, lambda names: [self.far.get(n, 0) for n in names], {"jk_raise": 1 << 28}
        )
        self.images: list = []
        self.cell = 0
        self.peak = 0

    def teardown(self) -> None:
        for image in self.images:
            self.linker.unlink(image)
        self.linker.check()
        for symbol in self.linker.symbols.values():
            assert symbol.state is SymbolState.FAR, symbol
        usage = self.arena.usage()
        assert usage["data"]["extents"] == 0
        assert usage["text"]["extents"] <= len(_FAR)
        assert self.linker.unwind.check() == 0
        for name in ("text", "data", "unwind"):  # a bound on what was ever touched
            assert usage[name]["high"] <= 2 * self.peak + 4096
        self.arena.close()

    names = st.lists(st.sampled_from(FUNCTIONS + VARIABLES), max_size=3, unique=True)

    @rule(defines=names, uses=names, salt=st.integers(1, 3), mode=st.integers(0, 2))
    def place(self, defines, uses, salt, mode):
        defines = tuple(sorted(defines))
        uses = tuple(n for n in sorted(uses) if n not in defines)
        data = _object(defines, uses, salt, mode)
        self.cell += 1
        missing = [n for n in uses if n in VARIABLES and not self._has(n)]
        before = state(self.linker) if missing else None
        try:
            image = self.linker.place(data, self.cell, kinds=KINDS, weak=frozenset())
        except LinkError as error:
            assert missing and "nobody defines" in str(error)
            assert state(self.linker) == before
        else:
            assert not missing
            self.images.append(image)

    def _has(self, name: str) -> bool:
        symbol = self.linker.symbols.get(name)
        defined = symbol is not None and symbol.state is SymbolState.DEFINED
        return defined or name in self.far

    @precondition(lambda self: self.images)
    @rule(n=st.integers(0, 99))
    def evict(self, n):
        image = self.images.pop(n % len(self.images))
        others = self.linker.dependents(image)
        orphans = self.linker.unlink(image)
        assert set(orphans) == {s for s in others if s.name not in self.far}

    @precondition(lambda self: self.images)
    @rule(n=st.integers(0, 99))
    def take_back(self, n):
        """A symbol leads to an older definition again."""
        image = self.images[n % len(self.images)]
        for symbol, address, size in image.exports:
            was = symbol.definition
            kind = symbol.kind
            self.linker.redefine(symbol, (SymbolState.DEFINED, address, size, image, kind, ""))
            assert symbol.address == address
            if was[3] is None:
                assert was[0] is not SymbolState.DEFINED

    @precondition(lambda self: self.images)
    @rule(n=st.integers(0, 99), count=st.integers(0, 6))
    def run_out_of_room(self, n, count):
        before = state(self.linker)
        names = tuple(s.name for s, _, _ in self.images[n % len(self.images)].exports)
        defines = tuple(sorted(x for x in names if x in KINDS))
        data = _object(defines, ("f0",) if "f0" not in defines else (), 3, 2)
        reserve, left = self.arena.reserve, [count]

        def failing(*arguments):
            left[0] -= 1
            if left[0] < 0:
                raise ArenaFull("no room")
            return reserve(*arguments)

        self.arena.reserve = failing
        try:
            image = self.linker.place(data, 999, kinds=KINDS, weak=frozenset())
        except ArenaFull:
            assert state(self.linker) == before
        else:
            self.images.append(image)
        finally:
            self.arena.reserve = reserve

    @rule(shift=st.integers(1, 9))
    def respawn(self, shift):
        """Another process: everything in it is somewhere else."""
        self.far = {name: address + (shift << 20) for name, address in _FAR.items()}
        assert self.linker.resolver.renew_far() == []

    @precondition(lambda self: self.images)
    @rule(n=st.integers(0, 99))
    def program_stores(self, n):
        """A program keeps what it stores in a pointer variable, whatever moves."""
        image = self.images[n % len(self.images)]
        if image.data is not None:
            start, size = image.data.extent.start, image.data.extent.size
            self.arena.write(start, struct.pack("<Q", 0x1234_5678)[: min(8, size)])

    @invariant()
    def books_are_right(self):
        self.linker.check()
        usage = self.arena.usage()
        used = max(usage[n]["used"] + usage[n]["padding"] for n in ("text", "data", "unwind"))
        self.peak = max(self.peak, used)


TestLinkerMachine = LinkerMachine.TestCase
TestLinkerMachine.settings = settings(
    max_examples=int(os.environ.get("JITKERNEL_EXAMPLES", "40")),
    stateful_step_count=30,
    suppress_health_check=list(HealthCheck),
)
