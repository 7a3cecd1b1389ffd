"""`%%exercise` and `%check` through the kernel."""

from __future__ import annotations

from pathlib import Path

EXERCISE = """%%exercise twice --folder {folder}
; task: twice the number
; try: 0; 5
define i32 @twice(i32 %x) {{
  %r = shl i32 %x, 1
  ret i32 %r
}}"""


def test_an_exercise_is_made_listed_and_graded(kernel, tmp_path: Path) -> None:
    folder = tmp_path / "exercises"
    assert "bytes of bitcode" in kernel.ok(EXERCISE.format(folder=folder))
    assert "twice the number" in kernel.ok(f"%check --folder {folder}")
    kernel.ok("define i32 @twice(i32 %x) {\n  ret i32 %x\n}")
    assert "CheckFailed: @twice(1): expected 2, got 1" in kernel.fails(
        f"%check twice --folder {folder}"
    )
    kernel.ok("define i32 @twice(i32 %x) {\n  %r = add i32 %x, %x\n  ret i32 %r\n}")
    assert "202 inputs" in kernel.ok(f"%check twice --folder {folder}")
    both = "define i32 @twice(i32 %x) {\n  %r = shl i32 %x, 1\n  ret i32 %r\n}\n"
    assert "202 inputs" in kernel.ok(f"{both}%check twice --folder {folder}")
    assert "there is no exercise" in kernel.fails(f"%check thrice --folder {folder}")
