"""IR text is read with regular expressions in `ir/` alone."""

from __future__ import annotations

import ast
from pathlib import Path

import jitkernel

ROOT = Path(jitkernel.__file__).parent
#: Rooms and files that have IR, or lines that call it, in their hands, and leave reading to `ir/`.
READERS = [
    "compiler", "languages/llvm", "languages/c/module.py", "transform", "grading/rules.py",
    "session/run", "values/debug_info.py", "views/watched.py",
]  # fmt: skip
#: What reads other texts: LLVM's messages, its log, its machine IR, the table of passes, triples.
OTHERS = {
    "allocation", "diagnose", "inlining", "machine_code", "machine_ir", "pass_log", "passes",
    "products", "remarks",
}  # fmt: skip


def compiles(path: Path) -> bool:
    """True if a module makes regular expressions."""
    return any(
        (isinstance(node, ast.Import) and any(name.name == "re" for name in node.names))
        or (isinstance(node, ast.ImportFrom) and node.module == "jitkernel.regex")
        for node in ast.walk(ast.parse(path.read_text()))
    )


def test_ir_is_read_in_one_room() -> None:
    files = [f for name in READERS for f in (sorted((ROOT / name).rglob("*.py")) or [ROOT / name])]
    assert len(files) > 40
    assert {f.stem for f in files if compiles(f)} <= OTHERS
    assert {f.stem for f in (ROOT / "ir").glob("*.py") if compiles(f)} >= {"names", "text", "types"}
