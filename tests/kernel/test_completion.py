"""TAB and shift-TAB: what is offered, where, and what is said about it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.kernel.conftest import Kernel


@pytest.fixture(scope="module", autouse=True)
def defined(kernel: Kernel) -> None:
    kernel.ok(
        "%pt = type { i32, i32 }\n@numbers = global [3 x i32] [i32 1, i32 2, i32 3]\n"
        '@"a b" = global i8 7\n'
        "define i32 @number_of(ptr %p) {\n  %v = load i32, ptr %p\n  ret i32 %v\n}\n"
        "define i32 @user(%pt %v) {\n  %n = call i32 @number_of(ptr @numbers)\n  ret i32 %n\n}"
    )


def complete(kernel: Kernel, code: str, position: int | None = None) -> dict:
    position = len(code) if position is None else position
    identity = kernel.client.complete(code, position)
    reply = kernel.reply_to(identity)
    kernel.iopub_of(identity)
    assert reply["status"] == "ok"
    return reply


def inserted(reply: dict, code: str) -> set[str]:
    """The cell after each completion."""
    start, stop = reply["cursor_start"], reply["cursor_end"]
    return {code[:start] + match + code[stop:] for match in reply["matches"]}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("@number", {"@numbers", "@number_of"}),
        ("%x = call i32 @number_", {"%x = call i32 @number_of"}),
        ("@number_of(@num", {"@number_of(@numbers", "@number_of(@number_of"}),
        ('@"a', {'@"a b"'}),
        ("%evict @number_", {"%evict @number_of"}),
        ("%evict number_", {"%evict number_of"}),
        ("%evict --ca", {"%evict --cascade"}),
        ("%timeit @number_", {"%timeit @number_of"}),
        ("%timeit @number_of(@number_", {"%timeit @number_of(@number_of"}),
        ("%config Compiler.opt", {"%config Compiler.opt_level"}),
        ("%help evi", {"%help evict"}),
        ("%asm --syn", {"%asm --syntax"}),
        ("%arena ro", {"%arena rodata"}),
        ("@sqr", {"@sqrt", "@sqrtf"}),
        ("  getelem", {"  getelementptr"}),
        ("define i32 @f(i32 %alpha) {\n  %alphabet = add i32 %al", None),
    ],
)
def test_matches(kernel: Kernel, code: str, expected: set | None) -> None:
    found = inserted(complete(kernel, code), code)
    if expected is None:
        assert {code + "pha"} <= found
    else:
        assert found == expected


def test_types_come_with_the_matches(kernel: Kernel) -> None:
    reply = complete(kernel, "@number_")
    (entry,) = reply["metadata"]["_jupyter_types_experimental"]
    assert entry["text"] == "@number_of"
    assert entry["type"] == "function"
    assert entry["signature"] == "i32 (ptr)"
    assert (entry["start"], entry["end"]) == (0, 8)


def test_names_of_this_cell(kernel: Kernel) -> None:
    code = "define void @fresh_one() {\n  ret void\n}\n@fre"
    assert "@fresh_one" in complete(kernel, code)["matches"]


def test_named_types(kernel: Kernel) -> None:
    assert "%pt" in complete(kernel, "%x = alloca %p")["matches"]


def test_line_and_cell_magics(kernel: Kernel) -> None:
    assert {"%time", "%timeit", "%%time", "%%timeit"} <= set(complete(kernel, "%tim")["matches"])
    assert set(complete(kernel, "%%tim")["matches"]) == {"%%time", "%%timeit"}
    # A cell magic is of use on the first line only.
    assert "%%time" not in complete(kernel, "@number_of(null)\n%tim")["matches"]


def test_positions_are_in_characters(kernel: Kernel) -> None:
    code = "; ünïcödé 𝄞\n@number_"
    reply = complete(kernel, code)
    assert reply["cursor_start"] == code.index("@")
    assert inserted(reply, code) == {code + "of"}


def test_files(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "program.ll").touch()
    assert complete(kernel, f"%run {tmp_path}/pro")["matches"] == [f"{tmp_path}/program.ll"]
    assert complete(kernel, f"!cat {tmp_path}/pro")["matches"] == [f"{tmp_path}/program.ll"]


@pytest.mark.parametrize(
    "code", ["", "@", "%", "!", "(", '"', "@\x00", "%" * 2000, "\ud7ff\U0001f600"]
)
def test_odd_places(kernel: Kernel, code: str) -> None:
    for position in {0, len(code) // 2, len(code), len(code) + 5}:
        complete(kernel, code, position)


def test_it_is_quick(kernel: Kernel) -> None:
    start = time.monotonic()
    for _ in range(20):
        complete(kernel, "@")
    assert (time.monotonic() - start) / 20 < 0.1


def inspect(kernel: Kernel, code: str, position: int | None = None, level: int = 0) -> dict:
    position = len(code) if position is None else position
    identity = kernel.client.inspect(code, position, detail_level=level)
    reply = kernel.reply_to(identity)
    kernel.iopub_of(identity)
    assert reply["status"] == "ok"
    return reply


@pytest.mark.parametrize(
    ("code", "position", "words"),
    [
        ("@number_of(null)", 3, ["function i32 (ptr)", "cell", "bytes", "used by", "load i32"]),
        ("@number_of(nul", None, ["function i32 (ptr)"]),
        ("@numbers", 4, ["[3 x i32]", "[i32 1, i32 2, i32 3]"]),
        ('@"a b"', 2, ["i8 7"]),
        ("%evict 3", 2, ["usage: %evict"]),
        ("  %x = getelementptr i8, ptr null, i64 1", 10, ["getelementptr", "address"]),
        ("@puts(", 2, ["i32 @puts(ptr)"]),
        ("%v = alloca %pt", 14, ["{ i32, i32 }"]),
    ],
)
def test_inspection(kernel: Kernel, code: str, position: int | None, words: list[str]) -> None:
    reply = inspect(kernel, code, position)
    assert reply["found"]
    text = reply["data"]["text/plain"]
    for word in words:
        assert word in text
    assert reply["data"]["text/html"]


def test_more_detail(kernel: Kernel) -> None:
    assert "mov" in inspect(kernel, "@number_of", level=1)["data"]["text/plain"]


@pytest.mark.parametrize("code", ["", "@nothing_here", "   ", "12", "@", "\x00"])
def test_nothing_known(kernel: Kernel, code: str) -> None:
    assert not inspect(kernel, code)["found"]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("@f(1)", "complete"),
        ("define void @f() {", "incomplete"),
        ("sq(7)", "invalid"),
        ("%%time", "incomplete"),
        ("%%time\n@f()\n\n", "complete"),
        ("", "complete"),
    ],
)
def test_is_complete(kernel: Kernel, code: str, status: str) -> None:
    identity = kernel.client.is_complete(code)
    reply = kernel.reply_to(identity)
    kernel.iopub_of(identity)
    assert reply["status"] == status
    assert ("indent" in reply) == (status == "incomplete")
