"""A struct byte by byte: where its members lie, and what is padding.  Start from `layout`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from jitkernel.errors import JitError, UsageError
from jitkernel.session.debugging.values import Value, shown, type_text
from jitkernel.values.c import declare
from jitkernel.values.datatype import DataType
from jitkernel.views.data import Data, look_up
from jitkernel.views.room import Room
from jitkernel.views.svg import FAINT, INK, LETTER, SHEET, Fill, image, label, rectangle
from jitkernel.views.view import View, shorten, table
from jitkernel.wording import counted, cut_list

if TYPE_CHECKING:
    from jitkernel.session import Session

__all__ = ["layout"]

_ROW = 8  # bytes of a row
_ROWS = 48  # of the picture
_ALIKE = 3  # rows that are shown, though they are alike
_LINE = 64  # bytes of a cache line
_BYTE, _TALL, _LEFT = 84, 26, 44  # pixels
_DEEPEST = 4
_NAMES = 40  # of members in a sentence
_LARGEST = 16  # bytes: the largest alignment that a type has by itself
#: Okabe-Ito, light enough for dark text, each with strokes of its own.
_FILLS = (
    Fill("m0", "#56b4e9"), Fill("m1", "#f0e442", "M-2,2 L2,-2 M0,8 L8,0 M6,10 L10,6"),
    Fill("m2", "#eeb48a", "M0,2 H8 M0,6 H8"), Fill("m3", "#7fd1ae"),
    Fill("m4", "#d98fb8", "M2,2 h1 M6,6 h1"), Fill("m5", "#d4d4d4", "M2,0 V8 M6,0 V8"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Field:
    """A member that has no members of its own, from a bit on: its path within the struct."""

    name: str
    type: DataType
    begin: int  # bits
    bits: int
    is_bits: bool  # a bit-field
    value: Value

    @property
    def bytes(self) -> range:
        """The bytes that it lies in."""
        return range(self.begin // 8, -(-(self.begin + self.bits) // 8))


def layout(session: Session, text: str, room: Room | None = None) -> View:
    """The bytes of a type (`struct s`, `size_t`, `{ i8, i32 }`, `%s`), or of what an expression
    means, with its values: members, their places, padding, and what other order would be smaller.
    Members are listed as far as there is `room`.  Raises UsageError for what has no members and
    is no type."""
    text, data, whole = _meant(session, text)
    bare = whole.type.bare
    if bare.kind in ("struct", "union") and not bare.complete:
        raise UsageError(f"{declare(whole.type)} is declared, and its members are not known")
    if bare.kind not in ("struct", "union"):
        size = counted(bare.size, "byte", ",")
        raise UsageError(f"{text} has no members: it is {type_text(whole)}, {size}")
    fields = list(_fields(whole, "", 0, 0))
    rows = list(_rows(fields, bare.size, data))
    named = [row for row in rows if row[0]]
    padding = sum(gap for _, gap in _gaps(fields, bare.size))
    title = f"{type_text(whole)}: {counted(bare.size, 'byte', ',')}"
    title += f", aligned to {_aligned_to(session, text, whole)}"
    bits = f"{padding} bits" if padding % 8 else counted(padding // 8, "byte")
    title += f"; {bits} of padding ({100 * padding / (8 * bare.size):.0f} %)" if padding else ""
    has_values = any(row[-1] for row in named)
    columns = ("", "member", "type", "#at", "#bytes", "value")[: 6 if has_values else 5]
    shown_rows = [row[: len(columns)] for row in rows]
    made = table(title, columns, shown_rows, "\n".join(_notes(bare, fields)), room)
    return View(
        f"{made.text}\n{_map(fields, bare.size)}", _picture(fields, bare, title) + made.html
    )


def _aligned_to(session: Session, text: str, whole: Value) -> int:
    """The alignment, as the language says: a struct that is packed may look like any other."""
    asked = f"char [_Alignof(__typeof__({text}))]"
    found = None if whole.ir else session.debugger.type_called(asked)
    return found.count if found is not None else alignment(whole.type)


def _meant(session: Session, text: str) -> tuple[str, Data | None, Value]:
    """The meaning of a text: an object, or a type, whose value has no place; and its own text."""
    try:
        data = look_up(session, text)
        bare = data.value.type.bare
        if bare.kind in ("pointer", "array") and bare.element and bare.element.bare.members:
            data = look_up(session, f"({text})[0]")
        return data.text, data, data.value
    except UsageError as error:
        found = session.debugger.type_called(text)
        if found is not None and found.kind != "void":
            return text, None, Value(found)
        if text.lstrip()[:1] in ("{", "<", "[", "%") or text.startswith("i"):
            try:
                made = session.inspect.layout(text.strip())
            except JitError as wrong:
                raise UsageError(f"{text}: {wrong}") from None
            return text, None, Value(made, ir=True)
        if text.split()[:1] in (["struct"], ["union"], ["enum"]):
            raise UsageError(f"no cell has declared {' '.join(text.split())}") from None
        tagged = (f"{kind} {text}" for kind in ("struct", "union"))
        if whole := next(filter(session.debugger.type_called, tagged), ""):
            raise UsageError(f"{text} is the type {whole}: %layout {whole}") from None
        raise UsageError(f"{text} is no type, and {error}") from None


def _fields(whole: Value, path: str, at: int, depth: int) -> Iterator[_Field]:
    for number, member in enumerate(whole.type.bare.members):
        own = member.name or (f"[{number}]" if whole.ir else "")
        name = f"{path}{'.' if path and own and not own.startswith('[') else ''}{own}"
        part = whole.part(member)
        bare, begin = member.type.bare, at + 8 * member.offset
        if not member.bits and bare.kind in ("struct", "union") and bare.members:
            if depth < _DEEPEST:
                yield from _fields(part, name, begin, depth + 1)
                continue
        width = member.bits or 8 * bare.size
        yield _Field(name, member.type, begin + member.shift, width, bool(member.bits), part)


def _gaps(fields: Sequence[_Field], size: int) -> Iterator[tuple[int, int]]:
    """The runs of bits that no member has: where each begins, and how many."""
    end = 0
    for one in sorted(fields, key=lambda field: field.begin):
        if one.begin > end:
            yield end, one.begin - end
        end = max(end, one.begin + one.bits)
    if 8 * size > end:
        yield end, 8 * size - end


def _rows(
    fields: Sequence[_Field], size: int, data: Data | None
) -> Iterator[tuple[str, str, str, str, str, str]]:
    """The rows of the table, in the order of their places, padding among them."""
    gaps = [(begin, 1, begin, bits) for begin, bits in _gaps(fields, size)]
    every = [(one.begin, 0, number, one.bits) for number, one in enumerate(fields)]
    for begin, is_gap, number, bits in sorted([*gaps, *every]):
        place = str(begin // 8) if begin % 8 == 0 else f"{begin // 8} bit {begin % 8}"
        long = str(bits // 8) if bits % 8 == 0 else counted(bits, "bit")
        if is_gap:
            yield "", "", "(padding)", place, long, ""
            continue
        one = fields[number]
        value = shown(one.value, data.read, data.describe) if data is not None else ""
        long = counted(bits, "bit") if one.is_bits else long
        of = one.type.name if one.value.ir else declare(one.type)
        yield _letter(number), one.name, of, place, long, value


def _letter(number: int) -> str:
    return "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[number % 52]


def _owners(fields: Sequence[_Field], size: int) -> list[tuple[int, ...]]:
    """The members that each byte is of; none of padding."""
    owners: list[tuple[int, ...]] = [()] * size
    for number, one in enumerate(fields):
        for byte in one.bytes:
            if byte < size:
                owners[byte] += (number,)
    return owners


def _grid(
    owners: Sequence[tuple[int, ...]],
) -> Iterator[tuple[int, Sequence[tuple[int, ...]], int]]:
    """The rows of bytes that are shown: where each begins, whose its bytes are, and how many rows
    that are like it come behind it and are left out."""
    starts = range(0, len(owners), _ROW)
    for same, group in groupby(starts, key=lambda at: tuple(owners[at : at + _ROW])):
        found = list(group)
        left = len(found) - 1 if len(found) > _ALIKE else 0
        for at in found[:1] if left else found:
            yield at, same, left


def _map(fields: Sequence[_Field], size: int) -> str:
    """The bytes in letters: those of the table, a dot for padding."""
    lines = []
    for at, row, left in _grid(_owners(fields, size)):
        letters = " ".join(_letter(of[0]) if of else "." for of in row)
        lines.append(f"{at:>6}  {letters}{f'  and {left} rows like it' if left else ''}")
    return "\n".join(lines)


def alignment(type: DataType) -> int:
    """The alignment of a type: of a struct the largest of its members', which is less where it is
    packed.  psABI 3.1.2."""
    bare = type.bare
    if bare.kind in ("struct", "union"):
        found = max((alignment(m.type) for m in bare.members), default=1)
        while found > 1 and (
            bare.size % found
            or any(not m.bits and m.offset % min(found, alignment(m.type)) for m in bare.members)
        ):
            found //= 2
        return found
    if bare.kind in ("array", "complex") and bare.element is not None:
        return alignment(bare.element)
    size = bare.size // 2 if bare.kind == "complex" else bare.size
    return min(1 << max(size - 1, 0).bit_length(), _LARGEST if bare.kind != "vector" else size) or 1


def _notes(type: DataType, fields: Sequence[_Field]) -> Iterator[str]:
    """Remarks: a smaller order, members over two cache lines, those that share."""
    members = type.members
    kinds = any(m.name for m in members)  # IR's have numbers
    is_plain = type.kind == "struct" and not any(m.bits for m in members) and len(members) > 1
    if is_plain and not type.packed:
        ordered = sorted(members, key=lambda m: (not m.type.bare.size, -alignment(m.type)))
        end = sum(m.type.bare.size for m in ordered)
        size = end + -end % alignment(type)
        if size < type.size:
            number = {id(m): at for at, m in enumerate(members)}
            names = [
                m.name or (m.type.bare.kind if kinds else f"[{number[id(m)]}]") for m in ordered
            ]
            yield f"In the order {cut_list(names, _NAMES)} it would have {size} bytes."
    split = [f.name for f in fields if f.bytes and f.bytes[0] // _LINE != f.bytes[-1] // _LINE]
    if split and type.size > _LINE:
        yield f"Over the end of a cache line of {_LINE} bytes: {', '.join(split[:8])}."
    if type.kind == "union":
        yield "Its members share their bytes."


def _picture(fields: Sequence[_Field], type: DataType, title: str) -> str:
    rows = list(_grid(_owners(fields, type.size)))
    parts = [
        label(_LEFT + _BYTE * (byte + 0.5), 12, str(byte), "middle")
        for byte in range(min(_ROW, type.size))
    ]
    top = 18
    for at, owners, left in rows[:_ROWS]:
        parts.append(label(_LEFT - 8, top + 17, str(at), "end"))
        for owner, places in groupby(range(len(owners)), key=owners.__getitem__):
            span = list(places)
            x, wide = _LEFT + _BYTE * span[0], _BYTE * len(span)
            if not owner:
                parts.append(rectangle(x, top, wide, _TALL - 2, SHEET, "padding", FAINT))
                continue
            words = ", ".join(fields[number].name for number in owner)
            parts += _box(x, top, wide, words, _FILLS[owner[0] % len(_FILLS)])
        top += _TALL
        if left:
            parts.append(label(_LEFT, top + 12, f"and {counted(left, 'row')} like it"))
            top += 18
    if len(rows) > _ROWS:
        parts.append(label(_LEFT, top + 12, f"and {len(rows) - _ROWS} more rows"))
        top += 18
    return image(parts, _LEFT + _BYTE * _ROW, top, title, _FILLS[: len(fields)])


def _box(x: float, top: float, wide: float, words: str, fill: Fill) -> Iterator[str]:
    """Bytes of a member, with its name, as far as there is room for it."""
    yield rectangle(x, top, wide, _TALL - 2, fill, words, INK)
    text = shorten(words, int((wide - 8) / LETTER))
    long = len(text) * LETTER + 4
    if fill.strokes:  # which would go through the letters
        yield rectangle(x + wide / 2 - long / 2, top + 4, long, 16, fill.colour)
    yield label(x + wide / 2, top + 16, text, "middle")
