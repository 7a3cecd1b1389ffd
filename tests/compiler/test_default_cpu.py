"""A CPU that was not chosen gives way to the session's; one that was, stays."""

from __future__ import annotations

import pytest

from jitkernel.compiler.pool import CompilerPool
from jitkernel.compiler.records import Options, Request
from jitkernel.ir.attributes import drop_default_cpu

BODY = (
    "define void @f(ptr %a, ptr %b) #0 {\n  %v = load <8 x float>, ptr %a\n"
    "  %w = fadd <8 x float> %v, %v\n  store <8 x float> %w, ptr %b\n  ret void\n}\n"
)
NOT_CHOSEN = [
    '"target-cpu"="x86-64"',
    'nounwind "target-cpu"="x86-64" "tune-cpu"="generic"',
    '"target-cpu"="x86-64" "target-features"="+cx8,+fxsr,+mmx,+sse,+sse2,+x87"',
    '"target-cpu"="x86-64" "target-features"="+64bit,+cmov,+cx8,+macrofusion,-avx,-avx2,-sse3"',
]
CHOSEN = [
    '"target-cpu"="x86-64-v3"',
    '"target-cpu"="x86-64" "target-features"="+sse4.2"',
    '"target-cpu"="x86-64" "target-features"="-sse2"',
    "nounwind",
]


@pytest.mark.parametrize("words", NOT_CHOSEN)
def test_not_chosen(words: str) -> None:
    source = f"{BODY}attributes #0 = {{ {words} }}\n"
    dropped, at = drop_default_cpu(source)
    assert len(dropped) == len(source) and source[at:].startswith('"target-cpu"')
    assert "target-" not in dropped and "tune-cpu" not in dropped
    assert dropped.count("nounwind") == source.count("nounwind")


@pytest.mark.parametrize("words", CHOSEN)
def test_chosen(words: str) -> None:
    source = f"{BODY}attributes #0 = {{ {words} }}\n"
    assert drop_default_cpu(source) == (source, -1)


def test_it_is_said_in_one_line_and_can_be_kept(pool: CompilerPool) -> None:
    alone = pool.compile(Request(BODY + f"attributes #0 = {{ {NOT_CHOSEN[0]} }}", Options()))
    assert alone.object == pool.compile(Request(BODY.replace("#0", ""), Options())).object
    plain = pool.compile(Request(BODY + "attributes #0 = { nounwind }", Options(cpu="haswell")))
    source = BODY + 'attributes #0 = { nounwind "target-cpu"="x86-64" }'
    compiled = pool.compile(Request(source, Options(cpu="haswell")))
    (note,) = compiled.warnings
    assert (note.line, note.severity) == (7, "note") and "compiled for haswell" in note.message
    assert "--keep-cpu" in note.message and compiled.object == plain.object
    kept = pool.compile(Request(source, Options(cpu="haswell", keep_cpu=True)))
    assert kept.warnings == () and kept.object != plain.object


def test_what_lies_side_by_side_becomes_a_vector(pool: CompilerPool) -> None:
    sums = "".join(
        f"  %p{i} = getelementptr double, ptr %a, i64 {i}\n  %v{i} = load double, ptr %p{i}\n"
        f"  %s{i} = fmul double %v{i}, %x\n"
        for i in range(4)
    )
    stores = "".join(
        f"  %q{i} = getelementptr double, ptr %b, i64 {i}\n  store double %s{i}, ptr %q{i}\n"
        for i in range(4)
    )
    source = f"define void @f(ptr noalias %a, ptr noalias %b, double %x) {{\n{sums}{stores}  ret void\n}}"
    assert "fmul <" in pool.printed(Request(source, Options(cpu="haswell")))
    assert "fmul <" not in pool.printed(Request(source, Options(1, cpu="haswell")))


def test_options_of_older_files() -> None:
    row = Options(passes="dce", keep_cpu=True, inline=False).row()
    assert Options(*row) == Options(passes="dce", keep_cpu=True, inline=False)
    assert Options(*row[:-1]) == Options(passes="dce", keep_cpu=True)
    assert Options(*row[:-2]) == Options(passes="dce") and Options(*row[:-3]) == Options()
