"""Code pasted from clang or Compiler Explorer: its target lines, and what -O0 leaves in it.

Our own target is the compiler's to say, so `target` lines are taken out of the module once they
have been looked at.  Start from `check`.
"""

from __future__ import annotations

import re

from jitkernel.errors import Diagnostic
from jitkernel.languages.llvm.statements import Kind, Statement

__all__ = ["ARCHITECTURES", "DATA_LAYOUT", "check"]

# What LLVM 22 says for x86-64 Linux.
DATA_LAYOUT = "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128"
ARCHITECTURES = frozenset({"x86_64", "amd64", "x86_64h", "x86_64_v2", "x86_64_v3", "x86_64_v4"})
_ENVIRONMENTS = ("gnu", "")

_TARGET = re.compile(r'target\s+(triple|datalayout)\s*=\s*"([^"]*)"\s*\Z')
_OPTNONE = re.compile(r'"[^"]*"|;[^\n]*|\b(optnone)\b')


def check(
    entities: tuple[Statement, ...], problems: list[Diagnostic]
) -> tuple[list[Diagnostic], tuple[Statement, ...]]:
    """Notes on pasted code, and the entities without their `target` lines.

    A foreign target goes to `problems`.
    """
    notes: list[Diagnostic] = []
    kept: list[Statement] = []
    optnone = None
    for statement in entities:
        target = _TARGET.match(statement.text) if statement.kind is Kind.ENTITY else None
        if target is None:
            kept.append(statement)
            if optnone is None and "optnone" in statement.text and _has_optnone(statement.text):
                optnone = statement
        elif target[1] == "triple":
            problem = _triple(target[2])
            if problem:
                problems.append(_at(statement, *problem))
        elif target[2] != DATA_LAYOUT:
            notes.append(
                _at(
                    statement,
                    "this datalayout is not the session's, which is used instead",
                    "",
                    "note",
                )
            )
    if optnone is not None:
        notes.append(
            _at(
                optnone,
                "optnone (clang -O0 adds it): no optimisation touches such a function",
                "--ignore-optnone drops it",
                "note",
            )
        )
    return notes, tuple(kept)


def _has_optnone(text: str) -> bool:
    return any(m for m in _OPTNONE.findall(text))


def _triple(triple: str) -> tuple[str, str] | None:
    """What is wrong with a target triple and what to do, or None."""
    parts = (triple.split("-") + ["", "", "", ""])[:4]
    architecture, system, environment = parts[0], parts[2], parts[3]
    if len(triple.split("-")) == 3 and parts[1] == "linux":  # x86_64-linux-gnu, without a vendor
        system, environment = parts[1], parts[2]
    if architecture not in ARCHITECTURES:
        return (
            f"code for {architecture or 'no architecture'} cannot run here: "
            "this session is x86_64-linux-gnu",
            f"`%asm --target={triple}` shows what it compiles to there",
        )
    if system != "linux" or environment not in _ENVIRONMENTS:
        other = "-".join(p for p in (system, environment) if p)
        return (
            f"code for {other or 'no system'} cannot run here: this session is x86_64-linux-gnu",
            "drop the `target triple` line if the code does not depend on it; "
            f"`%asm --target={triple}` shows what it compiles to there",
        )
    return None


def _at(statement: Statement, message: str, hint: str, severity: str = "error") -> Diagnostic:
    source = statement.text.partition("\n")[0]
    return Diagnostic(
        message,
        statement.line,
        statement.column,
        " " * (statement.column - 1) + source,
        hint,
        severity,
    )
