"""Named types are part of the program: whoever defines them, whatever mentions them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jitkernel import Session, views
from jitkernel.errors import CompileError, EvictError

PT = "%pt = type { i32, i32 }"
SECOND = (
    "define ptr @second(ptr %p) {\n  %q = getelementptr %pt, ptr %p, i32 0, i32 1\n  ret ptr %q\n}"
)


@pytest.fixture
def s() -> Iterator[Session]:
    with Session(spare=False, opt_level=0) as session:
        yield session


def knows(s: Session, name: str = "pt") -> bool:
    """Whether the type is known, to the session and to a cell that uses it."""
    use = f"%p = alloca %{name}\n%i = ptrtoint ptr %p to i64\n%z = and i64 %i, 0"
    try:
        s.run(use)
    except CompileError:
        assert name not in s.types
        return False
    assert name in s.types
    return True


def test_a_cell_of_types_alone(s: Session) -> None:
    result = s.run(PT)
    assert result.notes == ["cell 1: %pt { i32, i32 }"]
    assert s.types == {"pt": "{ i32, i32 }"}
    s.run(SECOND)
    assert s.call("second", 0) == 4
    assert "%pt" in views.cells(s).text


@pytest.mark.parametrize("options", ["throwaway", "shared", "kept"])
def test_a_type_of_a_body_alone(options: str) -> None:
    with Session(spare=False, context=options) as s:
        s.run(f"%px = type {{ i64 }}\n%pw = type {{ i32, %px }}\n{PT}\n{SECOND}")
        assert s.types == {"px": "{ i64 }", "pw": "{ i32, %px }", "pt": "{ i32, i32 }"}
        assert knows(s) and knows(s, "pw")


def test_names_of_what_is_no_struct(s: Session) -> None:
    s.run(
        '%a = type [4 x i16]  ; four\n%z = type { %a }\n%"of b" = type <2 x float>\n%o = type opaque'
    )
    assert s.types["a"] == "[4 x i16]" and s.types["of b"] == "<2 x float>"
    assert s.types["o"] == "opaque" and s.types["z"] == "{ [4 x i16] }"
    s.run('@g = global %a zeroinitializer\n@h = global { %"of b", %z } zeroinitializer')
    assert s.run("@g").text.startswith("[4 x i16]")


def test_names_in_strings_and_comments_are_none(s: Session) -> None:
    s.run('@t = global [14 x i8] c"%no = type i32"\n; %nor = type i32\n@u = global i32 1')
    assert s.types == {}


def test_a_type_leaves_with_the_last_cell_that_mentions_it(s: Session) -> None:
    s.run(PT)
    s.run(SECOND)
    s.evict(1)
    assert knows(s)  # the second cell has it
    s.evict("second")
    assert s.types == {}
    s.undo()
    assert s.types == {"pt": "{ i32, i32 }"} and s.call("second", 0) == 4
    s.redo()
    assert s.types == {}
    s.undo(2)
    assert [c.number for c in s.cells][:2] == [1, 2] and knows(s)
    s.check()


def test_taken_back_from_the_middle(s: Session) -> None:
    s.run(PT)
    s.run("@other = global i32 1")
    s.run(SECOND)
    with pytest.raises(EvictError, match="uses %pt"):
        s.undo(cell=1)
    s.undo(cell=1, cascade=True)
    assert s.types == {} and "second" not in s and "other" in s


def test_the_notebook_cell_run_again(s: Session) -> None:
    s.run(PT, cell_id="a")
    s.run(PT, cell_id="a")
    assert [c.number for c in s.cells] == [2] and knows(s)
    s.run("%pu = type { i8 }", cell_id="a")
    assert s.types == {"pu": "{ i8 }"}
    s.run("@g = global i32 1", cell_id="a")
    assert s.types == {}
    s.undo()
    assert s.types == {"pu": "{ i8 }"}
    s.run("%x = add i32 1, 2", cell_id="a")
    assert s.types == {}
    s.undo()
    assert s.types == {"pu": "{ i8 }"}
    s.run(PT + "\n" + SECOND, cell_id="b")
    s.run(SECOND.replace("second", "third"), cell_id="c")
    s.run("@h = global i32 1", cell_id="b")
    assert knows(s)  # @third has it


def test_a_cell_whose_types_others_define_goes(s: Session) -> None:
    s.run(PT + "\n%pu = type { i8 }")
    s.run("%pt = type { i64, i64 }")
    assert [c.number for c in s.cells] == [1, 2]  # the first still has %pu
    s.run("%pu = type { i8 }\n@u = global %pu zeroinitializer")
    assert [c.number for c in s.cells] == [2, 3]
    s.run("%pt = type opaque\n@p = global ptr null")
    assert [c.number for c in s.cells] == [2, 3, 4]  # that defines nothing
    s.undo(2)
    assert [c.number for c in s.cells] == [1, 2] and s.types["pu"] == "{ i8 }"
    s.undo()
    assert [c.number for c in s.cells] == [1] and s.types["pt"] == "{ i32, i32 }"
    s.redo(2)
    assert [c.number for c in s.cells] == [2, 3] and knows(s) and knows(s, "pu")
    s.gc(undo=True)
    assert s.types == {"pt": "{ i64, i64 }", "pu": "{ i8 }"}
    s.evict(2)
    s.evict(3)
    assert s.types == {} and not s.inspect.program.state.owners
    s.check()


def test_types_keep_a_cell_whose_data_nobody_needs(s: Session, tmp_path: Path) -> None:
    """Until another one defines them, in a session that was saved and restored too."""
    s.run(PT + '\n@puts("text")')
    s.gc(undo=True)
    assert knows(s) and [c.number for c in s.cells] == [1]
    s.save(str(tmp_path / "t.jks"))
    with Session.restore(str(tmp_path / "t.jks"), spare=False) as back:
        back.gc(undo=True)
        assert [c.number for c in back.cells] == [1] and knows(back)
        back.run(PT)
        back.gc(undo=True)
        assert len(back.cells) == 1 and back.cells[0].number > 1 and knows(back)


def test_types_and_strings_go_by_themselves(s: Session) -> None:
    for i in range(600):
        s.run(f'{PT}\n@puts("text {i}")')
    assert len(s.cells) < 400 and knows(s)
    s.check()


SIZE = """define i64 @size() {
  %e = getelementptr %pt, ptr null, i32 1
  %n = ptrtoint ptr %e to i64
  ret i64 %n
}
@v = global %pt zeroinitializer"""


def test_cells_that_mention_a_type_follow_it(s: Session) -> None:
    s.run(PT)
    s.run(SIZE)
    result = s.run("%pt = type { i64, i32, i32 }")
    assert result.notes == [
        "cell 3: %pt { i64, i32, i32 }",
        "v (cell 2) has another type now and its first value again",
        "cell 2 was compiled again for the new %pt",
    ]
    assert s.call("size") == 16
    assert s["v"].value == (0, 0, 0)
    s.undo()
    assert (s.call("size"), s["v"].value) == (8, (0, 0))
    s.redo()
    assert s.call("size") == 16
    s.check()


def test_those_that_do_not_fit_it_are_named(s: Session) -> None:
    s.run(PT)
    s.run("@v = global %pt { i32 1, i32 2 }")
    result = s.run("%pt = type { i8, i64 }")
    assert result.notes[0] == "cell 3: %pt { i8, i64 }"
    assert result.notes[1].startswith("cell 2 does not fit that (")
    assert result.notes[1].endswith("): run it again with the change in it")
    assert result.notes[2] == (
        "%pt was { i32, i32 } and is { i8, i64 } now; cell 2 was built with the old one"
    )
    assert s["v"].value is not None
    s.check()


def test_an_opaque_one_does_not_take_the_body_away(s: Session) -> None:
    s.run(PT)
    s.run("%pt = type opaque\n@p = global ptr null")
    assert s.types["pt"] == "{ i32, i32 }"


def test_cycles_of_fresh_types_leave_nothing(s: Session) -> None:
    for i in range(40):
        s.run(f"%t{i} = type {{ i32, [{i} x i8] }}")
        s.run(
            f"define void @f(ptr %p) {{\n  %q = getelementptr %t{i}, ptr %p, i32 0\n  ret void\n}}"
        )
        s.evict(s.cells[0].number)
        s.evict("f")
    s.gc(undo=True)
    assert s.types == {} and not s.inspect.program.uses._users


def test_a_result_is_there_when_its_type_is_gone(s: Session) -> None:
    result = s.run(
        "%gone = type { i32, i8 }\n"
        "define %gone @give() {\n  ret %gone { i32 1, i8 2 }\n}\n"
        "%r = call %gone @give()"
    )
    s.reset()
    assert result.value == (1, 2)
