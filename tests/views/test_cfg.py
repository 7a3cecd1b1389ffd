"""Control flow: LLVM's own graph, in words, as a table and as a picture."""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import pytest
from corpus import IR
from hypothesis import given
from hypothesis import strategies as st
from stripped import assert_complete, pictures, words

from jitkernel import Session
from jitkernel.errors import UsageError
from jitkernel.ir.dominators import dominators
from jitkernel.views import callgraph, cfg, passes
from jitkernel.views.callgraph import NAMES, ROWS
from jitkernel.views.cfg import Part, Told
from jitkernel.views.graph import within
from jitkernel.views.outline import outline
from jitkernel.views.svg import PAPER

CELLS = [
    """\
@flags = global [100 x i8] zeroinitializer
define i32 @sieve(i32 %n) {
entry:
  br label %outer
outer:
  %i = phi i32 [ 2, %entry ], [ %i2, %next ]
  %more = icmp slt i32 %i, %n
  br i1 %more, label %test, label %done
test:
  %p = getelementptr i8, ptr @flags, i32 %i
  %v = load volatile i8, ptr %p
  %composite = icmp ne i8 %v, 0
  br i1 %composite, label %next, label %prime
prime:
  store volatile i32 %i, ptr @flags
  br label %next
next:
  %i2 = add i32 %i, 1
  br label %outer
done:
  ret i32 %i
}
define i32 @choose(i32 %x) {
  switch i32 %x, label %other [ i32 1, label %1
    i32 2, label %1
    i32 -3, label %"a b" ]
1:
  ret i32 7
"a b":
  br label %other
other:
  ret i32 %x
}
define void @flat() {
  ret void
}
"""
]


def picture(html: str) -> tuple[str, str]:
    """The SVG and the words of the only image."""
    (found,) = pictures(html)
    return found


def titles(svg: str) -> list[str]:
    """Those of the boxes."""
    return re.findall(r'<text class="b">([^<]*)</text>', svg)


def arrows(svg: str) -> int:
    return svg.count(" data-e=")


def test_blocks_and_edges_as_written(session: Session) -> None:
    view = cfg(session, "@sieve", raw=True)
    assert view.text.startswith("Control flow of @sieve, as written\n")
    assert re.search(r"^%entry +1 +entry +%outer$", view.text, re.M)
    assert re.search(r"^%outer +3 +loop +T: %test, F: %done +%entry, %next$", view.text, re.M)
    assert re.search(r"^%next +2 +%outer \(back\) +%test, %prime$", view.text, re.M)
    assert re.search(r"^%done +1 +ret i32 %i +%outer$", view.text, re.M)
    assert "6 blocks, 7 edges, 1 loop edge, 13 instructions." in view.text
    assert_complete(view)


def test_a_switch_and_blocks_without_a_name(session: Session) -> None:
    text = cfg(session, "choose", raw=True).text
    assert re.search(r"^%0 +1 +entry +default: %other, 1, 2: %1, -3: %a b$", text, re.M)


def test_the_picture_says_what_the_words_say(session: Session) -> None:
    view = cfg(session, "sieve", raw=True)
    svg, alt = picture(view.html)
    assert alt == ("Control flow of @sieve, as written: 6 blocks, 7 edges, 1 loop edge, "
                   "13 instructions.")  # fmt: skip
    assert arrows(svg) == 7
    assert [arrows(g) for g in re.findall(r'<g [^>]*stroke-dasharray="7 3">(.*?)</g>', svg)] == [1]
    assert len(re.findall(r">(T|F)</text>", svg)) == 4
    for word in ("%outer (loop)", "ret i32 %i", "%entry (entry)"):
        assert word in svg
    assert "script" not in svg and "foreignObject" not in svg and PAPER in svg
    left = words(view.html)
    assert "%composite = icmp ne i8 %v, 0" in left


def test_as_compiled_is_what_was_compiled(session: Session) -> None:
    """Passes change the flow: the loop of a function that only counts is gone."""
    count = ("define i32 @count(i32 %n) {\nentry:\n  br label %l\nl:\n  %i = phi i32 [ 0, %entry ], [ %j, %l ]\n"
             "  %j = add i32 %i, 1\n  %c = icmp slt i32 %j, 100\n  br i1 %c, label %l, label %d\nd:\n  ret i32 %j\n}")  # fmt: skip
    with Session(capacity=64 << 20) as s:
        s.run(count)
        assert "1 block, 0 edges" in cfg(s, "count").text
        assert "as compiled at -O2" in cfg(s, "count").text
        assert "3 blocks, 3 edges, 1 loop edge" in cfg(s, "count", raw=True).text
        assert "3 blocks, 3 edges, 1 loop edge" in cfg(s, "count", level=0).text


@pytest.mark.parametrize("name", IR)
def test_every_terminator_of_the_corpus_against_llvm(session: Session, name: str) -> None:
    """As many edges from each block as LLVM's own operands have, to the same blocks."""
    from jitkernel.compiler.records import Request
    from jitkernel.ir.model import Module

    text = session.inspect.engine.pool.printed(Request(IR[name]), optimised=False)
    ours = Module(text).functions
    module = llvm.parse_assembly(IR[name], llvm.create_context())
    for function in module.functions:
        if function.is_declaration:
            continue
        found, blocks = ours[function.name].blocks, list(function.blocks)
        assert len(found) == len(blocks)
        index = {str(block).strip(): i for i, block in enumerate(blocks)}
        for block, own in zip(blocks, found, strict=True):
            *_, last = block.instructions
            theirs = sorted(index[str(o).strip()] for o in last.operands if str(o).strip() in index)
            assert len(own.conditions) == len(own.edges)
            assert sorted(found.index(to) for to in own.edges) == theirs, (function.name, own.ref)


def ladder(count: int) -> str:
    """A loop of `count` blocks, each of which can begin it again, and a way out at the end."""
    blocks = "".join(f"b{i}:\n  store volatile i32 {i}, ptr %p\n  %c{i} = load volatile i1, ptr %p\n"
                     f"  br i1 %c{i}, label %b{i + 1}, label %b0\n" for i in range(count))  # fmt: skip
    return f"define void @f(ptr %p) {{\nentry:\n  br label %b0\n{blocks}b{count}:\n  ret void\n}}"


def test_all_blocks_are_drawn_or_the_nearest_to_one() -> None:
    with Session(capacity=64 << 20) as s:
        s.run(ladder(80))
        view = cfg(s, "f", raw=True)
        svg, alt = picture(view.html)
        assert len(set(titles(svg))) == 82
        assert "are drawn" not in view.text and "82 blocks" in alt and "%b79" in words(view.html)
        near = cfg(s, "f", raw=True, part=Part("%b40", 1))
        svg, _ = picture(near.html)
        assert {*titles(svg)} == {"%b39", "%b40", "%b41", "%b0 (loop)"}
        assert "neighbour not drawn" in svg or "neighbours not drawn" in svg
        assert "4 of 82 blocks are drawn, those nearest to %b40" in near.text
        assert near.text.count("\n%b") > 80, "the words tell all"
        assert_complete(near)
        wider, _ = picture(cfg(s, "f", raw=True, part=Part("b40")).html)
        assert {"%b38", "%b42"} <= {*titles(wider)}
        with pytest.raises(UsageError, match="there is no block %b8000 in @f; did you mean %b80"):
            cfg(s, "f", raw=True, part=Part("%b8000"))
        with pytest.raises(UsageError, match="0 or more"):
            cfg(s, "f", part=Part(depth=-1))
        with pytest.raises(UsageError, match="--block draws what a block dominates"):
            cfg(s, "f", part=Part("b1", block="b2"))


def interpreter(cases: int, each: int) -> str:
    """A loop around a switch whose cases have `each` blocks, in C."""
    bodies = "".join(
        f"  case {k}:\n" + "".join(f"    if (p[{j}] > {k}) p[{j + 1}] ^= {k};\n" for j in range(each))
        + "    break;\n" for k in range(cases)
    )  # fmt: skip
    return (f"void run(volatile int *p) {{\n  for (;;) {{\n  switch (*p) {{\n{bodies}"
            "  case 999: return;\n  }\n  }\n}\n")  # fmt: skip


def test_the_cases_of_a_large_function_are_boxes_that_open() -> None:
    with Session(capacity=64 << 20, spare=False) as s:
        s.run(interpreter(40, 3), "c")
        view = cfg(s, "run", level=0)
        svg, alt = picture(view.html)
        assert 40 <= len(titles(svg)) <= 120 and "boxes have more than one block: all" in alt
        assert ">case 17<" in svg and ">90: if (p[0] &gt; 17) p[1] ^= 17;<" in svg
        assert_complete(view)
        blocks = int(re.search(r"(\d+) blocks, ", view.text)[1])
        assert blocks > 120
        (block,) = re.findall(r"^%(\S+) .*case 17 ", view.text, re.M)
        opened, _ = picture(cfg(s, "run", level=0, part=Part(block=block)).html)
        inside = {*titles(opened)}
        assert f"%{block}" in inside and 3 <= len(inside) <= 8
        assert not re.search(r"\^= 16;", opened)


def test_a_chain_of_many_blocks_is_drawn_from_its_beginning() -> None:
    with Session(capacity=64 << 20) as s:
        s.run(ladder(200))
        svg, alt = picture(cfg(s, "f", raw=True).html)
        assert len(set(titles(svg))) == 120
        assert "1 box has more than one block" in alt


def steps(blocks: int, each: int) -> str:
    """Blocks that branch to the next two, of so many instructions."""
    body = "".join(
        f"b{k}:\n" + "".join(f"  store volatile i64 {k}{n:04}, ptr %p\n" for n in range(each))
        + f"  br i1 %c, label %b{k + 1}, label %b{min(k + 2, blocks)}\n"
        for k in range(blocks)
    )  # fmt: skip
    return f"define void @f(ptr %p, i1 %c) {{\n{body}b{blocks}:\n  ret void\n}}"


@pytest.mark.parametrize(
    ("blocks", "each"),
    [
        (60, 60),
        pytest.param(400, 12, marks=pytest.mark.slow),
        pytest.param(3, 1_500, marks=pytest.mark.slow),
    ],
)
def test_a_picture_too_large_has_boxes_that_open(blocks: int, each: int) -> None:
    with Session(capacity=64 << 20, spare=False) as s:
        s.run(steps(blocks, each))
        view = cfg(s, "f", raw=True)
        assert 40_000 < len(view.html) <= 120_000
        for part, told in ((Part("%b1", 9), None), (None, Told(["dominators", "live"]))):
            assert len(cfg(s, "f", raw=True, part=part, told=told).html) <= 120_000
        if blocks <= 60:
            found = view.text.count("store volatile"), "… " in view.text
            assert found[0] == blocks * each or found[1], "the words tell all"
        for block in (f"b{blocks - 1}", "b1"):
            opened, _ = picture(cfg(s, "f", raw=True, part=Part(block=block)).html)
            number = block[1:]
            assert opened.count(f"store volatile i64 {number}0") >= min(each, 500)
        svg, _ = picture(view.html)
        assert re.search(r"… \d+ more; --block b1 shows them", svg) or blocks > 60


def test_of_many_functions_those_are_drawn_that_there_is_room_for() -> None:
    with Session(capacity=64 << 20, spare=False) as s:
        s.run("".join(steps(8, 8).replace("@f", f"@f{k}") + "\n" for k in range(9)))
        view = cfg(s, 1, raw=True)
        drawn = len(pictures(view.html))
        assert 1 < drawn < 9 and len(view.html) <= 121_000
        left = ", ".join(f"@f{k}" for k in range(drawn, 9))
        assert f"Not shown here, %cfg NAME draws one: {left}." in " ".join(view.text.split())


@given(
    count=st.integers(1, 40),
    pairs=st.lists(st.tuples(st.integers(0, 39), st.integers(0, 39)), max_size=90),
    most=st.integers(2, 30),
    room=st.integers(0, 400),
)
def test_an_outline_has_each_reached_node_once(
    count: int, pairs: list[tuple[int, int]], most: int, room: int
) -> None:
    """Unless one node has more children than there are boxes."""
    after: list[list[int]] = [[] for _ in range(count)]
    for a, b in pairs:
        if a < count and b < count:
            after[a].append(b)
    tree: dict[int, list[int]] = {node: [] for node in range(count)}
    for node, above in enumerate(dominators(after)):
        if above >= 0 and node:
            tree[above].append(node)
    boxes = outline(tree, 0, most, lambda node: 3 + 7 * (node % 4), room, 9)
    leaves = {node for node in tree if not tree[node]}
    taken = [9 if len(box) > 1 else 3 + 7 * (box[0] % 4) for box in boxes]
    below = sum(3 + 7 * (n % 4) if n in leaves else 9 for n in tree[0])
    assert sum(taken) <= max(room, 3 + below) or len(boxes) == most
    found = [node for box in boxes for node in box]
    assert len(found) == len(set(found)) and len(boxes) <= most
    if len(tree[0]) < most:
        assert set(found) == within([0], dict(enumerate(after)))
    for box in boxes:  # who enters a box enters by its first node
        for node in box[1:]:
            assert all(node not in after[a] or a in box for a in set(found))


def test_lines_of_source_stand_in_the_blocks_whole() -> None:
    long = "a" * 150
    with Session(capacity=64 << 20, spare=False) as s:
        s.run(
            f"int {long}(int *p) {{\n  if (*p > 3)\n    *p += 7; /* {'x' * 200} */\n  return 1;\n}}",
            "c",
        )
        svg, _ = picture(cfg(s, long, raw=True).html)
        assert f">3: *p += 7; /* {'x' * 200} */<" in svg and ">2: if (*p &gt; 3)<" in svg


def test_of_many_functions_those_alike_share_a_box_and_the_nearest_are_drawn() -> None:
    with Session(capacity=64 << 20, inlining=False) as s:
        body = "(i32 %x) {{\n  %r = call i32 @{}(i32 %x)\n  %q = add i32 %r, 1\n  ret i32 %q\n}}\n"
        leaf = "define i32 @base(i32 %x) {\n  ret i32 %x\n}\n"
        s.run(leaf + "".join(f"define i32 @f{k}" + body.format("base") for k in range(100)))
        view = callgraph(s)
        svg, _ = picture(view.html)
        assert "and 99 more like it" in svg and arrows(svg) == 1
        assert "not drawn" not in view.text and "@f99" in view.text
        links_ = "".join(
            f"define i32 @g{k}" + body.format(f"g{k - 1}" if k else "base") for k in range(100)
        )
        s.run(links_)
        view = callgraph(s, everything=True)
        svg, alt = picture(view.html)
        assert "@g99" in view.text and "@g99" not in svg and "201 functions" in alt
        assert ">cell 2</text>" in svg and "and 94 more" in svg  # 100 of which 6 are named
        assert "%callgraph CELL opens one" in view.html
        some = callgraph(s, "g50", depth=2)
        assert re.findall(r"^@g(\d+) ", some.text, re.M) == ["48", "49", "50", "51", "52"]
        assert "5 functions, 4 calls." in some.text
        with pytest.raises(UsageError, match="--depth is a number of calls"):
            callgraph(s, depth=2)


def test_calls_are_those_that_stand_in_memory() -> None:
    with Session(capacity=64 << 20, inlining=False) as s:
        s.run(
            "declare i32 @odd(i32)\ndefine i32 @even(i32 %n) {\n  %r = call i32 @odd(i32 %n)\n  %q = add i32 %r, 1\n  ret i32 %q\n}"
        )
        assert "@odd (nobody's) is called by @even" in callgraph(s).text
        s.run("@p = global ptr null\ndeclare i32 @even(i32)\ndefine i32 @odd(i32 %n) {\n  %a = call i32 @even(i32 %n)\n  %b = call i32 @even(i32 %a)\n"
              "  %c = call i32 @puts(ptr null)\n  store ptr @even, ptr @p\n  %r = add i32 %b, %c\n  ret i32 %r\n}")  # fmt: skip
        view = callgraph(s, "odd")
        assert ("@odd (cell 2) calls @even 2 times, @puts; takes the address of @even; is called by "
                "@even") in " ".join(view.text.split())  # fmt: skip
        assert "@puts (library) is called by @odd" in view.text
        assert "3 functions, 4 calls." in view.text
        svg, alt = picture(view.html)
        assert alt == "Calls around @odd: 3 functions, 4 calls." and arrows(svg) == 3
        assert_complete(view)
        s.run("define i32 @odd(i32 %n) {\n  ret i32 3\n}")
        assert "@puts" not in callgraph(s).text
        s.run(
            "define i32 @by(ptr %f) {\n  %r = call i32 %f()\n  %q = add i32 %r, 1\n  ret i32 %q\n}"
        )
        assert "@by (cell 4) calls 1 through pointers" in callgraph(s).text


def test_what_is_inlined_with_another_is_of_those_that_have_that(s: Session) -> None:
    """@loops came with the body of @middle, which one function of the cell has, and one only
    takes the address of."""
    s.run("int other(int x) { return x * 7; }", "c")
    s.run("int middle(int x) { for (int i = 0; i < x; i++) other(i); return x + other(x); }", "c")
    s.run(
        "int has(int x) { return middle(x) + 1; }\nint plain(int x) { return x + 1; }\n"
        "void *takes(void) { return middle; }\nstatic int own(int x) { return middle(x + 2); }\n"
        "int further(int x) { return own(x) * 3; }",
        "c",
    )
    text = callgraph(s, 3).text
    for name in ("has", "further"):
        assert re.search(rf"^{name} \(cell 3\) calls [^;]*middle \(inlined\)", text, re.M), text
        assert re.search(rf"^{name} \(cell 3\) calls [^;]*other \(inlined\)", text, re.M), text
    assert not re.search(r"^(plain|takes) \(cell 3\) calls", text, re.M), text


def test_what_is_not_listed_is_shown_as_it_was_drawn(s: Session) -> None:
    s.run("int f(volatile int *p) {" + "if (*p) p[1]++;\n" * 70 + "return 0; }", "c")
    said = [
        re.findall(r"are not listed(.*)", cfg(s, "f", raw, level).text)
        for raw, level in ((False, None), (True, None), (False, 0))
    ]
    assert said == [[": %ir f --opt shows them."], [": %ir f shows them."], ["."]]


def test_a_wide_switch_is_whole_and_scrolls(session: Session) -> None:
    """Twelve ways side by side are 12 * (137 + 26) = 1,956 pixels."""
    ways = "".join(f"    i32 {k}, label %case{k}\n" for k in range(12))
    blocks = "".join(
        f"case{k}:\n  %v{k} = mul i32 %x, {k + 3}\n  ret i32 %v{k}\n" for k in range(12)
    )
    session.run(
        f"define i32 @ways(i32 %x) {{\n  switch i32 %x, label %case0 [\n{ways}  ]\n{blocks}}}"
    )
    view = cfg(session, "ways", raw=True)
    svg, _ = picture(view.html)
    assert int(re.search(r'width="(\d+)"', svg)[1]) > 1900
    assert "overflow:auto" in view.html and "max-width:none" in view.html
    for k in range(12):
        assert f"%case{k}<" in svg  # no name is cut
    assert_complete(view)


def test_what_is_on_a_way_from_one_function_to_another() -> None:
    """a calls b and c, b calls d, e calls a: from a to d there is only b."""
    body = "define void @{}() noinline {{\n{}  ret void\n}}\n"
    calls = {"a": "bc", "b": "d", "c": "", "d": "", "e": "a"}
    text = "".join(
        body.format(n, "".join(f"  call void @{c}()\n" for c in to)) for n, to in calls.items()
    )
    with Session(capacity=64 << 20, inlining=False) as s:
        s.run(text)
        view = callgraph(s, "a", to="d")
        assert re.findall(r"^@(\w) ", view.text, re.M) == ["a", "b", "d"]
        assert re.findall(r"^@(\w) ", callgraph(s, "d", to="a").text, re.M) == ["a", "b", "d"]
        with pytest.raises(UsageError, match="neither reaches the other"):
            callgraph(s, "c", to="d")


def test_names_that_are_not_utf_8():
    """IR may have any byte in a name, of a function or a block, also where passes are watched."""
    source = (
        'define i32 @"f\\FF"(i32 %x) {\n"a\\FE":\n  %c = icmp eq i32 %x, 0\n'
        '  br i1 %c, label %"b\\FD", label %"c\\FC"\n"b\\FD":\n  ret i32 1\n"c\\FC":\n  ret i32 2\n}'
    )
    with Session(capacity=16 << 20, spare=False) as s:
        s.run(source)
        text = cfg(s, "f\udcff", raw=True).text
        assert '@"f\\FF"' in text and "3 blocks, 2 edges" in text
        assert '@"f\\FF"' in passes(s, "f\udcff").text


def test_many_calls_are_listed_in_part() -> None:
    count = ROWS + 20
    with Session() as s:
        defined = "".join(
            f"define void @g{i}() noinline {{\n  ret void\n}}\n" for i in range(count)
        )
        calls = "".join(f"  call void @g{i}()\n" for i in range(count))
        s.run(f"{defined}define void @all() {{\n{calls}  ret void\n}}")
        some, every = callgraph(s), callgraph(s, everything=True)
        assert f"{ROWS} functions are listed, --all lists all" in some.text
        assert f"@g{ROWS} " not in some.text
        assert all(f"@g{i} " in every.text for i in range(count)) and "listed" not in every.text
        assert len(some.text) < len(every.text)
        asked = callgraph(s, "all").text  # what is asked for is there, and whole
        assert re.search(rf"@all.*@g{count - 1}\b", asked, re.DOTALL)
        assert f"and {count - NAMES} more" not in asked


def test_a_circle_with_two_ways_in_is_no_loop() -> None:
    """And the loop within it is one: LLVM's natural loops."""
    code = """define void @f(i1 %a, i1 %b) {
entry:
  br i1 %a, label %x, label %y
x:
  br i1 %b, label %y, label %end
y:
  br i1 %b, label %y, label %x
end:
  ret void
}"""
    with Session(spare=False) as s:
        s.run(code)
        text = " ".join(cfg(s, "f", raw=True).text.split())
    assert "4 blocks, 6 edges, 1 loop edge" in text and "%y (back)" in text
    assert "%x (back)" not in text and "1 other edge to a block that was on the way there" in text
