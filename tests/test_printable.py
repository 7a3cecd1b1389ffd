"""Names with characters that do more than show: none reaches a terminal, a page or a picture.

The names are written in IR, so that the compiler, the linker and every view have met them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from xml.dom.minidom import parseString

import pytest

from jitkernel import Session, views
from jitkernel.errors import JitError
from jitkernel.ir.names import quote_name, written
from jitkernel.kernel.displays import error_content
from jitkernel.printable import printable
from jitkernel.views import tables
from jitkernel.views.svg import image, label
from jitkernel.views.view import View
from tests.views.stripped import pictures

BAD = "a\x1b[31mred\u202eback\x07\x9b<b>\u2028\x7f\ufeff\udcff"
LINE = BAD + "\nKept: everything"
UTF8 = LINE.replace("\udcff", "")  # what llvmlite draws has to be text
HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\ufeff\ud800-\udfff]")


def ir(name: str) -> str:
    return f"@{quote_name(name)}"


def shown(text: str) -> str:
    """What a user sees, once it is proved that nothing in it is hidden."""
    found = HIDDEN.search(text)
    assert found is None, repr(text[max(0, found.start() - 40) : found.end() + 40])
    text.encode()
    for picture, _ in pictures(text):
        parseString(shown(picture))
    return text


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    f, g = ir(LINE), ir(LINE + "g")
    with Session(spare=False, capacity=16 << 20) as s:
        for text in s.run(
            f"{g} = global i32 5\n{ir('table')} = global ptr {f}\n"
            f"define i32 {f}(i32 %x) {{\n  %p = load i32, ptr {g}\n  %c = icmp eq i32 %x, 0\n"
            f"  br i1 %c, label %a, label %b\na:\n  ret i32 %p\nb:\n  %r = add i32 %x, %p\n"
            f"  ret i32 %r\n}}"
        ).notes:
            assert "\n" not in shown(text)
        s.run(f"define i32 @user(i32 %x) {{\n  %r = call i32 {f}(i32 %x)\n  ret i32 %r\n}}")
        s.run(f"define i32 {ir(UTF8)}(i1 %c) {{\n  br i1 %c, label %a, label %b\na:\n  ret i32 1\n"
              f"b:\n  ret i32 2\n}}")  # fmt: skip
        yield s


VIEWS: dict[str, Callable[[Any], Any]] = {
    "asm": lambda s: views.asm(s, LINE),
    "asm of the user": lambda s: views.asm(s, "user"),
    "ir": lambda s: views.ir(s, LINE),
    "cfg": lambda s: views.cfg(s, UTF8),
    "callgraph": lambda s: views.callgraph(s),
    "explain": lambda s: views.explain(s, LINE),
    "arena": lambda s: views.arena(s),
    "deps": lambda s: views.deps(s),
    "deps of it": lambda s: views.deps(s, LINE),
    "object": lambda s: views.object(s, 2),
    "passes": lambda s: views.passes(s, 1),
    "memory": lambda s: views.memory(s),
    "cells": lambda s: tables.cells(s),
    "symbols": lambda s: tables.symbols(s, "*"),
    "names": lambda s: View("\n".join(tables.symbol_names(s, "*"))),
}


@pytest.mark.parametrize("view", VIEWS)
def test_views(session: Session, view: str) -> None:
    found = VIEWS[view](session)
    assert "a" in shown(found.text)
    shown(found.html)
    if view not in ("explain", "passes"):  # LLVM's own listing
        assert not re.search(r"^Kept: everything", found.text, re.MULTILINE)


def _wrong_type(s: Session) -> object:
    return s.run(f"define i64 {ir(LINE)}(i64 %x) {{\n  ret i64 %x\n}}")


ERRORS: dict[str, Callable[[Any], object]] = {
    "another type": _wrong_type,
    "in use": lambda s: s.evict(1),
    "too many arguments": lambda s: s.call(LINE, 1, 2),
    "not there": lambda s: s.call(LINE + "x"),
    "no cell": lambda s: s.evict("no" + LINE),
    "nothing to show": lambda s: s.run(ir(LINE + "x")),
    "nobody defines it": lambda s: s.run(
        f"define void @z() {{\n  call void {ir(LINE + 'x')}()\n  ret void\n}}\n@z()"
    ),
    "reads what nobody defines": lambda s: s.run(
        f"{ir(LINE + 'y')} = external global i32\n"
        f"define i32 @z() {{\n  %r = load i32, ptr {ir(LINE + 'y')}\n  ret i32 %r\n}}\n@z()"
    ),
    "a fault": lambda s: s.run(
        f"define i32 {ir(LINE + 'f')}() {{\n  %v = load volatile i32, ptr null\n  ret i32 %v\n}}\n"
        f"{ir(LINE + 'f')}()"
    ),
    "not watched": lambda s: s.unwatch(LINE),
    "nothing to undo": lambda s: s.undo(name=LINE + "x"),
    "a path": lambda s: s.link("/no/" + BAD),
    "a library": lambda s: s.load("/no/" + BAD),
    "a file": lambda s: s.save("/no/" + BAD),
    "no statement": lambda s: s.run(BAD),
    "no magic": lambda s: s.run("%" + BAD),
    "a setting": lambda s: Session(**{BAD: 1}),
}


@pytest.mark.parametrize("error", ERRORS)
def test_errors(session: Session, error: str) -> None:
    with pytest.raises(JitError) as caught:
        ERRORS[error](session)
    words = shown(str(caught.value))
    if error not in ("a fault", "no statement", "no magic"):  # which quote lines, and say Kept:
        assert not re.search(r"^Kept: everything", words, re.MULTILINE)
    content = error_content(caught.value)
    shown(str(content["evalue"]))
    shown(re.sub(r"\x1b\[[01]m", "", "\n".join(content["traceback"])))  # type: ignore[arg-type]


def test_values_and_handles(session: Session) -> None:
    for text in (
        session.run(ir(LINE)).text,
        session.run(f"%x = getelementptr i8, ptr {ir(LINE + 'g')}, i64 0").text,
        session.run("@table").text,
        repr(session[LINE]),
        repr(session[LINE + "g"]),
        repr(session.symbols[LINE]),
    ):
        assert "\n" not in shown(text)


def test_what_is_shown_and_what_is_hidden() -> None:
    fair = "tab\tline\nä中🙂 ‍e\u0301 עברית\r\n"
    assert printable(fair) == fair
    assert printable("\x1b\r\x00\x9b") == r"\x1b\x0d\x00\x9b"
    assert printable("\u202e\ufeff\ud800\udcff\U000e0041") == r"\u202e\ufeff\ud800\xff\U000e0041"
    assert written("sq") == "@sq" and written("a b") == '@"a b"'
    assert written("a\n\x1b\u202e\udcff") == r'@"a\0A\1B\E2\80\AE\FF"'
    assert written("\ud800").isascii()


def test_a_picture_is_one_whatever_it_is_labelled() -> None:
    shown(image([label(1, 1, "a\x00\x1b\ufffe\ud800<")], 9, 9, "alt"))
    view = View("a\x1b", "<p>\x1b</p>")
    assert (view.text, view.html) == (r"a\x1b", r"<p>\x1b</p>")
