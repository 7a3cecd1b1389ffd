"""The objects that lie beside the runtime's text: its own, and the common thunks'."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from jitkernel import Session
from jitkernel.executor import runtime
from jitkernel.executor.runtime import built, built_runtime

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not (ROOT / "tools").exists(), reason="the tools are not installed")
def test_they_are_what_the_compiler_makes_of_their_texts_today() -> None:
    spec = importlib.util.spec_from_file_location("make", ROOT / "tools" / "make_runtime.py")
    assert spec and spec.loader
    path = list(sys.path)
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    sys.path[:] = path
    found = {name: built(name, checksum) for name, (checksum, _) in make.requests().items()}
    assert len(found) == 5 and all(found.values()), "run `python tools/make_runtime.py`"
    assert found == make.make()[0]


@pytest.mark.parametrize("damage", ["another text", "cut", "changed", "no facts", "no object"])
def test_what_is_not_as_it_was_written_is_compiled(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(runtime._BESIDE, tmp_path / "native")
    monkeypatch.setattr(runtime, "_BESIDE", f"{tmp_path}/native/")
    facts, code = tmp_path / "native/runtime.json", tmp_path / "native/runtime.o"
    if damage == "another text":
        with open(tmp_path / "native/base.ll", "a", encoding="ascii") as file:
            file.write("\ndefine i32 @jk_another() {\n  ret i32 7\n}\n")
    elif damage == "cut":
        code.write_bytes(code.read_bytes()[:-100])
    elif damage == "changed":
        data = bytearray(code.read_bytes())
        data[len(data) // 2] ^= 1
        code.write_bytes(data)
    elif damage == "no facts":
        facts.write_text("[]")
    else:
        code.unlink()
    assert built_runtime() == b""
    with Session(capacity=16 << 20, spare=False) as s:
        assert s.run("define i32 @f() {\n  ret i32 7\n}\n@f()").value == 7
