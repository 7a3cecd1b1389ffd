"""Handles pickle and run where they arrive: same results, same checks, linked once."""

from __future__ import annotations

import dataclasses
import pickle
import random
from collections.abc import Callable, Iterator

import pytest

from jitkernel import Session
from jitkernel.errors import Fault, JitError, LinkError, UsageError
from jitkernel.portable.arrival import process_session
from jitkernel.portable.content import VERSION, digest_of, read_content
from jitkernel.portable.travelling import PortableFunction, arrive, portable
from jitkernel.session import CellOptions

G = """@k = constant i32 7
@n = global i32 4
define i32 @g(i32 %x) {
  %v = load i32, ptr @k
  %w = load i32, ptr @n
  %m = add i32 %w, 1
  store i32 %m, ptr @n
  %y = add i32 %v, %w
  %r = mul i32 %x, %y
  ret i32 %r
}"""
F = "define i32 @f(i32 %x) {\n  %r = call i32 @g(i32 %x)\n  %q = add i32 %r, 1\n  ret i32 %q\n}"
SQ = "define i64 @sq(i64 %x) {\n  %r = mul i64 %x, %x\n  ret i64 %r\n}"


@pytest.fixture(autouse=True, scope="module")
def _end() -> Iterator[None]:
    """The process's session ends with the file."""
    yield
    process_session().close()


def there(s: Session, name: str, **how: bool) -> PortableFunction:
    """A function as it arrives."""
    found = pickle.loads(pickle.dumps(s.portable(name, **how) if how else s[name]))
    assert isinstance(found, PortableFunction)
    return found


def test_what_it_calls_and_its_constants_come_along(s: Session) -> None:
    s.run(G)
    s.run(F)
    f = there(s, "f")
    assert f(3) == 3 * (7 + 4) + 1
    assert f(3) == 3 * (7 + 5) + 1, "its variables are those of the process"
    assert s["n"].value == 4
    assert (f.name, f.signature, f.__name__) == ("f", "i32 (i32)", "f")
    assert repr(f) == "<@f of another process>"


def test_the_allocator_of_registers_travels(s: Session) -> None:
    s.run(SQ, options=CellOptions(regalloc="fast"))
    assert there(s, "sq")(3) == 9


def test_globals_by_value_when_asked(s: Session) -> None:
    s.run(G)
    s["n"].value = 100
    assert there(s, "g")(1) == 7 + 4
    assert there(s, "g", globals=True)(1) == 7 + 100


def test_checks_are_the_same(s: Session) -> None:
    s.run(SQ + "\ndefine i32 @bad() {\n  %v = load volatile i32, ptr null\n  ret i32 %v\n}")
    sq = there(s, "sq")
    with pytest.raises(UsageError, match=r"takes 1 argument \(i64 \(i64\)\), 2 given"):
        sq(1, 2)
    with pytest.raises(UsageError, match="argument 1: a Python str cannot be i64"):
        sq("1")
    with pytest.raises(Fault, match="null pointer"):
        there(s, "bad")()
    assert sq(3) == 9, "the session there goes on"


def test_linked_once_per_content(s: Session) -> None:
    s.run(SQ)
    data = pickle.dumps(s["sq"])
    assert pickle.dumps(s["sq"]) == data, "packed once"
    assert pickle.loads(data)(2) == 4
    before = process_session().number
    assert [pickle.loads(data)(i) for i in range(1000)] == [i * i for i in range(1000)]
    assert process_session().number == before
    assert pickle.loads(data) == pickle.loads(data) and len({pickle.loads(data) for _ in "ab"}) == 1
    again = pickle.dumps(pickle.loads(data))
    assert pickle.loads(again)(5) == 25 and again == data, "it travels on"


def test_redefinition_is_another_content(s: Session) -> None:
    s.run(SQ)
    old = there(s, "sq")
    s.run(SQ.replace("mul", "add"))
    new = there(s, "sq")
    assert (old(5), new(5)) == (25, 10) and old != new
    s.undo()
    assert there(s, "sq")(5) == 25 and there(s, "sq") == old


def test_structures_and_wide_vectors(s: Session) -> None:
    """By value, with types of the cell's own names."""
    s.run("""%pt = type { i32, double }
define %pt @swap(%pt %p, <8 x float> %v) {
  %a = extractvalue %pt %p, 0
  %b = extractelement <8 x float> %v, i32 7
  %d = fpext float %b to double
  %c = add i32 %a, 1
  %q = insertvalue %pt undef, i32 %c, 0
  %r = insertvalue %pt %q, double %d, 1
  ret %pt %r
}""")
    assert there(s, "swap")((1, 2.0), (0.0,) * 7 + (3.5,)) == (2, 3.5)


def test_thread_locals_and_constructors(s: Session) -> None:
    s.run("_Thread_local int t = 3; int count(void) { return t++; }", language="c")
    count = there(s, "count")
    assert [count(), count()] == [3, 4]


def test_constructors_run_where_variables_begin_with_first_values_alone(s: Session) -> None:
    s.run("int n = 1; __attribute__((constructor)) void up(void) { n += 4; }", language="c")
    s.run("int get(void) { return n; }", language="c")
    s["n"].value += 10
    assert s.call("get") == 15
    assert portable(s.portable("get").content)() == 5
    assert portable(s.portable("get", globals=True).content)() == 15


def test_a_library_comes_by_its_name(s: Session) -> None:
    s.run(
        "declare ptr @zlibVersion()\ndefine i32 @v() {\n  %p = call ptr @zlibVersion()\n  %c = load i8, ptr %p\n  %r = zext i8 %c to i32\n  ret i32 %r\n}"
    )
    with pytest.raises(LinkError, match="@zlibVersion would be missing"):
        s.portable("v")
    s.load("libz.so.1")
    assert there(s, "v")() == ord("1")


def test_another_processor_gets_ir(s: Session) -> None:
    """One that lacks what the code was compiled for; the object that came is not even looked at."""
    s.run(G)
    s.run(F)
    content = s.portable("f").content
    theirs = content.made_by._replace(cpu="of-tomorrow", features="+avx,+of-tomorrow")
    other = dataclasses.replace(content, made_by=theirs, object=b"code of tomorrow")
    assert portable(read_content(other.encoded))(3) == 34
    with pytest.raises(LinkError, match="compiled for of-tomorrow, this processor is"):
        portable(dataclasses.replace(other, bitcode=b""))(3)


def test_variables_do_not_travel(s: Session) -> None:
    s.run(G)
    with pytest.raises(UsageError, match="@n is a variable: functions travel"):
        s.portable("n")
    with pytest.raises(UsageError, match="no cell defines it"):
        s.portable("nothing")


def test_what_is_no_packed_function_is_refused(s: Session) -> None:
    s.run(SQ)
    function, (version, name, digest, content) = s.portable("sq").__reduce__()
    assert function is arrive and version == VERSION
    for arguments, words in (
        ((version + 1, name, digest, content), f"form {VERSION + 1}, and form {VERSION} is known"),
        (("1", name, digest, content), "form '1'"),
        ((version, 5, digest, content), "it has no name"),
        ((version, name, None, content), "it has no name"),
        ((version, "other", digest, content), "'other' is another one"),
        ((version, name, digest, list(content)), "its code is no bytes"),
        ((version, name, digest, content[:-1]), "damaged on its way"),
        ((version, name, "0" * 32, content), "damaged on its way"),
        ((version, name, digest_of(b""), b""), "no function that a session has packed"),
    ):
        with pytest.raises(JitError, match=words):
            arrive(*arguments)


def test_damage_is_refused_at_every_byte(s: Session) -> None:
    """With its digest made anew, as somebody would who wants it to be taken: it is refused when it
    is read or when it is linked, and never anything but a JitError."""
    s.run(SQ)
    _, (version, name, _, content) = s.portable("sq").__reduce__()
    rng = random.Random(5)
    for _ in range(300):
        data = bytearray(content)
        for _ in range(rng.choice((1, 1, 8))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        cut = bytes(data[: rng.randrange(len(data))]) if rng.random() < 0.3 else bytes(data)
        if cut != content:
            with pytest.raises(JitError):
                arrive(version, name, digest_of(cut), cut)


def test_hostile_shapes_are_refused(s: Session) -> None:
    s.run(SQ)
    content = s.portable("sq").content
    for change in (
        {"name": 5}, {"signature": ("i64 (i64)", "", "", "")}, {"signature": ("no type",) * 5},
        {"needs": ["a"]}, {"needs": {"a": 1}}, {"made_by": ("x",)}, {"entry": None},
    ):  # fmt: skip
        bad = dataclasses.replace(content, **change)
        with pytest.raises(JitError, match="no function that a session has packed"):
            read_content(bad.encoded)
    for code in (b"", b"\x7fELF", b"\x7fELF" + bytes(200), content.object[:-100]):
        with pytest.raises(JitError):
            portable(dataclasses.replace(content, object=code))(1)
    with pytest.raises(JitError):
        portable(dataclasses.replace(content, entry="not.there"))(1)


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_process_pools(how: str, script: Callable[[str], str]) -> None:
    out = script(
        f"""
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor
        from jitkernel import Session
        if __name__ == "__main__":
            with Session(capacity=64 << 20) as s:
                s.run({SQ!r})
                s.call("sq", 1)
                context = multiprocessing.get_context({how!r})
                with ProcessPoolExecutor(2, mp_context=context) as pool:
                    print(list(pool.map(s["sq"], range(100))) == [i * i for i in range(100)])
                print(s.call("sq", 12))
        """
    )
    assert out.split() == ["True", "144"]


def test_joblib(script: Callable[[str], str]) -> None:
    pytest.importorskip("joblib")
    out = script(
        f"""
        from joblib import Parallel, delayed
        from jitkernel import Session
        if __name__ == "__main__":
            with Session(capacity=64 << 20) as s:
                s.run({SQ!r})
                print(Parallel(2)(delayed(s["sq"])(i) for i in range(20))[-1])
        """
    )
    assert out.split() == ["361"]


def test_a_forked_child_may_not_use_its_parents_session(script: Callable[[str], str]) -> None:
    """It is told so, whatever it tries, and the parent's goes on; it may have one of its own."""
    out = script(
        f"""
        import os
        from jitkernel import Session
        from jitkernel.errors import JitError
        with Session(capacity=64 << 20) as s:
            s.run({SQ!r})
            s.run("@n = global i32 4")
            sq, n, away = s["sq"], s["n"], s.portable("sq")
            def store(): n.value = 5
            child = os.fork()
            if not child:
                code = 1
                try:
                    for attempt in (lambda: s.call("sq", 1), lambda: sq(1), lambda: n.value, store,
                                    lambda: s.cells, lambda: s.run("@sq(2)"), lambda: s.undo()):
                        try:
                            attempt()
                            print("done", flush=True)
                        except JitError as error:
                            print("fork of the one that the session" in str(error), flush=True)
                    s.close()
                    print(away(4), flush=True)
                    with Session(capacity=64 << 20) as own:
                        own.run({SQ!r})
                        print(own.call("sq", 5), flush=True)
                    code = 0
                finally:
                    os._exit(code)
            print(os.waitpid(child, 0)[1], s.call("sq", 3), n.value, sq(6))
        """
    )
    assert out.split() == ["True"] * 7 + ["16", "25", "0", "9", "4", "36"]
