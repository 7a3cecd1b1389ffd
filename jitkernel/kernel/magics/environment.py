"""Magics about what is around the program: settings, folders, variables, files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError
from jitkernel.files import working_folder, write_text
from jitkernel.kernel.magics.registry import Argument, magic
from jitkernel.kernel.settings import SESSION_NAMES, SETTINGS
from jitkernel.views.view import table
from jitkernel.wording import did_you_mean

if TYPE_CHECKING:
    from jitkernel.kernel.frontend import Frontend
    from jitkernel.setting import Setting


@magic(
    "config",
    Argument("setting", "Section.name, or Section.name=value", "rest", completes="setting"),
    example="%config Compiler.opt_level=3",
)
def config(context: Frontend, arguments: Any) -> None:
    """List the settings, or set one."""
    text = (arguments.setting or "").strip()
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals and " " in name:
        name, value = name.split(None, 1)
        equals = "="
    if equals:
        _set(context, name, value)
    else:
        _show(context, name)


def _show(context: Frontend, name: str) -> None:
    chosen = [
        told for key, told in SETTINGS.items() if not name or f"{key}.".startswith(f"{name}.")
    ]
    if not chosen:
        raise UsageError(_unknown(name))
    rows = [(s.trait, repr(context.setting(s.trait)), s.effect, s.help) for s in chosen]
    context.display(
        table(
            "Settings",
            ("setting", "value", "takes effect", "what it is"),
            rows,
            "Set one with %config Section.name=value",
        )
    )


def _unknown(name: str) -> str:
    parameters = {f"Session.{own}": setting for setting, own in SESSION_NAMES.items()}
    if name in parameters:  # as `jitkernel.Session` calls it
        return f"there is no setting {name}; did you mean {parameters[name]}?"
    return f"there is no setting {name}{did_you_mean(name, SETTINGS, cutoff=0.4)}"


def _set(context: Frontend, name: str, value: str) -> None:
    from traitlets import TraitError

    if name not in SETTINGS:
        raise UsageError(_unknown(name))
    told, (section, _, own) = SETTINGS[name], name.partition(".")
    trait = context.settings[section].traits()[own]
    if told.effect == "start" and (words := context.too_late(name, value)):
        raise UsageError(words)
    try:
        context.configure(name, trait.from_string(value))
    except (TraitError, ValueError) as error:
        raise UsageError(_refused(told, trait, value, str(error))) from None
    when = "" if told.effect == "now" else " from the next cell on"
    context.print(f"{name} = {context.setting(name)!r}{when}")


def _refused(told: Setting, trait: Any, value: str, words: str) -> str:
    """A setting's own words, in place of traitlets' about traits and instances."""
    if told.takes and told.unit != "bytes":
        return f"{told.trait} {told.takes}, not {value!r}"
    return f"{told.trait}: {words.removeprefix(f'{trait.name}: ')}"


@magic("cd", Argument("folder", "where to", "?", completes="file"))
def cd(context: Frontend, arguments: Any) -> None:
    """Change the working directory, of cells and of !commands."""
    path = os.path.expanduser(arguments.folder or "~")
    try:
        os.chdir(path)
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or error
        raise UsageError(f"%cd: {path}: {words}") from None
    here = os.getcwd()
    context.session.chdir(here)
    context.print(here)


@magic("pwd")
def pwd(context: Frontend, arguments: Any) -> None:
    """The working directory."""
    if not (here := working_folder()):
        raise UsageError("%pwd: the working directory was removed; %cd FOLDER goes to another one")
    context.print(here)


@magic(
    "env",
    Argument("setting", "NAME, or NAME=value", "rest", completes="variable"),
    example="%env OMP_NUM_THREADS=2",
)
def env(context: Frontend, arguments: Any) -> None:
    """List environment variables, show one, or set one."""
    name, equals, value = (arguments.setting or "").partition("=")
    name = name.strip()
    if not name:
        context.print("\n".join(f"{k}={v}" for k, v in sorted(os.environ.items())))
    elif equals:
        os.environ[name] = value.strip()
        context.session.setenv(name, value.strip())
        context.print(f"{name}={value.strip()}")
    elif name in os.environ:
        context.print(os.environ[name])
    else:
        raise UsageError(f"%env: {name} is not set; %env {name}=value sets it")


@magic(
    "writefile",
    Argument("-a --append", "append to it", "flag"),
    Argument("file", "where to", completes="file"),
    form="cell",
)
def writefile(context: Frontend, arguments: Any) -> None:
    """Write the rest of the cell to a file."""
    path = os.path.expanduser(arguments.file)
    body = arguments.body.lstrip("\n")
    text = body if body.endswith("\n") else body + "\n"
    there = write_text(path, text, "%%writefile: ", append=arguments.append)
    word = "appended to" if arguments.append else "overwrote" if there else "wrote"
    context.print(f"{word} {path}")


@magic("clear", Argument("-w --wait", "when the next output comes", "flag"))
def clear(context: Frontend, arguments: Any) -> None:
    """Clear the cell's output."""
    context.clear(arguments.wait)
