"""Memory as tables: the whole account, the code that is in it and why, the compiler's contexts; and
over time as a picture, a table and lines of blocks.

Start from `memory`, `residency`, `contexts` and `plot`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from jitkernel.session.program.cell import CellState, cells_words
from jitkernel.session.report.memory import Sample
from jitkernel.views.svg import FAINT, INK, Fill, image, label, rectangle
from jitkernel.views.view import View, join, paragraph, sparkline, table
from jitkernel.wording import counted, size_text

if TYPE_CHECKING:
    from jitkernel.session import Session
    from jitkernel.session.program.cell import Cell

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 740, 84, 150, 8, 26
TALL, GAP, LOW = 150, 24, 60  # the processes, and beneath them the slab
HEIGHT = TOP + TALL + GAP + LOW + BOTTOM

#: From the bottom to the top of the picture.
FILLS = {
    "slab": Fill("slab", "#56b4e9", "M-2,2 L2,-2 M0,8 L8,0 M6,10 L10,6"),
    "kernel": Fill("kernel", "#f0e442"),
    "executor": Fill("executor", "#d98fb8", "M0,2 H8 M0,6 H8"),
    "workers": Fill("workers", "#d4d4d4", "M2,2 h1 M6,6 h1"),
}

_LATEST = 12  # compiles
_LISTED = 50  # cells
_ROLES = {"worker": "compiler worker", "spare": "compiler worker, spare"}


def memory(session: Session, arena_only: bool = False, over_time: bool = False) -> View:
    """The rows of `session.memory()`, all of one sum; with `over_time` the plot's numbers too.

    `arena_only` leaves out what differs from run to run.
    """
    account = session.memory()
    if arena_only:
        return _zones(account)
    view = table(
        "Memory (bytes)",
        ("what", "#bytes", "of which"),
        [(what, f"{size:,}", words) for what, size, words in _rows(account)],
        "Pages of the slab are counted once, though kernel and executor both see them.",
    )
    views = [view, plot(session.inspect.memory_samples(), short=not over_time)]
    if account["object_cache"] is not None:
        views.append(_cache(account["object_cache"]))
    return join(views)


def _zones(account: dict[str, Any]) -> View:
    zones = [
        (name, zone["used"], zone["padding"], zone["extents"], size_text(zone["capacity"]))
        for name, zone in account["zones"].items()
    ]
    return table(
        "Arena (bytes)",
        ("zone", "#used", "#padding", "#extents", "#capacity"),
        zones,
        counted(account["cells"], "cell"),
    )


def _rows(account: dict[str, Any]) -> Iterator[tuple[str, int, str]]:
    """The rows of the sum: the slab, the processes, the files, and their total."""
    runtime = 0
    for name, size in account["regions"].items():
        zone = account["zones"].get(name)
        if zone is None:
            runtime += size
        else:
            extents = counted(zone["extents"], "extent", ",")
            words = f"{zone['used']:,} used by {extents}, {zone['padding']:,} padding"
            yield f"slab, {name}", size, words
    yield "slab, the runtime", runtime, "handlers, control block, buffers, unwinder's table"
    cells, symbols = account["cells"], account["symbols"]
    kept = f"; undo keeps {account['undo']:,} bytes" if account["undo"] else ""
    held = f"{counted(cells, 'cell', ',')}, {counted(symbols, 'symbol', ',')}{kept}"
    yield "kernel process", account["kernel"], held
    yield "executor", account["executor"], ""
    for worker in account["workers"]:
        words = counted(worker["compiles"], "compile", ",")
        yield _ROLES.get(worker["role"], worker["role"]), worker["own"], words
    yield "program and library files", account["files"], "mapped; the system may drop them"
    yield "total", account["total"], size_text(account["total"])


def _cache(cache: dict[str, Any]) -> View:
    counts = [cache[what] for what in ("hits", "misses", "entries")]
    sizes = [size_text(cache[what]) for what in ("bytes", "limit")]
    return table(
        "Object cache (on disk, of all sessions)",
        ("#hits", "#misses", "#entries", "#size", "#limit"),
        [(*counts, *sizes)],
        f"hits and misses of this session; in {cache['folder']}",
    )


def residency(session: Session) -> View:
    """The budget, what is in memory and what is not, and the cells whose code cannot leave."""
    look = session.inspect
    cells = [c for c in session.cells if c.image is not None]
    asleep = [c for c in cells if c.state is CellState.HIBERNATED]
    awake = [c for c in cells if c.state is not CellState.HIBERNATED]
    budget = session.budget
    rows = [
        ("budget", f"{budget:,}" if budget else "none", size_text(budget) if budget else ""),
        ("code in memory", f"{look.residency.code:,}", cells_words([c.number for c in awake])),
        ("hibernated cells", len(asleep), cells_words([c.number for c in asleep])),
        ("calls that brought code back", look.residency.woken, ""),
    ]
    view = table("Code in memory (bytes)", ("what", "#how much", "which"), rows, threads(session))
    staying = [
        (c, why) for c in awake if (why := look.residency.why_not(c)) and c.sizes.get("text")
    ]
    if not staying:
        return view
    listed = [
        (c.number, " ".join(map(session.inspect.program.called, c.names)), c.sizes["text"], why)
        for c, why in staying[:_LISTED]
    ]
    more = f"{len(staying) - _LISTED} more" if len(staying) > _LISTED else ""
    columns = ("#cell", "defines", "#bytes", "because")
    return join([view, table("Cells whose code stays in memory", columns, listed, more)])


def threads(session: Session) -> str:
    """That threads of the program hold code in memory, where there are any."""
    count = session.inspect.engine.executor.threads
    if not count:
        return ""
    running, ended = ("s are", "they have") if count > 1 else (" is", "it has")
    return (
        f"{count} thread{running} running of the program's own: no code leaves memory before "
        f"{ended} ended"
    )


def last_use(session: Session, cell: Cell) -> str:
    """`now`, `3 runs ago`; empty where it was never called."""
    if not cell.used:
        return ""
    ago = session.inspect.residency.clock - cell.used
    return "now" if ago <= 0 else f"{counted(ago, 'run')} ago"


def contexts(session: Session) -> View:
    """The memory that stays in the compiler worker of each compile: in all by kind of context, and
    of the latest cells.  What is counted begins with the first call, or with a context that
    lasts."""
    account = session.contexts()
    rows = []
    for policy in ("throwaway", "shared", "kept"):
        costs = [cost for cost in account.costs if cost.context == policy]
        if costs:
            heap, resident = [cost.heap for cost in costs], sum(cost.resident for cost in costs)
            sizes = map(size_text, (int(median(heap)), sum(heap), resident))
            rows.append((policy, f"{len(costs):,}", *sizes))
    live = f"{counted(account.live, 'LLVM context', ',')} kept in the compiler"
    words = f"cells use {session.settings.context} contexts; {live}"
    if account.lost:
        words += f", {account.lost:,} gone with a worker that was replaced (code stays)"
    if not rows:
        return paragraph(words)
    summary = table(
        "Left in the compiler by each compile",
        ("context", "#compiles", "#median", "#in all", "#resident"),
        rows,
        words,
    )
    latest = [
        (cost.cell or "", cost.context, f"{cost.heap:,}", f"{cost.resident:,}", f"{cost.live:,}")
        for cost in account.costs[-_LATEST:]
    ]
    if not latest:
        return summary
    columns = ("#cell", "context", "#heap bytes", "#resident bytes", "#contexts")
    return join([summary, table("The latest", columns, latest)])


def plot(samples: Sequence[Sample], short: bool = False) -> View:
    """The session's memory as its cells ended; `short` leaves all but the sum out of the text.

    The pages of files are not in it.
    """
    if not samples:
        return View("Memory over time: nothing has run yet.")
    total = [s.total for s in samples]
    most = max(samples, key=lambda s: s.total)
    rows = []
    for name in (*FILLS, "total"):
        values = [getattr(s, name) for s in samples]
        shown = (*map(size_text, (values[0], min(values), max(values))), f"{values[-1]:,}")
        rows.append((name, sparkline(values, 32), *shown))
    first, last = samples[0], samples[-1]
    taken = counted(len(samples), "sample")
    span = f"cell {first.cell} to {last.cell}" if last.cell > first.cell else f"cell {last.cell}"
    note = f"{taken}, {span}; most with cell {most.cell}; without the pages of files"
    columns = ("memory over time", "", "#at first", "#least", "#most", "#bytes now")
    lines = table("", columns, rows[-1:] if short else rows, note).text
    numbers = table(
        "", columns[:1] + columns[2:], [(name, *shown) for name, _, *shown in rows], note
    ).html
    every = table(
        f"Memory over time (bytes): {taken}",
        ("#cell", "#after", *(f"#{name}" for name in FILLS), "#total"),
        [
            (s.cell, f"{s.seconds:.1f} s", *(f"{getattr(s, n):,}" for n in FILLS), f"{s.total:,}")
            for s in samples
        ],
    )
    alt = (
        f"Memory over time, {span}: {size_text(total[0])} at first, {size_text(total[-1])} now, "
        f"at most {size_text(most.total)} with cell {most.cell}."
    )
    details = f"<details><summary>{taken}</summary>{every.html}</details>"
    return View(lines, _picture(samples, alt) + numbers + details)


def _picture(samples: Sequence[Sample], alt: str) -> str:
    """Areas one on the other, sample by sample from left to right: the processes', and beneath
    them the slab's, which would be a line on their scale."""
    if len(samples) == 1:
        samples = [*samples, *samples]
    out = [
        *_areas(samples, [name for name in FILLS if name != "slab"], TOP, TALL),
        *_areas(samples, ["slab"], TOP + TALL + GAP, LOW),
    ]
    seen: set[float] = set()
    for index in sorted({0, len(samples) // 4, len(samples) // 2, 3 * len(samples) // 4,
                         len(samples) - 1}):  # fmt: skip
        place = round(_x(index, samples), 0)
        if all(abs(place - other) > 60 for other in seen):
            seen.add(place)
            out.append(f'<path d="M{place:.0f},{HEIGHT - BOTTOM} v5" stroke="{INK}"/>')
            out.append(label(place, HEIGHT - BOTTOM + 17, f"cell {samples[index].cell}", "middle"))
    return image(out, WIDTH, HEIGHT, alt, FILLS.values())


def _x(index: int, samples: Sequence[Sample]) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * index / (len(samples) - 1)


def _areas(samples: Sequence[Sample], names: Sequence[str], high: float, tall: float) -> list[str]:
    """Areas on a scale of their own, from `high` downwards, with the names on the right."""
    top = _round(max(sum(getattr(s, name) for name in names) for s in samples))

    def y(size: int) -> float:
        return high + tall * (1 - size / top)

    out = []
    steps = 4 if tall >= 4 * 18 else 2
    for step in range(steps + 1):
        size = top * step // steps
        out.append(f'<path d="M{LEFT - 4},{y(size):.1f} H{WIDTH - RIGHT}" stroke="{FAINT}"/>')
        out.append(label(LEFT - 8, y(size) + 4, size_text(size), "end"))
    below = [0] * len(samples)
    for index, name in enumerate(names):
        fill = FILLS[name]
        above = [b + getattr(s, name) for b, s in zip(below, samples, strict=True)]
        edge = [f"{_x(i, samples):.1f},{y(v):.1f}" for i, v in enumerate(above)]
        back = [f"{_x(i, samples):.1f},{y(v):.1f}" for i, v in reversed(list(enumerate(below)))]
        out.append(
            f'<polygon points="{" ".join([*edge, *back])}" fill="{fill.paint}" stroke="{INK}"'
            ' stroke-width="0.7"/>'
        )
        at = high + (len(names) - 1 - index) * 32
        out.append(rectangle(WIDTH - RIGHT + 14, at, 22, 13, fill, line=INK))
        out.append(label(WIDTH - RIGHT + 42, at + 11, name))
        out.append(label(WIDTH - RIGHT + 42, at + 24, size_text(getattr(samples[-1], name))))
        below = above
    return out


def _round(size: int) -> int:
    """The next round number of bytes, for the top of a scale."""
    unit = 1
    while unit * 10 <= size:
        unit *= 2
    return -(-size // unit) * unit or 4
