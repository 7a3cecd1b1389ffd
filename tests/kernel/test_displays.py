"""How errors read, what is masked, and tables that hold without any styling."""

import re

import pytest

from jitkernel.errors import CompileError, Diagnostic, Fault, JitError, UsageError
from jitkernel.kernel.displays import error_content, mask, plain
from jitkernel.views.view import View, listing, prose, table, time_text
from jitkernel.wording import did_you_mean, size_text


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


def test_an_error_is_bounded_however_long_its_names_are() -> None:
    for words in ("x" * 1_000_000, "x " * 500_000, "x\n" * 500_000, "'" * 30_000):
        content = error_content(UsageError(f"there is no {words}"))
        assert len(str(content)) < 400_000 and " more " in plain(content["traceback"][0])
        assert str(content["evalue"]).startswith("there is no ")


def test_no_other_word_is_meant_by_a_very_long_one() -> None:
    assert did_you_mean("abcd" * 250, ["abcd" * 249]) != ""
    assert did_you_mean("abcd" * 250_000, ["abcd" * 249_999]) == ""


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
        ("1.52 ns ± 0.03 us a call", "? ms ± ? ms a call"),
        ("6 bytes", "6 bytes"),
    ],
)
def test_what_deterministic_masks(text: str, expected: str) -> None:
    assert mask(text) == expected


def test_a_table_is_complete_in_text_and_in_plain_html() -> None:
    view = table("Cells", ("#cell", "defines"), [(1, "@sq"), (12, "<b>@x</b>")], "2 cells")
    assert view.text == "Cells\ncell  defines\n   1  @sq\n  12  <b>@x</b>\n2 cells"
    # Numbers to the right and names to the left, for those who keep styles and those who do not.
    assert '<th scope="col" align="right" style="white-space:nowrap">cell</th>' in view.html
    assert '<th scope="col" style="text-align:left">defines</th>' in view.html
    assert '<th scope="row" align="right" style="white-space:nowrap">12</th>' in view.html
    assert ">Cells</caption>" in view.html
    assert "&lt;b&gt;@x&lt;/b&gt;" in view.html
    assert not re.search(r"class=|<style|<script|<svg", view.html)


def test_a_wide_table_fits_100_columns() -> None:
    view = table("", ("name", "type", "note"), [("@f", "x" * 300, "y" * 80)])
    assert max(map(len, view.text.splitlines())) <= 100
    assert "x" * 300 in view.html.replace("<wbr>", "")  # nothing is lost where there is room


def test_two_dollars_are_no_formula() -> None:
    """JupyterLab and nbconvert give HTML to MathJax, which takes what is between dollars."""
    assert prose("$rsp and $ssp & x") == "<code>$rsp</code> and <code>$ssp</code> &amp; x"
    assert prose(r'c"\(a\)"') == r"<code>c&quot;\(a\)&quot;</code>"
    assert prose("costs nothing") == "costs nothing"
    view = table("$a$", ("$",), [("@b$c$d",)], "$e $f")
    assert view.text == "$a$\n$\n@b$c$d\n$e $f"
    outside = re.sub(r"<code>.*?</code>", "", view.html)
    assert "$" not in outside


def test_a_long_name_may_be_broken() -> None:
    name = "_ZNSt6vectorISt4pairINSt7__cxx1112basic_stringIcSt11char_traitsIcE"
    assert "<wbr>" in prose(name)
    assert prose(name).replace("<wbr>", "") == name
    assert prose("x" * 30) == "x" * 30  # not for a few letters
    assert prose("&" * 60) == "&amp;" * 60


def test_preformatted_lines_are_not_broken() -> None:
    html = listing("", "x" * 300).html
    assert "white-space:pre" in html and "overflow:auto" in html


def test_sentences_of_an_error_are_folded_between_words() -> None:
    said = "cells 3, 13 use it as it is; " * 8
    drawn = "    %y = add i32 %x, " + "%undefined" * 20
    content = error_content(JitError(f"{said}\n{drawn}\n{'9' * 120}"))
    lines = plain(content["traceback"][0]).split("\n")
    assert content["evalue"] == said
    assert drawn in lines and "9" * 120 in lines
    assert all(len(line) <= 100 for line in lines[:-2])
    assert " ".join(lines[:-2]).split() == f"JitError: {said}".split()


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
    [
        (1.52, "1.52 ns"),
        (1_400_000, "1.4 ms"),
        (22_100, "22.1 us"),
        (3.9e9, "3.9 s"),
        (0, "0 ns"),
        (999.4, "999 ns"),
        (999.7, "1 us"),
        (25_105_300, "25.1 ms"),
        (4.2e12, "4200 s"),
    ],
)
def test_times(value: float, text: str) -> None:
    assert time_text(value) == text


@pytest.mark.parametrize("column", [1, 20, 60, 200, 399, 400])
def test_a_long_line_is_shown_in_part_around_its_place(column: int) -> None:
    source = "".join(f"{k:_<10}" for k in range(40))
    sentence, part, caret = Diagnostic("what", 7, column, source).render().split("\n")
    assert sentence == f"line 7, column {column}: what"
    assert len(part) <= 100
    assert part[caret.index("^")] == source[column - 1]


def test_a_note_is_a_sentence() -> None:
    note = Diagnostic("optnone: no pass", 22, 37, "attributes #0 = { optnone }", severity="note")
    assert note.render() == "line 22, column 37: optnone: no pass"


def test_options_are_not_broken_behind_their_hyphens() -> None:
    assert prose("[--force]").startswith('<span style="white-space:nowrap">[--force]</span>')
    assert prose("x [2 x i8] --force") == "x [2 x i8] --force"
