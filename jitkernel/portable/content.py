"""A function with all that it needs, as bytes that travel.  Start from `Content`.

Whatever arrives is looked at as what it is, bytes of somebody else: what does not have the form is
refused.  That says nothing of what the code does; it is a program, as any pickle is.
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate, pairwise
from weakref import WeakValueDictionary

from jitkernel.compiler.records import Identity, Options
from jitkernel.errors import JitError
from jitkernel.forms import check, decompress
from jitkernel.ir.names import written
from jitkernel.languages.prototypes import Prototype
from jitkernel.session.program.signatures import Signature

VERSION = 4
_FORM = b"jkf"
_MAGIC = b"%s%d" % (_FORM, VERSION)
_HEAD = struct.Struct("<4sIII")  # magic; bytes of header, object and bitcode
_LARGEST = 1 << 30  # bytes of what is packed
#: All that a header says but its prototype, in the order of `Content.encoded`.
_HEADER = (str, str, (str,) * 5, (str,) * 5, [object], dict)
_OPTIONS = [tuple(map(type, of.row())) for of in (Options(), Options(regalloc="fast"))]


@dataclass(frozen=True)
class Content:
    """A function `name` as `object` code, made by `made_by` with `options`; `bitcode` makes it for
    another processor.

    `entry` is its name in the object, where nothing else can be seen.  `needs` maps names that
    libraries must bring to the files that have them where it comes from.  `prototype` is what its
    language sees in its arguments and its result.
    """

    name: str
    entry: str
    signature: Signature
    made_by: Identity
    options: Options
    needs: dict[str, str]
    object: bytes
    bitcode: bytes
    prototype: Prototype

    @property
    def called(self) -> str:
        """The function's name as its language writes it."""
        return self.name if self.prototype.text else written(self.name)

    @cached_property
    def encoded(self) -> bytes:
        """The bytes that travel, made once."""
        header = json.dumps(
            [
                self.name, self.entry, list(self.signature), list(self.made_by),
                self.options.row(), self.needs, self.prototype.row(),
            ]
        ).encode()  # fmt: skip
        parts = [zlib.compress(part, 9) for part in (header, self.object, self.bitcode)]
        return _HEAD.pack(_MAGIC, *map(len, parts)) + b"".join(parts)

    @cached_property
    def digest(self) -> str:
        """The digest that tells it from other contents."""
        return digest_of(self.encoded)


#: contents that are in this process, by digest: what arrives again is the same one
contents: WeakValueDictionary[str, Content] = WeakValueDictionary()


def other_form(version: object) -> str:
    """The message for a form of another version's."""
    return (
        f"pickled in form {version!r}, and form {VERSION} is known here: the same version of "
        "jitkernel is needed on both sides"
    )


def digest_of(data: bytes) -> str:
    """The digest that tells contents apart, of one that is encoded."""
    return blake2b(data, digest_size=16).hexdigest()


def read_content(data: bytes) -> Content:
    """The inverse of `Content.encoded`.  Raises JitError for anything else."""
    try:
        magic, *sizes = _HEAD.unpack_from(data)
        if magic != _MAGIC and magic.startswith(_FORM):
            raise ValueError(f"it was {other_form(magic[len(_FORM) :])}")
        if magic != _MAGIC or sum(sizes) + _HEAD.size != len(data):
            raise ValueError("its size is not what it says")
        ends = pairwise(accumulate(sizes, initial=_HEAD.size))
        header, code, bitcode = [decompress(data[at:end], _LARGEST) for at, end in ends]
        *plain, prototype = json.loads(header)
        check(plain, _HEADER)
        name, entry, signature, made_by, options, needs = plain
        check(options, _OPTIONS[len(options) > len(_OPTIONS[0])])
        check(list(needs.values()), [str])
        found = Content(
            name, entry, Signature(*signature), Identity(*made_by), Options(*options), needs,
            code, bitcode, Prototype.of(prototype),
        )  # fmt: skip
        found.signature.function  # noqa: B018  that it is a type
    except (ValueError, TypeError, KeyError, IndexError, struct.error) as error:
        raise JitError(f"this is no function that a session has packed: {error}") from None
    except RecursionError:
        raise JitError("this is no function that a session has packed: too deeply nested") from None
    found.__dict__["encoded"] = data
    return found
