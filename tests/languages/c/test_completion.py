"""TAB and Shift-TAB in cells of C: what is offered at a place (`|`), and what is said of it."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator

import pytest

from jitkernel import Session
from jitkernel.languages.c import completion
from jitkernel.languages.c.clang import Clang
from jitkernel.languages.c.completion import complete, inspect

CELLS = (
    "#include <stdio.h>\n#include <math.h>",
    """// A point
// of the plane.
struct pt { int x; /**< across */ double y; };
typedef struct pt Pt;
enum color { RED, GREEN };
#define TWICE(a) ((a) + (a))
/* The norm of a point. */
double norm(Pt p) { return sqrt(p.x * p.x + p.y * p.y); }
struct pt origin;
static int hidden = 3;""",
)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session() as made:
        for cell in CELLS:
            made.run(cell, "c")
        made.run("define double @fibo(double %x) {\n  ret double %x\n}")
        yield made


def cut(source: str) -> tuple[str, int]:
    at = source.index("|")
    return source.replace("|", "", 1), at


def offered(session: Session, source: str) -> list[str]:
    text, at = cut(source)
    found = complete(text, at, session.inspect.state)
    assert found is not None
    word = text[found.start : at]
    assert all(s.text.startswith(word) for s in found.found)
    return [s.text for s in found.found]


def said(session: Session, source: str) -> str:
    return inspect(*cut(source), session.inspect.state)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("origin.|", ["x", "y"]),
        ("origin.y|", ["y"]),
        ("struct pt *q = &origin;\nq->|", ["x", "y"]),
        ("int f(struct pt *p) { return p->|", ["x", "y"]),
        ("Pt here = { .|", ["x", "y"]),
        ("if (origin.|", ["x", "y"]),
        ('printf("%d", origin.|)', ["x", "y"]),
        ("double r = no|", ["norm"]),
        ("TW|", ["TWICE"]),
        ("#if TW|", ["TWICE"]),
        ("RE|", ["RED"]),
        ("hid|", ["hidden"]),
        ("fib|", ["fibo"]),
        ("struct p|", ["pt"]),
        ("enum c|", ["color"]),
        ("enum |", ["color"]),
        ("struct |", ["pt"]),
        ("#inc|", ["include"]),
        ("# un|", ["undef"]),
        ("EO|", ["EOF"]),
        ("freop|", ["freopen"]),
        ("#include <time.h>\nasctim|", ["asctime", "asctime_r"]),
        ("#include <sys/wa|", ["wait.h"]),
        ("#include <math.|>", ["math.h"]),
        ("int f(int alpha) {\n  int albatros;\n  for (;;) { al|", ["albatros", "alpha"]),
        ('"no|', []),
        ("// no|", []),
        ("/* no|", []),
        ("nothing.|", []),
    ],
)
def test_what_is_offered(session: Session, source: str, expected: list[str]) -> None:
    assert offered(session, source) == expected


def test_names_come_with_their_types_and_comments(session: Session) -> None:
    found = complete("origin.", 7, session.inspect.state)
    assert found is not None
    assert [s.signature for s in found.found] == ["int x: across", "double y"]
    (norm,) = complete("nor", 3, session.inspect.state).found
    assert (norm.kind, norm.signature) == ("function", "double norm(Pt p)")


def test_names_of_headers_are_asked_for_once(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered(session, "freop|")
    asked = []
    run = Clang._run

    def counted(self, arguments, source, header):
        asked.append(arguments)
        return run(self, arguments, source, header)

    monkeypatch.setattr(Clang, "_run", counted)
    assert offered(session, "freop|")
    assert len(asked) == 1 and "-no-code-completion-globals" in asked[0]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("no|rm(origin)", "/* The norm of a point. */\ndouble norm(Pt p);"),
        ("struct p|t", "// A point\n// of the plane.\nstruct pt { int x; /**< across */ double y; };"),
        ("norm(|", "the call around it: double norm(»Pt p«)"),
        ("pow(1.0, |", "the call around it: double pow(double x, »double y«)"),
        ('printf("%d", |', "the call around it: int printf(const char *restrict format, ...)"),
        ("pow(1.0, hid|den)", "int hidden;\n\nthe call around it: double pow(double x, »double y«)"),
        ("TWI|CE(2)", "#define TWICE(a) ((a) + (a))"),
        ("RE|D", "enum color { RED, GREEN };"),
        ("origin.|x", "int x: across"),
        ("int f(int arg) { return a|rg; }", "int arg"),
        ("EO|F", "#define EOF (-1)"),
        ("fi|bo(2)", "double fibo(double);"),
        ("who|", ""),
        ('"norm|"', ""),
    ],
)  # fmt: skip
def test_what_is_said(session: Session, source: str, expected: str) -> None:
    assert said(session, source) == expected


@pytest.mark.parametrize(
    ("source", "first", "second"),
    [
        ("mallo|c(3)", "#include <stdlib.h>", "void *malloc(size_t size)"),
        ("qsort|", "#include <stdlib.h>", "void qsort(void *base, size_t nmemb,"),
        ("strlen|", "#include <string.h>", "size_t strlen(const char *s)"),
        ("malloc(|", "#include <stdlib.h>", "the call around it: void *malloc(»size_t size«)"),
        ("int r = atoi(|", "#include <stdlib.h>", "the call around it: int atoi(»const char *nptr«)"),
        ("#include <stdlib.h>\nfree(|", "the call around it: void free(»void *ptr«)", ""),
        ("fibo(|", "the call around it: double fibo(»double«)", ""),
    ],
)  # fmt: skip
def test_a_header_that_is_missing_is_named(
    session: Session, source: str, first: str, second: str
) -> None:
    lines = [*said(session, source).split("\n"), ""]
    assert lines[0] == first and lines[1].startswith(second), lines


@pytest.mark.skipif(shutil.which("man") is None, reason="there is no man")
def test_the_manual_where_there_is_one(session: Session) -> None:
    text = said(session, "put|s")
    assert text.startswith("int puts(const char *s)")
    if completion._manual("puts"):
        assert "#include <stdio.h>" in text and len(text.split("\n")) < 40


def test_a_running_cell_keeps_nobody_waiting(session: Session) -> None:
    failed: list[BaseException] = []

    def run() -> None:
        try:
            session.run("for (;;);", "c")
        except BaseException as error:
            failed.append(error)

    running = threading.Thread(target=run)
    running.start()
    try:
        for _ in range(5):
            assert offered(session, "origin.|") == ["x", "y"]
            assert said(session, "no|rm(") == "/* The norm of a point. */\ndouble norm(Pt p);"
            assert running.is_alive()
            time.sleep(0.01)
    finally:
        while running.is_alive():
            session.interrupt()
            running.join(0.1)
    assert [type(e).__name__ for e in failed] == ["Interrupted"]


@pytest.mark.parametrize(
    "source",
    [
        "|", ")|", "}}}|", "{|", "((((|", "'|", '"|', "#|", "#include|", "#include <|", "#include <a/b/c/|",
        "\0no|", "struct {|", "int x = {|", "f(|", "if|", "for (|", "do|", "a ? b :|", "case 1: |", "x.y.z.|",
        "%|", "@|", "é.|", "int 変数; 変|", "#define F(x) F(F(x))\nF(|", "#include \"/dev/zero|", "#if 1\nno|",
        "#else\nno|", "goto |", "asm(|", "_Generic(|", "sizeof |", "int a[|", "/*|", "//|", "\\|", "x->|",
    ],
)  # fmt: skip
def test_nothing_that_is_typed_fails(session: Session, source: str) -> None:
    text, at = cut(source)
    complete(text, at, session.inspect.state)
    inspect(text, at, session.inspect.state)


def test_what_takes_too_long_is_given_up(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    from jitkernel.errors import CompileError

    monkeypatch.setattr(completion, "_SECONDS", 0.2)
    fifo = tmp_path / "never.h"
    import os

    os.mkfifo(fifo)
    with pytest.raises(CompileError, match="is a named pipe"):
        text = f'#include "{fifo}"\nno'
        complete(text, len(text), session.inspect.state)
    assert complete("int a;\n" * 100_000 + "no", 700_002, session.inspect.state) is None
