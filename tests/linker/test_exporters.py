"""Which library has a name that nobody defines."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from jitkernel import Session, errors
from jitkernel.linker.exporters import exporter, exports

sys.path.insert(0, str(Path(__file__).parents[1] / "linker"))
from toolchain import needs, tool

SOURCE = "int planet_count = 9; int planet_nearest(int x) { return x; }\n" + "".join(
    f"int planet_{n}(void) {{ return {n}; }}\n" for n in range(40)
)


def library(path: Path, source: str = SOURCE) -> Path:
    source += (
        "static int planet_own(void) { return 2; } int planet_use(void) { return planet_own(); }"
    )
    source += "extern int planet_missing(void) __attribute__((weak)); int planet_far(void) { return planet_missing(); }"
    tool("gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path), data=source.encode())
    return path


@needs("gcc")
def test_what_a_library_defines_is_found_by_its_table(tmp_path: Path) -> None:
    path = str(library(tmp_path / "libplanet.so"))
    every = ["planet_count", "planet_nearest", "planet_use", *(f"planet_{n}" for n in range(40))]
    assert all(exports(path, name) for name in every)
    none = ["planet_own", "planet_missing", "printf", "planet_40", "planet", ""]
    assert not any(exports(path, name) for name in none)


@needs("gcc")
def test_the_library_that_is_made_for_linking_comes_first(tmp_path: Path) -> None:
    where = [str(tmp_path)]
    library(tmp_path / "libmoon.so.3")
    assert exporter("planet_nearest", where) == "libmoon.so.3"
    library(tmp_path / "libaaa.so")
    assert exporter("planet_nearest", where) == "-laaa"
    library(tmp_path / "libplanet2.so", SOURCE + "int planet_more = 5;")  # as it is called
    assert exporter("planet_nearest", where) == "-lplanet2"
    assert exporter("planet_unknown", where) == "" and exporter("pl", where) == ""


@needs("gcc")
def test_a_linkers_script_stands_for_what_it_names(tmp_path: Path) -> None:
    library(tmp_path / "libplanet.so.1")
    (tmp_path / "libplanet.so").write_text("INPUT ( libplanet.so.1 )")
    assert exporter("planet_use", [str(tmp_path)]) == "-lplanet"


@needs("gcc")
def test_damaged_libraries_have_nothing(tmp_path: Path) -> None:
    path = library(tmp_path / "libplanet.so")
    data = path.read_bytes()
    for size in range(0, len(data), 97):
        path.write_bytes(data[:size])
        exports(str(path), "planet_use")
    for at in (*range(64), *range(len(data) - 2048, len(data), 5)):
        path.write_bytes(data[:at] + b"\xff\xff\xff" + data[at + 3 :])
        exports(str(path), "planet_use")
    path.write_bytes(b"")
    assert not exports(str(path), "planet_use") and not exports(str(tmp_path), "planet_use")
    assert not exports(str(tmp_path / "none"), "planet_use")


@needs("gcc")
@pytest.mark.parametrize(
    ("cell", "kind", "words", "value"),
    [
        (
            "declare i32 @planet_nearest(i32)\n%v = call i32 @planet_nearest(i32 4)",
            errors.UndefinedSymbol, "", 4,
        ),
        (
            "@planet_count = external global i32\n%v = load i32, ptr @planet_count",
            errors.LinkError, "reads @planet_count, ", 9,
        ),
    ],
)  # fmt: skip
def test_what_nobody_defines_and_a_library_has_is_told_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    cell: str, kind: type[Exception], words: str, value: int,
) -> None:  # fmt: skip
    library(tmp_path / "libplanet.so")
    monkeypatch.setenv("LIBRARY_PATH", str(tmp_path))
    with Session(capacity=64 << 20, spare=False) as s:
        for _ in range(2):
            with pytest.raises(kind) as raised:
                s.run(cell)
            told = f"{words}which nobody defines; a library has it: %lib -lplanet"
            assert told in str(raised.value)
        s.load("-lplanet")
        assert s.run(cell).value == value
