"""`%jit break` and the prompt in a Python notebook."""

from __future__ import annotations

import builtins


def test_a_call_from_python_stops_at_a_prompt(ip, monkeypatch) -> None:
    lines = iter(["p %x", "%jit asm", "%jit undo", "n", "info locals", "c"])
    asked = []

    def read(prompt: str = "") -> str:
        asked.append(prompt)
        return next(lines)

    monkeypatch.setattr(builtins, "input", read)
    ip.ok("%%llvm\ndefine i32 @inc(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}")
    assert "breakpoint 1: cell 2, line 3: %y = add i32 %x, 1" in ip.ok("%jit break 3")
    assert "%y = add i32 %x, 1" in ip.ok("%jit breaks")
    shown = ip.ok("inc(41)")
    assert "breakpoint 1: @inc, cell 2, line 3" in shown and "i32 41" in shown
    assert "=> 3" in shown and "%y = i32 42" in shown and shown.rstrip().endswith("42")
    assert "%jit undo is not done while the program stands" in shown
    assert asked == ["(debug) "] * 6
    assert "1 breakpoint" in ip.ok("%jit debug")
    ip.ok("%jit debug off")
    assert ip.ok("inc(1)").rstrip().endswith("2")


def test_an_interrupt_at_the_prompt_ends_the_call(ip, monkeypatch) -> None:
    def read(prompt: str = "") -> str:
        raise KeyboardInterrupt

    ip.ok("%%llvm\ndefine i32 @inc(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}")
    ip.ok("%jit break inc")
    monkeypatch.setattr(builtins, "input", read)
    assert "interrupted" in ip.fails("inc(41)")
    ip.ok("%jit debug off")
    assert ip.ok("inc(1)").rstrip().endswith("2")


def test_code_in_this_process_is_not_stopped(ip) -> None:
    ip.ok("%jit config Executor.kind=inline")
    ip.ok("%%llvm\ndefine i32 @inc(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}")
    for line in ("%jit break inc", "%jit debug on", "%jit debug --faults"):
        assert "no debugger stops code that runs in this process" in ip.fails(line)
    assert "the debugger is off: %jit break or %jit debug on" in ip.ok("%jit debug")
    assert ip.ok("inc(1)").rstrip().endswith("2")
