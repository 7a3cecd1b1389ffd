"""Headers of the user's own, precompiled by their content: what the text itself would give."""

from __future__ import annotations

import os
import random
import re

import pytest

from jitkernel import Session
from jitkernel.errors import CompileError
from jitkernel.languages.c import clang, lead, resident
from jitkernel.languages.c.clang import find_clang

pytest.importorskip("ziglang")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where the headers are; nothing of them was seen."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    lead._seen.clear()
    resident.end()
    yield tmp_path
    resident.end()


@pytest.fixture
def built(monkeypatch):
    """What clang precompiles."""
    found = []
    build = clang.Clang._precompile

    def noted(self, text, *rest):
        found.append(text)
        return build(self, text, *rest)

    monkeypatch.setattr(clang.Clang, "_precompile", noted)
    return found


def test_they_are_compiled_once_and_one_process_goes_on(folder, built):
    (folder / "a.h").write_text("struct pt { int x, y; };\n")
    (folder / "b.h").write_text('#pragma once\n#include "a.h"\nint shift(struct pt p);\n')
    with Session() as s:
        s.run('#include "b.h"', "c")
        s.run("int sum(struct pt p) { return p.x + p.y; }", "c")
        s.run("int second(struct pt p) { return p.y; }", "c")
        assert sum("b.h" in text for text in built) == 1
        pid = resident._waiting[0].pid
        for number in range(3):
            assert s.run(f"sum((struct pt){{ {number}, 4 }})", "c").value == number + 4
        assert resident._waiting[0].pid == pid and len(built) == 1


def test_whoever_changes_one_is_followed_at_once(folder):
    """Each time within the same second, and of the same size."""
    with Session() as s:
        (folder / "in.h").write_text('#pragma once\n#include "deep.h"\n')
        for number in range(10, 34):
            (folder / "deep.h").write_text(f"static inline int n(void) {{ return {number}; }}\n")
            if number == 10:
                s.run('#include "in.h"', "c")
            for _ in range(number % 4):
                assert s.run("n()", "c").value == number
        (folder / "deep.h").unlink()
        with pytest.raises(CompileError, match=r"deep\.h"):
            s.run("n()", "c")


def test_what_stands_before_one_counts(folder):
    (folder / "sized.h").write_text("enum { SIZE = N };\n")
    with Session() as s:
        s.run("#define N 3", "c", cell_id="n")
        s.run('#include "sized.h"', "c", cell_id="s")
        for number in (3, 4, 3, 5):
            s.run(f"#define N {number}", "c", cell_id="n")
            for _ in range(3):
                assert s.run("SIZE", "c").value == number


@pytest.mark.parametrize("before", ("", "\n\n", "#define M(x) \\\n  x\n", "#if 1\n#endif\n"))
def test_places_are_those_of_the_cell(folder, before):
    (folder / "a.h").write_text("int a(void);\n")
    text = f'{before}#include "a.h"\n\nint f(void) {{ return nope; }}\n'
    line = text[: text.index("nope")].count("\n") + 1
    with Session() as s:
        for _ in range(4):
            with pytest.raises(CompileError, match=f"line {line}, column 22: .*nope"):
                s.run(text, "c", cell_id="a")


@pytest.mark.parametrize(
    "header", (
        "#pragma pack(1)\nstruct s { char c; int i; };\n",
        '#pragma GCC diagnostic ignored "-Wint-conversion"\n',
        "enum { HERE = __COUNTER__ };\n", "#if __has_include(<nope.h>)\n#endif\n",
        "x" * (70 << 10),
    )
)  # fmt: skip
def test_what_would_be_another_is_not(folder, header):
    (folder / "a.h").write_text(header)
    assert not any(lead.lead_of('\n#include "a.h"\nint x;\n', ()) for _ in range(3))


@pytest.mark.parametrize("text", (
    '#if 1\n#include "a.h"\n#else\n#endif\nint x;\n', 'int x;\n#include "a.h"\n',
    '#define A /* no\n*/ 1\n#include "a.h"\n', '#include "none.h"\n', "#include <stdio.h>\nint x;\n",
    '#pragma pack(1)\n#include "a.h"\n',
))  # fmt: skip
def test_where_none_is_a_beginning(folder, text):
    (folder / "a.h").write_text("int a;\n")
    assert not any(lead.lead_of(text, ()) for _ in range(3))


# -- the same as without -------------------------------------------------------------------------

_PIECES = (
    "struct s{0} {{ int a; double b[{0} + 1]; }};", "typedef struct s{0} *p{0};",
    "enum e{0} {{ A{0} = {0}, B{0} }};", "#define M{0}(x) ((x) + {0})", "extern int g{0};",
    "static inline int i{0}(int x) {{ return x * {0}; }}", "int f{0}(int, double);",
    "union u{0} {{ int i; float f; }};", "#ifndef K{0}\n#define K{0} {0}\n#endif",
    "static const int t{0}[] = {{ {0}, 2 }};",
)  # fmt: skip
_USES = (
    "int q(struct s{0} *p) {{ return (int) p->b[0] + p->a; }}", "int r = A{0} + M{0}(1) + K{0};",
    "int h(int x) {{ return i{0}(x) + f{0}(x, 1.0) + g{0}; }}", "union u{0} w = {{ .f = 1 }};",
    "int k(int n) {{ return t{0}[n]; }}", "p{0} pointer;",
)  # fmt: skip


def plain(text):
    """A module's text without the numbers of what is told of it."""
    lines = [re.sub(r"[!#]\d+", "!", line) for line in text.split("\n")]
    return sorted(line for line in lines if not line.startswith("!"))


def compare(folder, count, seed):
    program, some = find_clang(), random.Random(seed)
    for number in range(count):
        names = []
        for which in range(some.randrange(1, 4)):
            body = "\n".join(p.format(which) for p in _PIECES)
            if which and some.randrange(2):
                body = f'#include "r{which - 1}.h"\n{body}'
            path = folder / f"r{which}.h"
            path.write_text(f"#pragma once\n{body}\nenum {{ V{which} = {some.randrange(9)} }};\n")
            os.utime(path, (1e9 + number, 1e9 + number))
            names.append(path.name)
        text = "\n".join(
            f'\n# {i + 1} "cell {i}"\n#define D{i} {i}\n#include "{name}"'
            for i, name in enumerate(names)
        )
        use = some.choice(_USES).format(some.randrange(len(names)))
        text += f'\n\n# 1 "cell 9"\n{use}\nint v(void) {{ return V0; }}\n'
        header = some.choice(("", "#include <stddef.h>\n"))
        first = program.compile(text, header)
        for _ in range(3):
            again = program.compile(text, header)
            assert again.complaints == first.complaints
            assert plain(again.text) == plain(first.text), text
        assert first.text


def test_the_module_is_that_of_the_text(folder):
    compare(folder, 12, 1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_many_modules_are_those_of_their_texts(folder, seed):
    compare(folder, 250, seed)
