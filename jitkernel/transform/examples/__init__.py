"""Passes and analyses to read, run, and start one's own from.

    %%pass --example mem2reg --on @f
    from jitkernel.transform.examples.mem2reg import mem2reg

Each module has one, by its own name.  They are short rather than complete: what LLVM's do beyond
is not tried.
"""

from pathlib import Path

#: The passes, and the analyses.
PASSES = ("dce", "fold", "gvn", "licm", "lvn", "mem2reg", "strength")
ANALYSES = ("linear_scan", "liveness")


def source(name: str) -> str:
    """The text of the module of an example."""
    return Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
