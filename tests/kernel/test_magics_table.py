"""The table of magics: every declaration is complete, and lines are parsed as it says."""

import pytest

from jitkernel.errors import UsageError
from jitkernel.kernel import magics
from jitkernel.kernel.magics import MAGICS
from jitkernel.kernel.magics.help import explained, grouped
from jitkernel.kernel.magics.parsing import help_text, parse, targets, usage
from jitkernel.kernel.magics.registry import HABITS, HABITS_OF_C


@pytest.mark.parametrize("magic", list(magics.MAGICS), ids=lambda m: m.name)
def test_every_magic_says_what_it_is(magic) -> None:
    text = help_text(magic)
    assert text.startswith("usage: %")
    assert magic.help.endswith(".")
    assert all(len(line) <= 100 for line in text.splitlines())
    for argument in magic.arguments:
        assert argument.help
        assert not argument.is_option or all(n.startswith("-") for n in argument.names)


def test_names_are_unique() -> None:
    names = [n for m in magics.MAGICS for n in (m.name, *m.aliases)]
    assert len(names) == len(set(names))
    assert not set(HABITS) & set(names) and set(HABITS_OF_C) <= set(HABITS)


def test_where_cells_are_c_no_word_of_ir_is_said() -> None:
    for name in HABITS:
        with pytest.raises(UsageError) as raised:
            MAGICS.find(name, "line", "c")
        said = str(raised.value)
        assert "LLVM IR" not in said and "define i32" not in said and "@" not in said
        with pytest.raises(UsageError):
            MAGICS.find(name, "line")


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("evict", "3", {"target": ["3"], "cascade": False}),
        ("evict", "@sq --cascade", {"target": ["@sq"], "cascade": True}),
        ("evict", '--force @"a b" 3-5', {"target": ['@"a b"', "3-5"], "force": True}),
        ("timeit", "-n 10 -r5 @f(-1, 2)", {"n": 10, "r": 5, "code": "@f(-1, 2)"}),
        ("timeit", "@f(1) -n 3", {"n": None, "code": "@f(1) -n 3"}),
        ("timeit", "-q @f()", {"quiet": True, "code": "@f()"}),
        ("llvm", "-O3 --closed", {"O": 3, "closed": True, "retype": False}),
        ("llvm", "-O 0", {"O": 0}),
        ("llvm", "-O=1", {"O": 1}),
        ("undo", "", {"what": None, "cell": None}),
        ("undo", "3", {"what": "3"}),
        ("undo", "--cell 5 --cascade", {"cell": 5, "cascade": True}),
        ("redo", "2", {"count": 2}),
        ("gc", "--dry-run", {"dry_run": True, "undo": False}),
        ("run", "'a b.ll'", {"file": "a b.ll"}),
        ("config", "Compiler.opt_level = 3", {"setting": "Compiler.opt_level = 3"}),
        ("env", "A=b  c", {"setting": "A=b  c"}),
        ("compare", "@f -O0 -O2 --time '7, 3'", {"what": ["@f"], "O": [0, 2], "time": "7, 3"}),
        ("history", "-n 5 -g sq", {"n": 5, "search": "sq"}),
    ],
)
def test_parsing(name: str, line: str, expected: dict) -> None:
    values = vars(parse(MAGICS.get(name), line))
    assert {k: values[k] for k in expected} == expected


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        ("evict", "--cascad @f", "no option --cascad"),
        ("redo", "many", "count takes a whole number, not 'many'"),
        ("undo", "1 2", "what is '2' for?"),
        ("run", "", "needs FILE"),
        ("llvm", "-O7", "one of 0, 1, 2, 3"),
        ("timeit", "-n", "-n needs a value"),
        ("run", "'a", "no closing '"),
        ("evict", "--cascade=yes @f", "takes no value"),
        ("timeit", "-n -5 @f()", "-n is at least 0, not -5"),
        ("timeit", f"-n {1 << 63} @f()", "-n is at most 9,223,372,036,854,775,807"),
        ("timeit", "-r -1 @f()", "-r is at least 1, not -1"),
        ("timeit", "-r 0 @f()", "-r is at least 1, not 0"),
        *((name, '""', "is empty") for name in ("lib", "link", "run", "save", "keep", "hibernate")),
    ],
)
def test_wrong_arguments(name: str, line: str, words: str) -> None:
    with pytest.raises(UsageError, match="^%" + name) as caught:
        parse(MAGICS.get(name), line)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["3"], [3]),
        (["3-5"], [3, 4, 5]),
        (["1,4"], [1, 4]),
        (["@sq"], ["@sq"]),
        (["sq", "2"], ["sq", 2]),
        (['@"a, b"'], ['@"a, b"']),
    ],
)
def test_targets(words: list, expected: list) -> None:
    assert targets(words) == expected


def test_a_range_backwards() -> None:
    with pytest.raises(UsageError, match="5-3"):
        targets(["5-3"])


@pytest.mark.parametrize(
    ("name", "form", "words"),
    [
        ("symbol", "line", "did you mean %symbols?"),
        ("evcit", "line", "did you mean %evict?"),
        ("pip", "line", "%lib"),
        ("store", "line", "@name = i64 5"),
        ("writefile", "line", "write %%writefile on its first line"),
        ("cells", "cell", "write %cells"),
        ("python", "cell", "Python"),
        ("zzzzzz", "line", "%help lists"),
        ("ASM", "line", "did you mean %asm?"),
        ("ls", "line", "!ls"),
    ],
)
def test_unknown_magics_name_what_to_use(name: str, form: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        MAGICS.find(name, form)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_cell_magic_keeps_line_numbers() -> None:
    call = magics.cell_magic("\n  %%time  x\n@f()\n")
    assert call is not None
    assert (call.name, call.line) == ("time", "x")
    assert call.body == "\n\n@f()\n"
    assert magics.cell_magic("%time @f()") is None
    assert magics.cell_magic("; %%time\n@f()") is None


def test_help_lists_every_magic_once_the_most_used_first() -> None:
    groups = grouped(MAGICS)
    names = [magic.name for _, members in groups for magic in members]
    assert sorted(names) == sorted(magic.name for magic in MAGICS)
    assert groups[0][0] == "Every day" and names[0] == "cells" and "asm" in names[:5]
    title, rest = groups[-1]
    assert title == "The rest"  # a new magic belongs to what it is for
    assert [magic.name for magic in rest] == ["config", "clear", "lsmagic", "quickref"]


def test_usage_tells_what_may_be_left_out_and_what_a_value_is() -> None:
    assert usage(MAGICS.find("config", "line")) == "usage: %config [SETTING]"
    assert usage(MAGICS.find("time", "line")) == "usage: %time CODE"
    assert "[--every SECONDS]" in usage(MAGICS.find("watch", "line"))
    assert "[-O LEVEL]" in usage(MAGICS.find("llvm", "cell"))


@pytest.mark.parametrize(
    ("word", "begins"),
    [
        ("predecessors", "predecessor: "),
        ("Boolean", "boolean: "),
        ("back edges", "back edge: "),
        ("little endian", "little-endian: "),
        ("SSA", "ssa: "),
        ("unwind tables", "unwind table: "),
        ("pipelnie", "pipeline: "),
        ("passes", "pass: "),
        ("zones", "zone: "),
    ],
)
def test_words_are_explained(word: str, begins: str) -> None:
    assert explained(word).startswith(begins)
    assert explained("zzz") == ""
