"""Views of large functions: they cost a few times what the compile does, grow no faster, and fit a
notebook.  Made-up functions by size, and with -m soak those of the folder JITKERNEL_REAL_CODE (files
of IR, as clang -O0 without optnone writes them)."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.compiler.pool import CompilerPool
from jitkernel.compiler.records import Options, Request
from jitkernel.errors import JitError
from jitkernel.ir.printed import counts_of, parts
from jitkernel.settings import SessionSettings
from jitkernel.views import ir, mir, passes, remarks
from jitkernel.views.watched import changed_steps
from tests.views.cost import anew, loops, spent

VIEWS: dict[str, Callable[[Session, str], Any]] = {
    "passes": passes, "remarks": remarks, "mir": mir, "diff": lambda s, f: ir(s, f, "diff"),
}  # fmt: skip


def test_a_view_of_a_large_function_is_bounded() -> None:
    """And for each step difflib would need about as many lines."""
    with Session(capacity=64 << 20, spare=False) as s:
        s.run(loops(12), "c")
        for name, view in VIEWS.items():
            shown = view(s, "big")
            assert len(shown.html) + len(shown.text) < 150_000, name
        for step in changed_steps(s.inspect.engine.pool.traces.passes(s.inspect.request(1), "big")):
            for piece in step.pieces:
                other = SequenceMatcher(None, piece.old, piece.new, False).get_matching_blocks()
                his = len(piece.old) + len(piece.new) - 2 * sum(n for _, _, n in other)
                assert sum(piece.counts) <= 1.5 * his, step.title


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_view_grows_faster_than_the_compile() -> None:
    costs: dict[int, dict[str, float]] = {}
    for count in (20, 80):
        with Session(capacity=256 << 20, spare=False, timeout=300) as s:
            s.run(loops(1).replace("big", "warm"), "c")
            s.run(loops(count), "c")
            request = s.inspect.request(s.symbols["big"].cell)
            compiler = s.inspect.engine.pool.compile
            costs[count] = {"": min(spent(compiler, request)[0] for _ in range(2))}
            for name, view in VIEWS.items():
                view(s, "warm")
                costs[count][name] = min(anew(s, view, "big")[0] for _ in range(2))
    for name in VIEWS:
        ratio = costs[80][name] / costs[80][""]
        assert ratio < 5, (name, costs)
        slower = ratio / (costs[20][name] / costs[20][""])
        # CPU time on a machine that others use varies by a third; a square would be 1 more.
        assert math.log(slower) / math.log(4) < 0.35, (name, costs)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_real_functions() -> None:
    """Names change no code; the steps lead from the first text to the last; the views are told."""
    folder = os.environ.get("JITKERNEL_REAL_CODE")
    if not folder:
        pytest.skip("JITKERNEL_REAL_CODE names no folder")
    nothing = Options(passes="none")
    with CompilerPool(SessionSettings(spare=False, timeout=300)) as pool:
        for file in sorted(Path(folder).glob("*.ll")):
            request = Request(file.read_text())
            texts = (pool.ends(request)[1], pool.printed(request))
            emitted = [pool.compile(Request(t, nothing)).object for t in texts]
            assert emitted[0] == emitted[1], file
            sizes = {n: counts_of(t).blocks for n, t in parts(request.source).items() if n}
            largest = max(sizes, key=sizes.__getitem__)
            seen = pool.traces.passes(request, largest[1:])
            for step in changed_steps(seen):
                for piece in step.pieces:
                    other = SequenceMatcher(None, piece.old, piece.new).get_matching_blocks()
                    his = len(piece.old) + len(piece.new) - 2 * sum(n for _, _, n in other)
                    assert sum(piece.counts) <= 1.5 * his, (file, step.title)
            with Session(spare=False, timeout=300) as s:
                try:
                    s.run(request.source)
                except JitError:
                    continue  # it reads variables of others
                for name, view in VIEWS.items():
                    shown = view(s, largest)
                    assert len(shown.html) + len(shown.text) < 400_000, (file, name)
