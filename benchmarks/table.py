"""Figures as a table of text and as JSON.  Start from `line`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.harness import Figure

__all__ = ["amount", "as_json", "heading", "line", "verdict"]

_WIDE = 68


def amount(value: float | None, unit: str) -> str:
    """`1.07 x`, `38.2 us`, `2,310 bytes`, `-` where nothing was measured."""
    if value is None:
        return "-"
    if unit == "bytes":
        if abs(value) >= 1e6:
            return f"{value / 1e6:,.1f} MB"
        return f"{value:,.0f} bytes" if abs(value) >= 100 else f"{value:,.1f} bytes"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    text = f"{value:,.{digits}f}"
    if unit == "1":
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text} {unit}"


def heading(title: str) -> str:
    """A row's title."""
    return f"\n{title}\n{'-' * len(title)}"


def line(figure: Figure) -> str:
    """One figure: what, value, bar, whether it is met, note."""
    bar = ""
    if figure.bar is not None:
        bar = f"{'>=' if figure.at_least else '<='} {amount(figure.bar, figure.unit)}"
    met = {True: "met", False: "MISSED", None: ""}[figure.met]
    what = figure.what if len(figure.what) <= _WIDE else figure.what[: _WIDE - 1] + "…"
    text = f"{what:<{_WIDE}} {amount(figure.value, figure.unit):>13}  {bar:<14} {met:<6}"
    return f"{text}  {figure.note}".rstrip()


def verdict(figures: Sequence[Figure], failed: Sequence[str]) -> str:
    """How many bars are met, and which are not."""
    bars = [f for f in figures if f.met is not None]
    missed = [f for f in bars if not f.met]
    lines = [f"\n{len(bars) - len(missed)} of {len(bars)} bars met."]
    lines += [f"MISSED  {line(f)}" for f in missed]
    lines += [f"FAILED  {name}" for name in failed]
    return "\n".join(lines)


def as_json(rows: Mapping[str, Sequence[Figure]], facts: Mapping[str, Any]) -> str:
    """Everything as JSON: facts about the run, then figures by row."""
    body = {**facts, "rows": {name: [f.row() for f in figures] for name, figures in rows.items()}}
    return json.dumps(body, indent=2) + "\n"
