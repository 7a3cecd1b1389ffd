"""Views of real functions, and of ever longer ones: their sizes, their cost beside the compile, their
own lines, and drawings beside dot's.

The first takes C files from the folders in VIEWS_REAL (separated by colons): zlib, Lua, SQLite.
Each is compiled with its own folder for headers.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from jitkernel import Session, views
from jitkernel.errors import JitError
from jitkernel.session import CellOptions
from jitkernel.views.cfg import Part, Told, _Graph
from jitkernel.views.layers import Drawing
from jitkernel.views.lines import Body, Located
from jitkernel.views.svg import LETTER
from tests.views.cost import anew, loops, spent
from tests.views.dot import crossings, dot
from tests.views.test_layers import points

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3000)]

FOLDERS = [Path(p) for p in os.environ.get("VIEWS_REAL", "").split(":") if p]
FILES = [path for folder in FOLDERS for path in sorted(folder.glob("*.c"))]
#: Of the file that is empty else, of those that `configure` would tell; and the one that includes
#: all others.
FLAGS = {"ltests.c": "-DLUA_USER_H='\"ltests.h\"'"} | dict.fromkeys(
    ("gzlib.c", "gzread.c", "gzwrite.c"), "-DHAVE_UNISTD_H"
)
ALL_IN_ONE = "onelua.c"
VIEWS: dict[str, Callable[[Session, str], views.View]] = {
    "linked": lambda s, f: views.linked(s, f),
    "asm --source": lambda s, f: views.linked(s, f, ir=False),
    "asm": lambda s, f: views.asm(s, f),
    "explain": lambda s, f: views.explain(s, f),
    "cfg": lambda s, f: views.cfg(s, f),
    "compare": lambda s, f: views.compare(s, f, levels=[0, 2]),
    "remarks": lambda s, f: views.remarks(s, f),
    "mir": lambda s, f: views.mir(s, f),
}
#: With the one that `test_large` has of ever longer ones.
ALL = VIEWS | {"passes": lambda s, f: views.passes(s, f)}


def placed(s: Session, path: Path) -> str:
    """Run a file, and before it those of its folder that have the variables that it reads."""
    source = path.read_text(errors="replace")
    for _ in range(9):
        try:
            s.run(source, "c", options=CellOptions(file=str(path)))
            return source
        except JitError as error:
            missing = re.search(r" reads (\w+), which nobody defines", str(error))
            if missing is None:
                pytest.skip(str(error).splitlines()[0])
            head = rf"^\w.*\b{missing[1]}\b[^;=]*= *\{{$"
            texts = {p: p.read_text(errors="replace") for p in path.parent.glob("*.[ch]")}
            having = (
                p.with_suffix(".c") for p, text in texts.items() if re.search(head, text, re.M)
            )
            found = (p for p in having if p.name != ALL_IN_ONE and p in texts)
            if (other := next(found, None)) is None:
                pytest.skip(str(error).splitlines()[0])
        placed(s, other)
    pytest.skip("it reads variables of too many others")


@pytest.mark.skipif(not FILES, reason="VIEWS_REAL names no folder")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_real_functions(path: Path) -> None:
    flags = f"-I {path.parent} {FLAGS.get(path.name, '')}"
    with Session(timeout=900, clang_flags=flags, capacity=256 << 20) as s:
        source = placed(s, path)
        cell = s.cells[-1]
        located = Located(s, cell.number)
        if not cell.names:
            pytest.skip("it defines nothing")
        blocks = {n: len(located.body(n).function.blocks) for n in located.functions}
        large = [n for n, count in blocks.items() if count >= 30 and n in cell.names]
        if path.name == ALL_IN_ONE:  # the others are seen with their own files
            large = sorted(large, key=blocks.__getitem__)[-3:]
        for name in large if path.name == ALL_IN_ONE else located.functions:
            view = _Graph(s, located, name, cell.number, {}).view("", Part(), Told(), b"")
            assert len(view.html) <= 120_000, name
        request = s.inspect.request(cell.number)
        compile_ = min(spent(s.inspect.engine.pool.compile, request, True)[0] for _ in range(2))
        for name in large:
            body, count = located.body(name), blocks[name]
            for kind, view in ALL.items():
                seconds, made = anew(s, view, name)
                most = 120_000 if count <= 60 or kind == "cfg" else 400_000
                print(f"{path.name} {name} {count} {kind}: {seconds / compile_:.1f} "
                      f"{len(made.html) // 1000} kB")  # fmt: skip
                assert len(made.html) <= most, (name, kind)
                assert seconds <= 4 * compile_ + 0.1, (name, kind)
                if kind == "linked":
                    assert _panes_are_small(made.html, count), name
            file = next(p.file for at in body.places for p in at if p and p.function == name)
            own = Path(file).read_text(errors="replace") if file else source
            _own_lines(views.linked(s, name).text, name, own.split("\n"))
            if count <= 120:
                _beside_dot(name, body)


def _panes_are_small(html: str, blocks: int) -> bool:
    """60 kB for up to 60 blocks, and 1.1 for each of more; where words, an element for each run of
    lines and the two cells of each block are more than that, a tenth more than they are."""
    words = unescape(re.sub(r"(?s)<style>.*?</style>|<[^>]*>", "", html))
    element, cells = len("<div class=k12 style=background:#aabbcc></div>"), len("<div></div>" * 2)
    least = len(words) + element * html.count("<div class=k") + cells * blocks
    most = 60_000 if blocks <= 60 else 1_100 * blocks
    print(f"words {len(words)}, with elements {least}, {len(html)} of {most}")
    return len(html) <= min(max(most, 1.1 * least if least > most else 0), 300_000)


def _own_lines(text: str, name: str, lines: list[str]) -> None:
    """From the line with the function's name to the first `}` in column 0 below it."""
    shown = text[text.index("\nSource\n") + 8 :].split("\n\n")[0]
    first = re.match(r" *(\d+) ", shown)
    assert first is not None
    start = int(first[1])
    head = next(n for n in range(start, start + 4) if re.search(rf"\b{name} ?\(", lines[n - 1]))
    end = next(n for n in range(head, len(lines)) if lines[n - 1].startswith("}"))
    numbers = [
        int(n) for n in re.findall(r"^ *(\d+)(?: |$)", shown.partition("inlined: ")[0], re.M)
    ]
    assert numbers == list(range(start, end + 1)), name


def _beside_dot(name: str, body: Body) -> None:
    blocks = body.function.blocks
    boxes = {
        block.name: (max(map(len, (block.name, *texts))) * LETTER + 16, 24.0 + 15 * len(texts))
        for block, texts in zip(blocks, body.texts, strict=True)
    }
    edges = [(a.name, b.name, 0.0) for a in blocks for b in a.successors if a is not b]
    drawing = Drawing(boxes, edges)
    width, paths = dot(boxes, edges)
    ours, theirs = crossings([points(route.path) for route in drawing.routes]), crossings(paths)
    print(f"{name}: {drawing.width / width:.2f} of dot's width, {ours} crossings, {theirs}")
    assert drawing.width <= 1.3 * width and ours <= 1.3 * theirs + 2


def test_no_view_grows_faster_than_the_compile() -> None:
    """The exponent between 125 and 1,000 lines is at most 0.1 more than the compile's."""
    sizes = (31, 250)
    found: list[dict[str, float]] = []
    for size in sizes:
        with Session(timeout=900) as s:
            s.run(loops(1).replace("big", "warm"), "c")
            s.run(loops(size), "c")
            compiler, request = s.inspect.engine.pool.compile, s.inspect.request(2)
            one = {"compile": min(spent(compiler, request, True)[0] for _ in range(2))}
            for kind, view in VIEWS.items():
                anew(s, view, "warm")  # what Python imports
                one[kind] = anew(s, view, "big")[0]
            found.append(one)
    scale = math.log(sizes[1] / sizes[0])
    grown = {kind: math.log(found[1][kind] / found[0][kind]) / scale for kind in found[0]}
    print(found, grown)
    for kind in VIEWS:
        assert grown[kind] <= grown["compile"] + 0.1, (kind, grown)
