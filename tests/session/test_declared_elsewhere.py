"""Functions and variables of objects, archives and libraries, by their handles: what a cell of C
declares says what they are."""

from __future__ import annotations

import subprocess

import pytest

from jitkernel import Session
from jitkernel.errors import UnknownName

np = pytest.importorskip("numpy")
pytest.importorskip("ziglang")

SOURCE = """
double sumf(const double *p, int n) { double t = 0; while (n--) t += *p++; return t; }
unsigned most(void) { return 4294967295u; }
typedef struct { double x; int n; } pair;
pair twice(pair p) { p.x *= 2; p.n *= 2; return p; }
unsigned table[40] = {7, 4294967295u};
"""
HEADER = """
double sumf(const double *p, int n);
unsigned most(void);
typedef struct { double x; int n; } pair;
pair twice(pair p);
extern unsigned table[40];
"""


@pytest.fixture(params=["object", "archive"])
def s(request, tmp_path):
    (tmp_path / "lib.c").write_text(SOURCE)
    (tmp_path / "lib.h").write_text(HEADER)
    subprocess.run(["gcc", "-O1", "-c", "lib.c"], check=True, cwd=tmp_path)
    subprocess.run(["ar", "rc", "lib.a", "lib.o"], check=True, cwd=tmp_path)
    with Session() as s:
        s.link(tmp_path / ("lib.o" if request.param == "object" else "lib.a"))
        yield s


@pytest.mark.parametrize("how", ["prototypes", "header"])
def test_what_is_linked_is_found_by_its_handle_when_a_cell_declares_it(s, how, tmp_path):
    for name in ("sumf", "table"):
        with pytest.raises(UnknownName, match=name):
            s[name]
    s.run(HEADER if how == "prototypes" else f'#include "{tmp_path / "lib.h"}"', "c")
    told = {
        "prototypes": "<double sumf(const double *p, int n)>",
        "header": "<sumf double (ptr, i32)>",
    }
    assert repr(s["sumf"]) == told[how]
    assert s["sumf"](np.arange(4.0), 4) == 6
    assert s["twice"].__doc__
    assert s["table"].array.shape == (40,) and len(s["table"].value) == 40
    s.check()
    with pytest.raises(UnknownName):
        s["nothing"]


def test_its_signs_and_structs_are_those_of_its_declaration(s):
    s.run(HEADER, "c")
    assert s["most"]() == 4294967295
    assert s["twice"]((2.5, 3)) == (5.0, 6)
    assert s["table"].value[:3] == (7, 4294967295, 0)
    assert s["table"].array.dtype == np.uint32
    s["table"].array[2] = 5
    assert s.run("table[2]", "c").value == 5


def test_an_object_says_no_types(tmp_path):
    (tmp_path / "lib.c").write_text(SOURCE)
    subprocess.run(["gcc", "-c", "lib.c"], check=True, cwd=tmp_path)
    with Session() as s:
        s.link(tmp_path / "lib.o")
        with pytest.raises(UnknownName, match="objects say no types: declare @sumf in a cell"):
            s["sumf"]


def test_a_function_of_a_header_of_the_system_is_found(s):
    s.run("#include <math.h>\n#include <stdlib.h>", "c")
    assert s["hypot"](3, 4) == 5.0
    with pytest.raises(UnknownName):
        s["hypott"]


def test_another_declaration_counts_from_then_on(s):
    s.run("int most(void);", "c")
    assert s["most"]() == -1
    s.run("unsigned most(void);", "c")
    assert s["most"]() == 4294967295
    s.undo()
    assert s["most"]() == -1
