"""What is said of a cell that clang, or the cutting of it, refuses."""

from __future__ import annotations

import pytest

pytest.importorskip("ziglang")

from jitkernel.errors import CompileError
from jitkernel.languages.c.words import STANDARD_NAMES
from tests.languages.c.running import run


@pytest.mark.parametrize(
    ("cell", "place", "mark"),
    [
        ('int f(void) {\n  puts("hello);\n  return 0;\n}', "line 2, column 8", "'\"'"),
        ('int f(void) {\n  puts("{ hello);\n  return 0;\n}', "line 2, column 8", "'\"'"),
        ('int f(void) {\n  puts("(" hello");\n  return 0;\n}', "line 2, column 17", "'\"'"),
        ("char c = 'ab;", "line 1, column 10", "'"),
        ("char c = 'a(;\nint x = (3;", "line 1, column 10", "'"),
        ('puts("x);\nint k = nope;', "line 1, column 6", "'\"'"),
    ],
)
def test_a_quotation_mark_that_nothing_closes_is_told(s, cell, place, mark):
    run(s, "#include <stdio.h>")
    with pytest.raises(CompileError) as raised:
        run(s, cell)
    said = str(raised.value)
    assert said.startswith(f"{place}: missing terminating {mark} character")
    assert said.count("line ") == 1 and "expected" not in said and "more" not in said


def test_a_quotation_mark_that_is_no_code_is_not_told(s):
    with pytest.raises(CompileError, match=r"line 4, column 6: unterminated '\('"):
        run(s, "#if 0\nit isn't\n#endif\nint f( {")
    with pytest.raises(CompileError, match="line 2, column 9: use of undeclared identifier 'don'"):
        run(s, "#define Q don't\nint y = Q;")


def test_the_function_that_was_meant_is_told(s):
    run(s, "#include <stdio.h>")
    with pytest.raises(CompileError, match="undeclared function 'pritnf'") as raised:
        run(s, 'pritnf("x");')
    assert "; did you mean 'printf'?" in str(raised.value)


def test_a_header_that_is_gone_is_told_with_what_to_do(s, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "h.h").write_text("#define K 1\n")
    number = run(s, '#include "h.h"').cell.number
    (tmp_path / "h.h").unlink()
    with pytest.raises(CompileError, match=r"'h\.h' file not found") as raised:
        run(s, "1 + 1")
    assert f"\nhint: put the file there again, or %evict {number}" in str(raised.value)
    s.evict(number)
    assert run(s, "1 + 1").text == "(int) 2"


@pytest.mark.parametrize(
    "cell", ['\n#warning "x"', '\n#if 1\n#warning "x"\n#endif', "\n#warning x"]
)
def test_a_warning_that_is_all_of_a_cell_is_shown(s, cell):
    (note,) = s.run(cell, "c").notes
    line = cell[: cell.index("#warning")].count("\n") + 1
    assert note.startswith(f"warning: line {line}, column 2:") and not list(s.cells)


def test_a_command_of_the_shell_is_told_where_it_goes(s):
    for cell, hinted in (("\n!ls -l", True), ("!ls", True), ("1 + !ls", False), ("!(ls)", False)):
        with pytest.raises(CompileError, match="undeclared identifier 'ls'") as told:
            run(s, cell)
        hint = f"write %%llvm and {cell.strip()} in the line below"
        assert str(told.value).count(hint) == hinted
        assert str(told.value).count("for the shell") == hinted
    assert run(s, "int ls;\n").cell and run(s, "!ls").text == "(int) 1"


@pytest.mark.parametrize(
    ("cell", "place"),
    [
        ("int y1;\ny1 = 5\ny1", "line 2, column 7"),
        ("int a = 1;\nint b = 2;\na + b\na", "line 3, column 6"),
        ('#include <stdio.h>\nputs("a")\nputs("b")', "line 2, column 10"),
        ("int z[3];\nz[0] = 1\nz[1] = 2;", "line 2, column 9"),
        ("int q = 1;\nq q", "line 2, column 2"),
        ("int é = 1;\n/* é */ é é", "line 2, column 10"),
        ("#define K 5\nK K", "line 2, column 2"),
        ("int x;\nx = 3\nint f(void) { return x; }", "line 2, column 6"),
        ('#include <stdio.h>\nputs("a")\nint f(void) {\n  return 1;\n}', "line 2, column 10"),
        ('#include <stdio.h>\nputs("a")\nint x = 3;', "line 2, column 10"),
        ("int x = 5\nint y = 6;", "line 1, column 10"),
        ("int x = 5\nx + 1", "line 1, column 10"),
        ("struct s { int x; }\nint f(void) { return 1; }", "line 1, column 20"),
    ],
)
def test_a_semicolon_that_is_missing_is_told_where_it_is(s, cell, place):
    with pytest.raises(CompileError) as raised:
        run(s, cell)
    assert str(raised.value).startswith(f"{place}: expected ';' after ")


def test_a_parenthesis_of_the_cells_own_that_is_missing_is_told(s):
    with pytest.raises(CompileError, match=r"line 2, column 5: expected '\)'"):
        run(s, "int a = 1, b = 2;\n((a b))")


@pytest.mark.parametrize("cell", ["=\n", "int a;=\n", "int t=5;#error x\n", "5 +\n\n", "5 +"])
def test_what_is_wrong_behind_the_last_line_is_told_in_it(s, cell):
    with pytest.raises(CompileError, match=r"^line 1, column \d+: ") as raised:
        run(s, cell)
    assert "expected" in str(raised.value)


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("int f(void) {\n  for (int i = 0; i < 3; i++ {\n  }\n}", "line 2, column 7: unterminated '('"),
        ("int f(void) {\n  for (;;) {\n    f();\n  f();\n}", "line 2, column 12: unterminated '{'"),
        ("int f(void) {\n  if (1)\n    f();\n  }\n  return 1;\n}", "line 4, column 3: unexpected '}'"),
        ("struct s\n  int a;\n};", "line 3, column 1: unexpected '}'\n  };\n  ^\nhint: a `{` is missing"),
        ("int f(int a,\n      int b) {\n  for (;;) {\n}", "line 3, column 12: unterminated '{'"),
        ("int f(void)\n  return 1;\n}", "line 1, column 11: expected '{'"),
        ("int f(void) {\nreturn (1];\n}", "line 2, column 10: unexpected ']'"),
        ("int f(void); {\n  return 1;\n}", "line 1, column 12: expected function body"),
        ("int f(void);\n{\n  return 1;\n}", "line 1, column 12: expected function body"),
        ("int f(void) {\n  int a[] = {1, 2;\n  return 1;\n}", "line 2, column 13: unterminated '{'"),
        ("for i in range(3):\n  x", "line 1, column 18: expected '{', found ':'"),
        ("def f(x): return x", "line 1, column 9: expected '{', found ':'"),
        ("def f(x) -> int: return [x]", "line 1, column 16: expected '{', found ':'"),
        ("while 1 {}", "line 1, column 7: expected '(' after 'while'"),
    ],
)  # fmt: skip
def test_a_bracket_that_is_wrong_is_told_where_it_is(s, cell, said):
    with pytest.raises(CompileError) as raised:
        run(s, cell)
    assert str(raised.value).startswith(said)


def test_a_block_may_stand_behind_a_declaration(s):
    assert run(s, "int x; int f(int a);\n{\n  x = 3;\n}\nx").text == "(int) 3"


@pytest.mark.parametrize(
    "cell",
    ["return;", "if (1) return;", "int x = 1;\nreturn x;", "({ return 5; 3; })", "{ return; }\n1"],
)
def test_a_return_without_a_function_is_told(s, cell):
    with pytest.raises(CompileError, match="no function stands around this `return`"):
        run(s, cell)


@pytest.mark.parametrize(
    "cell",
    ["while (1)", "if (1)", "for (;;)", "do", "switch (3)", "int n = 1;\nif (n) n = 2; else"],
)
def test_a_statement_that_is_not_whole_is_told_with_its_end(s, cell):
    with pytest.raises(CompileError) as raised:
        run(s, cell)
    (found,) = raised.value.diagnostics
    lines = cell.split("\n")
    assert (found.line, found.column) == (len(lines), len(lines[-1]) + 1)
    assert found.message == "expected statement" and found.source == lines[-1]


@pytest.mark.parametrize(
    ("cell", "hint"),
    [
        (
            "#include <iostream>\nint main() {}",
            "this is C++, and cells are C: `#include <stdio.h>`",
        ),
        ("using namespace std;", "which has no namespaces"),
        ('#include <stdio.h>\nstd::cout << "x";', "no namespaces"),
        ('cout << "x" << endl;', "`printf("),
        ("int *p = new int[3];", "`malloc("),
        ("class A { int x; };", "`g++ -c` and %link"),
        ("string s;", "`char s[] = "),
        ("printf(“hi”);", 'write " instead of “'),
        ("char *s = “hi”;", 'write " instead of “'),
        ("char c = ‘a’;", "write ' instead of ‘"),
        ("int x = 5 – 3;", "write - instead of –"),
        ("puts（3）;", "write ( instead of （"),
        ("y = f((1), 2) + 3", "declare it first: `int y = f((1), 2) + 3;`"),
        ("@sq(3)", "a call in C has no @: `sq(...)`"),
        ("sq(3)\u200b", "take out U+200B"),
        ("define i32 @f() { ret i32 0 }", "this is LLVM IR"),
        ("load @total", "this is LLVM IR"),
        ("int x;\nint& r = x;", "no references: a pointer is `int *p = &x;`"),
        ("x = [1, 2]", "an array is `int a[] = {1, 2, 3};`"),
        ('f"{total}"', '`printf("%d'),
        ("lambda x: x", "this is Python"),
        ("help", "%help lists"),
        ("clear", "%clear"),
        ('puts("a");', "write `#include <stdio.h>`"),
        ('prinft("a");', "did you mean `printf`, of `#include <stdio.h>`?"),
        ('strlne("a")', "did you mean `strlen`, of `#include <string.h>`?"),
        ("char *s = 'hello';", 'text stands between "'),
        ('"abc" + "def"', "`strcat(to, from);`"),
        ('const char *t = "a"; t + "b"', "`strcat(to, from);`"),
        ("int x = 3; x ** 2", "`pow(x, y)` of <math.h>"),
        ("int a[] = {1, 2}; a = {3, 4};", "`memcpy(a, (int[]){...}, sizeof a);`"),
        ("gcc x.c", "`%run x.c`"),
        ("gcc -o x x.c -lm", "`%run x.c`"),
        ("ls -l", "!ls"),
        ("import os", "this is Python"),
        ("def f(x):\n    return x + 1", "a function is `int f(int x)"),
        ("for i in range(2, n):\n    x", "`for (int i = 2; i < n; i++) {"),
        ("if x > 3:\n    y = 1", "`if (...) {"),
        ("x = 5", "`int x = 5;`"),
        ("x = 2.5;", "`double x = 2.5;`"),
        ('x = "a";', '`char x[] = "a";`'),
        ("int x = None;", "`NULL`"),
        ("int x = NULL;", "`#include <stddef.h>`"),
        ("int32_t x;", "`#include <stdint.h>`"),
        ("int x = INT_MAX;", "`#include <limits.h>`"),
        ("int c = getchar();", "`#include <stdio.h>`"),
        ("int n(const char *s) { return atoi(s); }", "`#include <stdlib.h>`"),
        ("#include <stido.h>", "did you mean `#include <stdio.h>`?"),
        ("#inlude <stdio.h>", "did you mean `#include`?"),
        ("# adds two numbers\nint x;", "comments begin with //"),
        ("include <stdio.h>", "`#include`"),
        ("int a = 1;\nif (a =< 2) a = 3;", "did you mean `<=`?"),
        ("int a = 1;\nif (a) a = 2; a = 3; else a = 4;", "no `if`"),
        ("int a[3];\na.length", "sizeof a / sizeof *a"),
        ("5.5 % 2", "`fmod(x, y)`"),
        ("int main(int n, char **v) { return n; }\nmain()", "`%run main a b`"),
    ],
)
def test_what_was_meant_is_told_once(s, cell, hint):
    with pytest.raises(CompileError) as raised:
        run(s, cell)
    said = str(raised.value)
    assert said.count(hint) == 1
    if "this is" in said or "instead of" in said:
        assert len(raised.value.diagnostics) == 1 and "more" not in said


def test_a_name_of_the_users_own_is_no_other_languages(s):
    run(s, "int help = 1, new = 2, len = 3, string = 4;")
    assert run(s, "help + new + len + string").text == "(int) 10"
    with pytest.raises(CompileError) as raised:
        run(s, "int cout(int);\ncout(1, clear)")
    assert "%clear" not in str(raised.value)


def test_a_loop_whose_body_is_a_semicolon_is_told(s):
    notes = run(s, "int n = 3;\nvoid f(void) {\n  while (n > 9); {\n    n--;\n  }\n}").notes
    (note,) = [note for note in notes if note.startswith("warning")]
    assert note.startswith("warning: line 3, column 16: while loop has empty body [-Wempty-body]")
    for quiet in ("do { n--; } while (n > 9); { n = 1; }", "while (n > 9);\n{ n = 1; }"):
        assert not any("empty" in note for note in run(s, quiet).notes)


def test_an_assignment_that_was_to_compare_is_told_with_the_operator(s):
    note = run(s, "int n;\nint f(void) {\n  if (n = 3) return 1;\n  return 2;\n}").notes[0]
    assert note.startswith("warning: line 3") and "hint: write `==`" in note


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("(struct {int x;}){3}", "(struct {...}) {.x = 3}"),
        ("((struct once {int x;}){3}).x", "(int) 3"),
        ('(struct two {int x; char c[4];}){3, "abc"}', '(struct two) {.x = 3, .c = "abc"}'),
        ("(enum {NO, YES})1", "(enum {...}) YES"),
        ("sizeof(struct {int x; long y;})", "(unsigned long) 16"),
        ("({ struct in {int a;} l = {5}; l; })", "(struct in) {.a = 5}"),
    ],
)
def test_a_last_expression_may_declare_a_type(s, cell, shown):
    assert run(s, cell).text == shown


def test_a_mistake_in_one_that_does_is_told_in_c(s):
    with pytest.raises(CompileError) as raised:
        run(s, "(struct {int x;}){nope}")
    assert str(raised.value).startswith("line 1, column 19: use of undeclared identifier 'nope'")


def test_a_name_that_is_nearly_an_earlier_cells_is_told(s) -> None:
    s.run("int speed = 3, spare;\n#define FAST 9\nint twice(int n) { return 2 * n; }", "c")
    for text, meant in (("sped + 1", "speed"), ("twcie(2)", "twice"), ("FASTT", "FAST")):
        with pytest.raises(CompileError, match=f"; did you mean `{meant}`\\?"):
            s.run(text, "c")
    for text in ("other", "abcdef(1)"):
        with pytest.raises(CompileError) as caught:
            s.run(text, "c")
        assert "did you mean" not in str(caught.value)


def test_each_header_has_the_names_that_it_is_told_for(s):
    """As a macro, or as a type, a function or a constant that typeof takes."""
    headers = "\n".join(f"#include <{h}>" for h in sorted(set(STANDARD_NAMES.values())))
    used = [f"#ifndef {n}\ntypedef __typeof__({n}) *of_{n};\n#endif" for n in STANDARD_NAMES]
    run(s, "\n".join([headers, *used]))


@pytest.mark.parametrize(
    ("before", "cell", "line"),
    [
        ("struct s { int a; };", "int y = sizeof(struct s);\nstruct s { int a, b; };", 2),
        ("typedef int T;", "T y = 1;\n\ntypedef long T;", 3),
        ("", "int g(void) { return f(); }\nint f(void) { return 1; }", 2),
    ],
)
def test_what_stands_below_is_told(s, before, cell, line):
    """A cell's own declaration is what its name means in all of it, as in a fresh session."""
    run(s, before or ";")
    with pytest.raises(
        CompileError, match=rf"hint: this cell declares \w in line {line}: that has"
    ):
        run(s, cell)
