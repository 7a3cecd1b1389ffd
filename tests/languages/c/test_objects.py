"""Objects and archives of other compilers, with the headers that declare what is in them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jitkernel.errors import JitError

sys.path.insert(0, str(Path(__file__).parents[2] / "linker"))
from toolchain import compile_c, needs, tool

pytest.importorskip("ziglang")
pytestmark = needs("gcc", "ar")

_HEADER = """
#define SHELF_MOST 3
typedef struct shelf { unsigned count; const char *names[SHELF_MOST]; } shelf;
extern shelf the_shelf;
extern const char *const shelf_kinds[];
unsigned shelf_add(shelf *, const char *);
const char *shelf_name(const shelf *, unsigned long);
void shelf_each(shelf *, void (*)(const char *, void *), void *);
unsigned long shelf_size(unsigned char);
#define shelf_size(x) ((unsigned char)(x) > 2 ? shelf_size(x) : 0)
"""
_CODE = """
shelf the_shelf;
const char *const shelf_kinds[] = {"oak", "elm"};
unsigned shelf_add(shelf *s, const char *n) { s->names[s->count] = n; return ++s->count; }
const char *shelf_name(const shelf *s, unsigned long n) { return s->names[n]; }
void shelf_each(shelf *s, void (*f)(const char *, void *), void *p) {
  for (unsigned i = 0; i < s->count; i++) f(s->names[i], p);
}
unsigned long (shelf_size)(unsigned char n) { return n * 2; }
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shelf.h").write_text(_HEADER)
    (tmp_path / "shelf.o").write_bytes(compile_c(_HEADER + _CODE, "-O1"))
    tool("ar", "rcs", str(tmp_path / "libshelf.a"), str(tmp_path / "shelf.o"))
    return tmp_path


@pytest.mark.parametrize("file", ["shelf.o", "libshelf.a"])
@pytest.mark.parametrize("first", [True, False])
def test_a_header_declares_what_an_object_has_in_every_cell(s, folder, file, first):
    """Its own types are others than those that IR has: pointers to structs, unsigned numbers."""
    if first:
        s.link(folder / file)
    s.run(f'#include "{folder}/shelf.h"', "c")
    add = "int add(char *name) { return shelf_add(&the_shelf, name); }"
    size = "unsigned long size(int n) { return shelf_size(n); }"
    s.run(size, "c")
    if not first:
        s.link(folder / file)
    s.run(add, "c")
    assert s.run('add("a") + add("b")', "c").value == 3
    each = "void show(const char *name, void *n) { ++*(int *)n; }"
    for _ in range(2):  # the second time, IR has types of all that is in the object
        s.run(f"{add}\n{size}", "c")
        s.run(each, "c")
        text = (
            "int n = 0; shelf_each(&the_shelf, show, &n); n + (shelf_name(&the_shelf, 1)[0] == 98)"
        )
        assert s.run(text, "c").value == 3
        assert s.run("size(200) + shelf_size(1)", "c").value == 400
        assert s.run("shelf_kinds[1][0]", "c").value == ord("e")
        assert s.run("the_shelf.count", "c").value == 2


def test_functions_without_a_header_beside_those_that_have_one(s, folder):
    s.link(folder / "shelf.o")
    s.run("declare i32 @shelf_add(ptr, ptr)")
    s.run("define i32 @twice(i32 %n) {\n %r = add i32 %n, %n\n ret i32 %r\n}")
    assert s.run("long own[4]; twice(4) + shelf_add(own, 0)", "c").value == 9  # as IR declares it
    s.run(f'#include "{folder}/shelf.h"', "c")
    text = 'twice(shelf_add(&the_shelf, "x")) + shelf_size(3)'
    assert s.run(text, "c").value == 8
    assert s.run(f"int f(void) {{ return {text}; }}\nf()", "c").value == 10


def test_a_cell_that_is_wrong_is_told_so_once(s, folder):
    s.link(folder / "shelf.o")
    s.run(f'#include "{folder}/shelf.h"', "c")
    s.run("int g(void) { return shelf_add(&the_shelf, 0); }", "c")
    with pytest.raises(JitError, match=r"line 1.*conflicting types for 'shelf_add'"):
        s.run("int shelf_add(double);", "c")
    with pytest.raises(JitError, match="undeclared function 'shelf_ad'"):
        s.run("int h(void) { return shelf_ad(&the_shelf, 0); }", "c")
