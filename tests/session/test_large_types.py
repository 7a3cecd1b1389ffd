"""Types that would be endless if they were written out."""

from __future__ import annotations

import pytest

from jitkernel import Session
from jitkernel.errors import CompileError, JitError, TypeMismatch

N = 30
TYPES = "%t0 = type { i8 }\n" + "\n".join(
    f"%t{i} = type {{ %t{i - 1}, %t{i - 1} }}" for i in range(1, N)
)
LAST = f"%t{N - 1}"


def test_a_type_of_a_billion_parts(s: Session) -> None:
    s.run(f"{TYPES}\n@g = external global {LAST}\n@h = global ptr null")
    s.run(f"define void @f(ptr byval({LAST}) %p) {{\n  ret void\n}}")
    s.run(
        f"declare void @f(ptr byval({LAST}))\ndefine void @user(ptr %p) {{\n  call void @f(ptr byval({LAST}) %p)\n  ret void\n}}"
    )
    with pytest.raises(TypeMismatch):
        s.run(f"declare void @f(ptr byval(%t{N - 2}))\ndefine void @v(ptr %p) {{\n"
              f"  call void @f(ptr byval(%t{N - 2}) %p)\n  ret void\n}}")  # fmt: skip
    with pytest.raises(JitError, match="parts"):
        s.run("@f(null)")
    assert s.run("@h").text == "ptr null"
    for line, words in (("@g", "not defined"), (f"@x = {LAST} zeroinitializer", "too many parts")):
        with pytest.raises(CompileError, match=words) as caught:
            s.run(line)
        assert len(str(caught.value)) < 2_000
    s.undo()
    s.check()
    assert s.run("define i32 @z() {\n  ret i32 3\n}\n@z()").text == "i32 3"


@pytest.mark.parametrize(
    "source",
    [
        "@v = [4000000000 x i64] zeroinitializer",
        "@v = global [1000000000 x i8] zeroinitializer",
        "@v = [1000000000 x [1000000000 x i8]] zeroinitializer",
        "@f(" + "[" * 5_000 + "]" * 5_000 + ")",
        "@f(" * 3_000 + ")" * 3_000,
        "@g = " + "{" * 3_000,
        "@f(i32 " + "9" * 100_000 + ")",
        "x" * 300_000,
        "%" * 100_001,
        '"' * 100_001,
        "declare void @f(" + "{" * 2_000 + "i8" + "}" * 2_000 + ")",
    ],
    ids=lambda text: text[:20],
)
def test_what_is_too_large_or_too_deep_is_refused_in_few_words(s: Session, source: str) -> None:
    s.run("define i32 @f(i32 %x) {\n  ret i32 %x\n}")
    with pytest.raises(JitError) as refused:
        s.run(source)
    assert len(str(refused.value)) < 3_000
    assert s.call("f", 3) == 3
    s.check()
