"""Magics about what is around the program: settings, folders, variables, files, help."""

from __future__ import annotations

import os
import textwrap
from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError
from jitkernel.files import write_text
from jitkernel.kernel.magics.glossary import WORDS, explained
from jitkernel.kernel.magics.groups import grouped
from jitkernel.kernel.magics.table import Argument, Magic, help_text, usage
from jitkernel.views.view import View, join, listing, paragraph, table

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend

__all__ = ["MAGICS"]


def config(frontend: Frontend, arguments: Any) -> None:
    text = (arguments.setting or "").strip()
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals and " " in name:
        name, value = name.split(None, 1)
        equals = "="
    if equals:
        _set(frontend, name, value)
    else:
        _show(frontend, name)


def _traits(frontend: Frontend) -> dict[str, tuple[Any, Any]]:
    """`Section.trait` -> (its owner, the trait), for every setting that says when it acts."""
    return {
        f"{section}.{name}": (owner, trait)
        for section, owner in frontend.settings.items()
        for name, trait in owner.traits(config=True, effect=lambda effect: effect).items()
    }


def _show(frontend: Frontend, name: str) -> None:
    known = _traits(frontend)
    chosen = {k: v for k, v in known.items() if not name or k == name or k.startswith(name + ".")}
    if not chosen:
        raise UsageError(_unknown(name, known))
    rows = [
        (key, repr(getattr(owner, trait.name)), trait.metadata["effect"], _first(trait.help))
        for key, (owner, trait) in chosen.items()
    ]
    frontend.display(
        table(
            "Settings",
            ("setting", "value", "takes effect", "what it is"),
            rows,
            "Set one with %config Section.name=value",
        )
    )


def _first(text: str) -> str:
    return text.split(" Takes effect")[0]


def _unknown(name: str, known: Any) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, 1, 0.4)
    return f"there is no setting {name}" + (f"; did you mean {near[0]}?" if near else "")


def _set(frontend: Frontend, name: str, value: str) -> None:
    from traitlets import TraitError

    known = _traits(frontend)
    if name not in known:
        raise UsageError(_unknown(name, known))
    owner, trait = known[name]
    if trait.metadata["effect"] == "start":
        raise UsageError(
            f"{name} holds from the kernel's start: set it in jitkernel_config.py"
            f" (c.{name} = {value}) or start the kernel with --{name}={value}"
        )
    try:
        frontend.configure(name, trait.from_string(value))
    except (TraitError, ValueError) as error:
        raise UsageError(_refused(name, trait, value, str(error))) from None
    when = "" if trait.metadata["effect"] == "now" else " from the next cell on"
    frontend.print(f"{name} = {getattr(owner, trait.name)!r}{when}")


def _refused(name: str, trait: Any, value: str, words: str) -> str:
    """What a setting takes, in place of traitlets' words about traits and instances."""
    from traitlets import Bool, Enum, Float, Integer

    if isinstance(trait, Enum):
        return f"{name} is one of {', '.join(map(str, trait.values or ()))}, not {value!r}"
    if isinstance(trait, Bool):
        return f"{name} is True or False, not {value!r}"
    if isinstance(trait, Integer | Float):
        kind = "a whole number" if isinstance(trait, Integer) else "a number"
        least, most = trait.min, trait.max
        bounds = f", at least {least:g}" if least is not None else ""
        if least is not None and most not in (None, float("inf")):
            bounds = f" from {least:g} to {most:g}"
        return f"{name} takes {kind}{bounds}, not {value!r}"
    return f"{name}: {words.removeprefix(f'{trait.name}: ')}"


def cd(frontend: Frontend, arguments: Any) -> None:
    path = os.path.expanduser(arguments.folder or "~")
    try:
        os.chdir(path)
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or error
        raise UsageError(f"%cd: {path}: {words}") from None
    here = os.getcwd()
    frontend.session.chdir(here)
    frontend.print(here)


def pwd(frontend: Frontend, arguments: Any) -> None:
    frontend.print(os.getcwd())


def env(frontend: Frontend, arguments: Any) -> None:
    name, equals, value = (arguments.setting or "").partition("=")
    name = name.strip()
    if not name:
        frontend.print("\n".join(f"{k}={v}" for k, v in sorted(os.environ.items())))
    elif equals:
        os.environ[name] = value.strip()
        frontend.session.setenv(name, value.strip())
        frontend.print(f"{name}={value.strip()}")
    elif name in os.environ:
        frontend.print(os.environ[name])
    else:
        raise UsageError(f"%env: {name} is not set; %env {name}=value sets it")


def writefile(frontend: Frontend, arguments: Any) -> None:
    path = os.path.expanduser(arguments.file)
    body = arguments.body.lstrip("\n")
    text = body if body.endswith("\n") else body + "\n"
    there = write_text(path, text, "%%writefile: ", append=arguments.append)
    word = "appended to" if arguments.append else "overwrote" if there else "wrote"
    frontend.print(f"{word} {path}")


def clear(frontend: Frontend, arguments: Any) -> None:
    frontend.out.clear(arguments.wait)


def help(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.kernel.inspection import inspect_name
    from jitkernel.kernel.magics import BY_NAME, MAGICS

    topic = arguments.topic
    if topic:
        magic = BY_NAME.get(topic.lstrip("%"))
        view = listing("", help_text(magic)) if magic else inspect_name(frontend, topic, 0)
        if view is None and (words := explained(topic)):
            view = _wrapped(words)
        if view is None:
            raise UsageError(f"no help for {topic}")
        frontend.display(view)
        return
    tables = [
        table(title, ("magic", "what it does", "how"), [_row(m) for m in members])
        for title, members in grouped(MAGICS)
    ]
    glossary = _wrapped(f"%help WORD says what a word means: {', '.join(WORDS)}.")
    frontend.display(join([listing("Cells", CELLS), *tables, glossary]))


def lsmagic(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.kernel.magics import MAGICS

    magics = [m for _, members in grouped(MAGICS) for m in members]
    line = "  ".join("%" + m.name for m in magics if m.form != "cell")
    cell = "  ".join("%%" + m.name for m in magics if m.form != "line")
    frontend.print(f"{line}\n{cell}\n%name? helps.")


def quickref(frontend: Frontend, arguments: Any) -> None:
    from jitkernel.kernel.magics import MAGICS

    width = max(len(usage(m)) for m in MAGICS if len(usage(m)) < 60)
    lines = [CELLS, ""]
    for title, members in grouped(MAGICS):
        lines += [title, ""]
        for magic in members:
            how = usage(magic).removeprefix("usage: ")
            lines.append(f"{how:<{width}}  {_first_sentence(magic.help)}")
        lines.append("")
    frontend.page(listing("jitkernel, in short", "\n".join(lines)))


def _wrapped(text: str) -> View:
    return View(textwrap.fill(text, 100), paragraph(text).html)


def _row(magic: Magic) -> tuple[str, str, str]:
    how = usage(magic).removeprefix("usage: ")
    return _marked(magic), _first_sentence(magic.help), how


def _marked(magic: Magic) -> str:
    marks = {"line": ("%",), "cell": ("%%",), "both": ("%", "%%")}[magic.form]
    return ", ".join(mark + magic.name for mark in marks)


def _first_sentence(text: str) -> str:
    return text.split(". ")[0].rstrip(".")


CELLS = """\
define i32 @sq(i32 %x) { ... }   define a function; running the cell again replaces it
@sq(7)                           call it and show the result
%y = add i32 40, 2               bare instructions run once; the last value is shown
@n = i64 5                       make a global, or store into one
@n                               show it; @n? inspects, @n?? adds IR and assembly
!command                         run a shell command"""

MAGICS = (
    Magic(
        "config",
        "List the settings, or set one.",
        config,
        (Argument("setting", "Section.name, or Section.name=value", "rest", completes="setting"),),
        example="%config Compiler.opt_level=3",
    ),
    Magic(
        "cd",
        "Change the working directory, of cells and of !commands.",
        cd,
        (Argument("folder", "where to", "?", completes="file"),),
    ),
    Magic("pwd", "The working directory.", pwd),
    Magic(
        "env",
        "List environment variables, show one, or set one.",
        env,
        (Argument("setting", "NAME, or NAME=value", "rest", completes="variable"),),
        example="%env OMP_NUM_THREADS=2",
    ),
    Magic(
        "writefile",
        "Write the rest of the cell to a file.",
        writefile,
        (
            Argument("-a --append", "append to it", "flag"),
            Argument("file", "where to", completes="file"),
        ),
        form="cell",
    ),
    Magic(
        "clear",
        "Clear the cell's output.",
        clear,
        (Argument("-w --wait", "when the next output comes", "flag"),),
    ),
    Magic(
        "help",
        "What there is, or help on one magic, a name, or a word such as predecessor.",
        help,
        (Argument("topic", "a magic, a name, a word", "rest", completes="magic"),),
    ),
    Magic("lsmagic", "The names of all magics.", lsmagic),
    Magic("quickref", "One page of everything.", quickref),
)
