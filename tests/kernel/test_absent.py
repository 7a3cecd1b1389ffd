"""Whatever a magic is asked for that is not there, it answers with one clear line; and code that is
on disk is there.  The magics and what they take are read from their declarations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from jitkernel.kernel.magics import MAGICS
from jitkernel.kernel.magics.registry import Argument, Magic
from tests.kernel.conftest import Kernel
from tests.seeds import sampled

LIVE = "define i32 @live(i32 %x) {\n  %y = mul i32 %x, 3\n  ret i32 %y\n}\n@seen = global i32 5"
WHAT = {"target", "symbol", "function", "global", "cell"}
#: These take a pattern: that nothing matches is an answer.
PATTERNS = {"symbols", "who"}
#: What else a magic wants on its line.
BESIDE = {"check": "three "}


def takers() -> Iterator[tuple[Magic, Argument]]:
    """Every magic with each of its arguments that names something of the session."""
    for magic in MAGICS:
        for argument in magic.arguments:
            if argument.completes in WHAT:
                yield magic, argument


def call(magic: Magic, argument: Argument, what: str) -> str:
    lead = f"{argument.names[-1]} " if argument.is_option else BESIDE.get(magic.name, "")
    if magic.form == "cell":
        name = "gone" if magic.name in ("pass", "analysis") else ""
        return f"%%{magic.name} {name} {lead}{what}\ndef gone(module):\n    pass"
    return f"%{magic.name} {lead}{what}"


@pytest.fixture(scope="module")
def cells(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What to ask for, by what is the matter with it."""
    kernel.ok(f"%cd {tmp_path_factory.mktemp('absent')}")
    kernel.ok(f"%%exercise three\n{LIVE.partition('@seen')[0].replace('@live', '@three')}")
    kernel.ok(LIVE)
    kernel.ok("define void @gone() {\n  ret void\n}\n@lost = global i8 1")
    gone = number(kernel, "gone")
    kernel.ok(f"%evict {gone} --force")
    kernel.fails("define i32 @failed() {\n  ret i32 %nothing\n}")
    failed = gone + 1
    kernel.ok("@live(1)")
    kernel.ok("; nothing but a comment")
    return {
        "missing number": "99999", "missing name": "@nowhere", "missing range": "99998-99999",
        "evicted number": str(gone), "evicted function": "@gone", "evicted variable": "@lost",
        "failed number": str(failed), "failed name": "@failed", "without code": str(failed + 1),
        "empty": str(failed + 2), "a word": "nowhere", "odd": "@", "quoted": '@"no where"',
    }  # fmt: skip


def number(kernel: Kernel, name: str) -> int:
    found = re.search(rf"^ *(\d+) .*@{name}\b", kernel.ok("%cells"), re.M)
    assert found is not None
    return int(found[1])


def unfolded(error: dict[str, Any]) -> list[str]:
    """The lines of an error; a first one that is longer than a page is wide, as one."""
    text = re.sub(r"\x1b\[\d*m", "", "\n".join(error["traceback"]))
    first = f"{error['ename']}: {error['evalue']}"
    parts = text.split("\n")
    for count in range(1, len(parts) + 1):
        if " ".join(parts[:count]) == first:
            return [first, *parts[count:]]
    return parts


KINDS = (
    "missing number", "missing name", "missing range", "evicted number", "evicted function",
    "evicted variable", "failed number", "failed name", "without code", "empty", "a word", "odd",
    "quoted",
)  # fmt: skip
#: What a cell may define yet: breakpoints are set before.
LATER = (
    "missing name", "evicted function", "evicted variable", "failed name", "a word", "quoted",
)  # fmt: skip
ALL = [pytest.param(m, a, id=f"{m.name} {a.names[-1]}") for m, a in takers()]


@pytest.mark.parametrize(("magic", "argument"), ALL)
def test_what_is_not_there_is_told_in_one_line(
    kernel: Kernel, cells: dict[str, str], magic: Magic, argument: Argument
) -> None:
    wrong = []
    for kind in KINDS:
        if magic.name == "undo" and kind.startswith("evicted"):
            continue  # what an undo is for
        if magic.name == "break" and kind in LATER:
            assert "is set when one does" in kernel.ok(call(magic, argument, cells[kind]))
            continue
        source = call(magic, argument, cells[kind])
        reply, outputs = kernel.run(source)
        errors = [o for o in outputs if o["output_type"] == "error"]
        shown = [o for o in outputs if o["output_type"] != "error"]
        if magic.name in PATTERNS:
            assert reply["status"] == "ok"
            continue
        lines = [line for o in errors for line in unfolded(o)]
        if reply["status"] != "error" or len(lines) != 1 or shown:
            wrong.append((kind, source, lines or outputs))
        elif reply["ename"] not in ("UsageError", "EvictError", "CheckFailed", "CompileError"):
            wrong.append((kind, source, lines))
    assert not wrong, "\n".join(map(str, wrong))


#: Where a hibernated function alone is too little to ask for.
MORE = {"compare": " -O0 -O2", "export": " -o gone.o", "evict": " --force"}
#: What must be taken back before the next question.
AFTER = {"keep": "%keep --off @live", "export": "!rm gone.o"}


@pytest.mark.parametrize(("magic", "argument"), sampled(ALL, 2))
def test_what_is_on_disk_is_there(
    kernel: Kernel, cells: dict[str, str], magic: Magic, argument: Argument
) -> None:
    asked = {
        "global": ["@seen"], "function": ["@live"], "symbol": ["@live"], "cell": ["number"],
        "target": ["@live", "number"],
    }[argument.completes]  # fmt: skip
    for what in asked:
        kernel.ok(LIVE)
        kernel.ok("%hibernate @live")
        assert re.search(r"@live.*hibernated|hibernated.*@live", kernel.ok("%cells"))
        what = str(number(kernel, "live")) if what == "number" else what
        if magic.name in ("plot", "table"):  # of arrays
            kernel.ok("@row = global [2 x i32] zeroinitializer")
            what = "@row"
        if magic.name == "draw":  # pointers of IR do not say what they lead to
            assert "leads nowhere: it is i32, 5" in str(kernel.fails("%draw @seen"))
            continue
        source = call(magic, argument, what).replace("\n", MORE.get(magic.name, "") + "\n")
        source += MORE.get(magic.name, "") if "\n" not in source else ""
        reply, outputs = kernel.run(source)
        if magic.name == "compare" and what.isdigit():
            continue  # which takes numbers beside a name alone
        assert reply["status"] == "ok", (source, outputs)
        if magic.name in AFTER:
            kernel.ok(AFTER[magic.name].replace("@live", what))


LINES = [m for m in MAGICS if m.form != "cell" and not m.alone]
QUIET = {"reset", "clear", "restore"}


@pytest.mark.parametrize(
    "magic", [m for m in LINES if m.name not in QUIET], ids=lambda magic: magic.name
)
def test_a_session_without_cells_is_told_in_one_line(kernel: Kernel, magic: Magic) -> None:
    """Every magic that can be typed alone, before anything is defined."""
    kernel.ok("%reset")
    reply, outputs = kernel.run(f"%{magic.name}")
    if reply["status"] == "error":
        (lines,) = [unfolded(o) for o in outputs if o["output_type"] == "error"]
        assert reply["ename"] == "UsageError" and "Traceback" not in " ".join(lines)
        assert len(lines) == 1 or lines[1].startswith("usage:")
    else:
        assert outputs or reply["payload"], "it says something"
