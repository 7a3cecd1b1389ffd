"""Lines, functions and variables of one placed object.  Start from `DebugInfo`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

from jitkernel.elf.dwarf.dies import Die, Entries, Ranges
from jitkernel.elf.dwarf.lines import Lines, Row, read_lines
from jitkernel.elf.dwarf.sections import placed_sections

__all__ = ["DebugInfo", "Function", "Inlined", "Local"]

#: Behind the name of a variable of which nobody knows whether it is the one that is seen.
UNSURE = "?"
_SCOPES = ("lexical_block", "inlined_subroutine")
_VARIABLES = ("formal_parameter", "variable")


class Function(NamedTuple):
    """A function's code: from `low` to before `high`, or in several `ranges`; `body` is where its
    arguments are in their places, and a breakpoint on it belongs.  `line` and `file` are those of
    its name, `offset` is its entry's."""

    name: str
    low: int
    high: int
    body: int
    line: int
    file: str
    offset: int
    ranges: Ranges

    def __contains__(self, pc: object) -> bool:
        return isinstance(pc, int) and any(low <= pc < high for low, high in self.ranges)


class Inlined(NamedTuple):
    """A function whose body is part of another one's, and where it is called there."""

    name: str
    line: int
    file: str


@dataclass(frozen=True, slots=True)
class Local:
    """A variable: `type` is the offset of its type's entry (0: none), `expression` says where it
    is at the address that was asked about, None where it is nowhere; `constant` is a value that it
    always has, in bytes.  `frame` says where its function's frame is.

    `throughout` is True where one expression holds for all of its scope.  Where it has to be
    `sure`, what is computed of a register's upper bits does not count: see `places`.  `defined` is
    False for a value of LLVM's that has not been computed at that address.
    """

    name: str
    type: int
    argument: bool
    line: int
    file: str
    expression: bytes | None = None
    constant: bytes | None = None
    frame: bytes | None = None
    defined: bool = True
    indexed: Callable[[int], int] | None = None
    throughout: bool = False
    sure: bool = False
    annotated: bool = False

    @property
    def static(self) -> bool:
        """True if it is at one address for ever: DW_OP_addr, DW_OP_addrx, or thread-local."""
        return (self.expression or b"")[:1] in (b"\x03", b"\xa1", b"\xfb")


class DebugInfo:
    """The debug information of an object: `code` are its bytes, `addresses` where its sections are,
    by index, and `names` where symbols of others are.  Nothing is read before it is asked for."""

    def __init__(
        self, code: bytes, addresses: Mapping[int, int], names: Mapping[str, int] | None = None
    ):
        self._code, self._addresses, self._names = code, dict(addresses), names or {}
        self._starts_of: list[tuple[int, int, Function]] | None = None
        # What each step asks about, by address, and by the offset of a function's entry.
        self._chains: dict[int, tuple[int, ...]] = {}
        self._statements: dict[int, list[tuple[int, int]]] = {}
        self._keeps: dict[int, bool] = {}

    @cached_property
    def _sections(self) -> dict[str, bytes]:
        found = placed_sections(self._code, self._addresses, self._names)
        self._code = b""
        return found

    @cached_property
    def lines(self) -> Lines:
        """The line tables."""
        return read_lines(self._sections)

    @cached_property
    def entries(self) -> Entries:
        """The entries."""
        return Entries(self._sections)

    # -- code ----------------------------------------------------------------------------------

    @cached_property
    def functions(self) -> list[Function]:
        """The functions that have code, by address."""
        entries, found = self.entries, []
        for unit in entries.units:
            for offset in unit.functions:
                die = entries.die(offset)
                if ranges := die.ranges:
                    found.append(self._function(die, ranges))
        return sorted(found, key=lambda function: function.low)

    def _function(self, die: Die, ranges: Ranges) -> Function:
        entry = die.attributes.get("low_pc")
        low = entry.value if entry is not None and entry.value else ranges[0][0]
        low, high = next(((a, b) for a, b in ranges if a <= low < b), ranges[0])
        said = die.having("decl_line")
        line, file = said.number("decl_line"), self._file(said, "decl_file")
        return Function(die.name, low, high, self._body(low, high), line, file, die.offset, ranges)

    def _body(self, low: int, high: int) -> int:
        """The place where a function's prologue is over: where it says so, else at its second
        line."""
        rows = self.lines.between(low, high)
        for row in rows:
            if row.prologue_end:
                return row.start
        return rows[1].start if len(rows) > 1 else low

    def function(self, pc: int) -> Function | None:
        """The function whose code an address is in."""
        if self._starts_of is None:
            every = [(low, high, f) for f in self.functions for low, high in f.ranges]
            self._starts_of = sorted(every, key=lambda one: one[:2])
        at = bisect_right(self._starts_of, pc, key=lambda one: one[0]) - 1
        if at < 0 or pc >= self._starts_of[at][1]:
            return None
        return self._starts_of[at][2]

    def row(self, pc: int) -> Row | None:
        """The stretch of code of one line that an address is in."""
        return self.lines.row(pc)

    def starts(self, line: int, file: str) -> tuple[int, list[int]]:
        """The first line from `line` on that has code, and the address where it begins in each
        function, and in each inlined copy of one; (0, []) where there is none.

        On a function's first line that is where its body begins.
        """
        rows = [r for r in self.lines.rows if r.line >= line and r.is_stmt and r.file == file]
        if not rows:
            return 0, []
        found = min(row.line for row in rows)
        first: dict[tuple[int, ...], int] = {}
        for row in rows:
            if row.line != found or (function := self.function(row.start)) is None:
                continue
            prologue = function.low <= row.start < function.body
            at = function.body if prologue else row.start
            copies = [] if prologue else self._inlined(function, at)
            key = (function.offset, *(die.offset for die in copies))
            first[key] = min(first.get(key, at), at)
        return found, sorted(set(first.values()))

    def statement_starts(self, function: Function) -> list[tuple[int, int]]:
        """The addresses where stretches of one line of a function begin, with the line: behind its
        prologue, and its body's first address."""
        if (known := self._statements.get(function.offset)) is not None:
            return known
        found: dict[int, int] = {}
        for low, high in function.ranges:
            before: tuple[int, str] | None = None
            for row in self.lines.between(low, high):
                here = (row.line, row.file)
                if not row.line or not row.is_stmt:
                    continue
                is_prologue = function.low <= row.start < function.body
                if here != before and not is_prologue:
                    found[row.start] = row.line
                before = None if is_prologue else here
        starts = self._statements[function.offset] = sorted(found.items())
        return starts

    def keeps_frame(self, function: Function) -> bool:
        """True if `rbp` is a function's frame throughout its body."""
        if (known := self._keeps.get(function.offset)) is None:
            base = self.entries.die(function.offset).block("frame_base")
            known = self._keeps[function.offset] = base == b"\x56"  # DW_OP_reg6
        return known

    def inline_chain(self, pc: int) -> tuple[int, ...]:
        """The inlined copies that an address is in: offsets of their entries,
        the outermost first."""
        if (known := self._chains.get(pc)) is None:
            function = self.function(pc)
            inlined = self._inlined(function, pc) if function is not None else []
            known = self._chains[pc] = tuple(die.offset for die in inlined)
        return known

    def copies(self, name: str) -> list[int]:
        """The places where the bodies of a function begin that are parts of others."""
        found = []
        for die in self._every_inlined():
            if die.name == name and die.ranges:
                low = die.attributes.get("entry_pc")
                at = low.value if low is not None else 0
                inside = any(a <= at < b for a, b in die.ranges)
                found.append(at if inside else die.ranges[0][0])
        return sorted(found)

    def inlined_bounds(self) -> list[int]:
        """The places where stretches of inlined functions begin or end, within a row or not."""
        every = (at for die in self._every_inlined() for ends in die.ranges for at in ends)
        return sorted({*every})

    def _every_inlined(self) -> Iterator[Die]:
        for function in self.functions:
            left = [self.entries.tree(function.offset)] if self.entries.inlines else []
            while left:
                die = left.pop()
                left += [d for d in die.children if d.tag in _SCOPES]
                if die.tag == "inlined_subroutine":
                    yield die

    def inlined(self, pc: int) -> list[Inlined]:
        """The functions inlined at an address, the innermost first."""
        function = self.function(pc)
        if function is None:
            return []
        return [
            Inlined(die.name, die.number("call_line"), self._file(die, "call_file"))
            for die in reversed(self._inlined(function, pc))
        ]

    def _inlined(self, function: Function, pc: int) -> list[Die]:
        if not self.entries.inlines:
            return []
        return [die for die in self._scopes(function, pc) if die.tag == "inlined_subroutine"]

    def _scopes(self, function: Function, pc: int) -> list[Die]:
        """The function, and the blocks and inlined functions in it that an address is in, from the
        outermost."""
        found = [self.entries.tree(function.offset)]
        while (inner := _scope_at(found[-1], pc)) is not None:
            found.append(inner)
        return found

    def _file(self, die: Die, name: str) -> str:
        """The file that a number means in its unit's line table."""
        number = die.number(name, -1)
        table = self.entries.top(die.raw.cu).number("stmt_list", -1)
        files = self.lines.files.get(table, [])
        return files[number] if 0 <= number < len(files) else ""

    # -- variables -----------------------------------------------------------------------------

    def variables(
        self, function: Function, pc: int, inlined: int = 0, sure: bool = False
    ) -> list[Local]:
        """The variables that can be seen at an address, those of inner blocks first, each name
        once; of the function inlined there with index `inlined`, as `inlined` gives them, and
        behind those of the function itself.  Where it has to be `sure`, a name that may mean one
        variable or another is nowhere.

        Of LLVM's values, whose names begin with `%`, all are there; `defined` says whether they
        have been computed: in a block around, or on an earlier line of the same block.  In a
        caller's frame `pc` is one below where it goes on.
        """
        scopes = self._scopes(function, pc)
        cuts = [i for i, die in enumerate(scopes) if die.tag == "inlined_subroutine"]
        bounds = [len(scopes), *cuts[::-1], 0]
        level = min(inlined, len(cuts))
        mine = scopes[bounds[level + 1] : bounds[level]]
        frame = scopes[0].expression("frame_base", pc)
        every: dict[str, list[Local]] = {}
        for scope in reversed(mine):
            named = [die for die in scope.children if die.tag in _VARIABLES and die.name]
            here = [self._local(die, die.name, pc, frame) for die in named]
            here += self._left_out(scope, pc)
            for local in here:
                every.setdefault(local.name, []).append(local)
        origin = mine[0].reference("abstract_origin") or mine[0].offset
        statics: set[str] = self._statics.get(origin, set()) if sure else set()
        found = {name: _seen(some, sure, name in statics) for name, some in every.items()}
        if any(name.startswith("%") for name in found) or _has_values(mine[0]):
            return self._values(mine, pc, frame)
        return list(found.values())

    @cached_property
    def _statics(self) -> dict[int, set[str]]:
        """The names of static variables of functions, by the offsets of what these are copies of:
        LLVM has those of inner blocks anywhere in any of the copies."""
        found: dict[int, set[str]] = {}
        for unit in self.entries.units:
            for offset in unit.functions:
                top = self.entries.tree(offset)
                names = found.setdefault(top.reference("abstract_origin") or offset, set())
                left = [top]
                while left:
                    for die in left.pop().children:
                        if die.tag in _SCOPES:
                            left.append(die)
                        elif die.tag in _VARIABLES and self._local(die, die.name, 0, None).static:
                            names.add(die.name)
        return found

    def _left_out(self, scope: Die, pc: int) -> list[Local]:
        """Variables of a scope that is a copy, of which nothing is said there: they are static or
        nowhere, and hide those of scopes around."""
        origin = scope.reference("abstract_origin")
        if not origin:
            return []
        said = {die.reference("abstract_origin") for die in scope.children}
        left = [d for d in self.entries.tree(origin).children if d.offset not in said]
        return [
            self._local(die, die.name, pc, None)
            for die in left
            if die.tag in _VARIABLES and die.name
        ]

    def _values(self, scopes: list[Die], pc: int, frame: bytes | None) -> list[Local]:
        """LLVM's values, all of a function's, in their order."""
        row = self.row(pc)
        line = row.line if row is not None else 0
        around, innermost = {die.offset for die in scopes}, scopes[-1].offset
        found = []
        for scope, die in _below(scopes[0]):
            name = die.name
            if not name or die.flag("artificial"):
                continue
            local = self._local(die, name, pc, frame)
            defined = local.argument or scope.offset in around
            if defined and scope.offset == innermost and not local.argument and line:
                defined = local.line < line
            found.append(local if defined else replace(local, defined=False))
        return found

    @property
    def globals(self) -> list[Local]:
        """The global variables that the object defines, statics among them; not those within
        functions, which are among their variables."""
        found = []
        for unit in self.entries.units:
            for offset in unit.globals:
                die = self.entries.die(offset)
                if (name := die.name) and ("location" in die or "const_value" in die):
                    found.append(self._local(die, name, 0, None))
        return found

    @cached_property
    def type_names(self) -> dict[str, int]:
        """The outermost types that have names, by name with `struct `, `union ` or `enum ` in
        front: offsets of their entries, of definitions where there are some."""
        found: dict[str, int] = {}
        for unit in self.entries.units:
            for offset in unit.types:
                die = self.entries.die(offset)
                word = _TAGS.get(die.tag)
                if word is None or not (name := die.name):
                    continue
                if f"{word}{name}" not in found or not die.flag("declaration"):
                    found[f"{word}{name}"] = offset
        return found

    def _local(self, die: Die, name: str, pc: int, frame: bytes | None) -> Local:
        said, typed = die.having("decl_line"), die.having("type")
        constant = die.having("const_value").attributes.get("const_value")
        value = None
        if constant is not None and "location" not in die:
            value = (
                constant.value.to_bytes(8, "little", signed=constant.value < 0)
                if isinstance(constant.value, int) else bytes(constant.value)
            )  # fmt: skip
        where = die.expression("location", pc)
        if name.endswith(UNSURE):
            name, where, value = name.removesuffix(UNSURE), b"", None
        return Local(
            name,
            typed.reference("type"),
            die.tag == "formal_parameter",
            said.number("decl_line"),
            self._file(said, "decl_file"),
            where,
            value,
            frame,
            indexed=self.entries.indexed(die),
            throughout=die.block("location") is not None,
            annotated=said.raw.has_children,
        )


_TAGS = {
    "structure_type": "struct ", "union_type": "union ", "enumeration_type": "enum ",
    "typedef": "", "base_type": "",
}  # fmt: skip


def _seen(same: list[Local], sure: bool, has_static: bool) -> Local:
    """The variable of a name that is seen, of those in the scopes around, innermost first.  LLVM
    has statics of inner blocks among those of the function: nobody can tell which one is
    meant."""
    found = replace(same[0], sure=sure)
    other = has_static and not found.static
    if other or (sure and len(same) > 1 and any(local.static for local in same)):
        return replace(found, expression=b"", constant=None)
    return found


def _below(top: Die) -> Iterator[tuple[Die, Die]]:
    """The variables in a scope and in the blocks in it, with their scopes, in order."""
    left = [(top, die) for die in reversed(top.children)]
    while left:
        scope, die = left.pop()
        if die.tag in _VARIABLES:
            yield scope, die
        elif die.tag == "lexical_block":
            left += [(die, inner) for inner in reversed(die.children)]


def _has_values(top: Die) -> bool:
    """True of a function of LLVM's whose values are all in blocks that are not around."""
    return any(die.name.startswith("%") for _, die in _below(top))


def _scope_at(die: Die, pc: int) -> Die | None:
    """The block or inlined function right below an entry that an address is in; they do not
    overlap."""
    if die.scopes is None:
        below = (inner for inner in die.children if inner.tag in _SCOPES)
        die.scopes = sorted(
            ((low, high, inner) for inner in below for low, high in inner.ranges if low < high),
            key=itemgetter(0),
        )
    at = bisect_right(die.scopes, pc, key=itemgetter(0)) - 1
    return die.scopes[at][2] if at >= 0 and pc < die.scopes[at][1] else None
