"""Each step says what the facts of the program were: names, cells, ids, types, notes."""

from __future__ import annotations

import pytest
from facts import compared
from test_redo import STEPS, some  # noqa: F401

C_STEPS = [
    "struct pt {int x; double y;};",
    "struct pt p = {1, 2.5};",
    "double y(struct pt *q) { return q->y; }",
    "double twice(void) { return 2*y(&p); }",
    "struct pt {double y; int x;};",
    "#define N 3",
    "int a[N]={1,2,3};",
    "int total(void){return N*10;}",
    "#define N 4",
    "typedef int num; num half(num x){return x/2;}",
    "typedef double num;",
    "int f(int x){return x+1;}",
    "int g(int x){return f(x)*2;}",
    "double f(double x){return x+0.5;}",
]


@pytest.mark.parametrize("name", STEPS)
def test_a_step_says_what_was(some, name):  # noqa: F811
    with compared() as titles:
        STEPS[name](some)
        some.undo()
        some.redo()
    assert len(titles) == 3


def test_steps_of_c_say_what_was(s):
    with compared() as titles:
        for source in C_STEPS:
            s.run(source, "c")
        for _ in C_STEPS:
            s.undo()
        for _ in C_STEPS:
            s.redo()
    assert len(titles) == 3 * len(C_STEPS)
