"""Passes written in Python by whoever sits at the notebook.

A pass gets a `Module` (or its text), changes it and gives it back; it runs in a process of its own,
with a time limit, in the kernel's Python environment.  Start from `apply_pass`, which also measures
what the pass does to the code that is alive.
"""

from jitkernel.transform.effect import Effect, apply_pass
from jitkernel.transform.module import Block, Function, Module
from jitkernel.transform.process import Transformed, transform

__all__ = ["Block", "Effect", "Function", "Module", "Transformed", "apply_pass", "transform"]
