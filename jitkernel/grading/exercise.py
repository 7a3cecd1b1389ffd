"""An exercise: what is asked, which inputs to try, which rules hold, and a reference in bitcode.

An author writes it as one function with a head of comments; it becomes one file, `NAME.json`, in a
folder `exercises`.  Start from `make_exercise` and `find_exercise`.
"""

from __future__ import annotations

import ast
import base64
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jitkernel.compiler.records import Request
from jitkernel.errors import UsageError
from jitkernel.files import read_text, write_text
from jitkernel.grading.inputs import Kind, kinds_of
from jitkernel.grading.rules import read_rule
from jitkernel.ir.module import functions
from jitkernel.ir.names import bare
from jitkernel.ir.types import (
    ArrayType,
    FloatType,
    FunctionType,
    IntType,
    PointerType,
    StructType,
    Type,
    VectorType,
    VoidType,
    function_type,
)
from jitkernel.languages.llvm.assemble import assemble
from jitkernel.languages.llvm.plan import parse_cell
from jitkernel.regex import regex
from jitkernel.wording import did_you_mean

if TYPE_CHECKING:
    from jitkernel.session import Session

#: What the reference is called in its bitcode, so that it is never taken for the student's.
REFERENCE = "jk.reference"
FOLDER = "exercises"
SAMPLES, SEED = 200, 1
_HEAD = regex(r"[ \t]*;[ \t]*([a-z]+):[ \t]*(.*)$")
_BRACES = regex(r'"[^"]*"|[{}]')  # a struct is written as one; texts stay as they are
_KEYS = (
    "task", "hint", "function", "inputs", "try", "show", "must", "samples", "seed", "tolerance",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise.

    `type` is the function's, as IR text.  `tries` are inputs that always come first, Python values
    for the free arguments (a `length` is none); `inputs` says how others are drawn, `samples` how
    many, from `seed`.  `rules` are read by `rules.read_rule`.  `reference` is bitcode that
    defines `REFERENCE`; `tolerance` is the relative error allowed in floating point.  `unsigned`
    says that integers are told as unsigned ones.
    """

    name: str
    function: str
    type: str
    task: str = ""
    hint: str = ""
    inputs: str = ""
    tries: tuple[tuple[Any, ...], ...] = ()
    rules: tuple[str, ...] = ()
    samples: int = SAMPLES
    seed: int = SEED
    tolerance: float = 0.0
    reference: bytes = b""
    unsigned: bool = False

    @property
    def signature(self) -> FunctionType:
        """The function's type as a record."""
        return function_type(self.type)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kind of each argument, by which it is drawn."""
        kinds = kinds_of(self.inputs, self.signature)
        return tuple(kind.as_unsigned() for kind in kinds) if self.unsigned else kinds

    def write(self, folder: Path) -> Path:
        """Keep it as `folder/NAME.json`."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        fields = asdict(self) | {"reference": base64.b64encode(self.reference).decode()}
        write_text(str(path), json.dumps(fields, indent=1, ensure_ascii=False) + "\n")
        return path

    @staticmethod
    def read(path: Path) -> Exercise:
        """The inverse of `write`.  Raises UsageError for a file that is no exercise."""
        try:
            fields = json.loads(read_text(str(path)))
            found = Exercise(**fields)
            return replace(
                found,
                reference=base64.b64decode(fields["reference"]),
                tries=tuple(tuple(values) for values in found.tries),
                rules=tuple(found.rules),
            )
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UsageError(f"{path} is no exercise: {error}") from None


def make_exercise(session: Session, name: str, source: str) -> Exercise:
    """The exercise that an author's text describes: a head of `; key: value` lines, a function.

    Raises UsageError for a head that cannot be read and CompileError for what cannot be compiled.
    """
    if not re.fullmatch(r"[\w.-]+", name):
        raise UsageError(f"{name!r} cannot be the name of an exercise, which is a file's too")
    head = _read_head(source)
    names = [function.name for function in functions(source, "define")]
    function = bare(head["function"]) if "function" in head else next(iter(names), "")
    if function not in names:
        missing = f"@{function}" if function else "a function"
        raise UsageError(
            f"an exercise defines {missing}, the reference for solutions; here is none"
        )
    plan = parse_cell(source)
    if plan.actions:
        raise UsageError("an exercise only defines: it has no calls and no instructions outside")
    assembled = assemble(plan, lambda name: None, {}, block_name="", prelude=True, part="entities")
    request = Request(assembled.source, label=name, first_line=assembled.first_line)
    bitcode = session.inspect.engine.pool.internalised(request, function, REFERENCE)
    summary = session.inspect.engine.pool.compile(request).summary
    type = next(info.type for info in summary.functions if info.name == function)
    made = Exercise(
        name, function, type, head.get("task", ""), head.get("hint", ""), head.get("inputs", ""),
        rules=tuple(rule.strip() for rule in head.get("must", "").split(";") if rule.strip()),
        samples=_number(head, "samples", SAMPLES), seed=_number(head, "seed", SEED),
        tolerance=float(_number(head, "tolerance", 0.0)), reference=bitcode,
        unsigned="show" in head,
    )  # fmt: skip
    if head.get("show", "unsigned") != "unsigned":
        raise UsageError(f"show: {head['show']!r} is not known; it can be: unsigned")
    for rule in made.rules:
        read_rule(rule)
    result = made.signature.result
    if isinstance(result, PointerType) and not any(kind.in_memory for kind in made.kinds):
        raise UsageError(
            "a pointer as a result is compared by where it leads in an argument's memory"
        )
    if not isinstance(result, PointerType | VoidType) and not _of_numbers(result):
        raise UsageError(f"a result of type {result} cannot be compared; write into an array")
    free = sum(kind.name != "length" for kind in made.kinds)
    return replace(made, tries=_tries(head.get("try", ""), free))


def _of_numbers(type: Type) -> bool:
    """True if it is a number, or an aggregate of numbers."""
    if isinstance(type, StructType):
        return all(map(_of_numbers, type.members))
    if isinstance(type, ArrayType | VectorType):
        return _of_numbers(type.element)
    return isinstance(type, IntType | FloatType)


def exercises(folder: str = "") -> dict[str, Path]:
    """The exercises at hand by name: in `folder`, or in `exercises` here or one folder up."""
    places = [Path(folder)] if folder else [Path(FOLDER), Path("..") / FOLDER]
    found: dict[str, Path] = {}
    for place in places:
        for path in sorted(place.glob("*.json")):
            found.setdefault(path.stem, path)
    return found


def find_exercise(name: str, folder: str = "") -> Exercise:
    """The exercise of that name.  Raises UsageError naming the nearest one."""
    known = exercises(folder)
    if name not in known:
        where = folder or f"{FOLDER} here or one folder up"
        raise UsageError(f"there is no exercise {name} in {where}{did_you_mean(name, known)}")
    return Exercise.read(known[name])


def _read_head(source: str) -> dict[str, str]:
    """The `; key: value` lines above the first statement; other comments are the author's own."""
    head: dict[str, str] = {}
    for line in source.split("\n"):
        if line.strip() and not line.lstrip().startswith(";"):
            break
        match = _HEAD.match(line)
        if match is None:
            continue
        if match[1] not in _KEYS:
            raise UsageError(f"an exercise has no {match[1]}; it has {', '.join(_KEYS)}")
        head[match[1]] = f"{head[match[1]]} {match[2]}" if match[1] in head else match[2].strip()
    return head


def _number(head: dict[str, str], key: str, default: Any) -> Any:
    try:
        return default.__class__(head[key]) if key in head else default
    except ValueError:
        raise UsageError(f"{key}: {head[key]!r} is no number") from None


def _tries(text: str, count: int) -> tuple[tuple[Any, ...], ...]:
    """Inputs as they are written: `0, 1; 5, -5; [3, 1]`."""
    found: list[tuple[Any, ...]] = []
    for piece in filter(None, (p.strip() for p in text.split(";"))):
        plain = _BRACES.sub(lambda match: {"{": "(", "}": ",)"}.get(match[0], match[0]), piece)
        try:
            values: Sequence[Any] = ast.literal_eval(f"({plain},)")
        except (ValueError, SyntaxError):
            raise UsageError(f"try: {piece!r} are no values") from None
        if len(values) != count:
            raise UsageError(f"try: {piece} are {len(values)} values, {count} are needed")
        found.append(tuple(values))
    return tuple(found)
