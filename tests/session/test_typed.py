"""What a checker of types knows of the public names: this file is checked as strictly as can be.

`assert_type` does nothing when it runs; mypy says where it is wrong.
"""

from __future__ import annotations

import sys
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pytest
from numpy.typing import NDArray

from jitkernel import Session
from jitkernel.errors import UnknownName, UsageError
from jitkernel.portable.export import Exported
from jitkernel.portable.travelling import PortableFunction
from jitkernel.session import Cell, FunctionHandle, Result, VariableHandle
from jitkernel.session.handles import Symbol
from jitkernel.session.keywords import Given
from jitkernel.settings import SessionSettings

ROOT = Path(__file__).parents[2]


def test_main_results_have_types(s: Session, tmp_path: Path) -> None:
    result = assert_type(
        s.run("define i32 @sq(i32 %x) {\n  ret i32 %x\n}\n@n = global i32 5"), Result
    )
    assert_type(result.cell, Cell | None)
    assert_type(s.cells, list[Cell])
    assert_type(s.symbols["sq"], Symbol)
    assert_type(s.symbols.get("sq"), Symbol | None)

    sq: FunctionHandle = s["sq"]
    count: VariableHandle = s["n"]
    assert s["sq"](7) == 7 and sq(7) == 7
    s["n"].value += 1
    assert count.value == 6
    assert_type(s["n"].array, NDArray[Any])
    assert_type(s["sq"].arrays("int"), FunctionHandle)

    assert_type(s.array((2, 3)), NDArray[np.float64])
    assert_type(s.array(3, np.int32), NDArray[np.int32])
    assert_type(s.array(3, "i4"), NDArray[Any])
    given = np.zeros(3, np.int16)
    assert_type(s.share(given).dtype, np.dtype[np.int16])
    assert_type(s.share([1, 2]), NDArray[Any])
    assert_type(s.read(count.address, 4), bytes)

    assert_type(s.export(["sq"], tmp_path / "sq.o"), Exported)
    assert_type(s.portable("sq"), PortableFunction)
    assert_type(s.export_python("twice", lambda x: 2 * x, "i32 (i32)"), FunctionHandle)

    @s.export_python("half", type="i32 (i32)")
    def half(x: int) -> int:
        return x // 2

    assert assert_type(half(4), int) == 2
    with pytest.raises(UnknownName):
        s["nothing"]
    with pytest.raises(UsageError, match="no setting 'capcity'"):
        Session(capcity=1 << 20)  # type: ignore[call-arg]


def test_settings_as_keywords_are_those_that_there_are() -> None:
    names = {f.name: f.type for f in fields(SessionSettings)}
    assert set(Given.__annotations__) == set(names)
    for name, type in Given.__annotations__.items():
        assert (
            name in ("store_path", "symbol_folder", "executor", "context")
            or type.__forward_arg__ == names[name]
        )


def test_the_keywords_are_written_out() -> None:
    from tools.make_keywords import KEYWORDS, keywords

    assert KEYWORDS.read_text() == keywords(), "run `python tools/make_keywords.py`"


def test_the_package_says_that_it_has_types() -> None:
    assert (files("jitkernel") / "py.typed").is_file()


@pytest.mark.slow  # `make lint` checks this file too, less strictly
def test_this_file_is_right_for_mypy(tmp_path: Path) -> None:
    import subprocess

    copy = tmp_path / "typed.py"
    copy.write_text(Path(__file__).read_text())
    # Errors of the package are its own, as where it is installed.
    mypy = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file="]
    mypy += [f"--cache-dir={tmp_path}", str(copy)]
    done = subprocess.run(mypy, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.startswith("Success"), done.stdout + done.stderr
