"""The prompt through the library: its words against gdb's, what it shows, what it refuses."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from jitkernel import Session
from jitkernel.errors import Fault, Interrupted, UsageError
from jitkernel.executor.watches import Watch, check
from jitkernel.session.debugging.dump import Format, dump, read_format
from jitkernel.session.debugging.prompt import COMMANDS
from jitkernel.session.debugging.records import Breakpoint
from jitkernel.session.debugging.where import wanted
from tests.seeds import seeds

pytestmark = pytest.mark.process

PROGRAM = """\
int g[4] = {1, 2, 3, -4};
double d[2] = {1.5, -0.25};
char text[8] = "ab\\"c";
int sq(int x) {
  int y = x * x;
  g[0] += y;
  return y;
}
int odd(int n);
int even(int n) {
  if (n == 0)
    return 1;
  return odd(n - 1);
}
int odd(int n) {
  if (n == 0)
    return 0;
  return even(n - 1);
}
int sum(int n) {
  int s = 0, i = 0;
  while (i < n)
    s += i % 2 ? sq(i++) : even(i++);
  for (int k = 0; k < 2; k++)
    s -= sq(k);
  return s;
}
"""
IR = """\
define i32 @f(i32 %x) {
  %a = alloca i32
  store i32 %x, ptr %a
  %y = mul i32 %x, %x
  ret i32 %y
}
"""
OWN = ("sq", "odd", "even", "sum")


class Talk:
    """A session at whose prompt these lines are typed; what it printed."""

    def __init__(self, session: Session):
        self.session, self.printed = session, list[str]()
        self.lines: Iterator[str | None] = iter(())
        self.before: Callable[[], object] = lambda: None
        session.debugger.start()
        self.prompt = session.debugger.prompt(self.read, self.write)

    def read(self, prompt: str) -> str | None:
        assert prompt == "(debug) "
        self.before()
        try:
            return next(self.lines)
        except StopIteration:
            raise EOFError from None

    def write(self, text: object) -> None:
        self.printed.append(str(text))

    def run(self, source: str, *lines: str | None, language: str = "c") -> str:
        """Run a cell with lines for its prompts; what they printed."""
        self.lines = iter(lines)
        self.printed.clear()
        try:
            self.session.run(source, language)
        finally:
            assert next(self.lines, None) is None, "\n".join(self.printed)
        return "\n".join(self.printed)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    pytest.importorskip("ziglang")
    with Session(capacity=64 << 20) as made:
        made.run(PROGRAM, "c")
        made.run(IR)
        yield made


@pytest.fixture
def talk(session: Session) -> Iterator[Talk]:
    yield Talk(session)
    session.debugger.close()
    session.check()


# -- against gdb -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, compiled by clang for gdb."""
    for name in ("gdb", "gcc"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    pytest.importorskip("ziglang")
    folder = tmp_path_factory.mktemp("native")
    main = "int sum(int); int main(int n, char **v) { return sum(n + 4); }"
    (folder / "p.c").write_text(PROGRAM)
    (folder / "m.c").write_text(main)
    clang = [sys.executable, "-m", "ziglang", "clang", "--target=x86_64-linux-gnu"]
    environment = {**os.environ, "HOME": str(folder)}
    for name, flags in (("p", ["-g"]), ("m", [])):
        command = [*clang, "-O0", *flags, "-c", f"{folder}/{name}.c", "-o", f"{folder}/{name}.o"]
        subprocess.run(command, check=True, timeout=100, env=environment)
    objects = [f"{folder}/p.o", f"{folder}/m.o"]
    subprocess.run(["gcc", "-no-pie", *objects, "-o", f"{folder}/p"], check=True)
    return folder / "p"


def gdb(program: Path, words: list[str]) -> str:
    """What gdb says to these words, in `sum(5)`."""
    command = ["gdb", "-nx", "-q", "-batch", "-ex", "break sum", "-ex", "run"]
    for word in words:
        command += ["-ex", word]
    return subprocess.run(
        [*command, str(program)], capture_output=True, text=True, timeout=100,
        stdin=subprocess.DEVNULL, env={**os.environ, "HOME": str(program.parent), "DEBUGINFOD_URLS": ""},
    ).stdout  # fmt: skip


FRAMES = re.compile(r"^#\d+ +(?:0x[0-9a-f]+ in )?(\w+) \(.*?\)(?: at .*?:(\d+))?$", re.M)


@pytest.mark.parametrize("seed", seeds(3, 8))
def test_motions_go_where_gdb_goes(talk: Talk, native: Path, seed: int) -> None:
    pick, words = random.Random(seed), list[str]()
    ours: list[list[tuple[str, int]]] = []
    debugger = talk.session.debugger
    debugger.add(Breakpoint(function="sum"))

    def look() -> None:
        frames = [(f.name, f.line) for f in debugger.frames() if f.name in OWN]
        ours.append(frames)
        known = ["n", "s", "s", "until", "s 2", "n 2"] + ["finish"] * (len(frames) > 1)
        words.append(pick.choice(known) if len(words) < 40 else "q")
        talk.lines = iter(words[-1:])

    talk.before = look
    with contextlib.suppress(Interrupted):
        talk.session.run("sum(5)", "c")
    asked = [part for word in words for part in ("echo <\\n", "bt", "echo >\\n", word)]
    theirs = []
    for said in re.findall(r"<\n(.*?)\n>", gdb(native, asked), re.S):
        stack = [(name, int(line or 0)) for name, line in FRAMES.findall(said)]
        theirs.append([frame for frame in stack if frame[0] in OWN])
    assert len(ours) > 5
    assert ours == [stack for stack in theirs if stack][: len(words)]


LOOKS = ("x/8xb g", "x/4dw g", "x/4uw g", "x/2xg g", "x/8dh g", "x/2fg d", "x/4tb g", "x/s text")


@pytest.fixture(scope="module")
def gdb_s(native: Path) -> dict[str, list[list[str]]]:
    """What gdb shows of memory, by the word that asks."""
    words = [part for word in LOOKS for part in (word.replace(" ", " &"), "echo --\\n")]
    return {
        word: [
            line.partition(":")[2].split("\t")[1:]
            for line in said.splitlines()
            if line.startswith("0x")
        ]
        for word, said in zip(LOOKS, gdb(native, words).split("--\n"), strict=False)
    }


@pytest.mark.parametrize("word", LOOKS)
def test_memory_is_what_gdb_shows(talk: Talk, gdb_s: dict[str, list[list[str]]], word: str) -> None:
    theirs = gdb_s[word]
    talk.session.run("g[0] = 1;", "c")
    talk.session.debugger.add(Breakpoint(function="sum"))
    ours = []
    for line in talk.run("sum(1)", word, "c").splitlines():
        if line.startswith("0x"):
            text = line.partition(">: ")[2]
            ours.append([text] if "/s" in word else text.split())
    assert ours and [*chain(*ours)] == [*chain(*theirs)]


# -- memory as text --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "data", "shown"),
    [
        ("3dw", struct.pack("<3i", 1, -2, 3), ["0x10: 1  -2  3"]),
        ("2ow", struct.pack("<2i", 8, 0), ["0x10: 010  0"]),
        ("2cb", b"a\n", ["0x10: 97 'a'  10 '\\n'"]),
        ("2ch", b"\xc8\0'\0", ["0x10: 200 '\\310'  39 '\\''"]),
        ("fw", struct.pack("<f", 0.5), ["0x10: 0.5"]),
        ("a", struct.pack("<q", 32), ["0x10: 0x20 <there>"]),
        ("9xb", bytes(range(9)), ["0x10: " + "  ".join(f"{n:#04x}" for n in range(8)), "0x18: 0x08"]),
        ("2xg", b"12345678", ["0x10: 0x3837363534333231  ??", "0x18: nothing can be read from here on"]),
        ("2s", b"a\x01\0b", ['0x10: "a\\001"', '0x13: "b"...']),
    ],
)  # fmt: skip
def test_dump(text: str, data: bytes, shown: list[str]) -> None:
    def read(address: int, size: int) -> bytes:
        return data[address - 16 : address - 16 + size]

    found = dump(16, read_format(text, Format()), read, lambda at: "there" if at == 32 else "")
    assert [*found] == shown


def test_formats_that_are_none() -> None:
    for text in ("k", "8x8", "0x", "99999x"):
        with pytest.raises(UsageError):
            read_format(text, Format())
    assert read_format("", Format(3, "d", 1)) == Format(1, "d", 1)


# -- places ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f", {"function": "f"}),
        ('@"a b"', {"function": "@a b"}),
        ("3", {"source": "a\nb\nc\n", "line": 3}),
        ("2 : 1", {"source": "only", "line": 1}),
        ("*0x10", {"address": 16}),
        ("3 if i == 10", {"line": 3, "condition": "i == 10"}),
        ("f if if_so > 1", {"function": "f", "condition": "if_so > 1"}),
        ("iffy", {"function": "iffy", "condition": ""}),
    ],
)
def test_places(text: str, expected: dict) -> None:
    point = wanted(text, lambda cell: "only" if cell else "a\nb\nc\n")
    assert {name: getattr(point, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("4", "has 3 lines: there is no line 4"),
        ("0", "there is no line 0"),
        ("a b", "no place to stop at: write `f`"),
        ("3 if", "behind `if` a condition is missing"),
        ("-3", "no place"),
    ],
)
def test_places_that_are_none(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        wanted(text, lambda cell: "a\nb\nc\n")


# -- what it shows ---------------------------------------------------------------------------------


def test_a_stop_and_its_frames(talk: Talk) -> None:
    talk.session.debugger.add(Breakpoint(function="sq"))
    said = talk.run(
        "sum(2)", "bt", "u", "p i", "p s", "d", "info locals", "l", "l 1,2", "delete", "c"
    )
    assert said.startswith("breakpoint 1: sq, cell 1, line 5\n   5    int y = x * x;")
    assert "=> #0  sq, cell 1, line 5:  int y = x * x;" in said
    assert "   #1  sum, cell 1, line 23:  s += i % 2 ? sq(i++) : even(i++);" in said
    assert "(int) 2\n(int) 1\n" in said and "x = 1\n" in said
    assert "=>    5    int y = x * x;" in said and "\n      1  int g[4]" in said


def test_values_of_ir_before_and_behind_their_definition(talk: Talk) -> None:
    talk.session.debugger.add(Breakpoint(function="@f"))
    said = talk.run("@f(i32 6)", "p %y", "n", "", "%y = 3", "n", "p %y", "info locals", "x/1dw %a",
                    "p %a", "c", language="llvm")  # fmt: skip
    assert "<not yet>" in said and "i32 36" in said and "%x = i32 6" in said
    assert re.search(r"0x\w+ <stack of @f>: 6\nptr to i32 0x\w+ \(stack of @f\)", said)


def test_what_is_set_counts(talk: Talk) -> None:
    talk.session.debugger.add(Breakpoint(function="sq"))
    words = "set x = 7; g[1] = 70; p g[1]; n; p y; set $rax = y - 44; p $rax; "
    talk.lines = iter(f"{words}up; set $rip = 0; set $no = 0; c".split("; "))
    assert talk.session.run("sq(2) + g[1]", "c").value == 49 + 70
    assert talk.printed[2:5] == ["x = 7", "g[1] = 70", "(int) 70"]
    assert {"(int) 49", "$rax = 0x5", "0x5 (5)"}.issubset(talk.printed)
    assert "registers are set in the innermost frame: those of callers are saved" in talk.printed
    assert any(line.startswith("nothing here is called $no") for line in talk.printed)


def test_a_watchpoint(talk: Talk) -> None:
    try:
        check(Watch(0x1000, 8))
    except UsageError as error:  # no such processor, or not allowed: it says so
        pytest.skip(str(error))
    talk.session.debugger.add(Breakpoint(function="sq", temporary=True))
    said = talk.run("sq(4)", "watch g[0]", "info breakpoints", "c", "delete", "c")
    assert "watchpoint" in said and "g[0]" in said
    assert " -> " in said


def test_displays_and_an_empty_line(talk: Talk) -> None:
    talk.session.debugger.add(Breakpoint(function="sq"))
    said = talk.run("sq(4)", "display y", "n", "", "undisplay 1", "display", "undisplay 9", "c")
    assert said.split("\n").count("1: y = (int) 16") == 2 and "nothing is displayed" in said
    assert "there is no display 9; there are: none" in said


def test_a_number_does_it_so_often(talk: Talk) -> None:
    talk.session.debugger.add(Breakpoint(function="even"))
    said = talk.run("even(8)", "c 3", "p n", "n 2", "delete", "c")
    assert said.count("breakpoint 1: even") == 3  # once more: what `n 2` calls stops it
    assert "(int) 2\n" in said and "(int) 8" not in said


def test_breakpoints_of_the_prompt(talk: Talk) -> None:
    talk.session.debugger.add(Breakpoint(function="sum"))
    said = talk.run("sum(4)", "b 23 if i == 3", "tbreak 6", "info b", "c", "p x", "c", "p i", "info b",
                    "delete 2", "until 26", "delete", "info b", "c")  # fmt: skip
    assert re.search(r"2  cell 1, line 23  s \+= i % 2.* +if i == 3 +0  yes", said)
    assert "breakpoint 3: sq, cell 1, line 6" in said
    assert "breakpoint 2: sum, cell 1, line 23" in said and "(int) 3" in said
    assert "sum, cell 1, line 26" in said and said.endswith("no breakpoints")


def test_a_function_in_the_instructions(talk: Talk) -> None:
    talk.session.debugger.add(Breakpoint(function="sq"))
    said = talk.run("sq(2)", "disas", "x/2i $rip", "si", "info registers rip", "c")
    first = re.search(r"^=> (0x\w+) <\+\d+> +mov eax", said, re.M)
    assert first is not None and f"\n{first[1]}: mov eax" in said
    rip = re.search(r"^rip +0x0*(\w+)  sq\+(\d+), cell 1$", said, re.M)
    assert rip is not None and int(rip[1], 16) == int(first[1], 16) + 3


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("cntinue", "there is no word `cntinue`; did you mean `continue`?"),
        ("foo bar", "there is no word `foo`; `help` lists what there is"),
        ("nosuch", "nothing here is called nosuch"),
        ("watch", "watch needs an expression"),
        ("watch nosuch", "nothing here is called nosuch"),
        ("rwatch g", "`awatch`"),
        ("call sq(1)", "it met breakpoint 1; registers are as before it"),
        ("frame 9", "there is no frame 9: `bt` shows"),
        ("d", "frame 0 is the innermost"),
        ("x", "x needs an address"),
        ("x/q g", "x/q: write a count, a form"),
        ("p", "print needs an expression"),
        ("p 1 +", "column"),
        ("b 99", "there is no line 99"),
        ("b 7:1", "there is no cell 7"),
        ("delete 9", "there is no breakpoint 9; there are: 1"),
        ("n x", "`x` is no number"),
        ("n 0", "how often?"),
        ("info foo", "info takes one of locals, registers"),
        ("info registers foo", "there is no register foo; known here: "),
        ("set x", "set takes NAME = EXPR"),
        ("x =", "x = what?"),
        ("c = 4", "nothing here is called c"),
        ("l 99", "there are no more lines: the cell has 27 lines"),
        ("bt/x", "takes no /x"),
    ],
)  # fmt: skip
def test_wrong_words(talk: Talk, line: str, words: str) -> None:
    talk.session.debugger.add(Breakpoint(function="sq"))
    assert words in talk.run("sq(2)", line, "p x", "c")
    assert "(int) 2" in talk.printed


def test_help_has_every_word(talk: Talk) -> None:
    talk.session.debugger.add(Breakpoint(function="sq"))
    said = talk.run("sq(2)", "help", "c")
    for command in COMMANDS:
        assert f"{', '.join(command.names.split())} {command.takes}".strip() in said
        assert command.help in said
    names = [name for command in COMMANDS for name in command.names.split()]
    assert len(names) == len(set(names))
    assert all(len(line) <= 100 for line in said.splitlines())


# -- ends, refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize("line", ["q", None])
def test_the_cell_is_ended(talk: Talk, line: str | None) -> None:
    talk.session.debugger.add(Breakpoint(function="sq"))
    talk.lines = iter([line] if line else [])  # at the end of its input, too
    with pytest.raises(Interrupted, match="at sq"):
        talk.session.run("sum(3)", "c")
    assert talk.session.debugger.stop is None
    talk.session.debugger.close()
    assert talk.session.run("sq(3)", "c").value == 9


def test_an_interrupt_at_the_prompt_ends_the_cell(talk: Talk) -> None:
    talk.session.debugger.add(Breakpoint(function="sq"))

    def press() -> None:
        raise KeyboardInterrupt

    talk.before = press
    with pytest.raises(Interrupted):
        talk.session.run("sum(3)", "c")
    talk.before = lambda: None
    assert "breakpoint 1: sq" in talk.run("sq(3)", "c")


def test_where_nobody_can_be_asked_it_goes_on(talk: Talk) -> None:
    talk.session.debugger.add(Breakpoint(function="sq"))
    said = talk.run("sum(40)", *[None] * 20)
    assert said.count("breakpoint 1: sq") == 9 and "further stops of this run are not told" in said
    assert said.count("nobody can be asked here: it goes on") == 1 and "  x = 1\n" in said


def test_a_program_that_stands_is_not_changed(talk: Talk, tmp_path: Path) -> None:
    session = talk.session
    session.debugger.add(Breakpoint(function="sq"))
    refused = []
    tried: list[Callable[[], object]] = [
        session.undo, session.redo, session.reset, lambda: session.evict("sq", cascade=True),
        lambda: session.run("int sq(int x) { return 1; }", "c"), lambda: session.run("int new;", "c"),
        lambda: session.save(tmp_path / "a.jks"), lambda: session.call("sq", 3),
        lambda: session.hibernate("sq"),
    ]  # fmt: skip

    def look() -> None:
        for change in tried:
            with pytest.raises(UsageError, match="the program stands in the debugger") as raised:
                change()
            refused.append(str(raised.value))

    talk.before = look
    said = talk.run("sq(3)", "c")
    assert len(refused) == len(tried) and all("`c`" in words for words in refused)
    assert said.startswith("breakpoint 1: sq") and not [*tmp_path.iterdir()]


# -- faults ----------------------------------------------------------------------------------------


def test_a_fault_stops_before_the_cell_is_ended(talk: Talk) -> None:
    talk.session.run("int zero = 0;\nint div(int a) {\n  int b = zero;\n  return a / b;\n}", "c")
    talk.session.debugger.faults = True
    talk.session.debugger.add(Breakpoint(function="div"))
    with pytest.raises(Fault, match="at div"):
        talk.run("div(5)", "c", "bt", "c")
    assert "SIGFPE: integer division by zero or overflow: div" in "\n".join(talk.printed)
    assert "b = 1" in talk.run("div(5)", "c", "b = 1", "c")
    assert talk.session.results.last.python == 5  # the line has begun again
    talk.session.debugger.faults = False


def test_post_mortem(talk: Talk) -> None:
    session = talk.session
    session.run("int bad(int *p) { return *p; }", "c")
    with pytest.raises(Fault):
        session.run("bad(0)", "c")
    left = session.debugger.post_mortem()
    talk.prompt.seen = left
    talk.printed.clear()
    talk.lines = iter(
        ["bt", "info reg rip", "x/2xg $rsp", "p g[1]", "p p", "n", "b 1 if", "l", "q"]
    )
    talk.prompt.look(left.stop)
    said = "\n".join(talk.printed)
    assert said.startswith("read of address 0 (a null pointer): bad, cell")
    assert "=> #0  bad, cell" in said and "line 1:  int bad(int *p) { return *p; }" in said
    assert "nothing here is called p" in said and "%debug --faults" in said
    assert "the call has ended: nothing goes on here" in said
    assert re.search(r"^rip +0x\w+  bad", said, re.M) and "<stack of bad" in said


def test_frames_in_libraries_have_names(talk: Talk) -> None:
    source = (
        "#include <stdlib.h>\nint a[5] = {5, 3, 1, 2, 4};\n"
        "int cmp(const void *x, const void *y) { return *(const int *)x - *(const int *)y; }\n"
    )
    talk.session.run(source, "c")
    talk.session.debugger.add(Breakpoint(function="cmp", hit_condition="2"))
    said = talk.run("qsort(a, 5, 4, cmp);", "bt", "up", "info locals", "l", "c")
    assert re.search(r"#1  .*libc\.so", said) and re.search(r"#\d+ +cell \d+, line 1:  qsort", said)
    assert "nothing is known of this frame's variables" in said and "has no source here" in said
    assert str(talk.session.run("a", "c").text).endswith("{1, 2, 3, 4, 5}")
