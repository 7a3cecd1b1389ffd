"""From a function of a session to what travels.  Start from `pack`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from jitkernel.errors import UsageError
from jitkernel.ir.expansion import is_digest
from jitkernel.ir.names import bare
from jitkernel.portable.building import build
from jitkernel.portable.content import Content
from jitkernel.portable.gathering import ExportSource, cells_of
from jitkernel.session.program.signatures import Signature

if TYPE_CHECKING:
    from jitkernel.session.program.program import Program

__all__ = ["pack"]

_KEPT = 32  # functions of a session
_packed: WeakKeyDictionary[Program, dict[Hashable, tuple[object, Content]]] = WeakKeyDictionary()


def pack(home: ExportSource, name: str, present: bool) -> Content:
    """A function with all that it needs.

    What was packed is kept until one of its cells is another: a pool pickles a function for each
    task.  Raises UsageError, LinkError, CompileError.
    """
    name = bare(name)
    cells = cells_of(home, [name])
    state = [(c.number, c.image, tuple(c.names)) for c in cells]
    key = tuple((number, id(image), names) for number, image, names in state)
    known = _packed.setdefault(home.program, {})
    if not present and (found := known.get((name, key))) is not None:
        return found[1]
    built = build(home, [name], present, forms=("bitcode",), called={name: _entry(name)})
    built.refuse_missing()
    signature = built.gathered.exports[name]
    if not isinstance(signature, Signature):
        raise UsageError(f"{home.program.called(name)} is a variable: functions travel")
    if is_digest(signature.type) or is_digest(signature.attributes):
        raise UsageError(f"{home.program.called(name)} passes a value of too many parts to travel")
    content = Content(
        name, _entry(name), signature._replace(shown=signature.type), home.engine.pool.identity(),
        built.gathered.options, dict(built.needs), built.made["object"],
        b"" if built.gathered.objects else built.made["bitcode"], home.prototype(name),
    )  # fmt: skip
    if not built.gathered.present:
        while len(known) >= _KEPT:
            del known[next(iter(known))]
        known[name, key] = state, content  # with the images, so that no other one has their `id`
    return content


def _entry(name: str) -> str:
    return f"{name}.travels"
