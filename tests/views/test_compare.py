"""Two pieces of code side by side: what is counted, what is timed, and that nothing is disturbed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from stripped import assert_complete, words

from jitkernel import Session
from jitkernel.errors import CompileError, Fault, UsageError
from jitkernel.views import compare
from jitkernel.views.asm import asm
from jitkernel.views.compare import _ratio, compiled, placed

SUM = """\
@k = global i64 3
@runs = global i64 0
define i64 @sum(i64 %n) {
entry:
  br label %l
l:
  %i = phi i64 [ 0, %entry ], [ %j, %l ]
  %s = phi i64 [ 0, %entry ], [ %t, %l ]
  %v = load volatile i64, ptr @k
  %m = mul i64 %i, %v
  %t = add i64 %s, %m
  %j = add i64 %i, 1
  %c = icmp slt i64 %j, %n
  br i1 %c, label %l, label %d
d:
  %x = call i64 @pass(i64 %t)
  ret i64 %x
}
define i64 @pass(i64 %x) {
  %r = load i64, ptr @runs
  %q = add i64 %r, 1
  store i64 %q, ptr @runs
  ret i64 %x
}
"""
BY_FORMULA = """\
declare i64 @pass(i64)
define i64 @sum(i64 %n) {
  %a = sub i64 %n, 1
  %p = mul i64 %n, %a
  %r = call i64 @pass(i64 %p)
  ret i64 %r
}"""


@pytest.fixture
def session() -> Iterator[Session]:
    with Session(capacity=64 << 20) as running:
        running.run(SUM)
        yield running
        running.check()


def row(text: str, what: str) -> list[str]:
    found = re.search(rf"^{what} +(.*)$", text, re.M)
    assert found, text
    return re.split(r" {2,}", found[1].strip())


def test_two_levels(session: Session) -> None:
    view = compare(session, "@sum", levels=[0, 2])
    assert view.text.startswith("@sum at -O0 | @sum at -O2\n")
    slow, fast = (int(n) for n in row(view.text, "instructions")[:2])
    with Session(capacity=64 << 20, opt_level=0) as other:
        other.run(SUM)
        text = asm(other, "sum", lines=False).text
        assert slow == len(re.findall(r"^.*\+\d+ +[0-9a-f]{2} ", text, re.M))
        sizes = [str(s.symbols["sum"].size) for s in (other, session)]
    text = asm(session, "sum", lines=False).text
    assert fast == len(re.findall(r"^.*\+\d+ +[0-9a-f]{2} ", text, re.M))
    assert row(view.text, "bytes")[:2] == sizes
    assert row(view.text, "calls")[0] == "1"
    assert "[rip + @k]" in view.text and "call @pass" in view.text
    assert re.search(r"^10    %m = mul i64 %i, %v$", view.text, re.M)
    assert_complete(view)


def test_how_it_is_against_another_level_and_another_machine(session: Session) -> None:
    text = compare(session, "@sum", levels=[0]).text
    assert text.startswith("@sum, cell 1 | @sum at -O0\n")
    view = compare(session, "@sum", machines=["aarch64"], arguments="5")
    assert view.text.startswith("@sum, cell 1 | @sum on aarch64\n")
    assert row(view.text, "time of a call, best")[1] == "does not run here"
    instructions, size = row(view.text, "instructions")[1], row(view.text, "bytes")[1]
    assert int(size) == 4 * int(instructions)  # AArch64's are four bytes each
    view = compare(session, "@sum", machines=["aarch64", "riscv64"])
    assert "mul" in view.text and "__muldi3" not in view.text
    assert "b @pass" in view.text and re.search(r"(?:call|tail|j) @pass", view.text)
    assert_complete(view)


def test_two_functions_and_their_times(session: Session) -> None:
    session.run(BY_FORMULA.replace("@sum", "@formula"))
    view = compare(session, "@sum", "@formula", arguments="1000")
    times = row(view.text, "time of a call, best")
    assert re.fullmatch(r"[\d.]+ (ns|us)", times[0]) and re.fullmatch(r"[\d.]+ (ns|us)", times[1])
    assert float(times[2]) < 0.5  # a thousand steps against one formula
    assert "the arguments (1000)" in view.text
    assert_complete(view)


def test_two_versions_of_a_function(session: Session) -> None:
    session.run(BY_FORMULA)
    for which in ((1,), (1, 2)):
        view = compare(session, "@sum", *which, arguments="1000")
        assert view.text.startswith("@sum of cell 1 | @sum")
        assert float(row(view.text, "time of a call, best")[2]) < 0.5
        assert "Lines of cell 1" in view.text and "Lines of cell 2" in view.text


def test_instructions_on_vectors_are_counted_where_there_are_any(session: Session) -> None:
    session.run("void inc(int *p, long n) { while (n--) *p++ += 1; }", "c")
    view = compare(session, "inc", levels=[1, 2])
    assert int(row(view.text, "packed instructions")[1]) > 0
    assert row(view.text, "packed instructions")[0] == "0"
    assert "packed" not in compare(session, "sum", levels=[0, 2]).text


def test_what_is_timed_uses_the_session_and_leaves_it_as_it_was(session: Session) -> None:
    """Another level's code calls the session's functions and sees its globals; nothing stays."""
    used = {zone: numbers["used"] for zone, numbers in session.inspect.engine.arena.usage().items()}
    before = session["runs"].value
    compare(session, "@sum", levels=[0, 2], arguments="10")
    assert session["runs"].value > before  # @pass is the session's own, so is @runs
    compare(session, "@sum", levels=[0, 2], arguments="10")
    again = {
        zone: numbers["used"] for zone, numbers in session.inspect.engine.arena.usage().items()
    }
    thunk = session.memory()["thunks"]
    assert again["data"] == used["data"] and again["rodata"] <= used["rodata"] + 32
    assert again["text"] <= used["text"] + thunk + 64
    assert "jk_timed" not in session.symbols and session.call("sum", 4) == 18


def test_a_fault_in_what_is_timed_is_told_and_leaves_nothing(session: Session) -> None:
    session.run("define i64 @bad(ptr %p) {\n  %v = load volatile i64, ptr %p\n  ret i64 %v\n}")
    with pytest.raises(Fault, match="null pointer"):
        compare(session, "@bad", levels=[0, 2], arguments="null")
    assert session.call("sum", 4) == 18


@pytest.mark.parametrize(
    ("what", "options", "words_"),
    [
        ((), {}, "compare what?"),
        (("@sum",), {}, "compare what?"),
        (("@sum",), {"levels": [0, 1, 2]}, "compare what?"),
        (("@sum", "@pass"), {"levels": [0]}, "compare what?"),
        (("@nobody", "@sum"), {}, "nothing of the session is called @nobody"),
        (("@nobody",), {"levels": [0]}, "nothing of the session is called @nobody"),
        (("@k", "@sum"), {}, "@k has no machine code"),
        (("@sum", 9), {}, "cell 9 has no IR of its own"),
        ((1, 9), {}, "functions"),
    ],
)
def test_what_cannot_be_compared_is_one_line(session, what, options, words_) -> None:
    with pytest.raises(UsageError) as caught:
        compare(session, *what, **options)
    assert words_ in str(caught.value) and "\n" not in str(caught.value)


def test_a_machine_that_there_is_not(session: Session) -> None:
    with pytest.raises(CompileError, match="no such machine"):
        compare(session, "@sum", machines=["pdp11"])


def test_equal_code_stands_on_one_height(session: Session) -> None:
    session.run(
        "define i64 @a(i64 %x) {\n  %y = mul i64 %x, 77\n  %z = xor i64 %y, 5\n  ret i64 %z\n}\n"
        "define i64 @b(i64 %x) {\n  %y = mul i64 %x, 77\n  %w = sub i64 1, %y\n  %z = xor i64 %w, 5\n  ret i64 %z\n}"
    )
    view = compare(session, "@a", "@b")
    found = re.findall(r" ([=|<>]) +\d+ +(\w+)", view.text)
    assert {("=", "xor"), ("=", "ret"), (">", "inc")} <= set(found)  # 1 - 77x is -77x + 1
    assert "Side by side" in words(view.html)


def test_a_ratio_says_something_however_small_it_is() -> None:
    assert [_ratio(1000, n) for n in (2, 20, 500, 4321)] == ["0.002", "0.02", "0.50", "4.32"]


#: Of each, two versions whose code leads elsewhere, and the lines that say where.
ELSEWHERE = [
    ("int e(int x) { return nums[1] + x; }", "int e(int x) { return nums[2] + x; }",
     "nums+4", "nums+8"),
    ('const char *e(void) { return "abc"; }', 'const char *e(void) { return "abd"; }',
     '="abc"', '="abd"'),
    ("double e(double x) { return x * 1.5; }", "double e(double x) { return x * 2.5; }",
     "=0x3ff8000000000000", "=0x4004000000000000"),
    ("int e(int i) { static const int t[] = {1, 9, 3, 7}; return t[i & 3]; }",
     "int e(int i) { static const int u[] = {1, 9, 3, 8}; return u[i & 3]; }", "=0x70000000300", "=0x80000000300"),
    ("int e(int i) { switch (i) { case 0: return 9; case 1: return 2; case 2: return 70;"
     " case 3: return 5; case 4: return 1; } return 0; }",
     "int e(int i) { switch (i) { case 0: return 9; case 1: return 2; case 2: return 71;"
     " case 3: return 5; case 4: return 1; } return 0; }", "+ .rodata+", "+ .rodata+"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "here", "there"), ELSEWHERE)
def test_what_leads_elsewhere_is_not_equal(
    s: Session, one: str, other: str, here: str, there: str
) -> None:
    """And what is equal is so wherever it stands: two functions, in memory or compiled again."""
    s.run("int nums[4];", "c")
    twin = one.replace(" *e(", " *f(").replace(" e(", " f(")
    cells = [s.run(text, "c").cell.number for text in (f"{one}\n{twin}", other)]
    made = [
        [text for _, text, _ in compiled(s, s.inspect.request(n), "e", n, "", "intel").rows]
        for n in cells
    ]
    changed = [(a, b) for a, b in zip(*made, strict=True) if a != b]
    assert len(changed) == 1 and here in changed[0][0] and there in changed[0][1], changed
    assert made[1] == [text for _, text, _ in placed(s, "e", "intel").rows]
    if here[0] in "n=":
        twins = [text for _, text, _ in placed(s, "f", "intel").rows]
        assert made[0] == twins


def test_what_is_before_an_array_is_told_as_of_it(s: Session) -> None:
    """`a[i - 1]` counts from before its first element, where another one ends."""
    s.run("int first[10]; int last[10];", "c")
    made = []
    for last in ("7", "8", "9, 9"):
        s.run(
            "double d(double x) { return x * 1.5; }\nint e(int i) {"
            f"  static const int t[] = {{1, 9, 3, {last}}};"
            "  return first[i - 1] + last[i - 5] + t[i - 2]; }",
            "c",
        )
        number = s.cells[-1].number
        for side in (
            compiled(s, s.inspect.request(number), "e", number, "", "intel"),
            placed(s, "e", "intel"),
        ):
            made.append(" ".join(text for _, text, _ in side.rows))
            assert {*re.findall(r"[\w.]+-\d+", made[-1])} == {"first-4", "last-20", "e.t-8"}
    assert made[0::2] == made[1::2] and len(set(made)) == 3  # by what the tables have
    assert re.search(r"e\.t-8\n", asm(s, "e").text + "\n")


#: Of each, declarations and a body of which only what constants have is another.
CONTENT = [
    ("static const int t[] = {1, 2, 3, %s, 5};", "t[i]", "4", "6"),
    ("static const int u[] = {1, 2, 3, 4, 5}, t[] = {1, 2, 3, %s, 5};", "t[i - 1] + u[i]", "4", "6"),
    ('static const char *const t[] = {"x", %s, "zz"};', "*t[i]", '"ab"', '"ac"'),
    ("static const int a[] = {1, %s}; static const int *const t[] = {a, a + 1, a};", "*t[i]", "1", "3"),
    ("static int a(void) { return 1; } static int b(void) { return 2; }"
     "static int (*const t[])(void) = {%s, a};", "t[i]()", "a, b", "b, a"),
    ("static const struct { int a; double b; } t[] = {{1, 2}, {3, %s}, {4, 5}};", "t[i].b", "2", "3"),
    ("void one(void), two(void), three(void), four(void);",
     "({ switch (i) { case 0: one(); break; case %s: two(); break; case 5: three(); break;"
     " case 7: four(); } 0; })", "1: case 2: case 4", "2: case 3: case 4"),
    *((f"struct n {{ const struct n *a, *b; int v; }};\n"
       f"{kind} const struct n n0, m = {{&n0, &m, %s}};\n" + "".join(
           f"{kind} const struct n n{n} = {{&{f'n{n + 1}' if n < 400 else 'm'}, &m, 7}};\n"
           for n in range(400, -1, -1)
       ), "(int)(long)(&n0 + i)", "4", "6") for kind in ("", "static")),
]  # fmt: skip


@pytest.mark.parametrize(("before", "body", "one", "other"), CONTENT)
def test_what_constants_have_counts(
    s: Session, before: str, body: str, one: str, other: str
) -> None:
    """Code that reads a table by the same name is not equal where the table is another."""
    text = f"{before}\nint e(int i) {{ return {body}; }}"
    made = []
    for content in (one, other, one):
        number = s.run(text.replace("%s", content), "c").cell.number
        own = compiled(s, s.inspect.request(number), "e", number, "", "intel")
        assert own.rows == placed(s, "e", "intel").rows
        made.append([row for _, row, _ in own.rows])
    assert made[0] == made[2] != made[1] and len(made[0]) == len(made[1])
    plain = [re.sub("#[0-9a-f]{8}", "", row) for row in made[0]]
    assert plain != made[0] and plain == [re.sub("#[0-9a-f]{8}", "", row) for row in made[1]]


@pytest.mark.parametrize("syntax", ["intel", "att"])
def test_code_is_decoded_alike_in_memory_and_in_its_object(s: Session, syntax: str) -> None:
    """But for what the linker has made shorter."""
    s.run(
        "struct { char c; short a[30]; } big[9]; int far_one; double w[4];"
        'static const char *const names[] = {"x", "yy"}; int g(int);'
        "int f(int i, double d) { w[i] = d / 3; far_one += big[i].a[i + 2];"
        " return names[i & 1][0] + g(i) + (g == f2); }".replace("int f(", "int f2(int); int f("),
        "c",
    )
    request = s.inspect.request(s.cells[-1].number)
    mine = [text for _, text, _ in placed(s, "f", syntax).rows]
    number = s.cells[-1].number
    other = [text for _, text, _ in compiled(s, request, "f", number, "", syntax).rows]
    assert [b for a, b in zip(mine, other, strict=True) if a != b and "GOT slot" not in b] == []
    assert any("big+" in text for text in mine) and any("names" in text for text in mine)
