"""The pictures of the course's lessons: SVG cards that are readable on light and dark pages.

Start from `PICTURES`: by name, what is drawn and the sentence that says it to who does not see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jitkernel.ir.model.module import Module
from jitkernel.transform.examples.linear_scan import allocate
from jitkernel.views.svg import FAINT, INK, SHEET, Fill, card, label, rectangle

CODE = Fill("code", "#f0e6a8")
DATA = Fill("data", "#9fd4f0")
GONE = Fill("gone", "#d9d9d9")
LIVE = Fill("live", "#9fd4f0", "M0,8 L8,0")
_ROW = 22  # pixels of a line of boxes
_LETTER = 6.7


@dataclass(frozen=True)
class Picture:
    """What a picture draws, with its size in pixels, and its alternative text."""

    alt: str
    width: int
    height: int
    parts: Callable[[], Iterator[str]]

    def svg(self) -> str:
        """The whole picture."""
        return card(self.parts(), self.width, self.height, (LIVE,)) + "\n"


def box(x: float, y: float, width: float, text: str, fill: Fill | str = SHEET) -> str:
    """A box of one row with text at its left."""
    return rectangle(x, y, width, _ROW, fill, line=INK) + label(x + 6, y + 15, text)


def arrow(*points: tuple[float, float], dashed: bool = False) -> str:
    """A line through points, with a head at the last."""
    (x0, y0), (x, y) = points[-2:]
    dx, dy = (x > x0) - (x < x0), (y > y0) - (y < y0)
    path = " ".join(f"{'L' if i else 'M'}{px:.0f},{py:.0f}" for i, (px, py) in enumerate(points))
    dash = ' stroke-dasharray="5 3"' if dashed else ""
    head = (
        f"M{x},{y} L{x - 8 * dx + 4 * dy:.0f},{y - 8 * dy + 4 * dx:.0f} "
        f"L{x - 8 * dx - 4 * dy:.0f},{y - 8 * dy - 4 * dx:.0f} z"
    )
    return f'<path d="{path}" fill="none" stroke="{INK}"{dash}/><path d="{head}" fill="{INK}"/>'


def _frame() -> Iterator[str]:
    rows: tuple[tuple[str, Fill | str, str], ...] = (
        ("the caller's frame ...", SHEET, ""),
        ("return address of @sum_sq", DATA, "pushed by the call of @sum_sq"),
        ("old rbp", DATA, "pushed: callee-saved"),
        ("old rbx", DATA, "pushed: callee-saved"),
        ("room, for rsp % 16 = 0", GONE, "pushed: only to align"),
        ("return address of @sq", CODE, "pushed by the call of @sq"),
    )
    yield label(0, 12, "higher addresses", colour=INK)
    for number, (text, fill, why) in enumerate(rows):
        y = 18 + number * _ROW
        yield box(0, y, 200, text, fill)
        yield label(210, y + 15, why)
    bottom = 18 + len(rows) * _ROW
    yield label(0, bottom + 16, "lower addresses")
    yield arrow((430, bottom + 12), (340, bottom + 12))
    yield label(436, bottom + 16, "rsp, while @sq runs")
    yield f'<path d="M0,{bottom + 1} H200" stroke="{INK}" stroke-width="2"/>'
    yield f'<path d="M405,{18 + 2 * _ROW} h8 v{3 * _ROW} h-8" fill="none" stroke="{INK}"/>'
    yield label(420, 18 + 3.6 * _ROW, "frame of @sum_sq")
    yield f'<path d="M204,{bottom + 12} H340" stroke="{INK}" stroke-dasharray="2 3"/>'


def _patch() -> Iterator[str]:
    for x, title, distance, live in (
        (0, "before", "6f ff ff ff", 0),
        (330, "after", "9f 00 00 00", 1),
    ):
        yield label(x, 12, title, weight="bold")
        yield box(x, 20, 140, "@twice", CODE)
        yield box(x, 20 + _ROW, 140, f"e8 {distance}", CODE)
        yield box(x, 20 + 2 * _ROW, 140, "...", CODE)
        for number, text in enumerate(("@op: add 1", "@op: square")):
            there = number <= live
            fill = CODE if number == live else GONE
            if there:
                words = text if number == live else "cc cc cc cc"
                yield box(x + 190, 20 + number * 2 * _ROW, 110, words, fill)
        y = 20 + live * 2 * _ROW + _ROW / 2
        yield arrow(
            (x + 140, 20 + 1.5 * _ROW), (x + 165, 20 + 1.5 * _ROW), (x + 165, y), (x + 190, y)
        )


def _stub() -> Iterator[str]:
    yield label(0, 12, "text (may be run)", weight="bold")
    yield box(0, 20, 130, "@shout: e9 ...", CODE)
    yield box(0, 20 + 2 * _ROW, 130, "stub: ff 25 ...", CODE)
    yield label(230, 12, "a slot (only read)", weight="bold")
    yield box(230, 20 + 2 * _ROW, 130, "0x7f31b2895980", DATA)
    yield label(460, 12, "the C library", weight="bold")
    yield box(460, 20 + 2 * _ROW, 110, "puts: ...", CODE)
    yield arrow((65, 20 + _ROW), (65, 20 + 2 * _ROW))
    yield label(74, 20 + 1.7 * _ROW, "4 bytes of distance")
    yield arrow((130, 20 + 2.5 * _ROW), (230, 20 + 2.5 * _ROW))
    yield label(140, 20 + 3.6 * _ROW, "reads 8 bytes")
    yield arrow((360, 20 + 2.5 * _ROW), (460, 20 + 2.5 * _ROW))
    yield label(366, 20 + 3.6 * _ROW, "any address")


FEW = """define i64 @few(i64 %a, i64 %b) {
  %x = add i64 %a, %b
  %y = mul i64 %x, %a
  %z = sub i64 %y, %b
  ret i64 %z
}"""


def _live() -> Iterator[str]:
    """The ranges of `FEW`, as the model of its text has them."""
    steps = list(Module(FEW).functions["few"].instructions)
    left, step = 130, 62
    for number, instruction in enumerate(steps):
        yield label(0, 40 + number * _ROW, str(instruction).strip())
        y = 36 + number * _ROW
        yield f'<path d="M{left + 20},{y} H{left + 20 + 5 * step}" stroke="{FAINT}"/>'
    values = dict.fromkeys(v for i in steps for v in i.operands if v.name and v.uses)
    for column, value in enumerate(values):
        begins = float(steps.index(value)) if value in steps else -0.7
        ends = max(steps.index(user) for user in value.users)
        x, top = left + 30 + column * step, 36 + begins * _ROW
        yield label(x + 12, 12, value.ref, "middle", "bold")
        yield rectangle(x, top, 24, (ends - begins) * _ROW, LIVE, line=INK)


SCANNED = {"a": (0, 9), "b": (1, 4), "c": (2, 6), "d": (4, 8), "e": (6, 9)}


def _scan() -> Iterator[str]:
    """Intervals and what linear scan gives them, of two registers."""
    where = allocate(SCANNED, ("r0", "r1"))
    unit, left = 44, 60
    for row, (name, (first, last)) in enumerate(SCANNED.items()):
        y = 26 + row * (_ROW + 4)
        fill = GONE if where[name] == "stack" else (DATA, CODE)[where[name] == "r1"]
        yield label(20, y + 15, name, weight="bold")
        yield box(left + first * unit, y, (last - first) * unit, where[name], fill)
    bottom = 26 + len(SCANNED) * (_ROW + 4)
    x = left + SCANNED["c"][0] * unit
    yield f'<path d="M{x},18 V{bottom}" stroke="{INK}" stroke-dasharray="5 3"/>'
    yield label(x + 6, 12, "c begins, both are taken, a ends last")
    yield arrow((left, bottom + 10), (left + 9 * unit, bottom + 10))
    yield label(left + 9 * unit - 6, bottom + 26, "places of the code", anchor="end")


def _frontier() -> Iterator[str]:
    """A block that writes a variable, what it dominates, and where that ends."""
    places = {"entry": (120, 0), "a: x = 1": (20, 50), "b": (220, 50), "c": (20, 100),
              "d": (120, 150)}  # fmt: skip
    yield rectangle(8, 40, 104, 92, GONE, line=FAINT)
    yield label(12, 148, "a dominates")
    for name, (x, y) in places.items():
        yield box(x, y, 80, name, DATA if name == "d" else CODE if name[0] in "a" else SHEET)
    for start, stop in (("entry", "a: x = 1"), ("entry", "b"), ("a: x = 1", "c")):
        (x0, y0), (x1, y1) = places[start], places[stop]
        yield arrow((x0 + 40, y0 + _ROW), (x0 + 40, y0 + 36), (x1 + 40, y0 + 36), (x1 + 40, y1))
    yield arrow((60, 122), (60, 136), (140, 136), (140, 150))
    yield arrow((260, 72), (260, 136), (180, 136), (180, 150))
    yield label(210, 165, "the frontier of a, and of c and b: a phi for x")


def _arena() -> Iterator[str]:
    zones = ("text", "rodata", "data")
    yield label(0, 12, "kernel process: links", weight="bold")
    yield label(230, 12, "the arena: one memory", weight="bold")
    yield label(430, 12, "executor: runs", weight="bold")
    for number, (zone, seen) in enumerate(
        zip(zones, ("read, run", "read", "read, write"), strict=True)
    ):
        y = 22 + number * 1.5 * _ROW
        yield box(0, y, 130, "read, write")
        yield box(230, y, 100, zone, CODE if zone == "text" else DATA)
        yield box(430, y, 130, seen)
        yield arrow((130, y + _ROW / 2), (230, y + _ROW / 2))
        yield arrow((430, y + _ROW / 2), (330, y + _ROW / 2))
    yield label(0, 22 + 5 * _ROW, "Nowhere may a page be written and run.")


def _deopt() -> Iterator[str]:
    """A machine frame, the record that explains it, and the frames that it becomes."""
    words = ("caller's frame ...", "return address", "i", "sum", "n", "back: behind the guard")
    yield label(0, 12, "before: the optimised frame", weight="bold")
    for row, text in enumerate(words):
        fill = SHEET if not row else CODE if row in (1, 5) else DATA
        yield box(0, 20 + row * _ROW, 170, text, fill)
    yield label(0, 34 + len(words) * _ROW, "rsp is meant without that last word")
    yield label(230, 12, "the record of that call", weight="bold")
    places = ("pc: constant 21", "depth: constant 2", "i: [rsp + 16]", "sum: [rsp + 8]", "n: [rsp]")
    for row, text in enumerate(places):
        yield box(230, 20 + row * _ROW, 150, text, DATA if row > 1 else SHEET)
        if row > 1:
            yield arrow((230, 20 + (row + 0.5) * _ROW), (170, 20 + (row + 0.5) * _ROW))
    yield label(440, 12, "after: the interpreter's", weight="bold")
    frame = ("caller's frame ...", "pc = 21, depth = 2", "n, i, sum, 0", "stack: sum, n")
    for row, text in enumerate(frame):
        yield box(440, 20 + row * _ROW, 150, text, DATA if row else SHEET)
    yield arrow((380, 20 + 2.5 * _ROW), (440, 20 + 2.5 * _ROW))


def _halves() -> Iterator[str]:
    names = ("A", "garbage", "B", "garbage", "C")
    for left, title, one, other in (
        (0, "full", names, ("",) * 5),
        (340, "after the collection", ("dd dd dd",) * 5, ("C", "B", "A", "", "")),
    ):
        yield label(left, 12, title, weight="bold")
        for x, half in ((left + 80, one), (left + 200, other)):
            for number, text in enumerate(half):
                live = text in ("A", "B", "C")
                fill = DATA if live else SHEET if not text else GONE
                yield box(x, 20 + number * _ROW, 80, text, fill)
        rooted = left + (80 if left == 0 else 200)
        order = names if left == 0 else ("C", "B", "A")
        yield box(left, 20 + 2 * _ROW, 50, "a root", CODE)
        y, below, bend = 20 + (order.index("C") + 0.5) * _ROW, 28 + 5 * _ROW, left + 65
        around = [] if left == 0 else [(bend, below), (rooted - 20, below), (rooted - 20, y)]
        first = (left + 50, 20 + 2.5 * _ROW)
        yield arrow(first, (bend, first[1]), *(around or [(bend, y)]), (rooted, y))
        for index, (start, stop) in enumerate((("C", "B"), ("B", "A"))):
            begin, end = (20 + (order.index(name) + 0.5) * _ROW for name in (start, stop))
            edge, out = rooted + 80, rooted + 92 + 8 * index
            yield arrow((edge, begin + 3), (out, begin + 3), (out, end - 3), (edge, end - 3))


def _shapes() -> Iterator[str]:
    yield label(0, 12, "objects: a pointer, and slots", weight="bold")
    yield label(330, 12, "shapes: where is what", weight="bold")
    objects = (("a", "1", "4", "9", "16"), ("b", "8", "11", "16", "23"), ("c", "4", "1", "9", "16"))
    shapes = (
        ("shape 4", "left 0, top 1, right 2, bottom 3"),
        ("shape 8", "top 0, left 1, right 2, bottom 3"),
    )
    tops = (24, 24 + 2 * _ROW, 24 + 4 * _ROW)
    for (name, *slots), y in zip(objects, tops, strict=True):
        yield label(0, y + 15, name)
        yield box(16, y, 60, "shape", DATA)
        for number, value in enumerate(slots):
            yield box(76 + 36 * number, y, 36, value)
    for (name, keys), y in zip(shapes, (tops[0] + _ROW, tops[2]), strict=True):
        yield box(330, y, 70, name, DATA)
        yield box(400, y, 230, keys)
    y = tops[0] + _ROW
    yield arrow((46, tops[0] + _ROW), (46, y + _ROW / 2), (330, y + _ROW / 2))
    yield arrow((46, tops[1]), (46, y + _ROW / 2), (330, y + _ROW / 2))
    yield arrow(
        (46, tops[2] + _ROW),
        (46, tops[2] + 1.5 * _ROW),
        (350, tops[2] + 1.5 * _ROW),
        (350, tops[2] + _ROW),
    )


def _dependence() -> Iterator[str]:
    rows = (
        ("left: reads what the round before wrote", -1, "a chain: one after the other"),
        ("right: reads what the next round will write", 1, "loads first, then stores: any width"),
        ("far, here by 4", -4, "a vector of 4 needs nothing of its own"),
    )
    for number, (title, reads, verdict) in enumerate(rows):
        y = number * 4 * _ROW
        yield label(0, y + 12, title, weight="bold")
        for i in range(8):
            yield box(i * 40, y + 2 * _ROW, 40, f"p[{i}]", DATA if 4 <= i else SHEET)
        for i in range(4, 8):
            if 0 <= i + reads < 8:
                start, stop = (i + reads) * 40 + 20, i * 40 + 20
                start, stop = (start + 5, stop - 5) if start < stop else (start - 5, stop + 5)
                top = y + 2 * _ROW
                rise = top - (4 * i - 9 if reads < -1 else 12)
                yield arrow((start, top), (start, rise), (stop, rise), (stop, top))
        yield label(340, y + 2 * _ROW + 15, verdict)


def _path() -> Iterator[str]:
    stations: tuple[tuple[str, str, Fill | str], ...] = (
        ("your C", "a cell", SHEET), ("IR", "as you wrote it", DATA),
        ("IR", "as it is best", DATA), ("machine code", "what runs", CODE),
    )  # fmt: skip
    for number, (name, words, fill) in enumerate(stations):
        yield box(number * 160, 24, 100, name, fill)
        yield label(number * 160, 62, words)
        if number:
            yield arrow((number * 160 - 60, 35), (number * 160, 35))
            step = ("clang", "passes", "selection")[number - 1]
            yield label(number * 160 - 30, 28, step, anchor="middle")
    for x, name in ((160, "%ir"), (240, "%remarks, %passes"), (480, "%asm")):
        yield label(x, 92, name, weight="bold")
    yield label(0, 92, "all of it: %explain", weight="bold")


def _alias() -> Iterator[str]:
    """Where `p` and `q` of `first` lead in two calls, and what is there at the end."""
    for x, call, places in (
        (0, "first(&x, &y)", (("p", 0, "x: 1"), ("q", 1, "y: 2"))),
        (290, "first(&x, &x)", (("p", 0, "x: 1, then 2"), ("q", 0, ""))),
    ):
        yield label(x, 12, call, weight="bold")
        for row, (name, place, holds) in enumerate(places):
            y = 24 + row * 2 * _ROW
            yield box(x, y, 40, name, CODE)
            yield arrow((x + 40, y + 11), (x + 120, 35 + place * 2 * _ROW))
            if holds:
                yield box(x + 120, 24 + place * 2 * _ROW, 100, holds, DATA)
    yield label(0, 122, "returns 1: x was not changed again")
    yield label(290, 122, "returns 2: one place, two names")


def _walk() -> Iterator[str]:
    """The stack of lesson 19 while `look` runs: `@inner` has saved two registers."""
    rows: tuple[tuple[str, Fill | str, str], ...] = (
        ("return address: the thunk", DATA, "CFA of @outer - 8"),
        ("saved rbx", SHEET, ""),
        ("return address: @outer+14", DATA, "CFA of @inner - 8"),
        ("saved r14", SHEET, "CFA - 16"),
        ("saved rbx", SHEET, "CFA - 24"),
        ("room, 56 bytes", GONE, ""),
        ("return address: @inner+28", CODE, "here the walk begins"),
    )
    yield label(0, 12, "higher addresses", colour=INK)
    for number, (text, fill, why) in enumerate(rows):
        yield box(0, 18 + number * _ROW, 200, text, fill)
        yield label(212, 18 + number * _ROW + 15, why)
    for first, last, words in ((0, 2, "16 bytes: @outer"), (2, 6, "80 bytes: @inner")):
        top, bottom = 18 + first * _ROW, 18 + last * _ROW
        yield f'<path d="M355,{top} h8 V{bottom} h-8" fill="none" stroke="{INK}"/>'
        yield label(372, (top + bottom) / 2 + 5, words)


def _pages() -> Iterator[str]:
    yield label(0, 12, "MCJIT, ORC: pages wherever there are some", weight="bold")
    for number, (page, name) in enumerate((("0x7f32...", "@f"), ("0x7f1c...", "@twice"))):
        y = 22 + number * 2.5 * _ROW
        yield label(0, y + 15, page)
        yield box(80, y, 60, name, CODE)
        yield rectangle(140, y, 150, _ROW, GONE, line=INK)
        yield label(150, y + 15, "rest of the page")
    yield arrow((110, 22 + 2.5 * _ROW), (110, 22 + _ROW))
    yield label(120, 22 + 1.9 * _ROW, "8 bytes of address")
    yield label(330, 12, "this session: one range, reserved", weight="bold")
    yield box(330, 22 + _ROW, 60, "@f", CODE)
    yield box(390, 22 + _ROW, 70, "@twice", CODE)
    yield rectangle(460, 22 + _ROW, 130, _ROW, SHEET, line=INK)
    yield label(470, 22 + _ROW + 15, "for what comes")
    yield arrow(
        (425, 22 + 2 * _ROW), (425, 22 + 3 * _ROW), (360, 22 + 3 * _ROW), (360, 22 + 2 * _ROW)
    )
    yield label(330, 22 + 3.9 * _ROW, "4 bytes of distance")


PICTURES = {
    "deopt": Picture(
        "A guard fails: on the left the optimised function's frame, from the caller's frame down "
        "to the return address behind the guard; in the middle that call's record, which says "
        "that pc and depth are constants and that n, i and sum are words of the frame; on the "
        "right, below the same caller's frame, the interpreter's frame made of them.",
        600, 180, _deopt,
    ),
    "frame": Picture(
        "The stack while @sq runs, called by @sum_sq: from higher to lower addresses the caller's "
        "frame, the return address of @sum_sq, its frame of two saved registers and room for "
        "alignment, and the return address of @sq, where rsp points.",
        560, 180, _frame,
    ),
    "patch": Picture(
        "A call before and after patching: the byte e8 stays, the 4 bytes of distance behind it "
        "lead from the old @op, which is filled with traps, to the new one.",
        630, 90, _patch,
    ),
    "stub": Picture(
        "A call of puts: from @shout by 4 bytes of distance to the stub, which reads 8 bytes of "
        "the slot and jumps to the address in it, in the C library.",
        570, 110, _stub,
    ),
    "live": Picture(
        "The live ranges of @few, one column each: %a and %b from the beginning to their last "
        "uses, %x from the first to the second of 4 instructions, %y from the second to the "
        "third, %z to the last; at no time are more than 3 alive.",
        480, 120, _live,
    ),
    "halves": Picture(
        "Two halves of memory. When the first is full it has the objects A, B and C with garbage "
        "between them; a root refers to C, C to B, and B to A. After the collection C, B and A lie "
        "one behind the other in the second half, the root refers to C there, and the first half "
        "is filled with dd.",
        660, 144, _halves,
    ),
    "frontier": Picture(
        "The entry leads to a, which writes x, and to b. From a the way goes on to c, which a "
        "dominates; c and b lead to d, which neither dominates: d is in the frontier of a, of c "
        "and of b, and x needs a phi there.",
        520, 180, _frontier,
    ),
    "scan": Picture(
        "Five intervals and two registers. When c begins, a has r0 and b has r1; a ends last of "
        "the three, so a goes to the stack and c gets r0. d gets r1 when b has ended, e gets r0 "
        "when c has ended.",
        480,
        190,
        _scan,
    ),
    "arena": Picture(
        "Two processes and one arena of 3 zones: the kernel process may read and write all of it "
        "and run nothing; the executor may read and run text, read rodata, read and write data.",
        560, 140, _arena,
    ),
    "dependence": Picture(
        "3 loops over an array, with a vector of its elements 4 to 7: in the first each element "
        "needs its left neighbour, which is written in the same vector; in the second each needs "
        "its right neighbour's old value; in the third each needs the one 4 places to the left, "
        "outside of the vector.",
        600, 250, _dependence,
    ),
    "shapes": Picture(
        "3 objects, each a pointer to its shape and 4 slots: a and b point to shape 4, which has "
        "left in slot 0, top in 1, right in 2 and bottom in 3; c points to shape 8, which has top "
        "in slot 0 and left in 1.",
        630, 160, _shapes,
    ),
    "path": Picture(
        "The way of a cell in 4 stations: your C, IR as clang makes it, IR as the passes leave it, "
        "machine code; %ir shows the second, %remarks and %passes the way to the third, %asm the "
        "last, %explain all.",
        590, 98, _path,
    ),
    "alias": Picture(
        "Two calls of first: in the first p leads to x, which becomes 1, and q to y, which becomes "
        "2; in the second both lead to x, which becomes 1 and then 2.",
        520, 130, _alias,
    ),
    "walk": Picture(
        "The stack from the return address of look upwards: 80 bytes of @inner with room and two "
        "saved registers up to its return address into @outer, then 16 bytes of @outer up to its "
        "return address into the thunk; each return address lies 8 bytes below a CFA.",
        500, 178, _walk,
    ),
    "pages": Picture(
        "Two functions in MCJIT or ORC, each in a page of its own far from the other, so that a "
        "call needs 8 bytes of address; in this session they lie side by side in one reserved "
        "range, and a call needs 4 bytes of distance.",
        600, 112, _pages,
    ),
}  # fmt: skip
