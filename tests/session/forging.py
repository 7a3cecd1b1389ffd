"""Session files whose rows were changed by somebody who also made their checksums right.

Start from `forged`: one row of a file with one value in it that nobody wrote.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import sqlite3
import zlib
from pathlib import Path
from typing import Any

from jitkernel.session.saved.tables import PARTS, Tables
from jitkernel.sqlite_transaction import Transaction

__all__ = ["forged"]

NUMBERS = [
    0, -1, 1, 2, 7, 15, 255, 4095, 4097, 1 << 20, 1 << 31, (1 << 32) + 5, 1 << 47, 1 << 63,
    (1 << 64) - 1, 1 << 64, -(1 << 63), 10**30, 0.5, -0.0, 1e308, float("inf"), float("nan"),
]  # fmt: skip
TEXTS = [
    "",
    "x",
    "\0",
    "\n",
    "é",
    "\ud800",
    "i8*",
    "{",
    "%",
    "@" * 300,
    "../../x",
    "[9 x i64]",
    "0",
]
OTHERS: list[Any] = [None, True, False, [], {}, [[]], [0, 0], ["data", 16, 16], {"a": 1}]
#: Zeros that take a thousandth of their size in a file.
BOMB = zlib.compress(bytes(64 << 20), 9)


def forged(original: Path, copy: Path, chance: random.Random) -> str:
    """Make `copy` the file `original` with one row changed; what was changed."""
    shutil.copyfile(original, copy)
    with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as db:
        tables = Tables(db)
        table = chance.choice(("records", "cells", "cells", "symbols", "symbols", *PARTS))
        rows = db.execute(f"select * from {table}").fetchall()
        row = chance.choice(rows)[:-1]
        what, new = _row(table, row, chance)
        with Transaction(db):
            if new is None or new[0] != row[0]:
                tables.drop(table, [row[0]])
            if new is not None:
                tables.put(table, [new])
    return f"{table} {row[0]}: {what}"


def _row(
    table: str, row: tuple[Any, ...], chance: random.Random
) -> tuple[str, tuple[Any, ...] | None]:
    """What was changed, and the row; None where it is gone."""
    kind = chance.randrange(20)
    if kind == 0:
        return "it is gone", None
    if kind == 1:
        keys = ["x", "", "type 5", "note ", "declared {"] if table == "facts" else [0, -1, 1 << 40]
        key = chance.choice(keys)
        return f"its key is {key!r}", (key, *row[1:])
    at = chance.randrange(1, len(row))
    value: Any = row[at]
    if isinstance(value, str) and kind < 18:
        with contextlib.suppress(ValueError):
            words, value = _json(json.loads(value), chance)
            return words, (*row[:at], json.dumps(value), *row[at + 1 :])
    new = _plain(value, chance)
    return f"column {at}: {str(value)[:40]!r} is {str(new)[:40]!r}", (
        *row[:at],
        new,
        *row[at + 1 :],
    )


def _plain(value: Any, chance: random.Random) -> Any:
    """Another value of a column."""
    if isinstance(value, bytes):
        cut = chance.randrange(len(value) + 1)
        some = [b"", value[:cut], value + b"\0" * 9, chance.randbytes(40), BOMB, value[cut:] * 3]
        if value:
            at = chance.randrange(len(value))
            some.append(
                value[:at] + bytes([value[at] ^ 1 << chance.randrange(8)]) + value[at + 1 :]
            )
        with contextlib.suppress(zlib.error):
            text = zlib.decompress(value)
            at = chance.randrange(len(text) + 1)
            new = text[:at] + chance.randbytes(chance.randrange(20)) + text[at + 3 :]
            some += [zlib.compress(new)] * 3
        return chance.choice(some)
    if isinstance(value, int):
        return chance.choice([0, -1, 1 << 62, "x", b"x", None])
    at = chance.randrange(len(value) + 1)
    return chance.choice(
        ["[" * 5000, "[" * 200_000, "9" * 5000, "{}", "null", "", 5, None, b"[]", value[:at]]
    )


def _json(value: Any, chance: random.Random) -> tuple[str, Any]:
    """What was changed, and the value, in which one is another."""
    places = list(_places(value))
    if not places:
        return "another value", chance.choice([*NUMBERS, *TEXTS, *OTHERS])
    path, old = chance.choice(places)
    holder = value
    for step in path[:-1]:
        holder = holder[step]
    last = path[-1]
    kind = chance.randrange(12)
    if kind == 0:
        del holder[last]
        return f"{path} is gone", value
    if kind == 1 and isinstance(holder, list):
        holder.insert(last, old)
        return f"{path} twice", value
    if isinstance(old, (int, float)) and kind < 8:
        near = [old + d for d in (-4096, -16, -8, -1, 1, 8, 16, 4096)]
        new = chance.choice([*NUMBERS, *near])
    elif isinstance(old, str) and kind < 8:
        new = chance.choice([*TEXTS, old + "x", old[:-1], *_others(value, str)])
    else:
        new = chance.choice([*NUMBERS, *TEXTS, *OTHERS])
    holder[last] = new
    return f"{path}: {str(old)[:40]!r} is {str(new)[:40]!r}", value


def _others(value: Any, kind: type) -> list[Any]:
    return [v for _, v in _places(value) if isinstance(v, kind)]


def _places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """Where values stand, and what they are."""
    steps: Any = value.items() if isinstance(value, dict) else ()
    for step, inner in enumerate(value) if isinstance(value, list) else steps:
        yield (*path, step), inner
        yield from _places(inner, (*path, step))
