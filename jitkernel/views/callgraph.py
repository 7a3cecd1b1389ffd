"""Who calls whom in the session, read from the code as it stands in the arena: `callgraph`.

Calls are decoded, so that those show that the program can make now: inlined ones are gone, calls
of a function that was redefined lead to the new one.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.ir.names import bare, written
from jitkernel.linker import Symbol, SymbolState
from jitkernel.session.program.cell import CellState
from jitkernel.views.asm import Code, code_of
from jitkernel.views.diagram import Arrow, Node, diagram
from jitkernel.views.disassembly import decode
from jitkernel.views.graph import links, nearest, within
from jitkernel.views.view import WIDTH, View, prose, table
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["callgraph"]

DRAWN, ROWS = 40, 5000
_PART = 24  # boxes where not all are drawn
_CELLS = 4000  # whose code is decoded


@dataclass(slots=True)
class _Function:
    """A function and what its code refers to: names with how often."""

    name: str
    where: str
    calls: dict[str, int] = field(default_factory=dict)
    takes: dict[str, int] = field(default_factory=dict)
    indirect: int = 0


def callgraph(session: Session, target: int | str | None = None, depth: int | None = None) -> View:
    """Calls between the session's functions; with a target, what it can reach and who reaches it.

    `depth` leaves out what is more calls away from the target.  Of many functions the picture shows
    those that can be read; the words tell all.  Raises UsageError where nothing is defined.
    """
    if depth is not None and (depth < 1 or target is None):
        raise UsageError("--depth is a number of calls, 1 or more, from a function that is named")
    if target is not None:
        code_of(session, target)  # in memory from now on, or an error
    functions = _functions(session)
    if target is None and not functions:
        raise UsageError("no function is defined yet")
    here: set[str] = set()
    if target is not None:
        cell, names = session.inspect.cell_of(target)
        here = {n for n in names if n in functions}
        if not here:
            what = written(bare(target)) if isinstance(target, str) else f"cell {cell.number}"
            raise UsageError(f"{what} has no machine code")
    users: dict[str, set[str]] = {name: set() for name in functions}
    for name, function in functions.items():
        for used in (*function.calls, *function.takes):
            users.setdefault(used, set()).add(name)
    if here:
        calls = {n: {*f.calls, *f.takes} for n, f in functions.items()}
        reached = within(here, calls, depth) | within(here, users, depth)
        shown = [n for n in users if n in reached]
    else:
        shown = list(users)
    return _view(session, functions, users, shown, here)


def _functions(session: Session) -> dict[str, _Function]:
    """Every function that has code in memory, by name; local ones are called `name, cell 3`."""
    linked = session.inspect.linked
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
        made = functions[key] = _Function(key, f"cell {code.cell}")
        content = session.inspect.read(code.address, code.size)
        for i in decode(content, code.address, lambda address: "?"):
            inside = code.address < i.target < code.address + code.size
            branch = i.mnemonic.startswith(("call", "j"))
            name = starts.get(i.target) or entries.get(i.target) or slots.get(i.target)
            if name is not None and not inside:
                kind = made.calls if branch else made.takes
                kind[name] = kind.get(name, 0) + 1
            elif branch and not i.target:
                made.indirect += 1
    return functions


def _view(
    session: Session,
    functions: dict[str, _Function],
    users: dict[str, set[str]],
    shown: list[str],
    here: set[str],
) -> View:
    rows = _rows(session, functions, users, shown[:ROWS])
    arrows = _arrows(functions, shown)
    inside = set(shown)
    calls_in_all = sum(
        count
        for name in shown if name in functions
        for used, count in functions[name].calls.items() if used in inside
    )  # fmt: skip
    title = "Calls" + (f" around {', '.join(map(_shown, sorted(here)))}" if here else "")
    said = f"{counted(len(shown), 'function')}, {counted(calls_in_all, 'call')}"
    if len(shown) > ROWS:
        said += f"; {ROWS} functions are listed"
    columns = ("function", "where", "calls", "takes the address of", "called by")
    text = View(_text(title, rows, f"{said}."), table(title, columns, rows, f"{said}.").html)
    if not arrows:
        return text
    image, words, rest = _drawing(session, functions, shown, here, arrows, f"{title}: {said}.")
    note = f"\n{textwrap.fill(rest, WIDTH)}" if rest else ""
    html = f"{image}<p>{prose(f'{words} {rest}'.strip())}</p>{text.html}"
    return View(text.text + note, html)


def _rows(
    session: Session,
    functions: dict[str, _Function],
    users: dict[str, set[str]],
    shown: list[str],
) -> list[tuple[str, str, str, str, str]]:
    symbols = session.inspect.linked
    rows = []
    for name in shown:
        function = functions.get(name)
        calls = [
            f"{_shown(n)}{f' {k} times' if k > 1 else ''}"
            for n, k in (function.calls.items() if function else ())
        ]
        if function and function.indirect:
            calls.append(f"{function.indirect} through pointers")
        takes = ", ".join(map(_shown, function.takes)) if function else ""
        called = ", ".join(_shown(n) for n in sorted(users[name]) if name in functions[n].calls)
        where = function.where if function else _where(symbols.get(name))
        rows.append((_shown(name), where, ", ".join(calls), takes, called))
    return rows


def _arrows(functions: dict[str, _Function], shown: list[str]) -> list[Arrow]:
    """Calls, and dashed: addresses taken."""
    inside = set(shown)
    arrows = []
    for name in (n for n in shown if n in functions):
        for used, count in functions[name].calls.items():
            if used in inside:
                arrows.append(Arrow(name, used, str(count) if count > 1 else ""))
        for used in functions[name].takes:
            if used in inside and used not in functions[name].calls:
                arrows.append(Arrow(name, used, "", dashed=True))
    return arrows


def _drawing(
    session: Session,
    functions: dict[str, _Function],
    shown: list[str],
    here: set[str],
    arrows: list[Arrow],
    said: str,
) -> tuple[str, str, str]:
    """The picture, how it is read, and what is not in it; a large graph is drawn in part."""
    symbols = session.inspect.linked
    near = links((arrow.start, arrow.stop) for arrow in arrows)
    # Those that call and are called by the same functions, in the same way, share a box.
    alike = _alike(shown, arrows, here) if len(near) > DRAWN else {}
    boxes = [n for n in shown if (n in near or n in here) and n not in alike]
    first = [n for n in boxes if n in here] or sorted(boxes, key=lambda n: -len(near[n]))[:1]
    apart = {n: [o for o in others if o not in alike] for n, others in near.items()}
    kept = nearest(first, apart, _PART) if len(boxes) > DRAWN else set(boxes)
    many = Counter(alike.values())
    nodes = []
    for name in (n for n in boxes if n in kept):
        function, symbol = functions.get(name), symbols.get(name)
        lines = [function.where if function else _where(symbol)]
        if many[name]:
            lines.append(f"and {many[name]} more like it")
        if out := sum(other not in kept for other in apart.get(name, ())):
            lines.append(f"({counted(out, 'neighbour')} not drawn)")
        kind = "entry" if name in here else "" if function else _kind(symbol)
        nodes.append(Node(name, _shown(name), lines, kind))
    drawn = [a for a in arrows if a.start in kept and a.stop in kept]
    words = "Numbers say how many calls there are; dotted: its address is taken."
    if not here and len(near) < len(shown):
        words += " What neither calls nor is called is not drawn."
    rest = ""
    if len(boxes) > len(nodes):
        told = sum(1 + many[name] for name in kept)
        rest = (
            f"{told} of {len(near)} functions are drawn, those nearest to "
            f"{', '.join(map(_shown, first[:3]))}; %callgraph @name --depth N draws others."
        )
    return diagram(nodes, drawn, f"{said} {rest}".strip()), words, rest


def _alike(shown: list[str], arrows: list[Arrow], here: set[str]) -> dict[str, str]:
    """Functions that have the same neighbours as another one, by whose box they are in."""
    ways: dict[str, set[tuple[str, str, str, bool]]] = {}
    for arrow in arrows:
        ways.setdefault(arrow.start, set()).add(("to", arrow.stop, arrow.text, arrow.dashed))
        ways.setdefault(arrow.stop, set()).add(("from", arrow.start, arrow.text, arrow.dashed))
    first: dict[frozenset[tuple[str, str, str, bool]], str] = {}
    found = {}
    for name in shown:
        if name in ways and name not in here:
            own = first.setdefault(frozenset(ways[name]), name)
            if own != name:
                found[name] = own
    return found


def _text(title: str, rows: list[tuple[str, str, str, str, str]], note: str) -> str:
    """A paragraph for each function: nothing is cut short, however many it calls."""
    lines = [title]
    for name, where, calls, takes, called in rows:
        parts = [("calls", calls), ("takes the address of", takes), ("is called by", called)]
        said = "; ".join(f"{word} {text}" for word, text in parts if text)
        head = f"{name} ({where})" if f", {where}" not in name else name
        lines += textwrap.wrap(f"{head} {said}", WIDTH, subsequent_indent="    ")
    return "\n".join([*lines, note])


def _shown(name: str) -> str:
    plain, comma, cell = name.partition(", cell ")
    return written(plain) + comma + cell


def _where(symbol: Symbol | None) -> str:
    if symbol is None:
        return ""
    if symbol.state is SymbolState.FAR:
        return "library"
    if symbol.state is SymbolState.DEFINED and symbol.image is not None:
        return f"cell {symbol.image.cell}, on disk"
    return "nobody's" if symbol.state is SymbolState.MISSING else "runtime"


def _kind(symbol: Symbol | None) -> str:
    missing = symbol is not None and symbol.state is SymbolState.MISSING
    return "missing" if missing else "far"
