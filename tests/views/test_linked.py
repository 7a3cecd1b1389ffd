"""Source, IR and machine code side by side: the function's own lines and no neighbour's, of what
was inlined its own, one colour for one line; clang's debug information and the text judge."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path

import pytest
from stripped import assert_complete, words

from jitkernel import Session
from jitkernel.compiler.machine_ir import blocks_of, emitted
from jitkernel.linker.disassembly import decode
from jitkernel.session import CellOptions
from jitkernel.session.report.sources import Place
from jitkernel.views import asm, explain, linked
from jitkernel.views.asm import code_of
from jitkernel.views.highlight import INKS, highlighted
from jitkernel.views.lines import Line, Located, paired
from jitkernel.views.panes import Keys, Pane, beside, colour
from jitkernel.views.svg import INK, PAPER
from jitkernel.views.watched import watched
from tests.views.test_svg import BLACK, contrast, rgb

HELPER = "static int hid(int q) {\n  return q * 3;\n}\nint help(int x) {\n  if (x > 2)\n    x++;\n  return hid(x);\n}"
MANY = "\n".join(f"int f{i}(int a) {{\n  return a + {i};\n}}" for i in range(300))
TARGET = "int\ntarget(int a)\n{\n  int t = 0;\n  for (int i = 0; i < a; i++)\n    t ^= help(i) * i;\n  return t * 42;\n}"


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(capacity=64 << 20, spare=False) as s:
        s.run(HELPER, "c")  # 1
        s.run(f"{MANY}\n{TARGET}\nint after(int a) {{\n  return a - 1;\n}}", "c")  # 2
        s.run("define i32 @g(i32 %x) {\n  %y = call i32 @help(i32 %x)\n  ret i32 %y\n}")  # 3
        yield s


def pane(text: str, title: str) -> list[str]:
    """The lines of a pane in plain text."""
    found = text[text.index(f"\n{title}\n") + len(title) + 2 :]
    return found.split("\n\n")[0].splitlines()


def test_a_function_at_line_900_has_its_own_lines(session: Session) -> None:
    source = pane(linked(session, "target").text, "Source")
    own = [f"{901 + k} {line}" for k, line in enumerate(TARGET.splitlines())]
    assert source[:8] == own
    rest = "\n".join(source[8:])
    assert re.search(r"^ +a: inlined: help, cell 1$", rest, re.M)
    assert re.search(r"^ *a5   if \(x > 2\)$", rest, re.M)
    assert not re.search(r"\bf\d+\(|after", "\n".join(source))


def test_a_function_of_a_header_has_its_own_lines(tmp_path: Path) -> None:
    """With its head and its end, as one of the cell has; of those around it none."""
    header = tmp_path / "own.h"
    header.write_text(f"static int before;\n{TARGET.replace('help(i)', 'before++')}\nint after;\n")
    with Session(spare=False, clang_flags=f"-I {tmp_path}") as s:
        s.run('#include "own.h"\nint use(int n) {\n  return target(n);\n}', "c")
        source = pane(linked(s, "target").text, "Source")
    assert source == [f"{2 + k} {line}" for k, line in
                      enumerate(TARGET.replace("help(i)", "before++").splitlines())]  # fmt: skip


def test_lines_agree_with_the_line_table(session: Session) -> None:
    """What stands at an instruction is what `asm` says of it, where it is the function's own."""
    numbers = [int(n) for n in re.findall(r"^ *(\d+)  ", asm(session, "target").text, re.M)]
    shown = pane(linked(session, "target").text, "Machine code")
    own = {int(m[1]) for m in (re.match(r" *(\d+) ", line) for line in shown) if m}
    assert own and own <= set(numbers) <= set(range(901, 909))


def test_every_number_is_that_of_a_line_beside_it(session: Session) -> None:
    for name in ("target", "help", "g"):
        text = linked(session, name).text
        known = {m[1] for m in (re.match(r" *(a?\d+) ", t) for t in pane(text, "Source")) if m}
        for title in ("IR, as it was compiled", "Machine code"):
            used = {m[1] for m in (re.match(r" *(a?\d+) ", t) for t in pane(text, title)) if m}
            assert used and used <= known, (name, title)


def test_loops_are_marked(session: Session) -> None:
    lines = pane(linked(session, "target").text, "IR, as it was compiled")
    inside = {line for line in lines if "│" in line}
    assert any("phi" in line for line in inside) and not any("ret i32" in line for line in inside)


INTERPRETER = """int interpret(const unsigned char *code, int *stack, int n) {
  for (int i = 0; i < n; i++)
    for (int at = 0;; at++) {
      switch (code[at]) {
      case 0: goto done;
      case 1: stack[0] += stack[1]; break;
      case 2: stack[0] *= stack[2]; break;
      case 3: stack[1] ^= stack[3]; break;
      case 4: stack[2] -= stack[1]; continue;
      case 5: if (stack[0] < 0) goto done; stack[3]++; break;
      case 6: while (stack[4] > 9) stack[4] /= stack[5]; break;
      default: return -1;
      }
      stack[6]++;
    done:
      if (stack[7]-- < 0) break;
    }
  if (stack[0] > 100) { stack[0] = 7; goto last; }
  stack[0]--;
last:
  return stack[0];
}"""


def test_bars_of_machine_code_are_llvms_loops() -> None:
    """Jumps back that close no loop get none, and tables of jumps are followed."""
    with Session(spare=False) as s:
        s.run(INTERPRETER, "c")
        stages = watched(s, "interpret", print).machine["interpret"]
        final = next(stage for stage in stages if stage.name == "final")
        located, code = Located(s, 1), code_of(s, "interpret")[1][0]
        found = decode(s.inspect.engine.arena.read(code.address, code.size), code.address)
        lines = [x for _, each in located.machine(found, lambda i: "") for x in each]
        depths = [line.depth for line in lines if not line.text]
    graph: dict[int, list[int]] = {}
    block_of: list[int] = []  # of each line
    for line in final.lines:
        if match := re.match(r"bb\.(\d+)", line):
            graph[int(match[1])] = []
        elif line.startswith("  successors:"):
            graph[[*graph][-1]] = [int(n) for n in re.findall(r"%bb\.(\d+)", line)]
        block_of.append([*graph, -1][len(graph) - 1])
    loops = natural_loops(graph)
    assert len(loops) == 3
    depth_of = dict(zip((i.address for i in found), depths, strict=True))
    seen = set[int]()
    for i, number in paired(found, emitted(final)):
        block = block_of[number]
        if block not in seen:  # a jump behind another one is in no loop that it leaves
            seen.add(block)
            assert depth_of[i.address] == sum(block in loop for loop in loops), (i, block)
    assert len(seen) > 15


def natural_loops(graph: dict[int, list[int]]) -> list[set[int]]:
    """By their definition: a node dominates those that no way leads to without it."""
    first = next(iter(graph))

    def reached(start: int, without: int) -> set[int]:
        found, todo = set[int](), [start]
        while todo:
            if (at := todo.pop()) != without and at not in found:
                found.add(at)
                todo += graph[at]
        return found

    loops = []
    for header in graph:
        within = {*graph} - reached(first, header)
        ends = [node for node in within if header in graph[node]]
        body = {n for n in within if any(end in reached(n, header) for end in ends)}
        if ends:
            loops.append(body | {header})
    return loops


class Cells(HTMLParser):
    """The texts of the cells of columns."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.deep = 0
        self.feed(html[html.index("display:grid") :])

    def handle_starttag(self, tag, attrs):
        self.deep += tag == "div"
        if tag == "div" and self.deep == 1:
            self.cells.append("")

    def handle_endtag(self, tag):
        self.deep -= tag == "div"

    def handle_data(self, data):
        if self.deep > 0:
            self.cells[-1] += data


def test_blocks_of_ir_stand_beside_the_code_made_of_them(session: Session) -> None:
    """LLVM's own assembly names the blocks, in the order of the code: clang's names of a loop."""
    made = watched(session, "target", print)
    view = linked(session, "target", made=made)
    final = next(stage for stage in made.machine["target"] if stage.name == "final")
    told = [*dict.fromkeys(filter(None, blocks_of(final)))]
    cells = Cells(view.html).cells
    rows = list(zip(cells[::2], cells[1::2], strict=True))
    shown = [m[1] for ir, code in rows if code and (m := re.match(r"\s+│*([\w.]+):\n", ir))]
    own = {name for name in told if re.search(rf"^[ │]*{re.escape(name)}:$", view.text, re.M)}
    assert len(shown) > 3 and shown == [name for name in told if name in own]
    plain = linked(session, "target")
    for title in ("IR, as it was compiled", "Machine code"):  # nothing is lost or doubled
        lines = [
            sorted(t.split("│")[-1].split("  ")[-1] for t in pane(v.text, title))
            for v in (view, plain)
        ]
        assert lines[0] == lines[1]
    assert "beside the machine code that was made of it" in view.text
    assert "beside the machine code that was made of it" not in plain.text


def test_lines_of_ir_and_of_code_are_of_one_compile(session: Session) -> None:
    compiler, asked = session.inspect.engine.pool, []
    session.inspect.places.lines.tables.clear()
    before = compiler._ask
    compiler._ask = lambda index, question, *rest: (
        asked.append(question),
        before(index, question, *rest),
    )[1]
    try:
        linked(session, "target")
    finally:
        del compiler._ask
    assert len(asked) == 1


def test_words_are_in_colours_where_there_is_room(session: Session) -> None:
    """Comments over several lines too; nothing but elements is added, and a large function has
    its own lines in colours only."""
    lines = ["/* a", "b */ int x = 3; // c", '  return "s<t";']
    html = highlighted(lines, "c")
    assert [unescape(re.sub("<[^>]*>", "", line)) for line in html] == lines
    assert html[0] == "<i style=color:#720>/* a</i>" and html[1].startswith(
        "<i style=color:#720>b */"
    )
    view = linked(session, "target")
    assert "<b style=color:#038>" in view.html and len(view.html) < 60_000
    assert highlighted(["a->b && c<d"], "c")[0].endswith("a->b &amp;&amp; c&lt;d")
    for flow, colour_ in ((True, False), (False, True)):
        assert ("#040" in highlighted(["  add i32 %x, 7"], "llvm", flow)[0]) is colour_
        assert "#038" in highlighted(["  br label %x"], "llvm", flow)[0]
        assert "#038" in highlighted(["  jne L4"], "intel", flow)[0]


def test_colours_go_where_there_is_room_without(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And stay, those of the source, where there is not."""
    module = import_module("jitkernel.views.linked")

    def shown(room: int) -> str:
        monkeypatch.setattr(module, "_COLOURED", room)
        return linked(session, "target").html

    monkeypatch.setattr(module, "_BLOCK", 0)
    some = shown(0)
    source, _, code = some.partition("IR, as")
    assert "=color:" in source and "=color:" not in code
    for room, colours in ((len(some) - 1, False), (len(some), True)):
        assert ("=color:" in shown(room)) is colours and len(shown(room)) <= room


def test_a_header_is_a_text_of_its_own(tmp_path) -> None:
    """Its line 2 is not the cell's line 2."""
    (tmp_path / "h.h").write_text(
        "static inline int twice(volatile int *x) {\n  return *x * 2;\n}\n"
    )
    with Session(capacity=64 << 20, spare=False, clang_flags=f"-I {tmp_path}") as s:
        s.run(
            '#include "h.h"\nint other;\nint f(volatile int *x) {\n  return twice(x) + 1;\n}', "c"
        )
        text = linked(s, "f").text
        assert re.search(r"^a2   return \*x \* 2;$", text, re.M) and f"{tmp_path}/h.h" in text
        assert "other;" not in text
        assert not re.search(r"^ *2  ", asm(s, "f").text, re.M)


def test_tabs_of_a_source_stand_where_they_do_in_its_file(tmp_path: Path) -> None:
    """Behind as many columns as a tab has; and in code, a name is followed by one, too."""
    path = tmp_path / "tabs.c"
    path.write_text("int f(int x) {\n\tif (x)\n    \t  x++;\n\treturn x;\n}\n")
    with Session(spare=False, clang_flags=f"-I {tmp_path}") as s:
        s.run('#include "tabs.c"', "c")
        html = re.sub("<[^>]*>", "", linked(s, "f").html).split("Source")[1]
    shown = [line.expandtabs() for line in html.split("IR, as")[0].splitlines()]
    lines = [line.expandtabs() for line in path.read_text().splitlines()]
    assert [line[8:] for line in shown] == lines


_RUN = re.compile(r"<div class=(k\d+) style=([^>]*)>(.*?)</div>", re.S)


def test_one_line_has_one_colour_and_one_element_a_run(session: Session) -> None:
    view = linked(session, "target")
    styles: dict[str, set[str]] = {}
    numbers: dict[str, set[str]] = {}
    for key, style, text in _RUN.findall(view.html):
        styles.setdefault(key, set()).add(style)
        numbers.setdefault(key, set()).add(re.sub("<[^>]*>", "", text).split()[0])
    assert styles and all(len(found) == 1 for found in (*styles.values(), *numbers.values()))
    assert len({next(iter(n)) for n in numbers.values()}) == len(numbers)
    assert all(f"&:has(.{key}:hover) .{key}" in view.html for key in styles)
    beside = re.findall(
        r"<div class=(k\d+)[^>]*>(?:(?!</div>).)*</div>(?=<div class=(k\d+))", view.html, re.S
    )
    assert beside and all(a != b for a, b in beside), "two elements for one run"
    assert "var(" not in view.html and "light-dark" not in view.html and "<script" not in view.html
    assert_complete(view)


def test_nothing_glares_and_all_can_be_read() -> None:
    inks = ["#" + "".join(2 * c for c in ink[1:]) for _, ink in INKS.values()]
    assert all(contrast(rgb(ink), rgb(PAPER)) >= 4.5 for ink in inks)
    for number in range(400):
        ground = rgb(colour(number))
        for ink in (INK, *inks):
            assert contrast(rgb(ink), ground) >= 4.5, (number, ink)
        assert contrast(ground, BLACK) < 16
    assert len({colour(n) for n in range(30)}) == 30
    assert PAPER.startswith("#")


def test_explain_and_asm_show_it(session: Session) -> None:
    text = explain(session, "target").text
    assert (
        "905   for (int i = 0; i < a; i++)" in text and "int f0(" not in text.partition("== IR")[0]
    )
    without = linked(session, "target", ir=False)
    assert "IR, as" not in without.text and "905" in words(without.html)


def test_a_cell_of_statements_and_one_of_data(session: Session) -> None:
    with Session(capacity=64 << 20, spare=False) as s:
        s.run("int x = 3;\nint y;", "c")
        for view in (explain(s, 1),):
            assert "no machine code" in view.text
            assert_complete(view)


@pytest.mark.parametrize("size", [20, 80])
def test_panes_are_small(size: int) -> None:
    """1 kB a block, as is all of them."""
    body = "".join(
        f"  for (int i = 0; i < n; i++) {{\n    if (p[i] > {k}) t += p[i] * {k + 1};\n"
        f"    else t ^= {k};\n  }}\n" for k in range(size // 4)
    )  # fmt: skip
    with Session(capacity=64 << 20, spare=False) as s:
        s.run(f"long big(const volatile long *p, int n) {{\n  long t = 0;\n{body}  return t;\n}}", "c",
              options=CellOptions(opt_level=1))  # fmt: skip
        view = linked(s, "big")
        plain = re.sub(r"</?(?:b|i|span)(?: style=color:[^>]*)?>", "", view.html)
        assert len(plain) < 6_000 + 1_000 * size
        assert len(view.html) < max(60_000, 6_000 + 1_000 * size)
        assert len(explain(s, "big").html) < 120_000


def test_what_is_of_no_line_does_not_look_like_the_line_above() -> None:
    keys, at = Keys(1), Place(1, "", 7, "f")
    lines = [Line(" a"), Line(" b", at), Line(" c", at), Line(" d"), Line(" e"), Line("L1:"),
             Line(" f", at)]  # fmt: skip
    shown = beside("", [[Pane("code", [lines])]], keys)
    assert shown.text.rpartition("code\n")[2].split("\n") == [
        "-  a", "7  b", "   c", "-  d", "   e", "  L1:", "7  f"
    ]  # fmt: skip
