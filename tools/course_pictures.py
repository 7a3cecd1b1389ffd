"""The pictures of the course's lessons: SVG cards that are readable on light and dark pages.

Start from `PICTURES`: by name, what is drawn and the sentence that says it to who does not see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jitkernel.ir.model.module import Module
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


PICTURES = {
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
    "arena": Picture(
        "Two processes and one arena of 3 zones: the kernel process may read and write all of it "
        "and run nothing; the executor may read and run text, read rodata, read and write data.",
        560, 140, _arena,
    ),
}  # fmt: skip
