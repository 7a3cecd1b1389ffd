"""What a reader of a course has passed: a line for each lesson in one file of the reader's own.

It lies in Jupyter's data folder, readable by nobody else, and nothing is sent anywhere.
`course.json` in the folder that one works in says which lessons there are; elsewhere nothing is
noted, nor where the environment has `JITKERNEL_PROGRESS=off`.  Start from `passed`, `lessons`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jitkernel.errors import UsageError
from jitkernel.files import private_folder, read_text, write_whole

COURSE = "course.json"
SWITCH = "JITKERNEL_PROGRESS"
VERSION = 1
_NOTEBOOK = "JPY_SESSION_NAME"  # its path, as Jupyter's server tells a kernel
_PATIENCE = 1.0  # seconds that another kernel is waited for

#: By lesson: the day on which each of its exercises and predictions was passed first.
Passed = dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson of a course: what it is called, which lessons it needs, and what is to be passed."""

    stem: str
    title: str
    needs: tuple[str, ...]
    exercises: tuple[str, ...]
    predictions: tuple[str, ...]

    @property
    def asked(self) -> tuple[str, ...]:
        """The names of all that can be passed."""
        return (*self.exercises, *self.predictions)


def enabled() -> bool:
    """False where the environment says that nothing is noted."""
    return os.environ.get(SWITCH, "").casefold() not in ("0", "off", "no", "false")


def path() -> str:
    """The file."""
    from jupyter_core.paths import jupyter_data_dir

    return os.path.join(jupyter_data_dir(), "jitkernel", "progress.json")


def lessons() -> list[Lesson]:
    """The lessons of the course in this folder, in its order; none where there is no course."""
    if not Path(COURSE).is_file():
        return []
    try:
        rows = json.loads(read_text(COURSE))
        return [
            Lesson(
                row["stem"], row["title"], tuple(row["needs"]), tuple(row["exercises"]),
                tuple(row["predictions"]),
            )
            for row in rows
        ]  # fmt: skip
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{COURSE} is no list of lessons: {error}") from None


def elsewhere() -> str:
    """The nearest folder that has a course: above this one, in their `course` or
    `notebooks/course`, at last in this package's source tree; "" where none is."""
    here = Path.cwd()
    for root in (here, *here.parents, Path(__file__).resolve().parents[2]):
        for folder in (root, root / "course", root / "notebooks" / "course"):
            if (folder / COURSE).is_file():
                return str(folder)
    return ""


def passed(name: str) -> str:
    """Note that an exercise or a prediction was passed, where a lesson here has it.

    What is wrong, in words, else "": whoever has passed is not to fail for it.
    """
    if not enabled():
        return ""
    try:
        found = [each.stem for each in lessons() if name in each.asked]
        if len(found) > 1:  # a prediction's name may occur twice: Jupyter knows the notebook
            found = [stem for stem in found if stem == Path(os.environ.get(_NOTEBOOK, "")).stem]
        if not found:
            return ""
        (stem,) = found
        with _locked():
            known, said = _read()
            if name not in known.setdefault(stem, {}):
                known[stem][name] = time.strftime("%Y-%m-%d")
                _write(known)
            return said
    except (UsageError, OSError) as error:
        return f"{name} is not noted in your progress: {error}"


def noted() -> tuple[Passed, str]:
    """The names that were passed, and what is wrong with the file, in words, else ""."""
    with _locked():
        return _read()


def reset(stem: str = "") -> None:
    """Forget all, or one lesson.  Raises UsageError for one that has nothing noted, and OSError."""
    with _locked():
        known, _ = _read() if stem else ({}, "")
        if stem and known.pop(stem, None) is None:
            raise UsageError(
                f"nothing is noted of {stem}: there is {', '.join(known) or 'nothing'}"
            )
        _write(known)


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Keep the kernels of other notebooks from the file.  Raises UsageError, OSError."""
    folder = os.path.dirname(path())
    private_folder(folder)
    file, until = os.open(folder, os.O_RDONLY | os.O_CLOEXEC), time.monotonic() + _PATIENCE
    try:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise UsageError(f"another kernel has {path()}") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(file)


def _read() -> tuple[Passed, str]:
    """The file, nothing where there is none; a broken one is put aside, and words say so."""
    if not os.path.exists(path()):
        return {}, ""
    try:
        text = read_text(path())
        fields = json.loads(text)
        version = fields["version"]
        if isinstance(version, int) and version > VERSION:
            raise UsageError(f"{path()} is a later jitkernel's (version {version})")
        known = {
            str(stem): {str(name): str(day) for name, day in names.items()}
            for stem, names in fields["lessons"].items()
        }
        return known, ""
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        aside = f"{path()}.broken-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        os.replace(path(), aside)
        return {}, (
            f"{path()} is no record of progress ({type(error).__name__}: {error}): it is kept as "
            f"{aside}, and a new one begins"
        )


def _write(known: Passed) -> None:
    rows = ",\n".join(
        f"  {json.dumps(stem)}: {json.dumps(names)}" for stem, names in sorted(known.items())
    )
    text = f'{{"version": {VERSION}, "lessons": {{\n{rows}\n}}}}\n'
    write_whole(path(), text.encode(), 0o600)
