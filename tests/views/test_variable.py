"""A variable as a table and as a curve, against what Python sees of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest

from jitkernel import Session
from jitkernel.errors import UsageError
from jitkernel.views.variable import variable

pytestmark = pytest.mark.process

C = """\
enum colour { RED, GREEN };
struct point { int x; double y; char name[8]; struct point *next; unsigned flag : 3; };
struct point one = { -1, 0.5, "first", 0, 5 }, many[3] = { { 1, 2, "a" }, { 3, 4, "b<" } };
struct point *to = &many[1];
double wave[1000], flat[5] = { 1, 1, 1, 1, 1 }, odd[6] = { 1, 0, 3, 4, 5, 2 };
float m[3][4] = { { 1, 2, 3, 4 }, { 5 } };
long far[4] = { -4611686018427387904, 1, 2, 4611686018427387904 };
unsigned char raw[300];
char text[] = "say <b>";
enum colour seen = GREEN;
signed char low = -3;
short lower = -300;
int lone = -7, (*call)(void);
void fill(void) {
  for (int i = 0; i < 1000; i++)
    wave[i] = (i % 100) * (i % 100) - 2000;
  for (int i = 0; i < 300; i++)
    raw[i] = i;
  odd[1] = 1.0 / 0.0;
}
fill();
"""


@pytest.fixture(scope="module")
def s() -> Iterator[Session]:
    pytest.importorskip("ziglang")
    with Session() as s:
        s.run(C, language="c")
        s.run(
            "@g = global [3 x i32] [i32 1, i32 -2, i32 3]\n@st = global { i32, ptr } { i32 4, ptr @g }"
        )
        yield s


class _Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.images: list[str] = []
        self.inside = False

    def handle_starttag(self, tag: str, attributes: list) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = True
        elif tag == "img":
            self.images.append(dict(attributes)["src"])

    def handle_endtag(self, tag: str) -> None:
        self.inside &= tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1][-1] += data


def _read(html: str) -> _Cells:
    found = _Cells()
    found.feed(html.split("<p><b>")[-1])
    return found


def test_a_struct_has_a_row_for_each_member(s: Session) -> None:
    view = variable(s, "one")
    assert _read(view.html).rows == [
        ["member", "type", "value"],
        ["x", "int", "-1"], ["y", "double", "0.5"], ["name", "char[8]", '"first"'],
        ["next", "struct point *", "NULL"], ["flag", "unsigned int", "5"],
    ]  # fmt: skip
    assert view.text.startswith("one: struct point\n") and 'char[8]         "first"' in view.text
    assert _read(variable(s, "to").html).rows[1:3] == [["x", "int", "3"], ["y", "double", "4.0"]]
    assert _read(variable(s, "@st").html).rows[1] == ["0", "i32", "4"]


def test_an_array_of_structs_has_a_column_for_each_member(s: Session) -> None:
    head, first, second, _ = _read(variable(s, "many").html).rows
    assert head == ["", "x", "y", "name", "next", "flag"]
    assert first == ["[0]", "1", "2.0", '"a"', "NULL", "0"] and second[3] == '"b<"'
    assert _read(variable(s, "m").html).rows[:3] == [
        ["", "[0]", "[1]", "[2]", "[3]"],
        ["[0]", "1.0", "2.0", "3.0", "4.0"], ["[1]", "5.0", "0.0", "0.0", "0.0"],
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["wave", "raw", "far", "odd", "@g"])
def test_numbers_are_those_that_python_sees(s: Session, name: str) -> None:
    value = s[name.lstrip("@")].value
    seen = [float(n) for n in (value.tolist() if hasattr(value, "tolist") else value)]
    view = variable(s, name)
    last = view.html.split("<table>")[-1]
    shown = [float(t) for row in _read(last).rows[1:] for t in row[1:] if t]
    assert shown == seen[: len(shown)] and len(shown) == min(len(seen), 200)
    left = len(seen) - len(shown)
    assert (f"{left} more elements" in view.text) == (left > 0)


def test_numbers_have_a_curve_where_they_differ(s: Session) -> None:
    """What a curve is like is `test_data.py`'s."""
    assert len(_read(variable(s, "wave").html).images) == 1
    assert "1 not finite" in variable(s, "odd").text
    assert _read(variable(s, "flat").html).images == []
    assert len(_read(variable(s, "far").html).images) == 1


def test_what_has_no_parts_is_its_value(s: Session) -> None:
    assert variable(s, "lone").text == "int -7"
    assert variable(s, "seen").text == "enum colour GREEN"
    view = variable(s, "text")
    assert view.text == 'char[8] "say <b>"' and "<b>&quot;" not in view.html
    assert "say &lt;b&gt;" in view.html and "say <b>" not in view.html
    with pytest.raises(UsageError, match="nothing here is called nobody"):
        variable(s, "nobody")
    with pytest.raises(UsageError):
        variable(s, "lone = 5")
    assert s["lone"].value == -7


def test_the_debugger_sees_globals_with_the_types_of_c(s: Session) -> None:
    found = {v.name: (v.type, v.value) for v in s.debugger.globals()}
    for name in ("lone", "lower", "low"):
        assert found[name][1] == str(s[name].value)
    assert found["low"][0] == "signed char" and found["seen"] == ("enum colour", "GREEN")
    assert found["to"] == ("struct point *", "&many+48") or found["to"][0] == "struct point *"
    assert found["call"][0] == "int (*)(void)"
    assert s.debugger.evaluate("to->x").value == "3"
    assert math.isclose(float(s.debugger.evaluate("many[1].y").value), 4)
