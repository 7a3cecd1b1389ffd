"""Control flow of a function: its blocks and where each can go next.  Start from `cfg`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jitkernel.errors import UsageError
from jitkernel.session.source_lines import request_of
from jitkernel.views.diagram import Arrow, Node, diagram
from jitkernel.views.names import bare, written
from jitkernel.views.target import find
from jitkernel.views.view import View, escape, join, listing, table

if TYPE_CHECKING:
    from jitkernel.compiler import Flow, Options
    from jitkernel.session import Session

__all__ = ["cfg"]

DRAWN = 60  # blocks; larger functions are told in words
LINES, LISTED = 14, 3000  # instructions shown in a box, and in all


def cfg(
    session: Session, target: int | str | None = None, raw: bool = False, level: int | None = None
) -> View:
    """Control flow of a function, or of each function of a cell, as it was compiled.

    `raw`: as it was written, before any pass.  `level`: as this optimisation level would have it.
    Raises UsageError where there is no IR or no body.
    """
    cell, _ = find(session, target)
    request = request_of(session, cell.number)
    if request is None:
        raise UsageError(f"cell {cell.number} has no IR of its own")
    if level is not None:
        request = replace(request, options=replace(request.options, opt_level=level, passes=""))
    flows = session.engine.pool.flow(request, optimised=not raw)
    names = [bare(target)] if isinstance(target, str) else list(flows)
    if any(name not in flows for name in names) or not names:
        what = written(bare(target)) if isinstance(target, str) else f"cell {cell.number}"
        raise UsageError(f"{what} has no body whose control flow could be shown")
    how = "as written" if raw else f"as compiled {_pipeline(request.options)}"
    return join([_view(flows[name], how) for name in names])


def _pipeline(options: Options) -> str:
    return f"with {options.passes}" if options.passes else f"at -O{options.opt_level}"


def _view(flow: Flow, how: str) -> View:
    labels = [label for label, _ in flow.blocks]
    arrows = _merge(flow)
    back = _back(flow)
    headers = {stop for _, stop in back}
    count = sum(len(lines) for _, lines in flow.blocks)
    title = f"Control flow of {written(flow.name)}, {how}"
    said = (
        f"{_count(len(labels), 'block')}, {_count(len(arrows), 'edge')}, "
        f"{_count(len(back), 'loop edge')}, {_count(count, 'instruction')}"
    )
    rows = []
    for index, (label, lines) in enumerate(flow.blocks):
        to = [
            f"{f'{text}: ' if text else ''}%{labels[b]}{' (back)' if (a, b) in back else ''}"
            for (a, b), text in arrows.items()
            if a == index
        ]
        come = ", ".join(f"%{labels[a]}" for a, b in arrows if b == index)
        marks = "entry" if not index else "loop" if index in headers else ""
        rows.append((f"%{label}", len(lines), marks, ", ".join(to) or lines[-1], come))
    columns = ("block", "#instructions", "kind", "goes to", "comes from")
    shown = table(title, columns, rows, f"{said}.")
    image = ""
    if len(labels) <= DRAWN:
        image = _picture(flow, arrows, headers, f"{title}: {said}.")
    body = "\n".join(
        f"%{label}:\n" + "\n".join(f"  {line}" for line in lines) for label, lines in flow.blocks
    )
    cut = body.splitlines()
    if len(cut) > LISTED:
        body = "\n".join([*cut[:LISTED], f"({len(cut) - LISTED} more lines: %ir shows them)"])
    code = listing("", body)
    legend = (
        "T and F mark where a condition that holds, or does not, leads; dashed arrows lead back."
        if image
        else f"For a picture there are too many blocks; {DRAWN} can be drawn."
    )
    html = f"{image}<p>{escape(legend)}</p>{shown.html}<details><summary>{count} instructions"
    return View(
        shown.text + ("" if image else f"\n{legend}") + f"\n\n{code.text}",
        f"{html}</summary>{code.html}</details>",
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _merge(flow: Flow) -> dict[tuple[int, int], str]:
    """Edges between two blocks as one, with all their letters."""
    found: dict[tuple[int, int], list[str]] = {}
    for start, stop, letter in flow.edges:
        found.setdefault((start, stop), []).append(letter)
    return {edge: ", ".join(filter(None, letters)) for edge, letters in found.items()}


def _back(flow: Flow) -> set[tuple[int, int]]:
    """Edges to a block on the way to them, themselves included: those that close a loop."""
    out: dict[int, list[int]] = {}
    for start, stop, _ in flow.edges:
        out.setdefault(start, []).append(stop)
    back: set[tuple[int, int]] = set()
    state: dict[int, int] = {0: 1}
    stack = [(0, iter(out.get(0, ())))]
    while stack:
        here, rest = stack[-1]
        for to in rest:
            if state.get(to) == 1:
                back.add((here, to))
            elif to not in state:
                state[to] = 1
                stack.append((to, iter(out.get(to, ()))))
                break
        else:
            state[here] = 2
            stack.pop()
    return back


def _picture(flow: Flow, arrows: dict[tuple[int, int], str], headers: set[int], alt: str) -> str:
    nodes = []
    for index, (label, lines) in enumerate(flow.blocks):
        kept = [" ".join(line.split()) for line in lines]
        if len(kept) > LINES:
            kept = [*kept[: LINES - 2], f"({len(lines) - LINES + 1} more)", kept[-1]]
        kind = "entry" if not index else "loop" if index in headers else ""
        title = f"%{label}" + (f" ({kind})" if kind else "")
        nodes.append(Node(str(index), title, kept, kind))
    drawn = [Arrow(str(a), str(b), _short(text)) for (a, b), text in arrows.items()]
    return diagram(nodes, drawn, alt)


def _short(text: str) -> str:
    return text if len(text) <= 18 else text[:17] + "…"
