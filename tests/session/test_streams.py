"""What a program prints, what it reads, and how it ends."""

from __future__ import annotations

import contextlib
import io
import time

import pytest
from programs import SLOW, constant, interrupting, interrupting_once

from jitkernel.errors import Exited, Interrupted, JitError
from tests.busy import strain, within

pytestmark = pytest.mark.process


class Sink:
    """Remembers everything; `lines` are given as input."""

    heard = staticmethod(lambda: None)  # told of each output

    def __init__(self, lines=(), fail=None):
        self.lines, self.fail = list(lines), fail
        self.said, self.prompts, self.notes, self.shown_values = [], [], [], []

    def output(self, name, data):
        if self.fail is not None:
            raise self.fail
        self.said.append((name, bytes(data)))
        self.heard()

    def input(self, prompt):
        self.prompts.append(prompt)
        return self.lines.pop(0) if self.lines else None

    def note(self, text):
        self.notes.append(text)

    def progress(self, text):
        self.notes.append(text)

    def shown(self, label, text, html):
        self.shown_values.append(text)

    def text(self, name="stdout"):
        return b"".join(d for n, d in self.said if n == name)


WRITE = 'declare i64 @write(i32, ptr, i64)\n@o = constant [4 x i8] c"out\\0A"\n@e = constant [4 x i8] c"err\\0A"\n'


def test_standard_output_and_error_are_told_apart(s):
    r = s.run(
        WRITE
        + "define void @both() {\n  %a = call i64 @write(i32 1, ptr @o, i64 4)\n  %b = call i64 @write(i32 2, ptr @e, i64 4)\n  ret void\n}\n@both()"
    )
    assert (r.stdout, r.stderr) == ("out\n", "err\n")


def test_output_without_a_newline_is_there_when_the_cell_ends(s):
    assert s.run('@printf("no newline")').stdout == "no newline"
    assert s.run("@putchar(65)").stdout == "A"


def test_output_arrives_while_the_cell_runs(s):
    sink = Sink()
    s.run(
        "#include <stdio.h>\n#include <unistd.h>\nvolatile int seen;\n"
        'void waits(void) { puts("now"); while (!seen) usleep(1000); puts("later"); }',
        "c",
    )
    sink.heard = lambda: s.inspect.engine.arena.write(s["seen"].address, b"\1")
    s.run("@waits()", sink=sink)
    assert [data for _, data in sink.said] == [b"now\n", b"later\n"]


def test_binary_output(s):
    r = s.run(
        WRITE.replace('c"out\\0A"', 'c"\\FF\\00\\80\\0A"')
        + "define void @raw() {\n  %a = call i64 @write(i32 1, ptr @o, i64 4)\n  ret void\n}\n@raw()"
    )
    assert r.stdout == "\ufffd\0\ufffd\n"


def test_a_sink_that_raises_stops_the_cell_and_nothing_else(s):
    with pytest.raises(ZeroDivisionError):
        s.run('@puts("x")', sink=Sink(fail=ZeroDivisionError()))
    assert s.run('@puts("next")').stdout == "next\n"
    s.check()


# -- input -----------------------------------------------------------------------------------------

READ = """#include <stdio.h>
#include <unistd.h>
char buffer[64];
int number(void) { int v; scanf("%d", &v); return v; }
int twice(void) { return getchar() + getchar(); }"""


class _Ends(Sink):
    """Its input ends where its lines do."""

    def input(self, prompt):
        self.prompts.append(prompt)
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)


def test_input_that_ends(s):
    """The program meets the end of the file, as often as it reads; the next cell is asked anew."""
    s.run(READ, "c")
    assert s.run("@twice()", sink=_Ends()).value == -2
    assert s.run("@read(0, @buffer, 64)", sink=_Ends()).value == 0
    assert s.run("@number()", sink=_Ends(["12"])).value == 12
    assert s.run("@twice()", sink=_Ends(["a"])).value == ord("a") + ord("\n")
    with pytest.raises(Interrupted, match="no input box"):
        s.run("@getchar()", sink=Sink())
    assert s.run("@getchar()", sink=Sink(["b"])).value == ord("b")


# -- the end ---------------------------------------------------------------------------------------


def test_handlers_of_a_process_that_exits_do_not_run_twice(s):
    s.run(
        "declare i32 @atexit(ptr)\n@n = global i32 0\ndefine void @h() {\n  %v = load i32, ptr @n\n  %w = add i32 %v, 1\n  store i32 %w, ptr @n\n  ret void\n}\ndefine i32 @reg() {\n  %r = call i32 @atexit(ptr @h)\n  ret i32 %r\n}\n@reg()"
    )
    for _ in range(2):
        with pytest.raises(Exited):
            s.run("@exit(0)")
    s.evict("reg", force=True)
    s.undo()
    assert s["n"].value <= 1


# -- interrupts ------------------------------------------------------------------------------------

SPIN = "define void @spin() {\nentry:\n  br label %l\nl:\n  br label %l\n}"


def test_a_compile_is_interrupted(s):
    def took() -> float:
        began = time.monotonic()
        with interrupting(s), pytest.raises(JitError):
            s.run(SLOW)
        return time.monotonic() - began

    within(took, 3 * strain())
    assert "slow" not in s
    assert s.run(constant("f", 1) + "\n@f()").value == 1


def test_an_interrupt_names_the_place(s):
    number = s.run(SPIN).cell.number
    with interrupting_once(s), pytest.raises(Interrupted) as caught:
        s.call("spin")
    assert (
        "@spin" in caught.value.where
        and f"cell {number}, line 5: br label %l" in caught.value.where
    )


def test_an_interrupt_between_two_things_that_can_be_stopped_is_not_lost(s):
    """After the compile, before the call: nobody is busy, and the cell must stop all the same."""
    s.run(SPIN)
    call, engine = s.inspect.engine.executor.call, s.inspect.engine

    def late(*arguments):
        s.interrupt()
        return call(*arguments)

    engine.executor.call = late  # type: ignore[method-assign]
    try:
        with pytest.raises(Interrupted):
            s.run("@spin()")
    finally:
        del engine.executor.call
    assert s.run('@puts("on")').stdout == "on\n"


# -- library use: without a sink, what is printed comes out of this process ---------------------

HEY = "define i32 @hey(ptr %s) {\n  %r = call i32 @puts(ptr %s)\n  ret i32 %r\n}"


def test_what_cells_and_calls_print_is_seen(s, capfd) -> None:
    s.run(HEY)
    assert s.run('@hey("a cell")').stdout == "a cell\n"
    s["hey"]("a call é")
    s.value('@hey("a value")')
    s.time('@hey("a loop")', number=2, repeat=1)  # nobody wants to read that a thousand times
    assert capfd.readouterr().out == "a cell\na call é\na value\n"


def test_it_goes_where_sys_stdout_goes_also_where_that_takes_text_only(s) -> None:
    s.run(HEY)
    notebook = io.StringIO()
    with contextlib.redirect_stdout(notebook):
        s["hey"]("é")
        s.run("@putchar(0xC3)\n@putchar(0xA9)\n@putchar(10)\n@fflush(null)")
    assert notebook.getvalue() == "é\né\n"


def test_a_session_has_a_sink_for_all_that_has_none(s, capfd) -> None:
    heard = Sink()
    before, s.sink = s.sink, heard
    try:
        s.run(HEY)
        s["hey"]("x")
        assert s.run('@hey("y")').stdout == "y\n"
    finally:
        s.sink = before
    assert (heard.text(), capfd.readouterr().out) == (b"x\ny\n", "")
