"""`%%exercise` and `%check` through the kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("guess", "value", "said"),
    [
        ("10", "34.7", "faster: 34.7; you expected 10: it is 3.5 times that"),
        ("40 x", "8", "faster: 8; you expected 40 x: it is that divided by 5"),
        ("about 1,000 times", "1000", "faster: 1000; you expected about 1,000 times: right"),
        ("30%", "60", "faster: 60; you expected 30%: it is 2 times that"),
        ("0x10", "0x10", "faster: 0x10; you expected 0x10: right"),
        ("2 or 3", "2", "faster: 2; you expected 2 or 3: it is something else"),
        ("1,000", "1100.25", "faster: 1100; you expected 1,000: close, 10% off"),
        ("4097.0", "4097.0", "faster: 4097; you expected 4097: right"),
        ("3", "@three()", "faster: 3; you expected 3: right"),
        ("3", "three()", "faster: 3; you expected 3: right"),
        ("4 (four)", "4 (four)", "faster: 4 (four); you expected 4 (four): right"),
        ("0", "7", "faster: 7; you expected 0: off by 7"),
        ("Direct call", "direct call", "faster: direct call; you expected Direct call: right"),
        ("a jump", "a call", "faster: a call; you expected a jump: it is something else"),
        ("____", "7", "faster: 7; without a prediction"),
    ],
)
def test_what_was_predicted_is_compared(kernel, guess: str, value: str, said: str) -> None:
    kernel.ok("define i32 @three() { ret i32 3 }")
    noted = kernel.ok(f"%predict faster {guess}")
    assert ("in place of" in noted) == (guess == "____")
    assert said in kernel.ok(f"%answer faster {value}")


def test_progress_tells_what_was_passed_and_what_is_next(kernel, tmp_path: Path) -> None:
    text = kernel.fails(f"%cd {tmp_path}\n%progress")
    course = Path(__file__).parents[2] / "notebooks" / "course"
    assert "no course in this folder" in text and f"there is one in {course}: %cd" in text
    rows = [
        {"stem": "0_calls", "title": "Calls", "needs": [], "exercises": ["twice"], "predictions": ["steps"]},
        {"stem": "1_more", "title": "More", "needs": ["0_calls"], "exercises": ["thrice"], "predictions": []},
    ]  # fmt: skip
    (tmp_path / "course.json").write_text(json.dumps(rows))
    for name in ("twice", "thrice"):
        made = EXERCISE.format(folder="exercises").replace("twice", name)
        kernel.ok(made.replace("shl i32 %x, 1", "mul i32 %x, 3") if name == "thrice" else made)
    kernel.ok("define i32 @twice(i32 %x) {\n  %r = add i32 %x, %x\n  ret i32 %r\n}")
    kernel.ok("%check twice")
    assert "0 of 1" in (text := kernel.ok("%progress")) and "1 of 1" not in text
    assert "Nothing more is noted: JITKERNEL_PROGRESS is off." in text
    kernel.ok("%env JITKERNEL_PROGRESS=on")
    try:
        assert "Next: Calls (0_calls): twice" in kernel.ok("%progress")
        kernel.ok("%check twice")
        kernel.ok("%predict steps 3")
        kernel.ok("%answer steps 3")
        text = kernel.ok("%progress")
        assert "Next: More (1_more): thrice" in text and text.count("1 of 1") == 2 and "✓" in text
        kernel.ok("define i32 @thrice(i32 %x) { ret i32 0 }")
        kernel.fails("%check thrice")
        assert "forgotten: 0_calls" in kernel.ok("%progress --reset 0_calls")
        assert "nothing is noted of 0_calls" in kernel.fails("%progress --reset 0_calls")
        assert "forgotten: all lessons" in kernel.ok("%progress --reset")
    finally:
        kernel.ok("%env JITKERNEL_PROGRESS=off")
