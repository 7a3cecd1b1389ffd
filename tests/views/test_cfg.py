"""Control flow: LLVM's own graph, in words, as a table and as a picture."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

import llvmlite.binding as llvm
import pytest
from corpus import IR
from stripped import assert_complete, words

from jitkernel import Session
from jitkernel.errors import JitError, UsageError
from jitkernel.views import callgraph, cfg

SIEVE = """\
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


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(capacity=64 << 20) as running:
        running.run(SIEVE)
        yield running


def picture(html: str) -> tuple[str, str]:
    """The SVG and the words of the only image."""
    (found,) = re.findall(r'<img src="data:image/svg\+xml;base64,([^"]+)" alt="([^"]+)"', html)
    return base64.b64decode(found[0]).decode(), found[1]


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
    assert svg.count("marker-end") == 7 and svg.count('stroke-dasharray="7 3"') == 1
    assert len(re.findall(r">(T|F)</text>", svg)) == 4
    for word in ("%outer (loop)", "ret i32 %i", "%entry (entry)"):
        assert word in svg
    assert "script" not in svg and "foreignObject" not in svg and "#ffffff" in svg
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
    from jitkernel.compiler import Request

    flows = session.engine.pool.flow(Request(IR[name]), optimised=False)
    module = llvm.parse_assembly(IR[name], llvm.create_context())
    for function in module.functions:
        if function.is_declaration:
            continue
        flow, blocks = flows[function.name], list(function.blocks)
        assert len(flow.blocks) == len(blocks)
        index = {str(block).strip(): i for i, block in enumerate(blocks)}
        for number, block in enumerate(blocks):
            *_, last = block.instructions
            theirs = sorted(index[str(o).strip()] for o in last.operands if str(o).strip() in index)
            ours = [(a, b, letter) for a, b, letter in flow.edges if a == number]
            if last.opcode in ("br", "switch", "invoke", "indirectbr"):
                assert sorted(b for _, b, _ in ours) == theirs, (function.name, number)
            else:
                assert not ours


def test_many_blocks_are_told_in_words() -> None:
    blocks = "".join(f"b{i}:\n  store volatile i32 {i}, ptr %p\n  %c{i} = load volatile i1, ptr %p\n"
                     f"  br i1 %c{i}, label %b{i + 1}, label %b0\n" for i in range(80))  # fmt: skip
    with Session(capacity=64 << 20) as s:
        s.run(f"define void @f(ptr %p) {{\nentry:\n  br label %b0\n{blocks}b80:\n  ret void\n}}")
        view = cfg(s, "f", raw=True)
        assert "<img" not in view.html and "60 can be drawn" in view.text
        assert "82 blocks" in view.text and "%b79" in words(view.html)


def test_cells_without_control_flow_answer_with_one_line() -> None:
    with Session(capacity=64 << 20) as s:
        for view in (cfg, callgraph):
            with pytest.raises(UsageError, match="yet"):
                view(s)
        s.run("@g = global i32 1")
        s.run("define i32 @f() {\n  ret i32 1\n}")
        s.evict("f")
        with pytest.raises(JitError):
            s.run("define i32 @f() {\n  ret i32 %x\n}")
        for view in (cfg, callgraph):
            for target in ("g", 1, "f", 2, 3, 99):
                with pytest.raises(UsageError) as caught:
                    view(s, target)
                assert "\n" not in str(caught.value)


def test_calls_are_those_that_stand_in_memory() -> None:
    with Session(capacity=64 << 20) as s:
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
        assert alt == "Calls around @odd: 3 functions, 4 calls." and svg.count("marker-end") == 3
        assert_complete(view)
        s.run("define i32 @odd(i32 %n) {\n  ret i32 3\n}")
        assert "@puts" not in callgraph(s).text
        s.run(
            "define i32 @by(ptr %f) {\n  %r = call i32 %f()\n  %q = add i32 %r, 1\n  ret i32 %q\n}"
        )
        assert "@by (cell 4) calls 1 through pointers" in callgraph(s).text
