"""Debug forms of C cells, and what clang itself says with -g -O0 of the same text as a file."""

from __future__ import annotations

import io
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.descriptions import describe_form_class
from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

from jitkernel import Session
from jitkernel.compiler.records import Options
from jitkernel.languages.c.clang import find_clang
from jitkernel.session.debugging.forms import Forms
from tests.languages.c.running import run
from tests.seeds import seeds

LIST = """struct node { int value; struct node *next; };
typedef struct node node;
static int count;
node *push(node *list, int value) {
    static node pool[16];
    node *made = &pool[count++];
    made->value = value;
    made->next = list;
    return made;
}
int total(const node *list) {
    int sum = 0;
    for (const node *at = list; at; at = at->next) {
        int here = at->value;
        sum += here;
    }
    return sum;
}
"""
TYPES = """enum colour { RED, GREEN = 5, BLUE };
union word { long all; unsigned char bytes[8]; };
struct flags { unsigned a : 3, b : 5; enum colour c; union word w; };
struct flags both = { 1, 2, GREEN };
double ratio(float x, long double y, _Bool z) {
    short table[3][4] = {{1, 2}, {3}};
    char c = 'x';
    unsigned long long big = table[0][1] + c;
    return z ? x / (double)y : big;
}
int (*pick(int which))(int) {
    extern int one(int), two(int);
    return which ? one : two;
}
int one(int x) { return x + 1; }
int two(int x) { return x + 2; }
"""
FLOW = """int classify(int n) {
    int result;
    switch (n) {
    case 0: result = 3; break;
    case 1:
    case 2: result = n * 2; break;
    default:
        if (n < 0)
            goto negative;
        result = n;
    }
    while (result > 100) {
        result -= 7;
        if (result % 5 == 0)
            continue;
        do {
            --result;
        } while (result % 3);
    }
    return result;
negative:
    return -1;
}
"""
HEADER = """#include <string.h>
#include <stdint.h>
int same(const char *a, const char *b) {
    size_t n = strlen(a);
    int8_t small = n;
    return small >= 0 && n == strlen(b) && !memcmp(a, b, n);
}
"""
PROGRAMS = {"list": LIST, "types": TYPES, "flow": FLOW, "header": HEADER}


def native(text: str, folder: Path) -> bytes:
    """What clang makes of a file, with -g -O0."""
    clang = find_clang()
    source, made = folder / "cell.c", folder / "cell.o"
    source.write_text(text)
    headers = [w for path in clang.include for w in ("-internal-isystem", path)]
    command = [
        *clang.program, "-triple", "x86_64-unknown-linux-gnu", "-O0", "-emit-obj",
        "-debug-info-kind=limited", "-gno-column-info", "-dwarf-version=4", "-mframe-pointer=all",
        "-resource-dir", clang.resources, "-nostdsysteminc", *headers, "-std=gnu17", "-fgnuc-version=4.2.1",
        "-x", "c", "-o", str(made), str(source),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return made.read_bytes()


class Facts:
    """What debug information says: functions, variables, types, lines."""

    def __init__(self, code: bytes):
        self.dwarf = ELFFile(io.BytesIO(code)).get_dwarf_info()
        self.functions: dict[str, Any] = {}
        self.variables: dict[str, str] = {}
        self.lines: dict[str, set[int]] = {}
        for unit in self.dwarf.iter_CUs():
            self._read(unit)

    def _read(self, unit: CompileUnit) -> None:
        program = self.dwarf.line_program_for_CU(unit)
        files = [entry.name for entry in program["file_entry"]]
        rows = [
            e.state for e in program.get_entries()
            if e.state and files[e.state.file - 1].startswith(b"cell")
        ]  # fmt: skip
        for die in unit.get_top_DIE().iter_children():
            name = self._name(die)
            if die.tag == "DW_TAG_variable" and name:
                self.variables[name] = self._type(die)
            if die.tag == "DW_TAG_subprogram" and "DW_AT_low_pc" in die.attributes:
                low, high = (die.attributes[f"DW_AT_{end}_pc"] for end in ("low", "high"))
                stop = high.value
                if describe_form_class(high.form) == "constant":
                    stop += low.value
                line = die.attributes["DW_AT_decl_line"].value
                self.functions[name] = line, self._type(die), self._inner(die)
                self.lines[name] = {r.line for r in rows if low.value <= r.address < stop} - {0}

    def _inner(self, die: DIE) -> list[Any]:
        found: list[Any] = []
        for child in die.iter_children():
            if child.tag in ("DW_TAG_variable", "DW_TAG_formal_parameter"):
                line = child.attributes["DW_AT_decl_line"].value
                found.append((self._name(child), line, self._type(child)))
            elif child.tag == "DW_TAG_lexical_block":
                found.append(self._inner(child))
        return sorted(found, key=str)

    @staticmethod
    def _name(die: DIE) -> str:
        name = die.attributes.get("DW_AT_name")
        return name.value.decode() if name is not None else ""

    def _type(self, die: DIE, depth: int = 3) -> str:
        if "DW_AT_type" not in die.attributes:
            return "void"
        type = die.get_DIE_from_attribute("DW_AT_type")
        size = type.attributes.get("DW_AT_byte_size")
        text = f"{type.tag[7:]} {self._name(type)} {size.value if size is not None else ''}"
        bounds = [
            str(child.attributes["DW_AT_count"].value) for child in type.iter_children()
            if "DW_AT_count" in child.attributes
        ]  # fmt: skip
        if type.tag in ("DW_TAG_structure_type", "DW_TAG_union_type") and depth:
            inner = [
                f"{self._name(c)}@{c.attributes['DW_AT_data_member_location'].value}"
                f" {self._type(c, depth - 1)}"
                for c in type.iter_children() if "DW_AT_data_member_location" in c.attributes
            ]  # fmt: skip
            return f"{text} {{{'; '.join(inner)}}}"
        if type.tag == "DW_TAG_enumeration_type":
            names = [(self._name(c), c.attributes["DW_AT_const_value"].value)
                     for c in type.iter_children()]  # fmt: skip
            return f"{text} {names}"
        return f"{text} {bounds} of {self._type(type, depth - 1)}" if depth else text


def forms_of(s: Session, *cells: int) -> Forms:
    forms = Forms(s._core)
    assert forms.want(cells) == {}
    return forms


def objects(forms: Forms) -> list[bytes]:
    forms.install()
    found = [code for _, code, _ in forms.objects()]
    forms.restore()
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_debug_form_says_what_clang_says(s: Session, name: str, tmp_path: Path) -> None:
    run(s, PROGRAMS[name])
    forms = forms_of(s, s.number)
    (code,) = objects(forms)
    forms.close()
    ours, theirs = Facts(code), Facts(native(PROGRAMS[name], tmp_path))
    assert ours.functions == theirs.functions != {}
    assert ours.variables == theirs.variables
    assert ours.lines == theirs.lines


RUNS = """int twice(int x) { return 2 * x; }
int total = 0;
for (int i = 0; i < 3; i++) {
    int here = twice(i);
    total += here;
}
struct pair { int a, b; } p = { twice(4), 5 };
total * 10 + p.a +
    p.b
"""


def test_what_runs_once_has_the_lines_and_variables_of_the_cell(
    s: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = run(s, RUNS).text
    ordinary = s._core.store.get(s.number)
    s.reset()
    seen: list[Facts] = []
    forms = Forms(s._core)
    call = s._core.engine.call

    def watched(*arguments: Any) -> Any:
        seen.extend(Facts(code) for _, code, _ in forms.objects())
        return call(*arguments)

    monkeypatch.setattr(s._core.engine, "call", watched)
    monkeypatch.setattr(s._core, "debugs", lambda source: source == RUNS)
    assert run(s, RUNS).text == plain == "(int) 73"
    record = s._core.store.get(s.number)
    assert ordinary is not None and record is not None
    assert (record.module, record.object) == (ordinary.module, ordinary.object)
    statements, value = seen
    (lines,) = statements.lines.values()
    assert lines >= {3, 4, 5, 7} and not lines & {1, 2, 8, 9}
    ((_, _, inner),) = statements.functions.values()
    assert "'here', 4, 'base_type int 4" in str(inner)
    (lines,) = value.lines.values()
    assert 8 in lines <= {8, 9}  # what is loaded in line 9 is part of the addition
    assert {"here", "i"}.isdisjoint(value.variables)


def test_definitions_are_what_they_were(s: Session) -> None:
    """Neither text nor object nor the key of the cache knows of debug forms."""
    run(s, LIST)
    before = s._core.store.get(s.number)
    objects(forms_of(s, s.number))
    assert s._core.store.get(s.number) == before
    assert before is not None and "DI" not in before.module and len(Options().row()) == 10


def test_what_changed_since_is_as_it_is_now(s: Session) -> None:
    """A cell that follows another one's type has a form with that; what has moved to another cell
    is in that one's."""
    first = s.number + 1
    run(
        s,
        "struct p { int a; };",
        "int get(struct p *x) { return x->a; }\nint other(void) { return 1; }",
    )
    s.run("struct p { long b; long a; };", "c", number=first + 5)
    run(s, "int other(void) { return 2; }")
    (code,) = objects(forms_of(s, first + 1))
    facts = Facts(code)
    assert list(facts.functions) == ["get"]
    assert "b@0" in str(facts.functions["get"]) or "a@8" in str(facts.functions["get"])


def test_headers_have_their_own_lines(
    s: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.h").write_text("static inline int thrice(int x) {\n  return 3 * x;\n}\n")
    s.chdir(str(tmp_path))
    run(s, '#include "own.h"\nint nine(void) {\n  return thrice(3);\n}\n')
    (code,) = objects(forms_of(s, s.number))
    dwarf = ELFFile(io.BytesIO(code)).get_dwarf_info()
    (unit,) = dwarf.iter_CUs()
    program = dwarf.line_program_for_CU(unit)
    files = [entry.name.decode() for entry in program["file_entry"]]
    rows = {(files[e.state.file - 1], e.state.line) for e in program.get_entries() if e.state}
    assert (f"cell {s.number}", 3) in rows
    assert any(name.endswith("own.h") and line == 2 for name, line in rows)


def random_program(seed: int) -> tuple[str, list[tuple[str, int]]]:
    """A program of C with loops, arrays, structs, tables of functions and state, and calls of it."""
    r = random.Random(seed)
    number = lambda: str(r.randrange(1, 50))  # noqa: E731

    def expression(names: list[str], depth: int = 3) -> str:
        if not depth or r.random() < 0.2:
            return r.choice([*names, number()])
        left, right = expression(names, depth - 1), expression(names, depth - 1)
        form = r.choice(["({} {} {})"] * 4 + ["({0} {1} {2} ? {0} : {2})"])
        operator = r.choice(["+", "-", "*", "&", "^", "|"] if "?" not in form else ["<", "==", ">"])
        return form.format(left, operator, right)

    parts = [
        f"static unsigned state = {number()};",
        "struct s { unsigned a; unsigned char b[3]; } g;",
    ]
    names: list[str] = []
    for n in range(5):
        known = ["x", "k", "state", "v[k % 4]", "g.a", "own"]
        called = f"{r.choice(names)}(k)" if names else "k"
        static = "static " if r.random() < 0.4 else ""
        parts.append(
            f"{static}unsigned f{n}(unsigned x) {{\n"
            f"  static unsigned own = {number()};\n  unsigned v[4] = {{ {number()}, x }}, k = 0;\n"
            f"  for (k = 0; k < {r.randrange(2, 6)}; k++) {{\n"
            f"    v[k % 4] += {expression(known)};\n    own ^= {called} + {expression(known)};\n"
            f"    g.b[k % 3] += {expression(known)};\n  }}\n"
            f"  state += {expression(known)};\n  switch (x % 5) {{\n"
            + "".join(f"  case {c}: own += {number()}; break;\n" for c in range(4))
            + f"  }}\n  g.a += {expression(known)};\n  return own + g.b[x % 3];\n}}"
        )
        names.append(f"f{n}")
    table = ", ".join(r.sample(names, 3))
    parts.append(f"unsigned (*table[])(unsigned) = {{ {table} }};")
    parts.append("unsigned all(unsigned x) { return table[x % 3](x) + state; }")
    return "\n".join(parts), [("all", r.randrange(1000)) for _ in range(6)]


@pytest.mark.parametrize("seed", seeds(4, 30))
def test_random_programs_give_the_same(s: Session, seed: int) -> None:
    """Calls of the ordinary code and of the debug form in turn, against the ordinary code alone."""
    source, calls = random_program(seed)
    run(s, source)
    wanted = [s.call(name, x) for name, x in calls]
    s.reset()
    run(s, source)
    forms, found = forms_of(s, s.number), []
    for at, (name, x) in enumerate(calls):
        if at % 3:
            forms.install()
        found.append(s.call(name, x))
        forms.restore()
    forms.close()
    assert found == wanted
