"""`%plot`, `%table`, `%draw`, `%layout`: data of the program, beside numpy, `struct` and clang."""

from __future__ import annotations

import base64
import random
import re
import struct
import subprocess
import sys
import zlib

import pytest
from stripped import pictures

from jitkernel import Session, views
from jitkernel.errors import UsageError
from tests.seeds import few

np = pytest.importorskip("numpy")
pytestmark = pytest.mark.process  # data looks the same with any executor
pytest.importorskip("ziglang")

SOURCE = """
#include <math.h>
#include <stdlib.h>
struct node { int v; struct node *next; char *name; };
struct node c = {3, 0, "see"}, b = {2, &c, "b"}, a = {1, &b, "a"};
struct node *head = &a, *nil, ring = {1, &ring, "r"}, wild = {1, (struct node *)0x123456, "w"};
struct tree { int key; struct tree *left, *right; } *root;
struct hash { struct node *bucket[4]; struct { struct node *q; } in; union { long l; void *p; } u;
              int (*f)(int); } h = {{&a, 0, &b}, {&c}, {7}, abs};
void insert(struct tree **t, int k) {
  while (*t) t = k < (*t)->key ? &(*t)->left : &(*t)->right;
  *t = calloc(1, sizeof **t); (*t)->key = k;
}
double w[1000], gaps[4] = {NAN, 1, INFINITY, 2}, *p = w;
float im[20][30];
unsigned char rgb[4][6][3];
int m[3][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}};
struct point { double x, y; char tag[4]; int small : 3; } points[50];
long double ld[3] = {1, 2, 3};
_Complex double z[2] = {1, 2};
enum e { A, B, C } es[3] = {A, C, B};
int one = 1;
void *nowhere;
"""
FILLED = """
for (int i = 0; i < 1000; i++) w[i] = sin(i * .02);
for (int i = 0; i < 20; i++) for (int j = 0; j < 30; j++) im[i][j] = i - j;
for (int i = 0; i < 4; i++) for (int j = 0; j < 6; j++) rgb[i][j][1] = 40 * j, rgb[i][j][2] = 50 * i;
for (int i = 0; i < 50; i++) points[i] = (struct point){cos(i), sin(i), "ab", i % 4 - 2};
int ks[] = {5, 2, 8, 1, 9, 3, 7};
for (int i = 0; i < 7; i++) insert(&root, ks[i]);
"""


@pytest.fixture(scope="module", params=few(["process", "inline"], 1))
def program(request):
    only = request.config.getoption("--executor")
    if only and request.param != only:
        pytest.skip(f"--executor {only}")
    with Session(executor=request.param, capacity=64 << 20) as running:
        running.run(SOURCE, language="c")
        running.run(FILLED, language="c")
        running.run(
            "%t = type { i8, i32, [3 x i16], double }\n@v = global %t zeroinitializer\n"
            "@bits = global <8 x i1> <i1 1, i1 0, i1 1, i1 1, i1 0, i1 0, i1 0, i1 1>\n"
            "@odd = global [3 x i7] [i7 1, i7 -2, i7 3]"
        )
        yield running
        running.check()


@pytest.fixture
def plain(monkeypatch):
    """As where matplotlib is not installed."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)


def numbers(view: views.View) -> list[list[float]]:
    """The folded table's columns."""
    rows = re.findall(r'<tr><th scope="row".*?</tr>', view.html.partition("<details>")[2])
    cells = [[float(c) for c in re.findall(r">([-\w.+]+)</t", row)][1:] for row in rows]
    return [list(column) for column in zip(*cells, strict=True)]


# -- plots -----------------------------------------------------------------------------------------


def test_a_curve_has_the_numbers_of_numpy(program):
    shown = views.plot(program, "w", count=50, first=100)
    assert numbers(shown)[0] == pytest.approx(np.sin(np.arange(100, 150) * 0.02), rel=1e-5)
    assert "w: double[1000]" in shown.text
    assert '<img src="data:image/svg+xml,' in shown.html


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("es", [[0, 2, 1]]),
        ("ld", [[1, 2, 3]]),
        ("z", [[1, 2], [0, 0]]),
        ("m", [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]),
        ("@bits", [[1, 0, 1, 1, 0, 0, 0, 1]]),
        ("@odd", [[1, -2, 3]]),
        ("m[1]", [[5, 6, 7, 8]]),
    ],
)
def test_each_kind_of_number(program, text, wanted):
    assert numbers(views.plot(program, text)) == wanted


def test_members_of_structs_are_curves_bit_fields_too(program):
    shown = views.plot(program, "points", count=8)
    x, y, small = numbers(shown)
    assert x == pytest.approx(np.cos(np.arange(8)), abs=1e-5)
    assert y == pytest.approx(np.sin(np.arange(8)), abs=1e-5)
    assert small == [i % 4 - 2 for i in range(8)]


def test_what_is_no_number_is_a_gap_and_counted(program, plain):
    shown = views.plot(program, "gaps")
    assert "(2 not finite)" in shown.text
    assert picture(shown).count("h6m-3,-3v6") == 2, "a number alone is a cross"


def test_no_peak_of_many_numbers_is_lost(program, plain):
    program.run("static double many[300000]; many[123457] = 9; double *big = many;", language="c")
    path = picture(views.plot(program, "big", count=300000))
    highest = min(float(y) for y in re.findall(r"[ML][\d.]+,([\d.]+)", path))
    assert highest == pytest.approx(0, abs=0.1)
    assert len(path) < 40_000


def picture(view: views.View) -> str:
    return pictures(view.html)[0][0]


def test_an_image_has_a_pixel_for_each_element(program):
    shown = views.plot(program, "im")
    rows, zoom = pixels(shown)
    assert (len(rows) // zoom, len(rows[0]) // (3 * zoom)) == (20, 30)
    level = [[sum(row[3 * x * zoom : 3 * x * zoom + 3]) for x in range(30)] for row in rows[::zoom]]
    for y in range(19):  # numbers grow downwards and to the left, and so does the light
        assert level[y + 1][0] > level[y][0]
        assert level[y][0] > level[y][29]
    assert "from -29 (dark) to 19 (light)" in shown.text


def test_three_bytes_are_a_colour(program):
    rows, zoom = pixels(views.plot(program, "rgb"))
    assert [tuple(rows[0][3 * x * zoom :][:3]) for x in range(6)] == [
        (0, 40 * x, 0) for x in range(6)
    ]


def pixels(view: views.View) -> tuple[list[bytes], int]:
    """The rows of a view's PNG, and how wide each element is."""
    data = re.search(r"image/png;base64,([^\"]+)", view.html)
    assert data is not None
    png, at, body = base64.b64decode(data[1]), 8, b""
    while at < len(png):
        size, kind = struct.unpack_from(">I4s", png, at)
        chunk = png[at + 8 : at + 8 + size]
        (check,) = struct.unpack_from(">I", png, at + 8 + size)
        assert check == zlib.crc32(kind + chunk)
        if kind == b"IHDR":
            wide, high, *rest = struct.unpack(">IIBBBBB", chunk)
            assert rest == [8, 2, 0, 0, 0]
        body += chunk if kind == b"IDAT" else b""
        at += size + 12
    raw = zlib.decompress(body)
    assert len(raw) == high * (3 * wide + 1)
    rows = [raw[y * (3 * wide + 1) :][: 3 * wide + 1] for y in range(high)]
    assert all(row[0] == 0 for row in rows)
    zoom = next(n for n in range(1, high + 1) if n == high or rows[n] != rows[0])
    return [row[1:] for row in rows], zoom


@pytest.mark.parametrize(
    ("text", "options", "why"),
    [
        ("p", {}, "--count"),
        ("one", {}, "no array"),
        ("a", {}, "no array"),
        ("nowhere", {"count": 3}, "cast it"),
        ("nothing", {}, "nothing here is called nothing"),
        ("pionts", {}, "nothing here is called pionts; did you mean points?"),
        ("insert", {}, "nothing here is called insert: insert is a function"),
        ("w", {"first": 1000}, "the last is number 999"),
        ("w", {"as_image": True}, "no matrix"),
        ("points", {"x": "nope"}, "x, y"),
        ("(double *)16", {"count": 3}, "cannot be read"),
        ("p", {"count": 1 << 40}, "--count"),
        ("m[", {}, "expected"),
    ],
)
def test_what_cannot_be_drawn_says_why(program, text, options, why):
    with pytest.raises(UsageError, match=re.escape(why)):
        views.plot(program, text, **options)


def test_each_member_has_a_curve(program, plain):
    assert picture(views.plot(program, "points")).count('fill="none"') == 3


def test_matplotlib_draws_where_it_is_installed(program, odd):
    """On the same card, and a number alone is a cross, too."""
    pytest.importorskip("matplotlib")
    shown = picture(views.plot(program, "points"))
    assert "matplotlib" in shown.lower() and shown.count("#c3cbd6") >= 1
    assert len(re.findall(r"stroke-dasharray", shown)) >= 2 and "x" in shown
    crosses = r'<use xlink:href="#m[^>]*style="fill: #00503b'
    assert len(re.findall(crosses, picture(views.plot(program, "gaps")))) == 2
    assert "matplotlib" not in picture(views.plot(odd, "wide")).lower()


# -- odd data --------------------------------------------------------------------------------------

ODD = """
#include <math.h>
#include <stdlib.h>
double wide[4] = {1.7e308, -1.7e308, 1.7e308}, most[2] = {1.7e308, 1.7e308}, tiny[2] = {0, 5e-324},
  small[3] = {1e-15, 2e-15, 3e-15}, none[0], odd[3] = {NAN, -INFINITY, INFINITY}, same[5];
double wides[9][2] = {{1.7e308, -1.7e308}, {NAN, INFINITY}}, thin[9][0];
unsigned _BitInt(2000) bits[2] = {1}; signed _BitInt(2) two[3] = {1, -2, -1}; _Bool flags[3] = {1};
bits[1] = ~(unsigned _BitInt(2000))0;
char bytes[4] = {-1, -2, 'a', 10}, names[2][3] = {"ab", "c"}, dark[9][9][3], *letters = bytes;
for (int i = 0; i < 9; i++) dark[i][i][0] = -1;
struct { int _x, $y$; } signs[3] = {{1, 2}, {3, 4}}; struct { int größe; } größen[2] = {{1}, {2}};
struct flexible { int n; double v[]; } *flexible = calloc(1, 64); flexible->v[2] = 4;
struct nothing {} nothings[3]; const char *words[2] = {"one"};
float row[1][300], column[300][1];
"""


@pytest.fixture(scope="module")
def odd(program):
    program.run(ODD, language="c")
    return program


@pytest.mark.parametrize(
    ("text", "options", "lines"),
    [
        ("wide", {}, ["█▁█▅", "-1.7e+308", "1.7e+308"]),
        ("most", {}, ["1.7e+308"]),
        ("tiny", {}, ["4.94066e-324"]),
        ("small", {}, ["2e-15"]),
        ("odd", {}, ["3 (3 not finite)"]),
        ("same", {}, ["▁▁▁▁▁"]),
        ("bits", {}, ["2 (1 not finite)"]),
        ("two", {}, ["█▁▃"]),
        ("flags", {}, ["█▁▁"]),
        ("bytes", {}, ["-2", "97"]),
        ("letters", {"count": 3}, ["-2", "97"]),
        ("names", {}, ["[0]", "[1]", "98", "99"]),
        ("signs", {}, ["_x", "$y$"]),
        ("größen", {}, ["größe"]),
        ("flexible->v", {"count": 3}, ["▁▁█"]),
        ("wides", {}, ["from -1.7e+308 (dark) to 1.7e+308 (light), 2 not finite (magenta)"]),
        ("dark", {}, ["dark: char[9][9][3]"]),
        ("row", {"as_image": True}, ["row: float[1][300]"]),
        ("column", {"as_image": True}, ["column: float[300][1]"]),
    ],
)
def test_odd_numbers_are_drawn(odd, text, options, lines):
    shown = views.plot(odd, text, **options)
    assert [line for line in lines if line not in shown.text] == []
    assert ("<img" in shown.html) == (text != "odd")
    assert "nan" not in "".join(svg for svg, _ in pictures(shown.html.replace("png", "")))


def test_the_axis_of_small_numbers_tells_them_apart(odd, plain):
    words = re.findall(r">([^<>]+)</text>", picture(views.plot(odd, "small")))
    assert len(words) == len(set(words)) > 6


def test_an_image_of_one_row_can_be_seen(odd):
    for text in ("row", "column"):
        rows, _ = pixels(views.plot(odd, text, as_image=True))
        assert min(len(rows), len(rows[0]) // 3) >= 16


@pytest.mark.parametrize("show", [views.plot, views.rows])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("none", "none has no elements of its own"),
        ("thin", "thin has no elements of its own"),
        ("flexible->v", "say how many"),
        ("nothings", "its elements have no bytes"),
    ],
)
def test_what_is_empty_says_so(odd, show, text, why):
    with pytest.raises(UsageError, match=re.escape(why)):
        show(odd, text)


@pytest.mark.parametrize(
    ("text", "x", "why"),
    [
        ("words", "", "its elements are of type char *"),
        ("same", "x", "there is no x in same"),
        ("größen", "größe", "of größe and what else"),
    ],
)
def test_what_no_curve_is_of_says_why(odd, text, x, why):
    with pytest.raises(UsageError) as raised:
        views.plot(odd, text, x=x)
    assert re.search(f"{re.escape(why)}$", str(raised.value).replace("const ", ""))


def test_characters_have_rows_and_texts_stay_whole(odd):
    def cells(text, **options):
        return [line.split()[1:] for line in views.rows(odd, text, **options).text.splitlines()[2:]]

    assert cells("bytes") == [[r"'\377'"], [r"'\376'"], ["'a'"], [r"'\n'"]]
    assert cells("names") == [['"ab"'], ['"c"']]
    assert cells("flexible->v", count=3, first=1) == [["0.0"], ["4.0"], ["0.0"]]


# -- tables ----------------------------------------------------------------------------------------


def test_a_table_has_a_row_for_each_element(program):
    text = views.rows(program, "points", count=3, first=1).text.splitlines()
    assert text[1].split() == ["x", "y", "tag", "small"]
    assert [line.split()[0] for line in text[2:5]] == ["[1]", "[2]", "[3]"]
    assert text[2].split()[-2:] == ['"ab"', "-1"]
    assert "more element" not in views.rows(program, "points", count=4).text


def test_a_table_of_many_says_how_many_are_left(program):
    assert "800 more elements: --first 200" in views.rows(program, "w").text


def test_rows_of_a_matrix_are_rows(program):
    assert views.rows(program, "m").text.splitlines()[2].split() == ["[0]", "1", "2", "3", "4"]


# -- pointers --------------------------------------------------------------------------------------


def arrows(text: str) -> set[tuple[str, str, str]]:
    found, box = set(), ""
    for line in text.splitlines()[1:]:
        if match := re.match(r" *(\d+)  ", line):
            box = match[1]
        elif match := re.match(r" +(\S+) -> (\d+)", line):
            found.add((box, match[1], match[2]))
    return found


def test_a_list_is_followed_to_its_end(program):
    shown = views.draw(program, "head").text
    assert arrows(shown) == {("1", "next", "2"), ("2", "next", "3")}
    assert 'name = "see"' in shown
    assert "next = NULL" in shown


def test_a_tree_has_the_shape_that_its_insertions_give(program):
    shown = views.draw(program, "root").text
    keys = dict(re.findall(r"^ +(\d+)  .*\n +key = (\d+)", shown, re.M))
    found = {(keys[a], name, keys[b]) for a, name, b in arrows(shown)}
    assert found == {
        ("5", "left", "2"), ("5", "right", "8"), ("2", "left", "1"), ("2", "right", "3"),
        ("8", "left", "7"), ("8", "right", "9"),
    }  # fmt: skip


def test_circles_and_wild_pointers_are_survived(program):
    assert arrows(views.draw(program, "ring").text) == {("1", "next", "1")}
    shown = views.draw(program, "wild")
    assert "1 cannot be read" in shown.text
    assert "0x123456" in shown.text


def test_pointers_in_arrays_and_structs_are_followed_those_of_unions_are_not(program):
    shown = views.draw(program, "h").text
    assert {name for box, name, _ in arrows(shown) if box == "1"} == {
        "bucket[0]", "bucket[2]", "in.q",
    }  # fmt: skip
    assert "u = {.l = 7" in shown


def test_ten_thousand_objects_are_bounded(program):
    program.run(
        "struct node *long_list = 0; for (int i = 0; i < 10000; i++) {"
        " struct node *n = malloc(sizeof *n); *n = (struct node){i, long_list, 0}; long_list = n; }",
        language="c",
    )
    shown = views.draw(program, "long_list")
    assert "40 objects, and more: --most 80" in shown.text
    assert len(shown.html) < 120_000
    assert "200 objects" in views.draw(program, "long_list", 200).text
    most = views.draw(program, "long_list", 2000)
    there = re.match(r"long_list: struct node \*, (\d+) objects, and more\n", most.text)
    assert there is not None and 800 <= int(there[1]) <= 1000
    assert len(most.html) <= 400_000
    assert "overflow:auto" in most.html, "it scrolls"


def test_what_leads_into_an_array_leads_to_its_element(program):
    program.run(
        "struct node pool[3] = {{1, &pool[1]}, {2, &pool[2]}, {3, &pool[0]}};"
        "struct pools { struct node own[2]; struct node *used; } ps = {{{1, &pool[1]}}, &pool[2]};",
        language="c",
    )
    shown = views.draw(program, "pool")
    assert shown.text.startswith("pool: struct node[3], 1 object\n")
    for at, to in ((0, 1), (1, 2), (2, 0)):
        assert f"[{at}].next -> 1 [{to}]\n" in shown.text + "\n"
        assert f"[{at}].next → [{to}]" in pictures(shown.html)[0][0]
    assert arrows(views.draw(program, "ps").text) >= {
        ("1", "own[0].next", "2"), ("1", "used", "3"), ("2", "next", "3"), ("3", "next", "4"),
    }  # fmt: skip


def test_what_a_box_cannot_follow_is_told(program):
    """A struct's last array without a size, and an address with a tag."""
    program.run(
        "struct family { int n; struct node *kids[]; } *family;"
        "struct node *tagged = (struct node *)((char *)&a + 1);",
        language="c",
    )
    program.run("family = calloc(1, sizeof *family + 8); family->kids[0] = &a;", language="c")
    assert "kids = {}" in views.draw(program, "family").text
    assert "(its address is not aligned)" in views.draw(program, "tagged").text
    assert "aligned" not in views.draw(program, "head").text


@pytest.mark.parametrize("text", ["nil", "one", "nowhere", "nothing"])
def test_what_leads_nowhere_is_told(program, text):
    with pytest.raises(UsageError):
        views.draw(program, text)


# -- layouts ---------------------------------------------------------------------------------------


def random_struct(chance: random.Random, name: str) -> str:
    kinds = ["char", "short", "int", "long", "float", "double", "long double", "void *", "_Bool"]
    members = []
    for at in range(chance.randint(1, 9)):
        kind = chance.choice(kinds)
        if chance.random() < 0.25 and kind in ("char", "short", "int", "long"):
            width = chance.randint(1, {"char": 8, "short": 16, "int": 32, "long": 64}[kind])
            members.append(f"{kind} m{at} : {width};")
        else:
            members.append(f"{kind} m{at}{chance.choice(['', '', '[3]'])};")
    packed = " __attribute__((packed))" if chance.random() < 0.2 else ""
    return f"struct{packed} {name} {{ {' '.join(members)} }};"


def test_places_are_clangs_of_random_structs(program):
    """Each member's place, and the size, as clang's own `offsetof` has them."""
    chance = random.Random(17)
    structs = [random_struct(chance, f"r{at}") for at in range(20)]
    program.run("#include <stddef.h>\n" + "\n".join(structs), language="c")
    for at, text in enumerate(structs):
        shown = views.layout(program, f"struct r{at}").text
        rows = re.findall(r"^\w  (m\d+) +.*?  +(\d+(?: bit \d+)?) +(\d+|\d+ bits?)$", shown, re.M)
        plain = re.findall(r"(m\d+)(?:\[3\])?;", text)
        found = {name: int(place) for name, place, _ in rows if name in plain}
        asked = ", ".join(f"offsetof(struct r{at}, {name})" for name in plain)
        size = f"sizeof(struct r{at}), _Alignof(struct r{at})"
        said = program.run(f"(long[]){{{', '.join(filter(None, [asked, size]))}}}", language="c")
        *places, whole, align = said.value
        assert [found[name] for name in plain] == places, text
        title = re.match(r".*?: (\d+) bytes?, aligned to (\d+)", shown)
        assert title is not None
        assert (int(title[1]), int(title[2])) == (whole, align), text


def test_the_order_that_is_proposed_is_as_small_as_clang_says(program):
    chance = random.Random(5)
    for at in range(20):
        text = random_struct(chance, f"o{at}").replace(" __attribute__((packed))", "")
        if ":" in text:
            continue
        program.run(text, language="c")
        note = re.search(r"In the order (.*) it would\s+have\s+(\d+)\s+bytes",
                         views.layout(program, f"struct o{at}").text)  # fmt: skip
        if note is None:
            continue
        texts = text.split("{ ")[1].split(";")[:-1]
        declared = {m[0]: one for one in texts if (m := re.search(r"m\d+", one))}
        again = "; ".join(declared[name] for name in note[1].replace("\n", " ").split(", "))
        program.run(f"struct p{at} {{ {again}; }};", language="c")
        said = program.run(f"sizeof(struct p{at})", language="c").value
        assert said == int(note[2]), (text, note[0])


def test_an_array_without_a_size_stays_the_last(program):
    text = "char c; struct { double d; }; char e; int more[];"
    program.run(f"struct grows {{ {text} }};", language="c")
    note = " ".join(views.layout(program, "struct grows").text.split())
    assert "In the order struct, c, e, more it would have 16 bytes." in note


def test_a_variable_has_its_values(program):
    shown = views.layout(program, "a").text
    assert re.search(r"a  v +int +0 +4  1$", shown, re.M)
    assert "(padding)" in shown
    assert views.layout(program, "head").text.splitlines()[0] == shown.splitlines()[0]


@pytest.mark.parametrize("text", ["%t", "@v", "{ i8, i32, [3 x i16], double }"])
def test_types_of_ir(program, text):
    shown = views.layout(program, text).text
    assert "24 bytes, aligned to 8; 5 bytes of padding" in shown
    assert "0  a . . . b b b b" in shown


@pytest.mark.parametrize("text", ["int", "one", "{ i8, ", "struct nope", "nope", "a +", "size_t"])
def test_what_has_no_members_is_told(program, text):
    with pytest.raises(UsageError):
        views.layout(program, text)


def test_the_name_alone_of_a_struct_is_not_its_type(program):
    with pytest.raises(UsageError, match="point is the type struct point: %layout struct point"):
        views.layout(program, "point")


def test_large_structs_are_short(program):
    program.run("struct large { char c[1 << 20]; double d; } large;", language="c")
    shown = views.layout(program, "large")
    assert "rows like it" in shown.text
    assert len(shown.html) < 20_000


# -- everywhere ------------------------------------------------------------------------------------


def test_nothing_runs_and_nothing_changes(program):
    before = program.run("one", language="c").value
    cells = len(program.cells)
    for text in ("w", "m", "points"):
        views.plot(program, text)
    views.draw(program, "head")
    views.layout(program, "a")
    with pytest.raises(UsageError):
        views.plot(program, "w[0] = 3")
    assert len(program.cells) == cells
    assert program.run("w[0] + one", language="c").value == before


def test_pictures_are_well_formed(program):
    for view in (
        views.plot(program, "points"), views.draw(program, "root"), views.layout(program, "a"),
    ):  # fmt: skip
        svg = picture(view)
        subprocess.run(
            [sys.executable, "-c", "import sys, xml.dom.minidom as m; m.parse(sys.stdin)"],
            input=svg, text=True, check=True,
        )  # fmt: skip
        assert 'alt="' in view.html
