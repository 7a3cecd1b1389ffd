"""An array of structs, or any other, as a table.  Start from `rows`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitkernel.session.debugging.values import Value, shown, type_text
from jitkernel.values.datatype import Member
from jitkernel.views.data import Data, Elements, columns, elements, look_up
from jitkernel.views.view import View, table, titled
from jitkernel.wording import counted

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["rows", "rows_of"]

MOST = 200  # rows, where nobody says how many
_COLUMNS = 24
_NUMBERS = 10  # in a row


def rows(session: Session, text: str, *, count: int | None = None, first: int = 0) -> View:
    """The elements of an array, one a row: members of structs, and elements of short arrays in
    them, have columns; of numbers ten stand in a row.  `count` of them from number `first` on,
    which a pointer needs.  Raises UsageError."""
    data = look_up(session, text)
    made = rows_of(data, elements(data, count, first), MOST if count is None else count)
    return titled(f"{text}: {type_text(data.value)}", made)


def rows_of(data: Data, found: Elements, most: int = MOST) -> View:
    """The first elements as a table.  See `rows`."""
    if len(found.shape) > 1:  # a matrix: its rows
        found = found.rows()
    every = columns(found.type)
    members, size, first = every[:_COLUMNS], found.type.bare.size, found.first
    made = []
    for at in range(min(found.count, most)):
        whole = Value(found.type, data=found.data[at * size : (at + 1) * size], ir=data.value.ir)
        parts = [whole.part(m) for _, m in members]
        made.append([shown(part, data.read, data.describe) for part in parts])
    notes = []
    if (left := found.count - len(made)) > 0:
        notes.append(f"{counted(left, 'more element', ',')}: --first {first + len(made)}")
    if len(every) > len(members):
        notes.append(counted(len(every) - len(members), "more column"))
    if not members[0].name and len(made) > _NUMBERS:  # they have one column
        heads = ["", *(f"#+{at}" for at in range(_NUMBERS))]
        texts = [row[0] for row in made]
        lines = [
            [f"[{first + at}]", *texts[at : at + _NUMBERS], *[""] * (at + _NUMBERS - len(texts))]
            for at in range(0, len(texts), _NUMBERS)
        ]
    else:
        heads = ["", *(_heading(name, member) for name, member in members)]
        lines = [[f"[{first + at}]", *row] for at, row in enumerate(made)]
    return table("", heads, lines, "; ".join(notes))


def _heading(name: str, member: Member) -> str:
    """The head of a column, with the mark of those that hold numbers."""
    mark = "#" if member.type.bare.kind in ("int", "float", "bool") else ""
    return f"{mark}{name.removeprefix('.') or 'value'}"
