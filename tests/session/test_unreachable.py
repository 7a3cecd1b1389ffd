"""Functions of which nothing is left: `unreachable` makes no code, and yet there is an address."""

from __future__ import annotations

import pytest

from jitkernel import Session, views
from jitkernel.errors import Fault
from jitkernel.session.settings import CellOptions

pytestmark = pytest.mark.process

U = "define void @u() {\n  unreachable\n}\n"
BEHIND = "define i32 @a() {\n  ret i32 7\n}\n" + U
LEVELS = pytest.mark.parametrize("level", [0, 2])


@LEVELS
def test_as_a_cell(s: Session, level: int) -> None:
    with pytest.raises(Fault, match="`unreachable` was reached"):
        s.run("unreachable", options=CellOptions(opt_level=level))
    assert s.run("%x = add i32 40, 2").text == "i32 42"
    s.check()


@LEVELS
@pytest.mark.parametrize("source", [U, BEHIND, U + "define void @v() {\n  unreachable\n}\n"])
def test_as_a_body(s: Session, source: str, level: int) -> None:
    s.run(source, options=CellOptions(opt_level=level))
    s.run("define i32 @next() {\n  ret i32 1\n}")  # what would run after it
    image = s.inspect.program.linker.symbols.get("u").image
    assert image.text.start <= s.symbols["u"].address < image.text.stop
    s.run("@p = global ptr @u")
    for call in ("@u()", "call void @u()", "%f = load ptr, ptr @p\ncall void %f()"):
        with pytest.raises(Fault, match="a trap") as fault:
            s.run(call)
        assert "@u, cell" in str(fault.value)
    shown = views.asm(s, "u").text
    assert "@u: void (), 0 bytes, and a trap in their place" in shown and "int3" in shown
    s.check()


@LEVELS
def test_it_is_a_definition_like_others(s: Session, tmp_path: object, level: int) -> None:
    s.run(BEHIND, options=CellOptions(opt_level=level))
    s.run("define void @user() {\n  call void @u()\n  ret void\n}")
    s.run("define void @u() {\n  ret void\n}")
    s.run("@user()")
    s.undo()
    s.hibernate("a")
    with pytest.raises(Fault, match="a trap"):
        s.run("@user()")
    s.evict("u", cascade=True)
    s.undo()
    s.check()
    path = f"{tmp_path}/u.jks"
    s.save(path)
    with Session.restore(path, spare=False) as back:
        assert back.call("a") == 7
        with pytest.raises(Fault, match="a trap"):
            back.run("@user()")
        back.check()


def test_what_ends_without_a_return_does_not_run_into_its_neighbour(s: Session) -> None:
    options = CellOptions(opt_level=0)
    s.run("define void @falls() {\n  %p = alloca i32\n  store i32 1, ptr %p\n  unreachable\n}",
          options=options)  # fmt: skip
    s.run("define i32 @next() {\n  ret i32 1\n}")
    image = s.inspect.program.linker.symbols.get("falls").image
    end = s.symbols["falls"].address + s.symbols["falls"].size
    assert (
        end == image.text.stop
        or s.inspect.engine.arena.read(end, image.text.stop - end).strip(b"\xcc") == b""
    )
