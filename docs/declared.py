"""Sphinx directives that write pages from what the package declares.

`interface` documents every public name of a package, `magics` and `settings` list theirs: nothing
of it is written by hand, so nothing of it can be out of date.  Links between the project's pages
lead to their copies here, and a public name need not be told with its package.  Start from `setup`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode
from traitlets import Enum, TraitType

from jitkernel.kernel import settings
from jitkernel.kernel.magics import MAGICS
from jitkernel.kernel.magics.parsing import usage
from jitkernel.kernel.magics.registry import Magic

#: The packages whose `__all__` is the interface of the library.
PACKAGES = (
    "jitkernel",
    "jitkernel.session",
    "jitkernel.errors",
    "jitkernel.views",
    "jitkernel.languages",
    "jitkernel.transform",
    "jitkernel.ir.model",
    "jitkernel.grading",
    "jitkernel.arena",
    "jitkernel.linker",
)
ROOT = Path(__file__).resolve().parents[1]
#: The project's pages, and what they are called here.
PAGES = {
    "README.md": "readme",
    "docs/installing.md": "installing",
    "docs/ir.md": "ir",
    "docs/c.md": "c",
    "docs/python.md": "python",
    "docs/debugger.md": "debugger",
    "docs/passes.md": "passes",
    "HOW_IT_WORKS.md": "how_it_works",
    "CONTRIBUTING.md": "contributing",
    "CHANGELOG.md": "changelog",
    "notebooks/course/README.md": "course",
}
#: A folder whose files are beside the pages.
BESIDE = "notebooks/"
SECTIONS = (
    settings.Arena,
    settings.Session,
    settings.Compiler,
    settings.Executor,
    settings.ObjectCache,
    settings.JITKernelSettings,
)


class Lines(SphinxDirective):
    """A directive that stands for lines of reStructuredText."""

    def lines(self) -> Iterable[str]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(self.lines()), allow_section_headings=True)


class Interface(Lines):
    """`.. interface:: PACKAGE`: all that it says of itself and of its public names."""

    required_arguments = 1

    def lines(self) -> Iterator[str]:
        (package,) = self.arguments
        module = import_module(package)
        yield from [f".. automodule:: {package}", "   :no-members:", ""]
        for name in module.__all__:
            found = getattr(module, name)
            if isinstance(found, type):
                # What is made of parts that are no names of their own has all of theirs.
                parts = [of for of in found.__mro__[1:] if of.__module__.startswith(package)]
                hidden = any(part.__name__ not in module.__all__ for part in parts)
                inherited = ["   :inherited-members:"] * hidden
                yield from [f".. autoclass:: {package}.{name}", "   :members:", *inherited, ""]
            elif callable(found):
                yield from [f".. autofunction:: {package}.{name}", ""]


class Magics(Lines):
    """`.. magics::`: every magic with its arguments, by name."""

    def lines(self) -> Iterator[str]:
        for magic in sorted(MAGICS, key=lambda magic: (magic.name, magic.form)):
            yield from _magic(magic)


def _magic(magic: Magic) -> Iterator[str]:
    head = {"line": f"%{magic.name}", "cell": f"%%{magic.name}"}.get(
        magic.form, f"%{magic.name}, %%{magic.name}"
    )
    yield from [head, "-" * len(head), "", *_plain(magic.help), ""]
    yield from ["::", "", textwrap.indent(usage(magic).removeprefix("usage:").lstrip(), "    "), ""]
    for argument in magic.arguments:
        meaning = [f"    {line}" for line in _plain(argument.meaning)]
        yield from [f"``{argument.title}``", *meaning, ""]
    if magic.aliases:
        yield from ["Also " + ", ".join(f"``%{name}``" for name in magic.aliases) + ".", ""]
    if magic.example:
        yield from ["For example::", "", textwrap.indent(magic.example, "    "), ""]


class Settings(Lines):
    """`.. settings::`: every setting of the kernel, with its default and when it takes effect."""

    def lines(self) -> Iterator[str]:
        for section in SECTIONS:
            name = section.__name__.removesuffix("Settings")
            yield from [name, "-" * len(name), "", *_plain(section.__doc__ or ""), ""]
            for trait in section.class_own_traits(config=True).values():
                if "setting" not in trait.metadata:
                    continue
                kind = trait.info() if not isinstance(trait, Enum) else "a choice"
                head = f"``{name}.{trait.name}``: {kind}, ``{_default(trait)}`` by default"
                yield from [head, *(f"    {line}" for line in _plain(trait.help)), ""]
        yield from ["Short forms", "-----------", ""]
        for short, long in settings.ALIASES.items():
            yield f"* ``--{short}`` is ``--{long}``"
        for short, (_, text) in settings.FLAGS.items():
            yield f"* ``--{short}``: {_escaped(text)}"


def _default(trait: TraitType[Any, Any]) -> str:
    if isinstance(trait, settings.ByteSize) and trait.default_value:
        return f"{trait.default_value >> 20}M"
    return trait.default_value_repr()


def _escaped(text: str) -> str:
    """Plain text for reStructuredText: `code` becomes code, and nothing else is markup."""
    parts = text.split("`")
    for i in range(0, len(parts), 2):
        if "``" not in text:
            for mark in "\\*_|":
                parts[i] = parts[i].replace(mark, "\\" + mark)
    if "``" in text or len(parts) % 2 == 0:
        return text
    return "".join(f"``{part}``" if i % 2 else part for i, part in enumerate(parts))


def _plain(text: str) -> list[str]:
    return [_escaped(line) for line in textwrap.dedent(text).strip().splitlines()]


class PageLinks(SphinxPostTransform):
    """Links of the project's pages to its files: to a page here, or to a file beside the pages.
    What leads to no file is left, and then told as a broken link."""

    default_priority = 8  # before those of MyST

    def run(self, **_: Any) -> None:
        for node in list(self.document.findall(pending_xref)):
            if node["reftype"] == "myst" and (found := self._found(node)) is not None:
                node.replace_self(found)

    def _found(self, node: pending_xref) -> nodes.Node | None:
        page, text = node["refdoc"], node[0].deepcopy()
        source = ROOT / next((path for path, name in PAGES.items() if name == page), page)
        file = (source.parent / node["reftarget"].partition("#")[0]).resolve()
        if not file.exists() or not file.is_relative_to(ROOT):
            return None
        name = str(file.relative_to(ROOT))
        if name in PAGES:
            return make_refnode(self.app.builder, page, PAGES[name], None, text)
        if name.startswith(BESIDE) and file.is_file():
            address = "../" * page.count("/") + name.removeprefix(BESIDE)
            return nodes.reference("", "", text, refuri=address, internal=True)
        return text  # a file or folder that is not published


def public_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.TextElement
) -> nodes.Node | None:
    """A link to a public name that is written without its package."""
    if node.get("refdomain") != "py":
        return None
    objects = env.domains.python_domain.objects
    for package in PACKAGES:
        name = f"{package}.{node['reftarget']}"
        if name in objects:
            found = objects[name]
            return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, text)
    return None


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("interface", Interface)
    app.add_directive("magics", Magics)
    app.add_directive("settings", Settings)
    app.add_post_transform(PageLinks)
    app.connect("missing-reference", public_name)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
