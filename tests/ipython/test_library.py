"""Sessions and their handles in IPython, without the extension: what `?` and errors show."""

from __future__ import annotations

import inspect

import pytest
from IPython.core.completer import provisionalcompleter

from jitkernel import views
from jitkernel.errors import UsageError
from jitkernel.session import FunctionHandle

SQ = "define i32 @sq(i32 %x, ...) {\n  %r = mul i32 %x, %x\n  ret i32 %r\n}"


@pytest.mark.parametrize(
    ("source", "name", "signature"),
    [
        (SQ, "sq", "(x: int, /, *more) -> int"),
        ("define void @g() {\n  ret void\n}", "g", "() -> None"),
        ('define double @h(double %"a b", ptr %p, i1 %class) {\n  ret double %"a b"\n}', "h",
         "(x1: float, p, x3: bool, /) -> float"),
        ("define { i32, i32 } @k(float %0) {\n  ret { i32, i32 } zeroinitializer\n}", "k",
         "(x1: float, /) -> tuple"),
    ],
)  # fmt: skip
def test_a_handle_has_the_signature_of_its_function(s, source, name, signature) -> None:
    s.run(source)
    assert str(inspect.signature(s[name])) == signature


def test_a_handle_has_a_docstring_which_follows_redefinition(s) -> None:
    s.run(SQ)
    sq = s["sq"]
    assert sq.__doc__.startswith(f"@sq, i32 (i32, ...), of cell {s.number}.\n\ndefine i32 @sq")
    s.run("; twice\ndefine i32 @sq(i32 %x, ...) {\n  ret i32 0\n}")
    assert f"of cell {s.number}.\n\n; twice\n" in sq.__doc__
    assert (sq.__name__, repr(sq)) == ("sq", "<@sq i32 (i32, ...)>")
    s.evict("sq")
    assert (repr(sq), sq.__doc__) == ("<@sq gone>", "@sq is not defined any more.")


def test_the_class_has_its_own(s) -> None:
    assert FunctionHandle.__doc__.startswith("A function by name")
    assert "name" in inspect.signature(FunctionHandle).parameters


def test_variables_tables_and_sessions_say_what_they_are(s) -> None:
    s.run("@n = global i32 5")
    n = s["n"]
    assert (repr(n), repr(s)) == ("<@n i32 5>", "<Session of 1 cell, 0 functions, 1 variable>")
    assert "@n" in repr(s.symbols)
    s.evict("n")
    assert repr(n) == "<@n gone>"
    compiled = s.compile(SQ)
    assert len(repr(compiled)) < 600


def test_names_complete_between_brackets(s, bare) -> None:
    s.run(f"{SQ}\n@n = global i32 5")
    bare.names.update(s=s, table=s.symbols)
    for text in ('s["', 'table["'):
        with provisionalcompleter():
            found = list(bare.shell.Completer.completions(text, len(text)))
        assert {"sq", "n"} <= {each.text for each in found}
    s.evict("n")
    assert "n" not in s._ipython_key_completions_()


def test_a_view_is_its_text_at_a_prompt(s) -> None:
    s.run(SQ)
    view = views.asm(s, "sq")
    assert repr(view) == str(view) == view.text


def test_a_result_is_its_value(s) -> None:
    r = s.run("%x = add i32 40, -50")
    bundle = r._repr_mimebundle_()
    assert bundle["text/plain"] == "i32 -10" and "0xfffffff6" in bundle["text/html"]
    assert s.run("define void @g() {\n  ret void\n}")._repr_mimebundle_()["text/plain"] == repr(
        s.run("define void @g() {\n  ret void\n}")
    )


# -- errors ----------------------------------------------------------------------------------


def test_an_error_shows_the_user_s_lines_and_none_of_ours(s, bare) -> None:
    s.run(SQ)
    bare.names["sq"] = s["sq"]
    shown = bare.fails("def twice(x):\n    return sq(x) + sq(x)\n\ntwice('seven')")
    assert "twice('seven')" in shown and "return sq(x) + sq(x)" in shown
    assert shown.rstrip().endswith("UsageError: argument 1: a Python str cannot be i32")
    assert len(shown.splitlines()) < 20


@pytest.mark.parametrize("table", ["s", "s.symbols"])
def test_a_name_that_is_not_there_is_a_short_key_error(s, bare, table) -> None:
    s.run(SQ)
    bare.names["s"] = s
    shown = bare.fails(f"{table}['sqq']")
    assert shown.rstrip().endswith("@sqq is not defined in this session; did you mean @sq?")
    assert "handles.py" not in shown and len(shown.splitlines()) < 10
    result, _ = bare.run(f"try:\n    {table}['nope']\nexcept KeyError:\n    pass")
    assert result.success


def test_a_fault_says_its_name_once(s, bare) -> None:
    s.run("define void @boom() {\n  store volatile i32 1, ptr null\n  ret void\n}")
    bare.names["boom"] = s["boom"]
    shown = bare.fails("boom()")
    assert "Fault: write to address 0" in shown and "Fault: Fault" not in shown
    assert "boom()" in shown


def test_what_the_user_handled_before_is_shown_what_we_did_is_not(s, bare) -> None:
    bare.names["s"] = s
    shown = bare.fails("try:\n    {}['key']\nexcept KeyError:\n    s.evict('nobody')")
    assert "KeyError: 'key'" in shown and "During handling" in shown
    shown = bare.fails("s.restore('/nowhere/at/all.jks')")
    assert "During handling" not in shown and "direct cause" not in shown


def test_outside_ipython_an_error_renders_as_its_sentence() -> None:
    assert UsageError("so")._render_traceback_()[-1].endswith("UsageError: so")
