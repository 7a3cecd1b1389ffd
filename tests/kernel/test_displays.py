"""How errors read, what is masked, and tables that hold without any styling."""

import re

import pytest

from jitkernel.errors import CompileError, Diagnostic, Fault, UsageError
from jitkernel.kernel.displays import error_content, mask, plain
from jitkernel.views.view import View, size_text, table, time_text


def traceback(error: BaseException, **options) -> list[str]:
    return plain("\n".join(error_content(error, **options)["traceback"])).split("\n")


def test_the_sentence_comes_first_then_the_art() -> None:
    error = CompileError([Diagnostic("expected type", 2, 7, "  add 1, 2", "write add i32 1, 2")])
    assert traceback(error) == [
        "CompileError: line 2, column 7: expected type",
        "    add 1, 2",
        "        ^",
        "hint: write add i32 1, 2",
    ]
    assert error_content(error)["evalue"] == "line 2, column 7: expected type"


def test_a_crash_card_says_nothing_twice() -> None:
    error = Fault(
        "Fault: read of address 0 (a null pointer)\n"
        "at @get+4, cell 7, line 3: %v = load i64, ptr %p\n"
        "    mov rax, qword ptr [rdi]\n"
        "Kept: 5 functions, 2 globals, the heap. Nothing was lost."
    )
    assert traceback(error) == [
        "Fault: read of address 0 (a null pointer)",
        "at @get+4, cell 7, line 3: %v = load i64, ptr %p",
        "    mov rax, qword ptr [rdi]",
        "Kept: 5 functions, 2 globals, the heap. Nothing was lost.",
    ]


def test_a_bug_of_ours_says_so() -> None:
    lines = traceback(ZeroDivisionError("division by zero"))
    assert lines[0] == "ZeroDivisionError: division by zero"
    assert "not of your code" in lines[1]


def test_colour_only_repeats() -> None:
    content = error_content(UsageError("no"))
    assert "\x1b[" in content["traceback"][0]
    assert "\x1b[" not in content["evalue"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("compiled in 1.4 ms, linked in 0.02 ms", "compiled in ? ms, linked in ? ms"),
        ("ptr 0x7f00aa00bb10 (heap)", "ptr 0x… (heap)"),
        ("i32 49", "i32 49"),
        ("@s1 = i64 5", "@s1 = i64 5"),
        ("nearest is 0x3FB99999A0000000", "nearest is 0x3FB99999A0000000"),
        ("1.52 ns ± 0.03 ns a call", "? ns ± ? ns a call"),
        ("6 bytes", "6 bytes"),
    ],
)
def test_what_deterministic_masks(text: str, expected: str) -> None:
    assert mask(text) == expected


def test_a_table_is_complete_in_text_and_in_plain_html() -> None:
    view = table("Cells", ("#cell", "defines"), [(1, "@sq"), (12, "<b>@x</b>")], "2 cells")
    assert view.text == "Cells\ncell  defines\n   1  @sq\n  12  <b>@x</b>\n2 cells"
    assert '<th scope="col">defines</th>' in view.html
    assert "<caption>Cells</caption>" in view.html
    assert "&lt;b&gt;@x&lt;/b&gt;" in view.html
    assert not re.search(r"class=|<style|<script|<svg", view.html)


def test_a_wide_table_fits_100_columns() -> None:
    view = table("", ("name", "type", "note"), [("@f", "x" * 300, "y" * 80)])
    assert max(map(len, view.text.splitlines())) <= 100
    assert "x" * 300 in view.html  # nothing is lost where there is room


def test_a_view_is_a_mimebundle() -> None:
    assert View("t")._repr_mimebundle_() == {"text/plain": "t"}
    assert set(View("t", "<b>t</b>")._repr_mimebundle_()) == {"text/plain", "text/html"}


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (1023, "1023 B"), (12_800, "12.5 KiB"), (1 << 30, "1.0 GiB")]
)
def test_sizes(value: int, text: str) -> None:
    assert size_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.52, "1.52 ns"), (1_400_000, "1.4 ms"), (22_100, "22.1 us"), (3.9e9, "3.9 s")],
)
def test_times(value: float, text: str) -> None:
    assert time_text(value) == text
