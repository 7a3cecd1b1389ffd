"""C cells with every clang that the PATH has, from the oldest that is taken on."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from jitkernel import Session
from jitkernel.errors import CompileError, UsageError
from jitkernel.languages.c.clang import OLDEST, find_clang


def there():
    """Names of clangs on the PATH, one for each version."""
    found = {}
    for name in (*(f"clang-{number}" for number in range(OLDEST, OLDEST + 12)), "clang"):
        if shutil.which(name):
            said = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
            version = re.search(r"clang version (\d+)", said)
            if version and int(version[1]) >= OLDEST:
                found.setdefault(version[1], name)
    return list(found.values())


@pytest.fixture(
    params=there() or [pytest.param("", marks=pytest.mark.skip("no clang on the PATH"))]
)
def clang(request):
    return request.param


def test_cells_change_values_show_and_faults_have_lines(clang):
    with Session(clang=clang) as s:
        assert s.run("(__clang_major__ >= 19) * 2", "c").text == "(int) 2"
        s.run("#include <stdio.h>\n#include <math.h>\n#define SIDE 3\nstruct pt { int x; };", "c")
        s.run("int norm(struct pt p) { return p.x * SIDE; }\nstruct pt p = {2};", "c")
        assert s.run("norm(p)", "c").text == "(int) 6"
        s.run("#define SIDE 4", "c")
        assert s.run("norm(p)", "c").text == "(int) 8"
        s.run("struct pt { double y; int x; };", "c")
        assert s.run("norm((struct pt){.x = 5})", "c").text == "(int) 20"
        assert s.run('printf("%.1f\\n", sqrt(norm((struct pt){.x = 4})));', "c").stdout == "4.0\n"
        s.run("_Thread_local int mine = 3;\nstruct { unsigned bit : 3; } b = {5};", "c")
        assert s.run("mine + b.bit", "c").text == "(int) 8"
        assert s.run("b.bit", "c").text == "(unsigned int) 5"
        assert s.run("int a[3] = {1, 2, 3}; a", "c").text == "(int[3]) {1, 2, 3}"
        s.run("int at(int *p) {\n  return 1 +\n    *p;\n}", "c")
        with pytest.raises(Exception, match=r"line 3: *\*p;"):
            s.run("at(0)", "c")
        with pytest.raises(CompileError, match="line 1, column 5"):
            s.run("1 + q", "c")
        s.undo()
        s.check()


def test_a_name_is_looked_up_on_the_path(tmp_path, monkeypatch):
    program = tmp_path / "clang-of-mine"
    program.write_text(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'clang version 19.1.7'; "
        "else echo /resources; fi\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_clang("clang-of-mine").program == (str(program), "-cc1")
    with pytest.raises(UsageError, match="clang-of-nobody does not answer as a clang does"):
        find_clang("clang-of-nobody")
    program.write_text("#!/bin/sh\necho clang version 14.0.6\n")
    find_clang.cache_clear()
    with pytest.raises(UsageError, match=r"no clang from 19 on \(it says clang version 14\)"):
        find_clang("clang-of-mine")
    find_clang.cache_clear()
