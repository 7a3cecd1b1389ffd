"""Files that cells include: those that need what stands before them, and those that change."""

from __future__ import annotations

import pytest

from jitkernel import Session
from jitkernel.errors import CompileError
from jitkernel.languages.c import headers
from jitkernel.languages.c.notes import Notes
from tests.languages.c.running import run
from tests.seeds import few

pytest.importorskip("ziglang")

LIST = """struct list { elem v; struct list *next; };
static inline elem head(struct list *l) { return l->v; }
"""
SEGMENT = """struct segment { struct pt a, b; };
static inline int length(struct segment *s) { return s->b.x - s->a.x + offset(); }
"""


@pytest.fixture
def s(tmp_path):
    (tmp_path / "list.h").write_text(LIST)
    (tmp_path / "segment.h").write_text(SEGMENT)
    with Session(capacity=64 << 20, clang_flags=f"-I '{tmp_path}'") as session:
        yield session
        session.check()


@pytest.mark.parametrize("include", few(['#include "list.h"', "#include <list.h>"], 1))
@pytest.mark.parametrize(
    "cells",
    [
        ["typedef int elem;", "INCLUDE"],
        ["typedef int elem;\nINCLUDE"],
        ["typedef int elem;\nINCLUDE\nint first(struct list *l) { return head(l); }"],
        ["typedef int number; typedef number elem;", "INCLUDE"],
        ["#define E int\ntypedef E elem;\nINCLUDE\n#undef E\n#define E int"],
        ["int before;", "typedef int elem; int n;\nINCLUDE\nint after;"],
    ],
)
def test_a_header_may_need_a_type_that_stands_before_it(s, include, cells):
    run(s, *(cell.replace("INCLUDE", include) for cell in cells))
    assert run(s, "1 + 1").text == "(int) 2"
    assert run(s, "struct list l = {3}; head(&l)").value == 3


@pytest.mark.parametrize("include", ['#include "segment.h"', "#include <segment.h>"])
def test_a_header_may_need_a_struct_and_a_function(s, include):
    run(s, "struct pt { int x, y; };", "int offset(void) { return 100; }", include)
    assert run(s, "struct segment q = {{1, 2}, {4, 5}}; length(&q)").value == 103
    run(s, "int offset(void) { return 200; }")
    assert run(s, "length(&q)").value == 203
    note = run(s, "struct pt { int x, y, z; };").notes[0]
    assert note == "q (cell 4) has another type now and its first value again"
    assert run(s, "sizeof(struct segment)").value == 24
    s.undo()
    s.undo()
    assert run(s, "sizeof(struct segment)").value == 16


def test_what_a_header_needs_is_saved_and_run_again(s, tmp_path):
    cell = (
        'struct pt { int x, y; }; int offset(void) { return %d; }\n#include "segment.h"\n'
        "int use(struct segment *s) { return length(s); }"
    )
    s.run(cell % 5, "c", "a")
    assert run(s, "struct segment q = {{1, 2}, {4, 5}}; use(&q)").value == 8
    s.run(cell % 6, "c", "a")
    assert run(s, "use(&q)").value == 9
    s.save(tmp_path / "x.jks")
    with Session.restore(tmp_path / "x.jks", trust=True) as again:
        assert run(again, "length(&q)").value == 9


def test_the_cell_with_a_broken_header_can_be_written_anew(s, tmp_path):
    header = tmp_path / "mine.h"
    header.write_text("#define A 5\n")
    s.run('#include "mine.h"', "c", "a")
    assert run(s, "A").value == 5
    header.write_text("#error broken\n")
    with pytest.raises(CompileError, match="broken"):
        run(s, "1 + 1")
    s.run("int z;", "c", "a")
    assert run(s, "1 + 1").value == 2


def test_a_header_without_a_guard_can_be_included_by_its_cell_again(s):
    run(s, "typedef int elem;")
    for _ in range(3):
        s.run('#include "list.h"\nstruct list top;', "c", "a")
        assert run(s, "head(&top)").value == 0


OUTER = """#ifndef OUTER_H
#define OUTER_H
#include "inner.h"
#define FACTOR 5
struct box { int n; struct pair p; };
int unused(int x);
#endif
"""
INNER = """#pragma once
struct pair { int x, y; };
static inline int sum(struct pair *p) { return p->x + p->y; }
"""


@pytest.fixture
def box(s, tmp_path):
    """A session with functions that need two headers, the second within the first; what writes a
    header with one text for another, and includes it again."""
    texts = {"outer.h": OUTER, "inner.h": INNER}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    s.run('#include "outer.h"', "c", "headers")
    run(
        s, "int scaled(int x) { return x * FACTOR; }", "typedef struct box crate;",
        "int weight(crate *c) { return sum(&c->p) + c->n; }", "int apart(void) { return 1; }",
        "crate full = {1, {2, 3}};", "int all(void) { return weight(&full) + apart(); }",
    )  # fmt: skip

    def change(name, old, new):
        assert old in texts[name]
        texts[name] = texts[name].replace(old, new)
        (tmp_path / name).write_text(texts[name])
        return [str(note) for note in s.run('#include "outer.h"', "c", "headers").notes]

    return change


def test_what_uses_a_header_follows_it_when_it_is_included_again(s, box):
    assert run(s, "scaled(2) + all()").value == 17
    assert not box("outer.h", "struct box {", "/* of pairs */\nstruct  box  {")
    told = box("outer.h", "FACTOR 5", "FACTOR 6")
    assert [note.split(" (")[0] for note in told] == ["scaled"]
    assert told[0].endswith("was compiled again for the new FACTOR")
    assert run(s, "scaled(2)").value == 12
    told = box("inner.h", "return p->x", "return 1000 + p->x")
    assert ["weight" in note or "all" in note for note in told] == [True]
    assert run(s, "all()").value == 1007
    s.undo()
    s.undo()
    assert run(s, "all()").value == 7


@pytest.mark.parametrize("linkage", ["static inline", "inline", "static"])
def test_what_uses_a_headers_function_follows_what_that_is_made_of(s, tmp_path, linkage):
    first, second = tmp_path / "first.h", tmp_path / "second.h"
    first.write_text("#pragma once\ntypedef int word;\n#define MORE 1\n")
    second.write_text(
        f"{linkage} int of(int x) {{ return x + sizeof(word); }}\n"
        f"{linkage} int twice(int x) {{ return of(x) + of(x) + MORE; }}\n"
    )
    s.run('#include "first.h"\n#include "second.h"\nint use(void) { return twice(0); }', "c")
    s.run('#include "first.h"', "c", "first")
    assert run(s, "use()").value == 9
    first.write_text("#pragma once\ntypedef long word;\n#define MORE 1\n")
    s.run('#include "first.h"', "c", "first")
    assert run(s, "use()").value == 17
    first.write_text("#pragma once\ntypedef long word;\n#define MORE 2\n")
    s.run('#include "first.h"\n#include "second.h"', "c", "first")
    assert run(s, "use()").value == 18
    s.undo()
    s.undo()
    assert run(s, "use()").value == 9


def test_a_header_may_come_to_need_a_type_of_a_cell(s, tmp_path):
    header = tmp_path / "grown.h"
    header.write_text("#pragma once\n#define N 1\n")
    run(s, "typedef unsigned word;", '#include "grown.h"\nint use(void) { return N; }')
    header.write_text("#pragma once\nstatic inline word of(word x) { return x; }\n#define N 2\n")
    run(s, '#include "grown.h"\nint other;')
    assert run(s, "use()").value == 2
    header.write_text("#pragma once\nstatic inline word of(word x) { return x; }\n#define N 3\n")
    run(s, '#include "grown.h"\nint other = of(1);')
    assert run(s, "use() + of(1) + other").value == 5


def test_structs_of_a_header_change_in_place(s, box):
    run(s, "full.n = 70;")
    told = "\n".join(box("inner.h", "int x, y;", "int x, y, z; double w;"))
    assert "full (cell " in told and "has another type now and its first value again" in told
    assert "for the new" in told and "apart" not in told and "scaled" not in told
    assert run(s, "sizeof full").value == 32
    assert run(s, "full.p.z = 4; all()").value == 7


def test_a_header_that_fits_no_more_changes_nothing(s, box):
    with pytest.raises(CompileError, match="no member named 'p' in 'struct box'"):
        box("outer.h", "struct pair p;", "")
    box("outer.h", "struct box { int n; ", "struct box { int n; struct pair p;")
    assert run(s, "scaled(2) + all()").value == 17


def test_code_beside_an_include_may_use_earlier_functions_of_its_types(s, box):
    told = s.run('#include "outer.h"\nint more = weight(&full);', "c", "headers").notes
    assert not [note for note in told if "again" in str(note)]
    assert run(s, "more").value == 6


def test_what_a_note_says_of_a_header_is_what_it_declares_and_may_be_damaged():
    header = headers.Header("#define A 1\n")
    assert header.content.keys() == {"c:m:A"}
    assert header.changed(header.content) == set()
    assert header.changed({}) == header.changed({"c:m:A": 0, "": 0}) == {"c:m:A"}


RANDOM = """static int st;
static int next(void) { return ++st; }
static inline int id(void) { static int n = 100; return ++n; }
"""


@pytest.fixture
def counting(s, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rng.h").write_text(RANDOM)
    run(s, '#include "rng.h"')
    return s


def test_what_a_header_keeps_for_itself_is_there_once(counting):
    assert [run(counting, "next()").value for _ in range(3)] == [1, 2, 3]
    assert [run(counting, "id()").value for _ in range(3)] == [101, 102, 103]
    run(counting, "int both(void) { return next() * 1000 + id(); }", "st = 5;")
    assert counting.call("both") == 6104
    assert run(counting, "st").value == 6
    counting.check()


def test_it_is_undone_saved_and_stays_when_the_include_runs_again(counting, tmp_path):
    run(counting, "next();", "next();")
    counting.undo()
    assert run(counting, "st").value == 1
    counting.save(tmp_path / "a.jks")
    with Session.restore(tmp_path / "a.jks") as again:
        assert run(again, "next()").value == 2
    for _ in range(2):
        counting.run('#include "rng.h"', "c", cell_id="again")
    assert run(counting, "next()").value == 2


def test_cells_with_a_headers_state_are_compiled_again(counting):
    run(counting, "struct p { int x; };")
    run(counting, '#include "rng.h"\nint f(struct p *q) { return next() + sizeof *q; }')
    assert counting.call("f", 0) == 5
    run(counting, "struct p { int x, y; };")
    assert counting.call("f", 0) == 10
    assert run(counting, "next()").value == 3
    counting.check()


#: Files of one library, each pasted as a cell: headers without guards, one that needs another, and
#: a macro of the first that the second declares otherwise.
STREAM = "#define COPY 1\nstruct stream { int how; };\n"
STATE = "enum mode { HEAD, COPY, DONE };\nstruct state { enum mode mode; code last; };\n"
TREES = "typedef unsigned char code;\nstatic const code lengths[4] = {1, 2, 3, 4};\n"
FILES = {
    "stream": '#include "stream.h"\nint how(struct stream *s) { return s->how == COPY; }',
    "trees": '#include "trees.h"\ncode length(int i) { return lengths[i]; }',
    "state": '#include  "trees.h"  // spaced otherwise\n# include "state.h"\n'
    "int mode(struct state *s) { return s->mode == COPY ? s->last : -1; }",
    "again": '#\tinclude "stream.h"\n#include "trees.h" /* and commented */\n'
    "#include <state.h>\nint both(struct stream *s, struct state *t) { return s->how + t->mode; }",
}


@pytest.fixture
def pasted(tmp_path):
    for name, text in (("stream", STREAM), ("state", STATE), ("trees", TREES)):
        (tmp_path / f"{name}.h").write_text(text)
    with Session(capacity=64 << 20, clang_flags=f"-I '{tmp_path}'") as session:
        for name, text in FILES.items():
            session.run(text, "c", cell_id=name)
        yield session
        session.check()


USED = (
    "struct stream i = {1}; struct state o = {1, 5};",
    "how(&i) * 1000 + length(2) * 100 + mode(&o) * 10 + both(&i, &o)",
)


def test_files_of_a_library_are_pasted_one_by_one(pasted):
    assert run(pasted, *USED).value == 1352


@pytest.mark.parametrize("name", few(FILES, 2))
def test_they_are_run_again_in_any_order_undone_and_saved(pasted, name, tmp_path):
    run(pasted, USED[0])
    pasted.run(FILES[name], "c", cell_id=name)
    assert run(pasted, USED[1]).value == 1352
    pasted.undo()
    assert run(pasted, USED[1]).value == 1352
    pasted.save(tmp_path / "pasted.jks")
    with Session.restore(tmp_path / "pasted.jks") as again:
        again.run(FILES[name].replace("*s)", "*s )"), "c", cell_id=name)
        assert run(again, USED[1]).value == 1352
        again.check()


#: A header that defines what it declares, as beginners write them.
DEFINING = """#ifndef LIST_H
#define LIST_H
#include <stdlib.h>
#define LIMIT 3
typedef struct node { struct node *next; int value; } node;
enum colour { RED, GREEN = 5 };
node *head;
int count = 0;
void push(int v) { node *n = malloc(sizeof *n); *n = (node){.next = head, .value = v}; head = n; count++; }
#endif
"""
SUM = "long sum(void) { long all = 0; for (node *n = head; n; n = n->next) all += n->value; return all; }"


def test_later_cells_know_all_of_a_header_that_defines_things(s, tmp_path):
    path = tmp_path / "list.h"
    path.write_text(DEFINING)
    assert not [n for n in run(s, '#include "list.h"').notes if "later cells" in n]
    run(s, "push(4); push(5);")
    assert run(s, "*head").text.endswith(".value = 5}")
    assert run(s, "LIMIT + GREEN + count").value == 10
    run(s, SUM)
    assert s.call("sum") == 9
    run(s, '#include "list.h"\nnode extra; enum colour c = GREEN;')
    path.write_text(DEFINING.replace("int value;", "long long more, value;"))
    told = run(s, '#include "list.h"').notes
    assert any("sum (cell 5) was compiled again for the new node" in n for n in told)
    assert run(s, "sizeof extra").value == 24
    run(s, "push(7);")
    assert run(s, "sum()").value == 7
    s.undo(2)
    assert run(s, "sizeof extra").value == 16
    s.save(tmp_path / "list.jks")
    with Session.restore(tmp_path / "list.jks") as again:
        assert run(again, "node n = {0, LIMIT}; n.value").value == 3


def test_what_conditions_decide_in_such_a_header_is_left_to_it(s, tmp_path):
    text = "#ifdef WIDE\ntypedef long T;\n#else\ntypedef int T;\n#endif\nT v = 5;\n"
    (tmp_path / "wide.h").write_text(text)
    assert any("not its types and macros" in n for n in run(s, '#include "wide.h"').notes)


#: A header as those of libraries are that are made of pieces: macros that stand before it decide,
#: and it defines variables tentatively.
PRIVATE = """#ifndef PRIVATE_H
#define PRIVATE_H
#ifdef PRIVATE
typedef unsigned u32;
struct Expr { u32 op; int value; };
#else
#error "PRIVATE is not defined"
#endif
PRIVATE u32 trace; PRIVATE const unsigned char table[]; PRIVATE struct config { int n; } config;
#endif
"""
PIECE = '#define PRIVATE\n#include "private.h"\n'


@pytest.mark.parametrize("long", ["", "// long\n" * 10_000])
def test_pieces_of_a_library_set_macros_for_its_header(tmp_path, long):
    (tmp_path / "private.h").write_text(long + PRIVATE)
    with Session(capacity=64 << 20, clang_flags=f"-I '{tmp_path}'") as s:
        told = run(
            s, f"{PIECE}int op(struct Expr *e) {{ trace++; return e->op + table[0]; }}"
        ).notes
        assert not [note for note in told if "later cells" in note]
        run(s, "struct Expr e = {4, 5}; u32 n = 3;")
        run(s, f"{PIECE}int more(struct Expr *e) {{ trace += 10; return op(e) + config.n; }}")
        assert run(s, "(u32) (op(&e) + more(&e) + n)").value == 11
        assert (s["trace"].value, run(s, "trace").value) == (12, 12)
        run(s, f"{PIECE}const unsigned char table[] = {{7, 8, 9}}; struct config config = {{100}};")
        assert (run(s, "more(&e) + sizeof table").value, s["trace"].value) == (114, 23)
        s.undo(2)
        assert (s["trace"].value, run(s, "more(&e)").value) == (12, 4)
        s.save(tmp_path / "pieces.jks")
        with Session.restore(tmp_path / "pieces.jks") as again:
            assert again["trace"].value == 23
            assert run(again, "u32 z = 4; z + sizeof(struct Expr)").value == 12
            again.check()
        s.check()


def test_what_a_large_header_needs_is_made_of_another_one(s, tmp_path, monkeypatch):
    monkeypatch.setattr(headers, "LARGEST", 100)
    (tmp_path / "words.h").write_text("#define WORD unsigned long\n")
    (tmp_path / "table.h").write_text(f"static const word table[] = {{1, 2}};\n// {'x' * 100}\n")
    run(s, '#include "words.h"')
    run(s, 'typedef WORD word;\n#include "table.h"\nword first(void) { return table[0]; }')
    run(s, "long second(void) { return table[1]; }")
    assert s.call("second") == 2


def test_headers_of_a_file_that_defines_functions_stay_in_its_order(s, tmp_path):
    names = "sched stdio errno math ctype stddef limits".split()
    lines = [f"#define WITH_{name}\n#include <{name}.h>\n" for name in names]
    (tmp_path / "all.h").write_text(f"{''.join(lines)}int f(void) {{ return 1; }}\n")
    run(s, '#include "all.h"')
    assert Notes(s.inspect.program.state.notes.seen).header == "".join(lines)
