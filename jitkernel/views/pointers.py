"""Lists, trees and graphs of a program, drawn by following its pointers.  Start from `draw`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from jitkernel.errors import UsageError
from jitkernel.session.debugging.values import (
    Part,
    Value,
    bytes_of,
    children,
    counts,
    shown,
    type_text,
)
from jitkernel.views.data import Data, look_up
from jitkernel.views.diagram import PAGE, Arrow, Node, figure_of
from jitkernel.views.padding import alignment
from jitkernel.views.view import View, fold, preformatted, shorten
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["draw"]

MOST = 40  # boxes, where nobody says how many
_LARGEST = 1000  # whatever is said
_ROOM = 400_000  # bytes of HTML: there are fewer boxes where they would take more
_LINES, _LETTERS = 12, 60  # of a box
_ELEMENTS = 64  # of an array within one


class _Link(NamedTuple):
    """A pointer in a box: its member, and the number of the box that it leads to, `words` being the
    part of that; 0 and words where it leads to none."""

    name: str
    to: int
    words: str = ""


@dataclass
class _Box:
    """An object of the program, `place` its name or its address; `lines` are its members that lead
    nowhere."""

    number: int
    type: str
    place: str
    lines: list[str] = field(default_factory=list)
    links: list[_Link] = field(default_factory=list)
    kind: str = ""

    @property
    def title(self) -> str:
        """The words for it in the picture: those of the heap have no name."""
        return self.type if self.place.startswith("0x") and not self.kind else (
            f"{self.type} {self.place}"
        )  # fmt: skip


def draw(session: Session, text: str, most: int = MOST) -> View:
    """The objects that can be reached from an expression by its pointers, nearest first, at most so
    many; those that lead back, and those to memory that cannot be read, are told as such.  Raises
    UsageError where it leads to nothing."""
    data, most = look_up(session, text), min(most, _LARGEST)
    wanted = most
    while True:
        walk = _Walk(data, most)
        boxes = walk.boxes
        if not walk.followed and boxes[0].kind != "missing":
            raise UsageError(
                f"{text} leads nowhere: it is {type_text(data.value)}, "
                f"{shown(data.value, data.read, data.describe)}"
            )
        title = f"{text}: {type_text(data.value)}, {counted(len(boxes), 'object')}"
        if walk.left:
            more = f": --most {2 * len(boxes)}" if len(boxes) == wanted < _LARGEST else ""
            title += f", and more{more}"
        wild = sum(box.kind == "missing" for box in boxes)
        title += f"; {wild} cannot be read" if wild else ""
        made = _view(title, boxes)
        if len(made.html) <= _ROOM or len(boxes) == 1:
            return made
        most = len(boxes) * _ROOM // (len(made.html) + _ROOM // 50)


def _view(title: str, boxes: list[_Box]) -> View:
    lines = [title, *_text(boxes)]
    nodes = [
        Node(str(box.number), f"{box.number}  {box.title}", _short(box), box.kind) for box in boxes
    ]
    arrows = [
        Arrow(str(box.number), str(link.to), f"{link.name} → {link.words}".removesuffix(" → "))
        for box in boxes
        for link in box.links
        if link.to
    ]
    picture = figure_of(nodes, arrows, title, PAGE)
    plain = preformatted("\n".join(map(escape, lines[1:])))
    html = f"<p>{escape(title)}</p>{picture}<details><summary>as text</summary>{plain}</details>"
    return View(fold(lines), html)


def _short(box: _Box) -> list[str]:
    """The lines of a box in the picture."""
    lines = [*box.lines, *(f"{link.name} = {link.words}" for link in box.links if not link.to)]
    more = len(lines) - _LINES
    lines = lines if more <= 0 else [*lines[:_LINES], f"and {more} more"]
    return [shorten(line, _LETTERS) for line in lines]


def _text(boxes: list[_Box]) -> Iterator[str]:
    """The boxes in words, with the numbers of those that they lead to."""
    for box in boxes:
        yield f"{box.number:>3}  {box.type} {box.place}"
        yield from (f"       {line}" for line in box.lines)
        for link in box.links:
            where = f"-> {link.to} {link.words}".rstrip() if link.to else f"= {link.words}"
            back = " (back)" if 0 < link.to <= box.number and not link.words else ""
            yield f"       {link.name} {where}{back}"


class _Walk:
    """The objects that are met along pointers, breadth first."""

    def __init__(self, data: Data, most: int):
        self._data, self._most = data, max(most, 1)
        # By address and type: the box, and which part of it.
        self._seen: dict[tuple[int, str], tuple[int, str]] = {}
        self._due: deque[tuple[_Box, Value]] = deque()
        self.boxes: list[_Box] = []
        self.left = 0
        self.followed = 0
        first = data.value
        if first.type.bare.kind == "pointer":
            link = self._follow(first, data.text)
            if not link.to:
                raise UsageError(f"{data.text} leads to nothing: it is {link.words}")
        else:
            self._add(first, data.text)
        while self._due:
            box, value = self._due.popleft()
            self._open(box, value)

    def _add(self, value: Value, name: str = "") -> tuple[int, str]:
        address = value.address or 0
        key = address, type_text(value)
        if (known := self._seen.get(key)) is not None:
            return known
        if len(self.boxes) >= self._most:
            self.left += 1
            return self._seen.setdefault(key, (0, ""))
        place = self._data.place(address) if address else ""
        place = "" if " " in place else place  # it is no name
        box = _Box(len(self.boxes) + 1, type_text(value), name or place or f"{address:#x}")
        self.boxes.append(box)
        self._seen[key] = box.number, ""
        self._due.append((box, value))
        if value.type.bare.kind == "array" and address:  # whose elements others may lead to
            for part in children(value, self._data.read, 0, _ELEMENTS):
                at = part.value.address or 0, type_text(part.value)
                self._seen.setdefault(at, (box.number, part.name))
        return self._seen[key]

    def _follow(self, value: Value, name: str) -> _Link:
        """The link that a pointer is."""
        data, bare = bytes_of(value, self._data.read), value.type.bare
        address = int.from_bytes(data or b"", "little")
        words = shown(value, self._data.read, self._data.describe)
        of = bare.element
        if not address or of is None or of.bare.kind in ("void", "function", "bytes"):
            return _Link(name, 0, words)
        if (of.bare.kind, of.bare.size) == ("int", 1) or not of.bare.size:
            return _Link(name, 0, words)  # a text, or a type that is not complete
        self.followed += 1
        number, part = self._add(Value(of, address, ir=value.ir))
        return _Link(name, number, part if number else f"{words} (not drawn)")

    def _open(self, box: _Box, value: Value) -> None:
        """Fill a box from memory."""
        read = self._data.read
        if value.address is not None and bytes_of(value, read) is None:
            box.kind = "missing"
            box.lines.append("cannot be read")
            return
        if (value.address or 0) % alignment(value.type):
            box.lines.append("(its address is not aligned)")
        if value.type.bare.kind not in ("struct", "union", "array"):
            if value.type.bare.kind == "pointer":
                box.links.append(self._follow(value, "*"))
            else:
                box.lines.append(shown(value, read, self._data.describe))
            return
        self._parts(box, value, "", is_union=value.type.bare.kind == "union")

    def _parts(self, box: _Box, value: Value, path: str, is_union: bool) -> None:
        read, describe = self._data.read, self._data.describe
        many = max(counts(value, read))
        for part in children(value, read, 0, _ELEMENTS):
            name = self._named(path, part)
            kind = part.value.type.bare.kind
            if kind == "pointer" and not is_union:
                link = self._follow(part.value, name)
                if link.to or link.words != "NULL" or value.type.bare.kind != "array":
                    box.links.append(link)
            elif not is_union and self._has_pointers(part.value) and max(counts(part.value, read)):
                self._parts(box, part.value, name, is_union)
            else:
                box.lines.append(f"{name} = {shown(part.value, read, describe)}")
        if many > _ELEMENTS:
            box.lines.append(f"and {many - _ELEMENTS} more elements")

    @staticmethod
    def _named(path: str, part: Part) -> str:
        dot = "." if path and not part.name.startswith("[") else ""
        return f"{path}{dot}{part.name}"

    def _has_pointers(self, value: Value) -> bool:
        """True if some part of a struct or an array leads somewhere."""
        bare = value.type.bare
        if bare.kind == "array":
            of = bare.element
            return of is not None and self._has_pointers(Value(of))
        if bare.kind == "struct":
            return any(self._has_pointers(Value(member.type)) for member in bare.members)
        return bare.kind == "pointer"
