"""Symbols and types with names that have to be quoted: every statement finds every one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jitkernel import Session, views
from jitkernel.errors import TypeMismatch
from jitkernel.ir.names import decode_name

SPELLED = [
    "a b", r"a\\b", r"a\5Cb", r"a\22b", r"\\", "a@b", "a;b", "a(b", "a)b", "a{b", "a%b", "a,b", "a=b",
    "é", r"\C3\A9\FF", "1x", "12", "a$b", "a\nb", r"a\0Ab", r"a\zb", "-a", "a:b", "a!b", "define", "call",
    "define i32 @q(", " = global i32 1", "x" * 100_000,
]  # fmt: skip


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(spare=False) as session:
        yield session


@pytest.mark.parametrize("name", SPELLED, ids=lambda name: name[:20])
def test_every_kind_of_symbol(session: Session, name: str) -> None:
    run = session.run
    run(f'%"t{name}" = type {{ i32, i32 }}\n@"g{name}" = global i32 5\n@"l{name}" = alias i32, '
        f'ptr @"g{name}"\n@"s{name}" = global %"t{name}" {{ i32 1, i32 2 }}')  # fmt: skip
    run(f'@"g{name}" = 6')
    assert run(f'@"g{name}"').value == 6
    assert run(f'@"l{name}"').value == 6
    assert run(f'@"s{name}"').value == (1, 2)
    run(f'$"c{name}" = comdat any\ndefine i32 @"c{name}"(i32 %x) comdat {{\n  ret i32 %x\n}}\n'
        f'@"f{name}" = alias i32 (i32), ptr @"c{name}"')  # fmt: skip
    assert run(f'@"f{name}"(3)').value == 3
    run(f'define %"t{name}" @"m{name}"(%"t{name}" %x) {{\n  ret %"t{name}" %x\n}}')
    calling = f"""%x = load %"t{name}", ptr @"s{name}"
%r = call %"t{name}" @"m{name}"(%"t{name}" %x)
%y = extractvalue %"t{name}" %r, 1"""
    assert run(calling).value == 2
    run(f"define i32 @user() {{\n{calling}\n  ret i32 %y\n}}")
    assert run("@user()").value == 2
    with pytest.raises(TypeMismatch):
        run(f'define i32 @wrong() {{\n  %r = call i32 @"f{name}"(i64 4)\n  ret i32 %r\n}}')
    if len(name) < 1000:
        shown = [
            views.ir(session, f'@"m{name}"', stage="opt"),
            views.ir(session, f'@"m{name}"'),
            views.asm(session, f'@"m{name}"'),
            views.cfg(session, f'@"m{name}"'),
            views.mir(session, f'@"m{name}"'),
        ]
        assert all("ret" in view.text or "instructions" in view.text for view in shown)


def test_a_session_file_keeps_them(tmp_path: Path) -> None:
    path = str(tmp_path / "names.jks")
    different = {decode_name(f'"{name}"'): name for name in SPELLED}.values()
    with Session(spare=False) as session:
        for number, name in enumerate(different):
            session.run(
                f'%"t{name}" = type {{ i32 }}\n@"g{name}" = global %"t{name}" {{ i32 {number} }}\n'
                f'define i32 @"f{name}"() {{\n  %r = load i32, ptr @"g{name}"\n  ret i32 %r\n}}'
            )
        session.save(path)
    with Session.restore(path, spare=False) as session:
        for number, name in enumerate(different):
            assert session.run(f'@"f{name}"()').value == number
            assert session.run(f'@"g{name}"').value == (number,)


def test_a_name_that_is_left_as_it_is_names_the_symbol(session: Session) -> None:
    r"""`@"\01f"` is the symbol `f` in every statement and cell."""
    run = session.run
    run('define i32 @"\\01plain"(i32 %a) {\n  ret i32 %a\n}\n@"\\01count" = global i32 7')
    assert run('@"\\01plain"(4)').value == run("@plain(4)").value == 4
    run('define i32 @caller() {\n  %a = call i32 @"\\01plain"(i32 5)\n'
        "  %b = call i32 @plain(i32 %a)\n  ret i32 %b\n}")  # fmt: skip
    assert run("@caller()").value == 5
    run('@"\\01count" = 9')
    assert run("@count").value == run('%v = load i32, ptr @"\\01count"').value == 9
    run("define i32 @plain(i32 %a) {\n  ret i32 8\n}")
    assert run('@"\\01plain"(4)').value == run("@caller()").value == 8
    assert run('declare i64 @"\\01strlen"(ptr)\n@"\\01strlen"("four")').value == 4
