"""Lines of a cell, of the lines of a module that was made of it."""

from __future__ import annotations

from jitkernel.ir.marks import are_marked, begins_at, cell_lines, first_alike, marked_places

MARKED = """declare void @g()
define void @f() {
  ; line 4
  call void @g()
  call void @g()
    ; line 2 of it
  ret void
}
define void @h() {
  ret void
}"""


def test_marks_of_a_language_count() -> None:
    line_of = cell_lines(MARKED, 1, "def f() g()")
    assert are_marked(MARKED, 1, "def f() g()")
    assert [line_of(n) for n in range(12)] == [0, 0, 0, 4, 4, 4, 2, 2, 2, 0, 0, 0]
    assert [line_of(n) for n in (-1, 99)] == [0, 0]


def test_marks_of_the_cells_author_do_not() -> None:
    assert not are_marked(MARKED, 1, MARKED)
    assert [cell_lines(MARKED, 1, MARKED)(n) for n in (1, 5, 99)] == [1, 5, 99]


def test_what_stands_above_the_cell_does_not_count() -> None:
    assert not are_marked("  ; line 3\ndefine void @f() { ret void }", 2, "f")
    assert cell_lines("define void @f() { ret void }", 1, "another text")(1) == 0


def test_lines_of_a_file_are_not_the_cells() -> None:
    text = """define void @f() {
  ; begins at line 3
  ; line 4
  call void @g()
  ret void
}
define void @h() {
  ; line 7 in "/a b/h.h"
  ret void
}"""
    places = marked_places(text, 1)
    assert [places(n) for n in (1, 2, 4, 5, 9)] == [
        ("", 0), ("", 3), ("", 4), ("", 4), ("/a b/h.h", 7),
    ]  # fmt: skip
    assert [cell_lines(text, 1, "")(n) for n in (4, 9)] == [4, 0]
    assert begins_at(text) == 3 and begins_at(text[text.index("define void @h") :]) == 0


def test_the_first_of_those_alike() -> None:
    """A head is of where it says that it begins; what is of no line stays apart."""
    text = """declare void @g()
define void @f() {
  ; begins at line 3
  %p = alloca i32
  ; line 4
  call void @g()
  ; line 5
  call void @g()
  ; line 4
  call void @g()
  ret void
}
define void @h() {
  ; begins at line 2
  ; line 4 in "h.h"
  ret void
}"""
    alike, places = first_alike(text, 1), marked_places(text, 1)
    assert [alike(n) for n in range(2, 12)] == [3, 3, 3, 5, 5, 7, 7, 5, 5, 5]
    assert [alike(n) for n in (13, 16, -3, 99)] == [14, 15, -3, 99]
    assert [places(alike(n)) for n in (2, 13)] == [("", 3), ("h.h", 2)]


def test_functions_are_found_in_a_text_without_looking_through_it_for_each() -> None:
    class Watched(str):
        looked = 0

        def __contains__(self, part: object) -> bool:
            self.looked += 1
            return super().__contains__(str(part))

    text = "\n".join(f"  define i32 @f{n}() {{\n  ret i32 {n}\n}}" for n in range(50))
    source = Watched(text)
    assert cell_lines(text, 1, source)(7) == 7 and source.looked <= 1
    assert cell_lines(text, 1, text.replace("f49", "f50"))(7) == 0
