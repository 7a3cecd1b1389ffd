"""What a module's text defines, with LLVM's reader and printer as the judge."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import binding

from jitkernel.ir.module import entities, functions, global_values, symbols_of
from jitkernel.ir.names import quote_name
from tests.busy import within

#: Names that look like something else.
NAMES = st.lists(
    st.one_of(
        st.binary(min_size=1, max_size=8).filter(lambda data: 0 not in data and data[0] != 1),
        st.sampled_from(
            b'define declare @f alias; global} {x} (a )b "q" \\ \\5C a,b %t = 12 -1 \n type'.split(
                b" "
            )
            + [b"define i32 @q(", b"@v = global i32 1", b" ", b"; define", b'"']
        ),
    ).map(lambda data: data.decode("utf-8", "surrogateescape")),
    min_size=8,
    max_size=8,
    unique=True,
).filter(lambda names: not any(n == "" or n.startswith("llvm.") for n in names))


def module_of(names: list[str]) -> str:
    """A module that uses each name where one may stand."""
    t, f, g, v, a, i, d, c = map(quote_name, names)
    return f"""%{t} = type {{ i32, ptr }} ; define void @{v}()
${c} = comdat any
@{v} = dso_local unnamed_addr global %{t} {{ i32 1,
  ptr @{f} }}, align 8 ; @{a} = alias i32
@{c} = weak_odr constant [2 x i8] c"\\22;", comdat
@{a} = weak alias %{t}, ptr @{v}
@{i} = ifunc i32 (%{t}), ptr @{g}
@0 = private global i32 2
declare fastcc zeroext i8 @{d}(ptr byval(%{t}))
define internal %{t} @{f}(%{t} %{v}, ptr %{f}) prefix {{ i32, i8 }} {{ i32 1, i8 2 }} {{
  %{d} = alloca {{ i32, %{t} }}
  call void asm "}} define void @x() {{", ""()
  %{g} = call fastcc i8 @{d}(ptr byval(%{t}) %{d})
  ret %{t} {{ i32 1, ptr null }}
}} define ptr
 @{g}() {{ ret ptr @{f} }}
"""


def found(text: str) -> tuple[object, ...]:
    values = sorted((v.name, v.kind) for v in global_values(text) if v.spelled != "0")
    return sorted((f.name, f.kind) for f in functions(text)), values, dict(_types(text))


def _types(text: str) -> list[tuple[str, str]]:
    return [(t.name, text[t.value :].partition("}")[0]) for t in entities(text, "type")]


@given(NAMES)
@settings(max_examples=200, derandomize=True)
def test_any_names_are_found_as_written_and_as_llvm_prints_them(names: list[str]) -> None:
    t, f, g, v, a, i, d, c = names
    text = module_of(names)
    module = binding.parse_assembly(text, binding.create_context())
    module.verify()
    wanted = (
        sorted([(d, "declare"), (f, "define"), (g, "define")]),
        sorted([(v, "global"), (c, "constant"), (a, "alias"), (i, "ifunc")]),
        {t: "{ i32, ptr "},
    )
    assert found(text) == wanted
    assert found(str(module)) == wanted
    by_llvm = [str(function).partition("\n")[0] for function in module.functions]
    ours = [function.text.partition("\n")[0] for function in functions(str(module))]
    assert sorted(ours) == sorted(line for line in by_llvm if line)


@given(NAMES)
@settings(max_examples=50, derandomize=True)
def test_a_module_without_its_functions_is_what_llvm_leaves(names: list[str]) -> None:
    """Each function's text is the whole of it: without the bodies only declarations are left."""
    text = module_of(names)
    for function in reversed(list(functions(text, "define"))):
        begin, end = function.body()
        head = (
            text[function.start : begin]
            .replace("define internal", "declare")
            .replace("define", "declare")
        )
        text = text[: function.start] + head.partition(" prefix")[0] + text[end:]
    assert not list(functions(text, "define"))
    assert [f.kind for f in functions(text)] == ["declare"] * 3


def test_names() -> None:
    statements = [
        "define internal void @f() {\n call void @u()\n}",
        "define external void @e() {\n}",
        'declare i32 @"g h"(i32)',
        "@v = external global i32\n@w = private constant i32 1\n@0 = global i32 2",
        "@x = extern_weak global i32\n@y = alias i32, ptr @w ; @z = global i32 1",
        "target triple = '@t = global i32'",
    ]
    found = [symbol for statement in statements for symbol in symbols_of(statement)]
    assert {s.name for s in found if not s.is_declaration} == {"f", "e", "w", "y"}
    assert {s.name for s in found if s.is_declaration} == {"g h", "v", "x"}
    assert {s.name for s in found if s.is_local} == {"f", "w"}


@pytest.mark.parametrize(
    "text",
    [
        "; define void @f() {}",
        'c"define void @f() {}"',
        "%define = load i32, ptr @f",
        "define:\n br label %f",
        "@define(1)",
        "@global = i32 1",
        '!0 = !{!"@a = global i32 1"}',
    ],
)
def test_what_looks_like_a_definition_is_none(text: str) -> None:
    assert not list(functions(text)) and not list(global_values(text))


UNITS = [
    "define ", "define i32 @f(", "define i32 @f() {\n  ret i32 1\n}\n", "define\n;x\n", "@x = ",
    "@x = weak ", "@x = global i32 1\n", '@"', '"define', "%a = type ", "weak ", "{ ( [ ",
    'declare void @"a b"(i32)\n',
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_reading_is_linear(unit: str) -> None:
    readers: list[Callable[[str], object]] = [
        lambda text: list(functions(text)),
        lambda text: [value.rest for value, _ in zip(global_values(text), range(50), strict=False)],
        lambda text: list(global_values(text)),
        lambda text: list(entities(text)),
        lambda text: next((function.body() for function in functions(text)), None),
        lambda text: [s.is_local for s in symbols_of("@" + text)],
    ]

    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        best = float("inf")
        for _ in range(3):
            begin = time.process_time()
            for reader in readers:
                reader(text)
            best = min(best, time.process_time() - begin)
        return best

    # Eight times the text; what is quadratic takes 64 times as long.
    within(lambda: seconds(160_000) / max(seconds(20_000), 1e-3), 24)
