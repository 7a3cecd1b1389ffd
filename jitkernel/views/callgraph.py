"""Graphs of the session: who calls whom, `callgraph`; which cell uses which, `deps`.

Calls are decoded from the code as it stands in the arena, so that those show that the program can
make now: calls of a function that was redefined lead to the new one.  Of what was inlined the
cell's object tells, and which of its functions names it.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.ir.calls import find_calls
from jitkernel.ir.module import functions as ir_functions
from jitkernel.ir.names import symbols_in
from jitkernel.linker import Symbol, SymbolState
from jitkernel.linker.disassembly import decode
from jitkernel.session.program.cell import CellState
from jitkernel.views.asm import Code, code_of, meant
from jitkernel.views.diagram import PAGE, Arrow, Node, figure_of
from jitkernel.views.graph import links, within
from jitkernel.views.room import LARGEST, Room
from jitkernel.views.view import WIDTH, View, prose, table
from jitkernel.wording import counted, cut_list

if TYPE_CHECKING:
    from jitkernel.session import Session

DRAWN, ROWS, NAMES = 120, 200, 20  # functions; names in a row of one, where not all are asked for
_ALIKE = 40  # boxes; of more, those of functions that have the same neighbours are one
_PAGE = 1600.0  # pixels of a layer
_NAMED = 4  # functions in a title
_LISTED = 6  # names in a box of many
_PART = 24  # boxes where not all are drawn
_SHOWN, _CELLS_DRAWN = 200, 60  # rows; cells in the picture
_CELLS = 4000  # whose code is decoded


@dataclass(slots=True)
class _Function:
    """A function: what its code refers to, with how often, and has of others in it; who refers to
    it, and whether by calls.

    `kind` is that of its box, and empty where it has code in memory.
    """

    where: str
    kind: str = ""
    calls: Counter[str] = field(default_factory=Counter)
    takes: Counter[str] = field(default_factory=Counter)
    inlines: list[str] = field(default_factory=list)
    indirect: int = 0
    used_by: dict[str, bool] = field(default_factory=dict)


def callgraph(
    session: Session,
    target: int | str | None = None,
    depth: int | None = None,
    everything: bool = False,
    to: int | str | None = None,
) -> View:
    """Calls between the session's functions; with a target, what it can reach and who reaches it;
    with two, what is on a way from one `to` the other, or back.

    `depth` leaves out what is more calls away from the target.  Of a cell, the functions of another
    one are one box; of many functions the picture shows those that can be read, or a box for each
    cell, and the words tell of the first ones; of all with `everything`.
    Raises UsageError where nothing is defined.
    """
    if depth is not None and (depth < 1 or target is None):
        raise UsageError("--depth is a number of calls, 1 or more, from a function that is named")
    if target is not None:
        code_of(session, target)  # in memory from now on, or an error
    functions = _functions(session)
    if target is None:
        if not functions:
            raise UsageError("no function is defined yet")
        return _Shown(session, functions, set(), everything).view()
    cell, names = session.inspect.cell_of(target)
    here = {n for n in names if n in functions and not functions[n].kind}
    if not here:
        raise UsageError(f"{meant(session, target, cell)} has no machine code")
    calls = {n: {*f.calls, *f.takes, *f.inlines} for n, f in functions.items()}
    users = {n: f.used_by for n, f in functions.items()}
    if to is not None:
        code_of(session, to)
        there = {n for n in session.inspect.cell_of(to)[1] if n in functions}
        reached = _between(here, there, calls, users) | _between(there, here, calls, users)
        if not reached:
            words = f"{meant(session, target, cell)} and {to}: neither reaches the other by calls"
            raise UsageError(words)
        here |= there
    else:
        reached = within(here, calls, depth) | within(here, users, depth)
    kept = {n: f for n, f in functions.items() if n in reached}
    return _Shown(session, kept, here, everything).view(apart=isinstance(target, int))


def _between(
    start: set[str],
    stop: set[str],
    calls: Mapping[str, Iterable[str]],
    users: Mapping[str, Iterable[str]],
) -> set[str]:
    """The functions on the ways from one set of them to another."""
    below: set[str] = within(start, calls)
    above: set[str] = within(stop, users)
    found = below & above
    return found if found & stop and found & start else set()


def _functions(session: Session) -> dict[str, _Function]:
    """Every function that has code in memory, by name, and what they refer to; local ones are
    called `name, cell 3`."""
    linked = session.inspect.program.linker.symbols
    starts: dict[int, str] = {}
    codes: list[tuple[str, Code]] = []
    for cell in session.cells[-_CELLS:]:
        if cell.state is CellState.HIBERNATED:
            continue
        try:
            _, found = code_of(session, cell.number)
        except UsageError:
            continue
        for code in found:
            key = code.name if code.type else f"{code.name}, cell {code.cell}"
            starts[code.address] = key
            codes.append((key, code))
    for symbol in linked.values():
        if symbol.is_function and symbol.state is SymbolState.DEFINED:
            starts.setdefault(symbol.address, symbol.name)
    entries = {s.stub: s.name for s in linked.values() if s.stub}
    slots = {s.slot: s.name for s in linked.values() if s.slot and s.is_function}
    functions: dict[str, _Function] = {}
    for key, code in codes:
        made = functions[key] = _Function(f"cell {code.cell}")
        content = session.inspect.engine.arena.read(code.address, code.size)
        for i in decode(content, code.address, lambda address: "?"):
            inside = code.address < i.target < code.address + code.size
            branch = i.mnemonic.startswith(("call", "j"))
            name = starts.get(i.target) or entries.get(i.target) or slots.get(i.target)
            if name is not None and not inside:
                (made.calls if branch else made.takes)[name] += 1
            elif branch and not i.target:
                made.indirect += 1
    for number in {code.cell for _, code in codes}:
        _note_inlined(session, number, functions)
    for name, function in list(functions.items()):
        for used in (*function.calls, *function.takes, *function.inlines):
            if used not in functions:
                functions[used] = _elsewhere(linked.get(used))
            functions[used].used_by[name] = used not in function.takes
    return functions


def _note_inlined(session: Session, number: int, functions: dict[str, _Function]) -> None:
    """Note what functions of a cell have of others in their code: those that they name, or that
    the text names which came with another."""
    linked = session.inspect.program.linker.symbols
    held = {n for n in session.inspect.held(number) if n in linked and linked[n].is_function}
    if not held:
        return
    request = session.inspect.request(number)
    bodies = {e.name: e.text for e in ir_functions(request.source, "define")}
    own = {name: symbols_in(text) for name, text in bodies.items()}
    lent = {body.name: symbols_in(body.text) for body in request.bodies}
    texts = {**lent, **own}
    for user in filter(functions.__contains__, own):
        function, found, names = functions[user], {user}, [user]
        while names:
            for name in texts.get(names.pop(), frozenset()) - found:
                if name in held or name in lent or (name in own and name not in linked):
                    found.add(name)
                    if name not in function.calls and name not in function.takes:
                        names.append(name)
        calls = {call.callee for call in find_calls(bodies[user])} if function.takes else set()
        found -= {user, *(name for name in function.takes if name not in calls)}
        function.inlines += sorted(found & held)


def _elsewhere(symbol: Symbol | None) -> _Function:
    """A function that has no code of a cell in memory."""
    if symbol is None:
        return _Function("", "far")
    if symbol.state is SymbolState.FAR:
        return _Function("library", "far")
    if symbol.state is SymbolState.DEFINED and symbol.image is not None:
        return _Function(f"cell {symbol.image.cell}, on disk", "far")
    if symbol.state is SymbolState.MISSING:
        return _Function("nobody's", "missing")
    return _Function("runtime", "far")


@dataclass(frozen=True)
class _Shown:
    """The functions that are shown; `here` are those that were asked for, and are said of whole."""

    session: Session
    functions: Mapping[str, _Function]
    here: set[str]
    everything: bool

    @cached_property
    def called(self) -> Callable[[str], str]:
        """The names of functions as they are shown."""
        return cache(partial(_called, self.session))

    @cached_property
    def arrows(self) -> list[Arrow]:
        """Calls, and dashed: addresses taken."""
        arrows = []
        for name, function in self.functions.items():
            used_here = function.calls | function.takes
            for used in (used for used in used_here if used in self.functions):
                count = function.calls[used]
                text = str(count) if count > 1 else ""
                arrows.append(Arrow(name, used, text, dashed=not count))
            for used in function.inlines:
                if used in self.functions and used not in function.calls:
                    arrows.append(Arrow(name, used, "inlined"))
        return arrows

    @cached_property
    def near(self) -> dict[str, list[str]]:
        """The neighbours of each: who calls it, or is called by it."""
        return links((arrow.start, arrow.stop) for arrow in self.arrows)

    @cached_property
    def homes(self) -> dict[str, str]:
        """The places of the functions that were not asked for."""
        return {n: f.where or "elsewhere" for n, f in self.functions.items() if n not in self.here}

    # -- in words --------------------------------------------------------------------------------

    def view(self, apart: bool = False) -> View:
        """All of it; `apart`: what was not asked for is drawn as what has it."""
        # Of many, what was asked for, and what comes first.
        functions, names = self.functions, list(self.functions)
        many = len(names) > ROWS and not self.everything
        names = sorted(names, key=lambda name: name not in self.here)[:ROWS] if many else names
        rows = [self._row(name) for name in names]
        calls = sum(
            n for f in functions.values() for used, n in f.calls.items() if used in functions
        )
        around = cut_list([self.called(n) for n in sorted(self.here)], _NAMED)
        title = "Calls" + (f" around {around}" if self.here else "")
        said = f"{counted(len(functions), 'function')}, {counted(calls, 'call')}"
        if many:
            said += f"; {ROWS} functions are listed, --all lists all"
        columns = ("function", "where", "calls", "takes the address of", "called by")
        endless = self.everything
        words = _text(title, rows, f"{said}.", Room("--all", endless))
        if not self.arrows:
            return View(words, table(title, columns, rows, f"{said}.", Room("--all", endless)).html)
        several = len(functions) > DRAWN and len({*self.homes.values()}) > 1
        drawn = self._clusters if apart or (not self.here and several) else self._drawing
        image, legend, rest = drawn(f"{title}: {said}.")
        note = f"\n{textwrap.fill(rest, WIDTH)}" if rest else ""
        room = Room("--all", endless).within(LARGEST - 3 * len(image) // 2)
        shown = table(title, columns, rows, f"{said}.", room)
        html = f"{image}<p>{prose(f'{legend} {rest}'.strip())}</p>{shown.html}"
        return View(words + note, html)

    def _row(self, name: str) -> tuple[str, str, str, str, str]:
        function, called = self.functions[name], self.called
        calls = [f"{called(n)}{f' {k} times' if k > 1 else ''}" for n, k in function.calls.items()]
        calls += [f"{called(n)} (inlined)" for n in function.inlines if n not in function.calls]
        if function.indirect:
            calls.append(f"{function.indirect} through pointers")
        takes = [called(n) for n in function.takes]
        callers = [called(n) for n, directly in sorted(function.used_by.items()) if directly]
        is_whole = self.everything or self.here == {name}
        most = len(self.functions) + 1 if is_whole else NAMES
        lists = [cut_list(found, most) for found in (calls, takes, callers)]
        return called(name), function.where, lists[0], lists[1], lists[2]

    # -- in pictures -----------------------------------------------------------------------------

    def _drawing(self, said: str) -> tuple[str, str, str]:
        """The picture, how it is read, and what is not in it; a large graph is drawn in part."""
        near, here, called = self.near, self.here, self.called
        # Those that call and are called by the same functions, in the same way, share a box.
        alike = self._alike() if len(near) > _ALIKE else {}
        boxes = [n for n in self.functions if (n in near or n in here) and n not in alike]
        first = [n for n in boxes if n in here] or sorted(boxes, key=lambda n: -len(near[n]))[:1]
        apart = {n: [o for o in others if o not in alike] for n, others in near.items()}
        kept = within(first, apart, most=_PART) if len(boxes) > DRAWN else set(boxes)
        many = Counter(alike.values())
        nodes = []
        for name in (n for n in boxes if n in kept):
            function = self.functions[name]
            lines = [function.where]
            if many[name]:
                lines.append(f"and {many[name]} more like it")
            nodes.append(
                Node(name, called(name), lines, "entry" if name in here else function.kind)
            )
        drawn = [a for a in self.arrows if a.start not in alike and a.stop not in alike]
        words = "Numbers say how many calls there are; dotted: its address is taken."
        if not here and len(near) < len(self.functions):
            words += " What neither calls nor is called is not drawn."
        rest = ""
        if len(boxes) > len(nodes):
            told = sum(1 + many[name] for name in kept)
            rest = (
                f"{told} of {len(near)} functions are drawn, those nearest to "
                f"{', '.join(map(called, first[:3]))}; %callgraph NAME --depth N draws others."
            )
        return figure_of(nodes, drawn, f"{said} {rest}".strip(), _PAGE), words, rest

    def _clusters(self, said: str) -> tuple[str, str, str]:
        """The same with a box for each cell, or for the library, of what was not asked for."""
        functions, near, called = self.functions, self.near, self.called
        nodes = [Node(n, called(n), [functions[n].where]) for n in functions
                 if n in self.here and n in near and len(self.here) <= DRAWN]  # fmt: skip
        boxed = {node.key for node in nodes}
        box = {n: n if n in boxed else self.homes.get(n, functions[n].where) for n in functions}
        members: dict[str, list[str]] = {}
        for name in functions:
            if name not in boxed and name in near:
                members.setdefault(box[name], []).append(name)
        for where, names in members.items():
            lines = [called(n) for n in names[:_LISTED]]
            if len(names) > _LISTED:
                lines.append(f"and {len(names) - _LISTED} more")
            nodes.append(Node(where, where, lines, "" if where.startswith("cell") else "far"))
        counts: Counter[tuple[str, str]] = Counter()
        for name, function in functions.items():
            for used in (*function.calls, *function.takes, *function.inlines):
                if used in functions and box[name] != box[used]:
                    counts[box[name], box[used]] += function.calls[used] or 1
        drawn = [Arrow(a, b, str(n) if n > 1 else "") for (a, b), n in counts.items()]
        words = (
            "Functions of one cell, or of the library, share a box; %callgraph CELL opens one. "
            "Numbers say how many calls there are."
        )
        return figure_of(nodes, drawn, said, _PAGE), words, ""

    def _alike(self) -> dict[str, str]:
        """Functions that have the same neighbours as another one, by whose box they are in."""
        ways: dict[str, set[tuple[str, str, str, bool]]] = {}
        for arrow in self.arrows:
            ways.setdefault(arrow.start, set()).add(("to", arrow.stop, arrow.text, arrow.dashed))
            ways.setdefault(arrow.stop, set()).add(("from", arrow.start, arrow.text, arrow.dashed))
        first: dict[frozenset[tuple[str, str, str, bool]], str] = {}
        found = {}
        for name in self.functions:
            if name in ways and name not in self.here:
                own = first.setdefault(frozenset(ways[name]), name)
                if own != name:
                    found[name] = own
        return found


def _text(title: str, rows: list[tuple[str, str, str, str, str]], note: str, room: Room) -> str:
    """A paragraph for each function: nothing is cut short, however many it calls."""
    lines = [title]
    for name, where, calls, takes, called in rows:
        parts = [("calls", calls), ("takes the address of", takes), ("is called by", called)]
        said = "; ".join(f"{word} {text}" for word, text in parts if text)
        head = f"{name} ({where})" if f", {where}" not in name else name
        lines += textwrap.wrap(f"{head} {said}", WIDTH, subsequent_indent="    ")
    return "\n".join([*room.lines(lines), note])


def _called(session: Session, name: str) -> str:
    plain, comma, cell = name.partition(", cell ")
    return session.inspect.program.called(plain, int(cell) if cell else None) + comma + cell


def deps(session: Session, target: int | str | None = None) -> View:
    """The dependencies of a cell, or of the cell that defines a name; of all cells without one."""
    called = session.inspect.program.called
    names = {cell.number: cell.names for cell in session.cells}
    uses: dict[int, list[tuple[str, str]]] = {n: [] for n in names}
    used, users = ({n: set[int]() for n in names} for _ in "12")
    for name, symbol in session.symbols.items():
        for user in filter(names.__contains__, symbol.users):
            uses[user].append((name, f"cell {symbol.cell}" if symbol.cell else symbol.state))
            if symbol.cell in names:
                used[user].add(symbol.cell)
                users[symbol.cell].add(user)

    def label(number: int) -> str:
        return cut_list([called(n) for n in names[number]], 3) or "statements"

    note = ""
    if target is None:
        numbers, here, breaks = sorted(names), 0, set[int]()
        title = "Dependencies between cells"
    else:
        here = session.inspect.cell_of(target)[0].number
        breaks = within([here], users) - {here}
        numbers = sorted(breaks | within([here], used))
        title = f"Dependencies of cell {here}"
        what = f"cell{'s' * (len(breaks) > 1)} {_numbers(breaks)}" if breaks else "nothing"
        note = f"Evicting cell {here} would break {what}."
    rows = []
    for n in numbers[:_SHOWN]:
        used_here = ", ".join(f"{called(name)} ({where})" for name, where in uses[n])
        rows.append((n, label(n), used_here, _numbers(users[n])))
    if len(numbers) > _SHOWN:
        note += f" {len(numbers) - _SHOWN} more cells are not shown; name one."
    view = table(title, ("#cell", "defines", "uses", "used by cells"), rows, note.strip())
    edges = [Arrow(str(n), str(u)) for n in numbers for u in sorted(used[n]) if n != u]
    inside = {str(n) for n in numbers}
    edges = [edge for edge in edges if edge.stop in inside]
    linked = {end for edge in edges for end in (edge.start, edge.stop)}
    if not edges:
        return view
    if len(linked) > _CELLS_DRAWN:
        words = f"For a picture there are too many cells; {_CELLS_DRAWN} can be drawn."
        return View(f"{view.text}\n{words}", f"{view.html}<p>{prose(words)}</p>")
    nodes = [
        Node(
            str(n),
            f"cell {n}{' (here)' if n == here else ''}",
            (label(n), *(("would break",) if n in breaks else ())),
            "entry" if n == here else "missing" if n in breaks else "",
        )
        for n in numbers
        if str(n) in linked
    ]
    alt = f"{title}: {counted(len(nodes), 'cell')}, {counted(len(edges), 'use')}. {note}".strip()
    legend = "An arrow leads from a cell to one that it uses; dashed where cells use each other."
    return View(view.text, f"{view.html}{figure_of(nodes, edges, alt, PAGE)}<p>{legend}</p>")


def _numbers(found: set[int]) -> str:
    return ", ".join(map(str, sorted(found)))
