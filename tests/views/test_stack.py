"""The stack where a cell was stopped: frames, return addresses, saved registers, named words."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from stripped import assert_complete

from jitkernel import Session
from jitkernel.errors import Fault, Interrupted, JitError, UsageError
from jitkernel.linker.disassembly import decode
from jitkernel.views import stack

PROGRAM = """\
declare void @qsort(ptr, i64, i64, ptr)
@g = global i64 77
@table = global [4 x i32] [i32 4, i32 2, i32 3, i32 1]
define i64 @get(ptr %p) noinline uwtable {
  %a = alloca [4 x i64]
  store volatile i64 1234, ptr %a
  %b = getelementptr i64, ptr %a, i64 1
  store volatile ptr @g, ptr %b
  %c = getelementptr i64, ptr %a, i64 2
  store volatile ptr @get, ptr %c
  %d = getelementptr i64, ptr %a, i64 3
  %m = call ptr @malloc(i64 100)
  store volatile ptr %m, ptr %d
  %v = load volatile i64, ptr %p
  ret i64 %v
}
define i64 @outer(i64 %k) noinline uwtable {
  %v = call i64 @get(ptr null)
  %w = mul i64 %v, %k
  ret i64 %w
}
define i32 @compare(ptr %a, ptr %b) noinline uwtable {
  %v = call i64 @outer(i64 4)
  %t = trunc i64 %v to i32
  %x = add i32 %t, 1
  ret i32 %x
}
define i32 @sort() noinline uwtable {
  call void @qsort(ptr @table, i64 4, i64 4, ptr @compare)
  ret i32 0
}
define i32 @deep(i32 %n) noinline uwtable {
  %a = call i32 @deep(i32 %n)
  %b = call i32 @deep(i32 %a)
  %c = add i32 %a, %b
  ret i32 %c
}
define void @spin() noinline uwtable {
  br label %l
l:
  %x = load volatile i64, ptr @g
  br label %l
}
"""
CELLS = [PROGRAM]


def fault(session: Session, cell: str) -> str:
    with pytest.raises(Fault):
        session.run(cell)
    return stack(session).text


def words(text: str, frame: str) -> list[tuple[int, int, int, str]]:
    """Address, offset, word and name of each row of a frame."""
    part = text[text.index(f"Frame of {frame}") :].split("\n\n")[0]
    rows = re.findall(r"^(0x\w+) +\+(0x\w+) +(0x\w{16}) *(.*)$", part, re.M)
    return [(int(a, 16), int(b, 16), int(c, 16), d) for a, b, c, d in rows]


def test_locals_pointers_and_the_way_back(session: Session) -> None:
    text = fault(session, "@outer(5)")
    assert text.startswith("Stack where a cell was stopped: read of address 0 (a null pointer)\n")
    assert re.search(
        r"^#0 +@get\+\d+, cell 1 +14 +%v = load volatile i64, ptr %p +\d+ +0x\w+ +table$",
        text,
        re.M,
    )
    assert re.search(r"^#1 +@outer\+\d+, cell 1 +18 +%v = call i64 @get\(ptr null\)", text, re.M)
    assert re.search(r"^#2 +what calls cells ", text, re.M)
    rows = words(text, "@get+")
    named = [name for *_, name in rows]
    heap, entry, variable, number = named[:4]
    assert (heap, entry, variable, number) == ("heap", "@get, its entry", "@g", "1234")
    assert rows[2][2] == session.symbols["g"].address
    assert named[-1].startswith("return address: @outer+")
    assert "saved rbx: 5" in named  # the argument of @outer, which @get has put aside
    assert [row[1] for row in rows] == [8 * i for i in range(len(rows))]
    assert_complete(stack(session))


def test_return_addresses_follow_calls_and_frames_join(session: Session) -> None:
    fault(session, "@outer(5)")
    stopped = session.inspect.observers.stopped
    assert stopped is not None
    frames = [named.frame for named in stopped.frames]
    for inner, outer in pairwise(frames):
        assert inner.stop == outer.start and inner.returns == inner.stop - 8
        assert int.from_bytes(stopped.read(inner.returns, 8) or b"", "little") == outer.pc
        symbol = session.symbols["outer"]
        if symbol.address < outer.pc < symbol.address + symbol.size:
            code = session.inspect.engine.arena.read(symbol.address, symbol.size)
            before = [
                i for i in decode(code, symbol.address) if i.address + len(i.code) == outer.pc
            ]
            assert before[0].mnemonic == "call"


def test_live_references_are_marked_by_their_stack_maps(session: Session) -> None:
    """A base, and a pointer that walks along in its object; a number that looks like one is none."""
    session.run("""@object = global [8 x i64] zeroinitializer
define void @fails() noinline {
  store volatile i64 1, ptr null
  ret void
}
define i64 @walks(ptr addrspace(1) %o, i64 %n) noinline gc "statepoint-example" {
entry:
  br label %loop
loop:
  %i = phi i64 [ %n, %entry ], [ %i1, %loop ]
  %p = phi ptr addrspace(1) [ %o, %entry ], [ %p1, %loop ]
  %p1 = getelementptr i8, ptr addrspace(1) %p, i64 8
  call void @fails()
  store i64 %i, ptr addrspace(1) %p1
  %i1 = sub i64 %i, 1
  %more = icmp ne i64 %i1, 0
  br i1 %more, label %loop, label %done
done:
  %v = load i64, ptr addrspace(1) %o
  %r = add i64 %v, %n
  ret i64 %r
}
define i64 @start(i64 %at) noinline {
  %o = inttoptr i64 %at to ptr addrspace(1)
  %r = call i64 @walks(ptr addrspace(1) %o, i64 %at)
  %s = add i64 %r, %at
  ret i64 %s
}""")
    at = session["object"].address
    with pytest.raises(Fault):
        session.call("start", at)
    text = stack(session).text
    assert "they hold 2 live references." in " ".join(text.split())
    found = {what: value for _, _, value, what in words(text, "@walks") if "reference" in what}
    [base] = [
        offset for _, offset, _, what in words(text, "@walks") if what == "reference: @object"
    ]
    assert found["reference: @object"] == at
    [derived] = [what for what in found if "derived" in what]
    assert derived == f"reference, derived from +{base:#x}: {session.describe(found[derived])}"
    assert found[derived] - at in (0, 8)
    number = [what for _, _, value, what in words(text, "@walks") if value == at]
    assert sorted(number) == ["reference: @object", "saved rbx: @object"]


def test_frames_of_a_library_are_one(session: Session) -> None:
    text = fault(session, "@sort()")
    places = re.findall(r"^#\d+ +(\S+)", text, re.M)
    assert [p.split("+")[0].rstrip(",") for p in places[:3]] == ["@get", "@outer", "@compare"]
    assert places[3].startswith(("libc", "qsort", "msort")) and places[4].startswith("@sort")
    assert "return address: @sort+" in text and "@compare, its entry" in text
    assert re.search(r"@table(\+\d+)?$", text, re.M)


def test_instructions_without_a_function(session: Session) -> None:
    text = fault(session, "%x = call i64 @outer(i64 9)\n%y = add i64 %x, 2")
    number = session.number
    assert re.search(rf"^#2 +cell {number} ", text, re.M)
    assert f"return address: cell {number}" in text
    assert "saved rbx: 9" in text


def test_code_that_took_the_place_of_what_was_stopped_is_not_shown() -> None:
    with Session(undo_depth=0) as s:
        s.run("define i32 @f(ptr %p) {\n  %r = load i32, ptr %p\n  ret i32 %r\n}")
        with pytest.raises(Fault):
            s.run("@f(ptr null)")
        first = stack(s).text
        assert "%r = load i32, ptr %p" in first
        s.evict(1)
        s.run("define i32 @g(ptr %p) {\n  %r = load i32, ptr %p\n  ret i32 %r\n}")
        assert s.inspect.places.code(s.inspect.observers.stopped.record.pc).startswith("@g")
        assert "%r = load i32, ptr %p" not in stack(s).text
        assert "@f" in stack(s).text


def test_endless_recursion_is_shown_once(session: Session) -> None:
    text = fault(session, "@deep(3)")
    assert re.search(r"^#1-#255 +@deep\+\d+, cell 1 ", text, re.M)
    assert text.count("Frame of @deep+") == 2
    assert "of older frames were not copied" in text and "There are more." in text


def test_an_interrupted_cell(session: Session) -> None:
    done = threading.Event()

    def interrupt() -> None:
        while not done.wait(0.05):
            session.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(Interrupted):
            session.run("@spin()")
    finally:
        done.set()
        thread.join()
    text = stack(session).text
    assert text.startswith("Stack where a cell was stopped: the cell was interrupted\n")
    assert re.search(r"^#0 +@spin", text, re.M)


def test_a_call_of_what_nobody_defines(session: Session) -> None:
    text = fault(session, "declare i32 @nowhere()\ndefine i32 @goes() noinline uwtable {\n  %a = call i32 @nowhere()\n"
                 "  %b = add i32 %a, 1\n  ret i32 %b\n}\n@goes()")  # fmt: skip
    assert re.search(r"^#0 +@goes\+\d+, cell", text, re.M)
    assert "rdi" not in text.split("Frame of")[0]  # not recorded


def test_words_of_a_process_that_is_gone_are_not_guessed(session: Session) -> None:
    fault(session, "@outer(5)")
    session.respawn()
    text = stack(session).text
    named = [name for *_, name in words(text, "@get+")]
    assert named[0] == "" and named[2] == "@g"


def test_before_anything_was_stopped_and_after_a_reset() -> None:
    with Session(capacity=64 << 20) as s:
        with pytest.raises(UsageError, match="no cell has been stopped yet"):
            stack(s)
        with pytest.raises(JitError):
            s.run("define i32 @f() {\n  ret i32 %x\n}")
        with pytest.raises(UsageError, match="no cell has been stopped yet"):
            stack(s)
        with pytest.raises(Fault):
            s.run("%v = load volatile i64, ptr null")
        assert "cell 2" in stack(s).text
        s.reset()
        with pytest.raises(UsageError):
            stack(s)


def test_a_cell_that_runs_is_looked_at_and_goes_on() -> None:
    with Session(capacity=64 << 20) as s:
        s.run(PROGRAM)
        s.run(
            "@stop = global i64 0\n@steps = global i64 0\ndefine i64 @work(i64 %k) noinline uwtable {\n  br label %l\nl:\n"
            "  %s = load volatile i64, ptr @steps\n  %t = add i64 %s, 1\n  store volatile i64 %t, ptr @steps\n"
            "  %v = load volatile i64, ptr @stop\n  %c = icmp eq i64 %v, 0\n  br i1 %c, label %l, label %d\nd:\n"
            "  ret i64 %k\n}\ndefine i64 @outer2(i64 %k) noinline uwtable {\n  %v = call i64 @work(i64 %k)\n  %w = mul i64 %v, 3\n  ret i64 %w\n}"
        )
        texts: list[str] = []
        steps: list[int] = []

        def look(stopped) -> None:
            texts.append(stack(s).text)
            steps.append(s["steps"].value)
            s["stop"].value = 1

        s.frontend.look_after(0.05, look)
        assert s.run("@outer2(14)").value == 42
        assert len(texts) == 1 and s["steps"].value >= steps[0]
        assert texts[0].startswith("Stack where a cell is: it runs, for ")
        assert re.search(r"^#0 +@work(\+\d+)?, cell 2 ", texts[0], re.M)
        assert re.search(r"^#1 +@outer2\+\d+, cell 2 ", texts[0], re.M)
        assert "return address: @outer2+" in texts[0]


def waits(s: Session, path: Path) -> Callable[[], int]:
    """Define @waits, which waits until something is written to a file; gives what writes it."""
    os.mkfifo(path)
    s.run(
        "declare i32 @open(ptr, i32, ...)\ndeclare i64 @read(i32, ptr, i64)\n@room = global i64 0"
    )
    s.run(
        "define i64 @waits(ptr %path) noinline uwtable {\n"
        "  %f = call i32 (ptr, i32, ...) @open(ptr %path, i32 2)\n"
        "  %n = call i64 @read(i32 %f, ptr @room, i64 4)\n  %r = add i64 %n, 38\n  ret i64 %r\n}"
    )
    return lambda: path.write_text("done")


def test_a_cell_that_waits_in_a_library_is_looked_at_and_goes_on_waiting(tmp_path: Path) -> None:
    with Session(capacity=64 << 20) as s:
        write, texts = waits(s, tmp_path / "fifo"), []

        def look(stopped) -> None:
            texts.append(stack(s).text)
            write()

        s.frontend.look_after(0.05, look)
        assert s.run(f'@waits("{tmp_path / "fifo"}")').value == 42
        assert len(texts) == 1 and "libc" in texts[0] and re.search(r"cell 2 ", texts[0])


def test_a_system_that_lets_nobody_look_does_not_stop_the_cell(monkeypatch, tmp_path) -> None:
    with Session(capacity=64 << 20) as s:
        write = waits(s, tmp_path / "fifo")

        def refuse() -> None:
            write()
            raise UsageError("not permitted")

        monkeypatch.setattr(s.inspect.engine.executor, "peek", refuse)
        s.frontend.look_after(0.01, lambda stopped: pytest.fail("there is nothing to see"))
        result = s.run(f'@waits("{tmp_path / "fifo"}")')
        assert result.value == 42 and any("not permitted" in note for note in result.notes)
