"""Source text in, IR text and actions out; one package per language.

Start from `Language`, which says what a language is, and `find`, which knows them by name.
"""

from jitkernel.languages.language import (
    Commands,
    Completeness,
    Known,
    Language,
    Once,
    plan,
    split_commands,
)
from jitkernel.languages.registry import add, find, load_file, names, of_file

__all__ = [
    "Commands",
    "Completeness",
    "Known",
    "Language",
    "Once",
    "add",
    "find",
    "load_file",
    "names",
    "of_file",
    "plan",
    "split_commands",
]
