"""What a session says where its surroundings fail it: a limit of the system's, a folder that was
removed, a callback that closes it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jitkernel import Session
from jitkernel.errors import JitError
from tests.processes import python


def test_too_few_files_are_told_and_more_of_them_help() -> None:
    said = python(
        """
        import resource
        from jitkernel import Session
        from jitkernel.errors import JitError

        number, more = resource.RLIMIT_NOFILE, (512, 512)
        for few in (8, 9, 10, 12, 14, 17, 19, 21, 24):
            session = None
            resource.setrlimit(number, (few, 512))
            try:
                session = Session(capacity=64 << 20)
                session.run("%v = add i32 1, 2")
                print("well")
            except JitError as error:
                print(error)
            finally:
                resource.setrlimit(number, more)
            if session is not None:
                assert session.run("%v = add i32 1, 2").value == 3
                session.close()
        """
    ).splitlines()
    assert len(said) == 9 and all("oo many open files" in s or "ulimit -n" in s for s in said[:5])


def test_whatever_is_asked_first_of_a_session_tells_what_it_ran_out_of() -> None:
    said = python(
        """
        import os, resource
        from jitkernel import Session
        from jitkernel.errors import JitError

        number, asked = resource.RLIMIT_NOFILE, ("s.symbols", "s.cells", "s.memory()", "'f' in s")
        with Session(capacity=64 << 20) as s:  # what it needs is imported
            for each in asked:
                eval(each)
        s = Session(capacity=64 << 20)
        more = resource.getrlimit(number)
        resource.setrlimit(number, (max(map(int, os.listdir("/proc/self/fd"))), more[1]))
        for each in asked:
            try:
                eval(each)
            except JitError as error:
                print(error)
        resource.setrlimit(number, more)
        assert s.run("%v = add i32 1, 2").value == 3
        s.check()
        """
    )
    assert said.count("`ulimit -n` allows more") == said.count("\n") == 4


def test_an_inline_session_without_addresses_says_what_to_do() -> None:
    said = python(
        """
        import resource
        from jitkernel import Session
        from jitkernel.errors import JitError

        resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))
        try:
            Session(executor="inline")
        except JitError as error:
            print(error)
        """
    )
    assert "1024 MB" in said and "capacity=64 << 20" in said and said.count("\n") == 1


def test_files_that_may_not_grow_are_told() -> None:
    said = python(
        """
        import resource
        from jitkernel import Session
        from jitkernel.errors import JitError

        resource.setrlimit(resource.RLIMIT_FSIZE, (10240, 10240))
        try:
            Session()
        except JitError as error:
            print(error)
        """
    )
    assert "`ulimit -f` allows more" in said and said.count("\n") == 1


def test_cells_run_where_the_folder_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ziglang")
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with Session(capacity=64 << 20) as s:
        s.run("int x = 3;", "c")
        os.rmdir(folder)
        assert s.run("#include <stdio.h>\nx + 1", "c").value == 4
        with pytest.raises(JitError, match=r"^line 1, column 10: 'mine.h' file not found"):
            s.run('#include "mine.h"', "c")
        with pytest.raises(JitError, match=r"^\./mine\.so cannot be loaded"):
            s.load("./mine.so")
        with pytest.raises(JitError, match=r"^mine\.o: No such file"):
            s.link("mine.o")
        with pytest.raises(JitError, match="null pointer"):
            s.run("*(int *)0", "c")
        s.respawn()
        assert s.run("x", "c").value == 3
    with Session(capacity=64 << 20) as s:
        assert s.run("int y = 4;\ny", "c").value == 4


def test_a_callback_that_closes_its_session_ends_the_call() -> None:
    s = Session(capacity=64 << 20, spare=False)

    @s.export_python("close", type="i32 (i32)")
    def close(n: int) -> int:
        s.close()
        return n

    with pytest.raises(JitError, match="closed while it ran a call"):
        s.run("@close(1)")
    with pytest.raises(JitError, match="this session is closed"):
        s.run("@close(1)")


def test_a_callback_of_code_in_this_process_does_not_close_its_session() -> None:
    with Session(capacity=64 << 20, spare=False, executor="inline") as s:

        @s.export_python("close", type="i32 (i32)")
        def close(n: int) -> int:
            s.close()
            return n

        with pytest.raises(JitError, match="close it when that has ended"):
            s.run("@close(1)")
        assert s.run("%v = add i32 1, 2").value == 3
