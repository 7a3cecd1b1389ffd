"""How `make docs` builds the documentation: pages from the docstrings and from declarations."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from declared import PACKAGES  # noqa: E402

from jitkernel import __version__  # noqa: E402

project = "jitkernel"
author = "the jitkernel authors"
version = release = __version__

extensions = ["sphinx.ext.autodoc", "myst_parser", "declared"]
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {
    "description": "Incremental JIT sessions in a notebook",
    "fixed_sidebar": True,
}
html_show_sourcelink = False
html_copy_source = False
html_extra_path = ["../notebooks"]  # links to notebooks are downloads

myst_heading_anchors = 3
smartquotes = False  # `--last` is typed with two hyphens
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True

# `name` in a docstring is a link where the name is documented, and code elsewhere.  What looks
# like a name of the interface and is none of it is an error.
default_role = "py:obj"
nitpicky = True
_public = {name for package in PACKAGES for name in import_module(package).__all__}
_classes = "|".join(sorted(name for name in _public if name[0].isupper()))
nitpick_ignore_regex = [("py:(?!obj).*", ".*"), ("py:obj", rf"(?!({_classes})\.[a-z]\w*$).*")]
