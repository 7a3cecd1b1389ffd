"""What a static or inline function holds that a copy of it would not have."""

from __future__ import annotations

import pytest

pytest.importorskip("ziglang")

from jitkernel import Session

THREADED = """{word} int run(const unsigned char *code) {{
    static const void *const table[] = {{&&increment, &&twice, &&halt}};
    int a = 0;
    goto *table[*code++];
increment: a++; goto *table[*code++];
twice: a *= 2; goto *table[*code++];
halt: return a;
}}
int answer(void) {{ unsigned char code[] = {{0, 0, 1, 1, 0, 2}}; return run(code); }}"""
LABELLED = r"""{word} int sum(int n) {{
    int s;
    __asm__("xorl %0, %0\nagain:\taddl %1, %0\n\tdecl %1\n\tjnz again" : "=&r"(s), "+r"(n));
    return s;
}}
int answer(void) {{ return sum(10); }}"""


@pytest.fixture(scope="module")
def s():
    with Session(capacity=64 << 20) as session:
        yield session
        session.check()


@pytest.mark.parametrize("word", ["static", "static inline", "inline", ""])
@pytest.mark.parametrize(("cell", "value"), [(THREADED, 9), (LABELLED, 55)])
def test_labels_are_those_of_one_function(s, word, cell, value):
    s.reset()
    for _ in range(2):
        s.run(cell.format(word=word), "c")
        assert s.run("answer()", "c").text == f"(int) {value}"


def test_labels_that_each_copy_has_for_itself(s):
    s.reset()
    s.run(
        'static int f(int n) { __asm__("movq %%fs:0, %%rax\\n1: decl %0\\n.Lx%=: jnz 1b"'
        ' : "+r"(n) : : "rax"); return n; }\nint g(void) { return f(3); }',
        "c",
    )
    assert s.run("g()", "c").text == "(int) 0"
    assert '@"f.inline"' in s.inspect.module(s.cells[0].number)
