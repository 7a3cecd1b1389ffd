"""What is plainly of the wrong type is refused in a sentence: what was expected, what was given."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jitkernel import Session
from jitkernel.arguments import blamed
from jitkernel.errors import JitError, UsageError, WrongArgument

np = pytest.importorskip("numpy")

CELL = """
define i32 @sq(i32 %x) {
  %r = mul i32 %x, %x
  ret i32 %r
}
define i32 @first(ptr %p) {
  %r = load i32, ptr %p
  ret i32 %r
}
@g = global i32 5
"""
THINGS = {"None": None, "int": 3, "list": [1], "text": "ab", "bytes": b"b", "object": object()}
#: A call with a thing in it; what does not fit there; a part of what is said.
CALLS: dict[str, tuple[Callable[[Session, Any], object], str, str]] = {
    "call": (lambda s, x: s.call(x, 1), "None int list bytes object", "name is text"),
    "call: a number": (lambda s, x: s.call("sq", x), "None list bytes object", "cannot be i32"),
    "call: a pointer": (lambda s, x: s.call("first", x), "list object", "cannot be ptr"),
    "run": (lambda s, x: s.run(x), "None int list bytes object", "text"),
    "run: language": (
        lambda s, x: s.run("@sq(1)", x), "None int list bytes object", "no language|language is text"
    ),
    "run: cell_id": (
        lambda s, x: s.run("@sq(1)", cell_id=x), "int list bytes object", "cell_id is text or None"
    ),
    "run: number": (
        lambda s, x: s.run("@sq(1)", number=x), "list bytes object", "number is a whole number"
    ),
    "run: sink": (lambda s, x: s.run("@g", sink=x), "int list bytes object", "sink is a Sink"),
    "run: options": (
        lambda s, x: s.run("@sq(1)", options=x), "int list bytes object", "options is a CellOptions"
    ),
    "run_many": (lambda s, x: s.run_many(x), "None int text object", "sources is a sequence of text"),
    "run_many: one": (lambda s, x: s.run_many([x]), "None int list bytes object", "text"),
    "time": (lambda s, x: s.time(x), "None int list bytes object", "expression is text"),
    "time: number": (lambda s, x: s.time("@sq(1)", x), "list bytes object", "a whole number"),
    "time: repeat": (
        lambda s, x: s.time("@sq(1)", 1, x), "None list bytes object", "repeat is a whole number"
    ),
    "value": (lambda s, x: s.value(x), "None int list bytes object", "expression is text"),
    "compile": (lambda s, x: s.compile(x), "None int list bytes object", "text"),
    "place": (lambda s, x: s.place(x), "None int list bytes object", "is a CompiledCell"),
    "place: cell_id": (
        lambda s, x: s.place(s.compile("@p = global i32 1"), x), "int list bytes object", "cell_id"
    ),
    "array": (lambda s, x: s.array(x), "None bytes object", "shape is its sides"),
    "array: a side": (lambda s, x: s.array((2, x)), "None list bytes object", "shape is its sides"),
    "array: dtype": (lambda s, x: s.array(2, x), "int list object", "no type of an array"),
    "share": (lambda s, x: s.share(x), "None object", "holds Python objects"),
    "export_python": (
        lambda s, x: s.export_python(x, abs), "None int list bytes object", "name is text"
    ),
    "export_python: function": (
        lambda s, x: s.export_python("f", x), "int list bytes object", "cannot be called"
    ),
    "export_python: type": (
        lambda s, x: s.export_python("f", abs, x), "None int list bytes object", "type is text"
    ),
    "read": (lambda s, x: s.read(x, 1), "None list bytes object", "address is a whole number"),
    "read: size": (
        lambda s, x: s.read(s["g"].address, x), "None list bytes object", "size is a whole number"
    ),
    "write": (lambda s, x: s.write(x, b"a"), "None list bytes object", "address is a whole number"),
    "write: data": (lambda s, x: s.write(s["g"].address, x), "None int list object", "data is bytes"),
    "[]": (lambda s, x: s[x], "None int list bytes object", "names are text"),
    "[,]": (lambda s, x: s["sq", x], "None int list bytes object", "names are text"),
    "symbols[]": (lambda s, x: s.symbols[x], "None int list bytes object", "name is text"),
    "source": (lambda s, x: s.source(x), "list", "number is a whole number"),
    "describe": (lambda s, x: s.describe(x), "None list bytes object", "address is a whole number"),
    "watch": (lambda s, x: s.watch(x), "None int list bytes object", "names is text"),
    "watch: call": (lambda s, x: s.watch("g", call=x), "int list bytes object", "a function or None"),
    "watch: every": (lambda s, x: s.watch("g", every=x), "list bytes object", "a number or None"),
    "unwatch": (lambda s, x: s.unwatch(x), "None int list bytes object", "names is text"),
    "configure": (lambda s, x: s.configure(x, 1), "None int list bytes object", "no setting"),
    "configure: a number": (
        lambda s, x: s.configure("undo_data", x), "None list bytes object", "a whole number"
    ),
    "configure: text": (lambda s, x: s.configure("cpu", x), "None int list bytes object", "is text"),
    "budget": (
        lambda s, x: setattr(s, "budget", x), "None list bytes object", "budget is a whole number"
    ),
    "sink": (lambda s, x: setattr(s, "sink", x), "None int list bytes object", "sink is a Sink"),
    "find": (lambda s, x: s.find(x), "None list bytes object", "by number, range"),
    "evict": (lambda s, x: s.evict(x), "None list bytes object", "by number, range"),
    "keep": (lambda s, x: s.keep(x), "None list bytes object", "by number, range"),
    "wake": (lambda s, x: s.wake(x), "None list bytes object", "by number, range"),
    "hibernate": (lambda s, x: s.hibernate(x), "None list bytes object", "by number, range"),
    "undo": (lambda s, x: s.undo(x), "None list bytes object", "count is a whole number"),
    "undo: cell": (lambda s, x: s.undo(cell=x), "list bytes object", "cannot be undone"),
    "undo: name": (lambda s, x: s.undo(name=x), "int list bytes object", "name is text"),
    "redo": (lambda s, x: s.redo(x), "None list bytes object", "count is a whole number"),
    "save": (lambda s, x: s.save(x), "None int list bytes object", "path is a path"),
    "restore": (lambda s, x: Session.restore(x), "None int list bytes object", "path is a path"),
    "load": (lambda s, x: s.load(x), "None int list bytes object", "path is a path"),
    "link": (lambda s, x: s.link(x), "None int list object", "path is a path"),
    "export": (lambda s, x: s.export(x, "sq.o"), "None int list bytes object", "names is text, a handle or a seq"),
    "export: path": (
        lambda s, x: s.export("sq", x), "None int list bytes object", "path is a path|ending says"
    ),
    "export: globals": (
        lambda s, x: s.export("sq", "sq.o", globals=x), "None int list bytes object", "'present'"
    ),
    "export: cpu": (
        lambda s, x: s.export("sq", "sq.o", cpu=x), "int list bytes object", "cpu is text"
    ),
    "later": (lambda s, x: s.later(x), "None int list bytes object", "function is"),
    "serve": (lambda s, x: s.serve(x), "None list bytes object", "seconds is a number"),
    "on_hot": (lambda s, x: s.on_hot(x, 1, print), "None int list bytes object", "name is text"),
    "on_hot: calls": (
        lambda s, x: s.on_hot("sq", x, print), "None list bytes object", "calls is a whole number"
    ),
    "on_hot: translate": (
        lambda s, x: s.on_hot("sq", 1, x), "None int list bytes object", "translate is"
    ),
    "reproduce": (lambda s, x: s.reproduce(x), "None list bytes object", "timeout is a number"),
    "portable": (lambda s, x: s.portable(x), "None int list bytes object", "name is text"),
    "chdir": (lambda s, x: s.chdir(x), "None int list object", "path is a path"),
    "setenv": (lambda s, x: s.setenv(x, "1"), "None int list object", "name is text|no name"),
    "setenv: value": (lambda s, x: s.setenv("A", x), "None int list object", "value is text"),
    "a function": (lambda s, x: s["sq"](x), "None list bytes object", "cannot be i32"),
    "a function: arrays": (
        lambda s, x: s["sq"].arrays(x), "None int list bytes object", "parameters is text"
    ),
    "arrays": (
        lambda s, x: s["first"].arrays("int[n]")(x), "None int list bytes object", "an array of"
    ),
    "arrays: a side": (
        lambda s, x: s["sq"].arrays("int[n], n")(np.zeros(2, "i4"), x), "None list bytes object",
        "is n, a number",
    ),
    "a variable": (lambda s, x: setattr(s["g"], "value", x), "None list bytes object", "cannot be i32"),
    "a portable function": (
        lambda s, x: s.portable("sq")(x), "None list bytes object", "cannot be i32"
    ),
    "Session": (lambda s, x: Session(x), "int list bytes object", "settings are SessionSettings"),
    "Session: text": (lambda s, x: Session(cwd=x), "None int list bytes object", "cwd is text"),
    "Session: a number": (
        lambda s, x: Session(workers=x), "None list bytes object", "workers is a whole number"
    ),
    "Session: a path": (lambda s, x: Session(store_path=x), "None int list bytes object", "is text"),
    "Session: a mapping": (
        lambda s, x: Session(env=x), "None int list bytes object", "env is a mapping of text to text"
    ),
}  # fmt: skip
TABLE = [
    pytest.param(call, THINGS[thing], words, id=f"{name} {thing}")
    for name, (call, things, words) in CALLS.items()
    for thing in things.split()
]


@pytest.mark.process
@pytest.mark.parametrize(("call", "thing", "words"), TABLE)
def test_each_says_what_was_expected(
    shared: Session, call: Callable[[Session, Any], object], thing: object, words: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    s = shared
    monkeypatch.chdir(tmp_path)
    if "g" not in s:  # nothing of what follows changes the session
        s.reset()
        s.run(CELL)
    settings = repr(s.settings)
    with pytest.raises(JitError, match=words) as caught:
        call(s, thing)
    assert len(str(caught.value).splitlines()[0]) < 400
    assert (
        s.call("sq", 3) == 9
        and repr(s.settings) == settings
        and s.cells[0].names == ["sq", "first", "g"]
    )
    s.check()


def test_every_method_that_takes_something_is_in_the_table() -> None:
    takes = {
        name
        for name, member in inspect.getmembers(Session, inspect.isroutine)
        if not name.startswith("_")
        and any(p.annotation not in ("bool", p.empty) for p in _parameters(member))
    }
    assert takes <= {name.partition(":")[0] for name in CALLS}


def _parameters(member: Any) -> list[inspect.Parameter]:
    return [p for n, p in inspect.signature(member).parameters.items() if n != "self"]


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (None, "link: path is a path, and None is given"),
        (3, "link: path is a path, and 3 is given"),
        (["x" * 99], f"link: path is a path, and ['{'x' * 55}... is given"),
    ],
)
def test_the_sentence(s: Session, thing: object, said: str) -> None:
    with pytest.raises(WrongArgument) as caught:
        s.link(thing)
    assert str(caught.value) == said
    assert isinstance(caught.value, (UsageError, TypeError)) and caught.value.__cause__ is None


def test_errors_of_others_stay_what_they_are(s: Session) -> None:
    """A Python function's TypeError is its own, whatever the session was given."""

    def fails() -> None:
        raise TypeError("mine")

    s.export_python("fails", fails)
    for call in (lambda: s.call("fails"), lambda: s.run("call void @fails()", "llvm")):
        with pytest.raises(TypeError, match=r"\Amine\Z"):
            call()


def test_python_itself_says_how_many_there_must_be(s: Session) -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'path'"):
        s.link()  # type: ignore[call-arg]


class _Text:
    """Is none of Python's own."""


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        ("str", ["", "x"], [None, 3, b"x"]),
        ("int", [3, True, np.int8(3)], [None, "3", 3.0, np.zeros(2)]),
        ("float", [3, 2.5, np.float32(1)], [None, "3", [1.0]]),
        ("Path", ["x", Path("x")], [None, b"x", 3]),
        ("int | str | Cell", [3, "x", _Text()], [None, [3], b"x"]),
        ("Cell | None", [None, _Text()], [3, "x", object()]),
        (
            "str | Sequence[str]",
            ["x", ["x"], ("x", "y"), []],
            [None, [3], ["x", 3], b"x", {"x": 1}],
        ),
        ("Mapping[str, str]", [{}, {"a": "b"}], [{"a": 1}, {1: "a"}, [], "a"]),
        ("Literal['a', 'b']", ["a", "b"], ["c", None, 3]),
        ("Callable[[int], object] | None", [None, print], [3, "x"]),
        ("bytes | bytearray | memoryview", [b"", bytearray(), memoryview(b"")], ["x", 3]),
        ("tuple[int, ...]", [(), (1,)], [3, [1]]),
        ("bool", [True, None, "x"], []),
        ("Any", [None, 3, object()], []),
        ("module.Thing", [None, 3, object()], []),
    ],
)
def test_what_fits_an_annotation(annotation: str, good: list[Any], bad: list[Any]) -> None:
    def function(x: Any) -> None: ...

    function.__annotations__["x"] = annotation
    for thing in good:
        assert blamed(function, (thing,), {}) is None, thing
    for thing in bad:
        wrong = blamed(function, (), {"x": thing})
        assert wrong is not None and str(wrong).startswith("function: x is "), thing


def test_arguments_are_given_in_order_or_by_name(s: Session) -> None:
    s.run("define i32 @twice(i32 %n) {\n  %r = mul i32 %n, 2\n  ret i32 %r\n}")
    twice = s["twice"]
    assert twice(3) == 6 == twice(n=3)
    with pytest.raises(WrongArgument, match=r"\A@twice\(n: int\) -> int: .*argument: 'n'"):
        twice(m=3)
    s.evict("twice")
    with pytest.raises(UsageError, match="@twice is not defined any more"):
        twice(n=3)


def test_what_has_too_many_members_is_counted(s: Session) -> None:
    s.run("struct pt { double x, y; }; double sum(struct pt p) { return p.x + p.y; }", "c")
    with pytest.raises(UsageError, match=r"struct \(x, y\), .* a Python tuple of 3 is given"):
        s.call("sum", (1, 2, 3))
    with pytest.raises(UsageError, match=r"\A'double\[n\] n' is no parameter, such as "):
        s["sum"].arrays("double[n] n")


@pytest.mark.parametrize(
    "mistaken",
    [
        lambda s: s.run(),
        lambda s: s.run("@g", lang="c"),
        lambda s: s.configure("budget"),
        lambda s: s.undo(1, 2, 3),
        lambda s: s.budgett,
        lambda s: setattr(s, "budgett", 8),
        lambda s: setattr(s["g"], "valu", 8),
        lambda s: setattr(s["f"], "arays", "int[n]"),
    ],
)
def test_a_mistyped_name_is_refused_in_the_words_of_what_has_it(
    s: Session, mistaken: Callable[[Session], object]
) -> None:
    s.run("@g = global i32 5\ndefine void @f() { ret void }")
    with pytest.raises(
        (TypeError, AttributeError),
        match=r"Session\.|'(Session|\w+Handle)' object has no attribute",
    ):
        mistaken(s)
