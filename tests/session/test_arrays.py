"""Arrays in memory that Python and the program share, copies of others, and globals as arrays."""

from __future__ import annotations

import array
import ctypes
import gc
import itertools
import math
import os
import signal
import warnings
from fractions import Fraction
from pathlib import Path

import pytest

from jitkernel import Session
from jitkernel.arena.shared import SharedMemory, find
from jitkernel.errors import Fault, JitError, UsageError
from tests.processes import python

np = pytest.importorskip("numpy")

CELL = """
define double @sum(ptr %p, i64 %n) {
entry:
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %t = phi double [ 0.0, %entry ], [ %u, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %end
body:
  %q = getelementptr double, ptr %p, i64 %i
  %v = load double, ptr %q
  %u = fadd double %t, %v
  %next = add i64 %i, 1
  br label %test
end:
  ret double %t
}
define void @put(ptr %p, i64 %i, double %v) {
  %q = getelementptr double, ptr %p, i64 %i
  store double %v, ptr %q
  ret void
}
define ptr @same(ptr %p) {
  ret ptr %p
}
@kept = global ptr null
@table = global [4 x [3 x double]] zeroinitializer
@words = global [20 x i16] zeroinitializer
@pairs = global [2 x { i32, double }] zeroinitializer
@fixed = constant [3 x i32] [i32 1, i32 2, i32 3]
"""


@pytest.fixture(scope="module")
def shared_session():
    with Session() as s:
        s.run(CELL)
        yield s


@pytest.fixture
def s(shared_session):
    yield shared_session
    shared_session.check()


def mapped(pid: int | str) -> int:
    return Path(f"/proc/{pid}/maps").read_text().count("jitkernel-array")


def faults(pid: int) -> int:
    """Page faults of a process that took no input (proc_pid_stat(5), minflt)."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


def test_no_page_of_an_array_that_is_shared_faults_in_the_program(s):
    b = s.share(np.ones(200 * 512))  # 200 pages
    s["put"](b, 0, 2.0)
    before = faults(s.inspect.executor[0])
    for page in range(200):
        s["put"](b, 512 * page, 2.0)
    assert faults(s.inspect.executor[0]) - before < 50
    assert b.sum() == b.size + 200


def test_of_an_array_that_is_zero_only_what_is_used_takes_memory(s):
    a = s.array(1 << 30, "u1")
    s["put"](a, 0, 1.0)
    assert os.fstat(find(a.ctypes.data).fd).st_blocks * 512 <= 1 << 20


def test_the_pages_of_an_array_go_with_it(s):
    b = s.share(np.ones(100 * 512))
    file = os.dup(find(b.ctypes.data).fd)
    try:
        assert os.fstat(file).st_blocks * 512 >= b.nbytes
        del b
        gc.collect()
        assert os.fstat(file).st_blocks == 0  # before the session does anything
    finally:
        os.close(file)


def test_the_program_and_python_have_an_array_at_one_address(s):
    a = s.array((10, 10))
    assert a.shape == (10, 10) and a.dtype == np.float64 and not a.any()
    assert s["same"](a) == a.ctypes.data == a.__array_interface__["data"][0]
    s["put"](a, 11, 2.5)
    assert a[1, 1] == 2.5
    a[0] = 1
    assert s["sum"](a, a.size) == 12.5


def test_a_part_is_its_own_address(s):
    a = s.array(10, "i4")
    assert s["same"](a[3:]) == a.ctypes.data + 12


@pytest.mark.parametrize("shape", [0, (0,), (3, 0), (), 1, (2, 3, 4)])
@pytest.mark.parametrize(
    "kind", ["u1", "i2", "f4", "c16", "?", "M8[s]", [("a", "i4"), ("b", "f8")]]
)
def test_shapes_and_kinds(s, shape, kind):
    a = s.array(shape, kind)
    assert a.shape == (shape if isinstance(shape, tuple) else (shape,)) and a.dtype == np.dtype(
        kind
    )
    assert s["same"](a) == a.ctypes.data or not a.size


def test_what_cannot_be_an_array(s):
    for shape, kind in [(-1, "f8"), ((2, -3), "f8"), (3, object), (1 << 60, "f8")]:
        with pytest.raises(JitError):
            s.array(shape, kind)
    for bad in ("3", 2.5, None, (2, "a"), (1.5,), ("",)):
        with pytest.raises(UsageError, match="shape"):
            s.array(bad)
    with pytest.raises(UsageError, match="elements"):
        s.array(3, "nonsense")
    assert s["sum"](s.array(3), 3) == 0


def test_share_copies_once(s):
    mine = np.arange(6.0).reshape(2, 3)
    given = s.share(mine)
    assert (given == mine).all() and given.shape == (2, 3)
    assert s.share(given) is given and s.share(given[1:]).base is not None
    s["put"](given, 0, 9.0)
    assert given[0, 0] == 9 and mine[0, 0] == 0
    assert (s.share(mine[:, ::2]) == mine[:, ::2]).all()


def test_warnings_are_told_of_the_lines_that_call(s):
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(2):
            s["put"](fixed, 1, 9.0)
        s.call("put", fixed, 1, 9.0)
    assert [w.filename for w in told] == [__file__] * 2
    assert told[1].lineno == told[0].lineno + 1


def _orders(shape, item="f8"):
    """Arrays of a shape in every order of their axes, reversed and with gaps."""
    for axes in itertools.permutations(range(len(shape))):
        sides = [shape[axis] for axis in axes]
        plain = np.arange(math.prod(shape), dtype=item).reshape(sides)
        turned = plain.transpose(np.argsort(axes))
        assert turned.shape == shape
        yield turned
        yield turned[::-1]
        yield np.repeat(turned, 2, axis=-1)[..., ::2]


@pytest.mark.parametrize("shape", [(4,), (3, 4), (1, 4), (3, 1), (2, 3, 4), (2, 1, 3), (0, 3)])
def test_a_function_sees_the_elements_in_the_order_of_their_indices_or_is_not_called(s, shape):
    """numpy says which arrays lie so; the others are refused, whichever way they come."""
    asked = []
    for mine in _orders(shape):
        wanted = mine.ravel().tolist()
        views = [mine, memoryview(mine), Column(mine)] if mine.size else [mine]
        for given in views:
            asked.append(mine.flags.c_contiguous)
            if mine.flags.c_contiguous:
                for number, value in enumerate(wanted):
                    assert s["sum"](given, number + 1) == sum(wanted[: number + 1]), value
            else:
                with pytest.raises(UsageError, match=r"numpy.ascontiguousarray\(a\)"):
                    s["sum"](given, len(wanted))
        right = np.ascontiguousarray(mine)
        assert s["sum"](right, len(wanted)) == sum(wanted)
        shared = s.share(mine)
        assert (shared == mine).all() and shared.flags.c_contiguous
        assert s["sum"](shared, 1) == (wanted[0] if wanted else 0)
    assert {True, False} == set(asked) or 0 in shape or len(set(asked)) == 1


class Column:
    """An object of another library's, with numpy's interface."""

    def __init__(self, array):
        self._array = array

    @property
    def __array_interface__(self):
        return self._array.__array_interface__

    def __setitem__(self, key, value):
        self._array[key] = value


def test_arrays_of_one_session_are_seen_by_another(s):
    a = s.array(4)
    with Session() as other:
        other.run(CELL)
        other["put"](a, 2, 7.0)
        assert s["sum"](a, 4) == 7
    assert a[2] == 7  # the other has ended


def test_an_array_outlives_its_session():
    with Session() as s:
        a = s.array(5)
        a[:] = 3
    assert a.sum() == 15
    b = a[2:]
    del a
    gc.collect()
    assert b.sum() == 9


def test_a_thousand_leave_nothing(s):
    gc.collect()
    s.call("same", None)
    pid = s.inspect.engine.executor.pid
    before = mapped("self"), mapped(pid), len(os.listdir("/proc/self/fd"))
    kept = [s.array(100) for _ in range(1000)]
    assert mapped(pid) == before[1] + 1000
    del kept
    gc.collect()
    s.call("same", None)
    s.call("same", None)  # behind what nobody waits for
    assert (mapped("self"), mapped(pid), len(os.listdir("/proc/self/fd"))) == before


def test_one_that_goes_after_the_program_has_ended_leaves_nothing(s):
    gc.collect()
    s.call("same", None)
    old = s.inspect.engine.executor.pid
    before = mapped("self"), mapped(old)
    gone, kept = s.array(3), s.array(3)
    os.kill(old, signal.SIGKILL)
    del gone
    gc.collect()
    s.inspect.engine.executor.tell("unmap", [])  # it need not be there
    assert s["sum"](kept, 3) == 0
    assert s.inspect.engine.executor.pid != old
    s.call("same", None)
    del kept
    gc.collect()
    s.call("same", None)
    s.call("same", None)  # behind what nobody waits for
    assert (mapped("self"), mapped(s.inspect.engine.executor.pid)) == before


def test_what_cannot_be_made_says_why_and_how_many_are_there():
    def said(size: int) -> str:
        with pytest.raises(JitError) as refused:
            SharedMemory(size)
        return str(refused.value)

    assert said(1 << 60).endswith("cannot be mapped: Cannot allocate memory")
    gc.collect()
    before = said(1 << 63)
    memory = SharedMemory(8)
    assert said(1 << 63) != before
    del memory
    assert said(1 << 63) == before


def test_arrays_are_there_after_a_crash(s):
    a = s.array(3)
    s["kept"].value = a
    with pytest.raises(Fault):
        s.run("load volatile i32, ptr null")
    a[:] = 1, 2, 3
    assert s["sum"](a, 3) == 6
    assert s["kept"].value == a.ctypes.data
    assert "byte 0 of an array of 24" in s.describe(a.ctypes.data)


def test_a_step_beyond_the_end_is_a_fault(s):
    a = s.array(512)
    with pytest.raises(Fault, match="byte 4096 of an array of 4096, behind its end"):
        s["put"](a, 512, 1.0)


def test_what_is_not_shared_is_copied_and_copied_back(s):
    mine = np.arange(10.0)
    assert s["sum"](mine, 10) == 45
    s["put"](mine, 3, -3.0)
    assert mine[3] == -3
    data = array.array("d", [1, 2, 3])
    s["put"](data, 1, 20.0)
    assert data[1] == 20
    raw = bytearray(16)
    s["put"](raw, 1, 1.0)
    assert memoryview(raw).cast("d")[1] == 1
    numbers = (ctypes.c_double * 3)(1, 2, 3)
    s["put"](numbers, 0, 5.0)
    assert numbers[0] == 5
    fixed = np.arange(3.0)
    fixed.flags.writeable = False
    with pytest.warns(UserWarning, match="is lost"):
        s["put"](fixed, 0, 9.0)
    assert fixed[0] == 0
    assert s["sum"](bytes(np.arange(3.0)), 3) == 3
    assert s["sum"](memoryview(bytes(np.arange(4.0))), 4) == 6


def test_parts_that_overlap_are_one(s):
    s.run(
        "define void @both(ptr %p, ptr %q) {\n  store double 1.0, ptr %p\n"
        "  %v = load double, ptr %q\n  %w = fadd double %v, 1.0\n  store double %w, ptr %q\n"
        "  ret void\n}"
    )
    a = np.zeros(4)
    s["both"](a[1:3], a[:2][1:])
    assert a.tolist() == [0, 2, 0, 0]
    s["both"](a, a)
    assert a[0] == 2


def test_copies_come_back_from_a_call_that_fails(s):
    s.run(
        "define void @half(ptr %p) {\n  store double 8.0, ptr %p\n"
        "  store volatile i32 0, ptr null\n  ret void\n}"
    )
    a = np.zeros(3)
    with pytest.raises(Fault):
        s["half"](a)
    assert a[0] == 8


def test_large_copies_are_told_once():
    with Session() as s:
        s.run(CELL)
        large = np.ones(1 << 18)
        with pytest.warns(UserWarning, match=r"session\.share"):
            s["sum"](large, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert s["sum"](large, 3) == 3


def test_what_cannot_be_passed(s):
    a = np.arange(12.0).reshape(3, 4)
    for bad, words in [
        (a[:, ::2], "one behind the other"),
        (a[::-1], "one behind the other"),
        (s.share(a)[:, 1], "one behind the other"),
        (np.array([object()]), "Python objects"),
        (3.5, "cannot be ptr"),
        ([1.0, 2.0], "cannot be ptr"),
    ]:
        with pytest.raises(UsageError, match=words):
            s["sum"](bad, 1)
    with pytest.raises(UsageError, match=r"session\.share"):
        s["kept"].value = a


class Objects(ctypes.Structure):
    _fields_ = (("a", ctypes.py_object), ("n", ctypes.c_int))


@pytest.mark.parametrize("kind", ["process", "inline"])
def test_bytes_that_do_not_tell_what_the_elements_are(kind):
    """Had the program written there, Python would have taken that for its objects."""
    masked = np.ma.masked_array(np.arange(20.0), np.arange(20) % 2)
    objects = np.zeros(2, [("a", "O"), ("b", "f8")])
    with Session(executor=kind) as s:
        s.run(f"{CELL}\n@many = global [20 x double] zeroinitializer\n@one = global double 0.0")
        for _ in range(2):  # a call of before has taught the way to go
            for bad, words in [
                (objects, "of Python objects"),
                (np.zeros(2, [("in", [("a", "O", 2)])]), "of Python objects"),
                (memoryview(objects), "Python objects"),
                ((ctypes.py_object * 2)(), "Python objects"),
                (ctypes.pointer(Objects()), "Python objects"),
                (masked, "masked"),
                (masked[:3], "masked"),
            ]:
                with pytest.raises(UsageError, match=rf"argument 1: .*{words}"):
                    s["same"](bad)
            for right in (masked.data, masked[::2].copy(), np.zeros(2, [("O", "i4")])):
                assert s["same"](right)
        if kind == "inline":
            with pytest.raises(ctypes.ArgumentError, match="of Python objects"):
                s["same"].ctypes(objects)
        for name, bad in [("many", masked), ("one", masked[1]), ("one", np.ma.masked)]:
            with pytest.raises(UsageError, match="masked"):
                s[name].value = bad
        s["many"].value = np.ma.masked_array(masked.data)
        s["one"].value = masked[2]
        assert sum(s["many"].value) == 190 and s["one"].value == 2


@pytest.mark.parametrize("kind", ["M8[s]", "m8[25us]", ">M8[D]", "U3", "G"])
def test_types_with_units_and_long_names(s, kind):
    a = np.zeros((4, 2), kind)
    assert s["same"](a)
    with pytest.raises(UsageError, match="one behind the other"):
        s["same"](a[::2])


def test_types_whose_bytes_lie_elsewhere(s):
    strings = getattr(np.dtypes, "StringDType", None)
    if strings is None:
        pytest.skip("this numpy has none")
    words = np.array(["a", "b"], strings())
    for given in (words, words[::-1]):
        with pytest.raises(UsageError, match="no meaning"):
            s["same"](given)


def test_other_arrays_by_their_protocols(s):
    class Interface:
        """Nothing but numpy's array interface."""

        def __init__(self, kept):
            self.kept = kept
            self.__array_interface__ = kept.__array_interface__

        def __setitem__(self, index, value):
            raise NotImplementedError

    class Pack:
        """Nothing but DLPack."""

        def __init__(self, kept):
            self.kept = kept

        def __setitem__(self, index, value):
            raise NotImplementedError

        def __dlpack__(self, **how):
            return self.kept.__dlpack__(**how)

        def __dlpack_device__(self):
            return self.kept.__dlpack_device__()

    class Far(Pack):
        def __dlpack_device__(self):
            return (2, 0)

    given = s.share(np.arange(4.0))
    assert s["same"](Pack(given)) == given.ctypes.data
    assert s["sum"](Pack(np.arange(4.0)), 4) == 6
    with pytest.raises(UsageError, match="main memory"):
        s["sum"](Far(given), 4)
    Interface.__array_interface__ = property(lambda self: self.kept.__array_interface__)
    other = Interface.__new__(Interface)
    other.kept = given
    assert s["same"](other) == given.ctypes.data


def test_globals_as_arrays(s):
    table = s["table"].array
    assert table.shape == (4, 3)
    table[2, 1] = 7
    assert s["table"].value[2][1] == 7
    assert s.run("@table").value is not None
    pairs = s["pairs"].array
    pairs["f0"] = 3, 4
    pairs["f1"][1] = 0.5
    assert s["pairs"].value == ((3, 0.0), (4, 0.5))
    with pytest.raises(ValueError, match="read-only"):
        s["fixed"].array[0] = 1
    assert s["fixed"].array.tolist() == [1, 2, 3]


def test_what_is_in_no_variable_s_memory_of_the_session_says_whose_it_is(s):
    s.run("@own = thread_local global i32 3\n@environ = external global ptr")
    with pytest.raises(UsageError, match=r"@own is each thread's own: session\.read\(0x"):
        print(s["own"].array)
    with pytest.raises(UsageError, match=r"@environ is a library's: session\.read\(0x"):
        print(s["environ"].array)


def test_values_in_bulk(s):
    s["table"].value = np.arange(12.0).reshape(4, 3)
    assert s["table"].value[3] == (9, 10, 11)
    s["table"].value = np.arange(12).reshape(4, 3)
    assert s["table"].value[1][0] == 3
    s["table"].value = [[1, 2, 3]] * 4
    assert s["table"].value[2] == (1, 2, 3)
    s["words"].value = range(20)
    assert s["words"].value == tuple(range(20))
    s["words"].value = np.full(20, 65535)
    assert s["words"].value == (-1,) * 20
    s["words"].value = [-5] * 20
    s["words"].value = array.array("h", range(20))
    assert s["words"].value[19] == 19
    for bad, words in [
        ([0] * 19 + [70000], "element 19: 70000"),
        (np.full(20, 70000), "element 0: 70000"),
        (np.full(20, 1.5), "element 0"),
        (np.zeros(3), "shape"),
        ([1] * 19, "20 elements"),
        ([1] * 19 + ["x"], "element 19"),
        ({1: 2}, "cannot be"),
    ]:
        with pytest.raises(UsageError, match=words):
            s["words"].value = bad
    assert s["words"].value[19] == 19
    s.run("@floats = global [20 x float] zeroinitializer")
    s["floats"].value = np.linspace(0, 1, 20)
    assert s["floats"].value[19] == 1
    s["floats"].value = [0.1] * 20
    assert s["floats"].value[0] == np.float32(0.1)
    s["floats"].value = np.full(20, np.inf)
    for bad in ([1e300] * 20, np.full(20, 1e300)):
        with pytest.raises(UsageError, match="beyond the largest"):
            s["floats"].value = bad


@pytest.mark.parametrize("many", [[True] * 20, [0.5] * 20, [1, 2.0] * 10])
def test_one_by_one_and_in_bulk_say_the_same(s, many):
    """What a long list may hold, a short one may."""
    s.run(
        "@short = global [2 x double] zeroinitializer\n@long = global [20 x double] zeroinitializer"
    )
    found = []
    for name, value in (("short", many[:2]), ("long", many)):
        try:
            s[name].value = value
            found.append(s[name].value[:2])
        except UsageError:
            found.append("refused")
    assert found[0] == found[1]


def test_scalars_of_numpy_and_ctypes(s):
    s.run(
        "define i64 @int(i32 %x) {\n  %r = sext i32 %x to i64\n  ret i64 %r\n}\n"
        "define double @real(double %x) {\n  ret double %x\n}\n"
        "define float @single(float %x) {\n  ret float %x\n}\n"
        "define i1 @bit(i1 %x) {\n  ret i1 %x\n}"
    )
    for five in (np.int8(5), np.uint64(5), np.int32(5), ctypes.c_short(5), ctypes.c_ubyte(5)):
        assert s["int"](five) == 5 and s["real"](five) == 5
    for half in (np.float16(0.5), np.float32(0.5), np.float64(0.5), np.longdouble(0.5)):
        assert s["real"](half) == 0.5 == s["single"](half)
    assert s["int"](np.array(5)) == 5 and s["real"](np.array(0.5)) == 0.5  # as scipy's results
    assert s["real"](ctypes.c_double(0.1)) == 0.1
    assert s["bit"](np.bool_(True)) is True
    for bad in (np.uint32(1 << 31), np.int64(1 << 40)):
        if int(bad) >= 1 << 32:
            with pytest.raises(UsageError, match="does not fit i32"):
                s["int"](bad)
    for name, bad in [
        ("int", np.float64(2)), ("int", 2.0), ("int", "2"), ("int", np.zeros(1)),
        ("real", Fraction(1, 3)), ("real", 1j), ("real", np.complex128(1)), ("real", None),
        ("real", np.longdouble(1) / 3), ("real", np.datetime64("2020-01-01")),
    ]:  # fmt: skip
        with pytest.raises(UsageError, match="cannot be"):
            s[name](bad)


def test_complex_numbers(s):
    s.run(
        "define double @im({ double, double } %z) {\n"
        "  %r = extractvalue { double, double } %z, 1\n  ret double %r\n}"
    )
    assert s["im"](2 + 3j) == 3 == s["im"](np.complex64(2 + 3j))


def test_read_and_write_memory(s):
    a = s.share(np.arange(4, dtype="i4"))
    assert np.frombuffer(s.read(a.ctypes.data, 16), "i4").tolist() == [0, 1, 2, 3]
    s.write(a.ctypes.data, b"\x07\0\0\0")
    assert a[0] == 7
    at = s["words"].address
    s.write(at, b"\x01\x02")
    assert s.read(at, 2) == b"\x01\x02"
    block = int(s.run("call ptr @malloc(i64 16)").value)
    s.write(block, b"0123456789abcdef")
    assert s.read(block, 16) == b"0123456789abcdef"
    assert s.read(block, 0) == b""
    for bad in (0, 8, s["sum"].address, s["fixed"].address):
        with pytest.raises(UsageError):
            s.write(bad, b"x")
    with pytest.raises(UsageError, match="no 4 bytes"):
        s.read(16, 4)


def test_memory_is_found_by_its_addresses():
    one, two = SharedMemory(10), SharedMemory(5000)
    assert find(one.start) is one is find(one.start + 10)
    assert find(one.start + 11) is None is find(one.start - 1)
    assert find(two.start + 4999) is two
    start = one.start
    del one
    assert find(start) is None
    assert find(two.start) is two


def test_small_arrays_in_a_row_lie_at_different_places_of_their_pages(s):
    arrays = [s.array(32) for _ in range(20)]
    lines = [a.ctypes.data % 4096 // 64 for a in arrays]
    assert all(a.ctypes.data % 64 == 0 for a in arrays)
    for first in range(len(lines) - 6):
        places = [line + i for line in lines[first : first + 7] for i in range(256 // 64)]
        assert len(set(places)) == len(places)


@pytest.mark.parametrize("size", [0, 1, 64, 4032, 4033, 4095, 4096, 4097, 8128, 12288, 100_000])
def test_memory_takes_no_more_pages_than_it_needs(size):
    for memory in [SharedMemory(size) for _ in range(70)]:
        assert memory.base % 4096 == 0 == memory.start % 64
        assert memory.room == max(-(-size // 4096), 1) * 4096
        assert memory.base <= memory.start <= memory.start + size <= memory.base + memory.room
        assert size % 4096 or not size or memory.start == memory.base
        assert find(memory.start) is memory is find(memory.start + size)


def test_numpy_is_not_imported_unless_it_is_asked_for(tmp_path):
    code = (
        "import sys\nfrom jitkernel import Session\nwith Session() as s:\n"
        " s.run('define ptr @f(ptr %p) {\\n ret ptr %p\\n}')\n s['f'](bytearray(8))\n"
        "assert 'numpy' not in sys.modules"
    )
    python(code, cwd=tmp_path)


LIMITED = """
import resource, sys
from jitkernel import Session
from jitkernel.errors import JitError
from tests.processes import python
hard = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
with Session() as s:
    s.run("define i32 @one() { ret i32 1 }")
    kept, _ = [], s.call("one")  # its process is there
    try:
        for _ in range(500):
            kept.append(s.array(10))
    except JitError as error:
        print(error)
    print(len(kept) > 100, len(kept) == 500, s.call("one"))
"""


@pytest.mark.parametrize("hard", [1000, 200])
def test_more_arrays_than_descriptors(hard):
    """Each array has a descriptor, and a process may have few until it asks for more."""
    lines = python(LIMITED, str(hard)).splitlines()
    if hard == 1000:
        assert lines == ["True True 1"]
    else:
        assert "Too many open files" in lines[0] and "`ulimit -n`" in lines[0]
        assert lines[1] == "True False 1"


OUT = """
declare i64 @strlen(ptr)
define i64 @length(ptr %p) {
  %n = call i64 @strlen(ptr %p)
  ret i64 %n
}
define void @out(ptr %i, ptr %d) {
  store i32 7, ptr %i
  store double 2.5, ptr %d
  ret void
}
define i64 @same(ptr %p) {
  %n = ptrtoint ptr %p to i64
  ret i64 %n
}
define i32 @one_more(i32 %x) {
  %r = add i32 %x, 1
  ret i32 %r
}
"""


def test_text_and_bytes_end_with_a_nul(s):
    s.run(OUT)
    for text in ("abc", b"abc", ctypes.c_char_p(b"abc"), ctypes.create_string_buffer(b"abc")):
        assert s["length"](text) == 3
    assert s["length"]("") == s["length"](b"") == 0
    assert s["length"]("x" * 4096) == s["length"](b"x" * 4096) == 4096


@pytest.mark.parametrize("given", [lambda thing: thing, ctypes.pointer])
def test_numbers_of_ctypes_are_where_a_function_puts_its_results(s, given):
    s.run(OUT)
    i, d = ctypes.c_int(), ctypes.c_double()
    s["out"](given(i), given(d))
    assert (i.value, d.value) == (7, 2.5)


def test_addresses_of_ctypes_are_what_they_hold(s):
    s.run(OUT)
    assert s["same"](ctypes.c_void_p()) == s["same"](ctypes.POINTER(ctypes.c_int)()) == 0
    assert s["same"](ctypes.c_void_p(5)) == 5
    assert s["one_more"](ctypes.c_int(3)) == 4


@pytest.mark.parametrize(
    ("thing", "remedy"),
    [
        ([1.0], "numpy.array"), (range(3), "numpy.array"), (len, "export_python"),
        (ctypes.byref(ctypes.c_int()), "without byref"),
    ],
)  # fmt: skip
def test_what_is_no_pointer_is_refused_with_what_to_give(s, thing, remedy):
    s.run(OUT)
    with pytest.raises(UsageError, match=remedy):
        s["same"](thing)


def test_arrays_of_characters_take_text(s):
    s.run("@buffer = global [8 x i8] zeroinitializer")
    buffer = s["buffer"]
    for text in ("abc", b"abc", "grüß", b"12345678", b"a\0b", ""):
        buffer.value = text
        data = text.encode() if isinstance(text, str) else text
        assert s.read(buffer.address, 8) == data.ljust(8, b"\0")
    with pytest.raises(UsageError, match="has 8 bytes, and 9 are given"):
        buffer.value = "123456789"
    assert s.read(buffer.address, 8) == bytes(8)
