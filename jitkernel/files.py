"""Files that a user names: opened only where they are plain files, and read whole.

A named pipe, a terminal or `/dev/zero` would keep the kernel process waiting, or fill its memory,
where no interrupt reaches it.  So what is no regular file is refused before it is opened, and
nothing is read that is longer than `LIMIT`.  What we make for ourselves is its owner's alone.
Start from `read_text`; every refusal is a UsageError in one line.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator

from jitkernel.errors import UsageError

LIMIT = 1 << 30  # bytes that are read of one file
_PIECE = 1 << 20
_SCRATCH = "jitkernel-scratch-"
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}
# A path may become something else between the look and the opening: that does not wait either.
_FLAGS = os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def working_folder() -> str:
    """The folder that this process works in; "" where somebody has removed it."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def absolute(path: str) -> str:
    """A path from the root on; as it is where the folder that it starts from was removed."""
    folder = working_folder()
    return os.path.normpath(os.path.join(folder, path)) if folder or path[:1] == "/" else path


@contextlib.contextmanager
def scratch_folder() -> Iterator[str]:
    """A folder for this block alone.  Those of processes that were killed in such a block go first:
    each is locked as long as somebody has it.  flock(2)."""
    import shutil  # few sessions have any
    import tempfile

    for entry in os.scandir(tempfile.gettempdir()):
        if entry.name.startswith(_SCRATCH):
            with contextlib.suppress(OSError), _locked(entry.path):
                shutil.rmtree(entry.path, ignore_errors=True)
    made = tempfile.mkdtemp(prefix="jitkernel-")
    with _locked(made):
        folder = os.path.join(os.path.dirname(made), _SCRATCH + os.path.basename(made))
        try:
            os.rename(made, folder)  # nobody finds it unlocked
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """A block in which nobody else locks a folder.  Raises OSError where somebody does."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(file)


def refuse_irregular(path: str, what: str = "") -> os.stat_result | None:
    """The `os.stat` of a regular file, or None where there is nothing of that name.

    Raises UsageError for what is no regular file, and for what is no path; `what` begins its words
    (`%run: `).
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{what}{path}: {error.strerror}") from None
    except ValueError as error:  # a NUL in it, or half a character
        raise UsageError(f"{what}{path}: no name of a file: {error}") from None
    _check(path, what, status)
    return status


def read_bytes(path: str, what: str = "") -> bytes:
    """All of a regular file.  Raises UsageError."""
    refuse_irregular(path, what)
    with _opened(path, what, os.O_RDONLY) as file:
        status = os.fstat(file)
        if status.st_size > LIMIT:
            raise UsageError(f"{what}{path}: {status.st_size} bytes are too many")
        pieces: list[bytes] = []
        left = LIMIT + 1
        most = max(status.st_size + 1, _PIECE)  # a file of /proc says that it has no bytes
        while left > 0 and (piece := os.read(file, min(left, most))):
            pieces.append(piece)
            left -= len(piece)
        if left <= 0:
            raise UsageError(f"{what}{path}: more than {LIMIT} bytes")
        return b"".join(pieces)


def read_text(path: str, what: str = "") -> str:
    """The text of a regular file, each line's end one `\\n`.  Raises UsageError."""
    text = read_bytes(path, what).decode("utf-8", "surrogateescape")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def write_text(
    path: str, text: str, what: str = "", append: bool = False, new: bool = False
) -> bool:
    """Write a file for the user, or to the end of it, or a `new` one alone; whether it was there.
    Raises UsageError."""
    there = refuse_irregular(path, what) is not None
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND * append | os.O_EXCL * new
    with _opened(path, what, flags) as file:
        if not append:
            os.truncate(file, 0)
        data = memoryview(text.encode("utf-8", "surrogateescape"))
        while data:
            data = data[os.write(file, data) :]
    return there


def write_whole(path: str, data: bytes, mode: int = 0o666) -> None:
    """Write a file for the user, all of it or nothing: what is there stays until then.

    Raises UsageError.
    """
    refuse_irregular(path)
    temporary = f"{path}.{os.getpid():x}-{os.urandom(4).hex()}"
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, mode)
        try:
            with open(file, "wb") as stream:
                stream.write(data)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def create_private(path: str) -> None:
    """Make sure that a file is there and that nobody else can read or write it.

    Raises UsageError for what is no regular file, OSError where it cannot be made.
    """
    refuse_irregular(path)
    file = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
    try:
        status = os.fstat(file)
        _check(path, "", status)
        if status.st_mode & 0o077 and status.st_uid == os.geteuid():
            os.fchmod(file, 0o600)
    finally:
        os.close(file)


def memory_file(name: str, size: int, kind: int = 0, mode: int = 0o600) -> int:
    """A sparse file in memory, of this size for good: whoever reads or writes beyond the end of one
    that was cut is ended.  `kind` is a flag that says whether it may be executed (memfd_create(2),
    fcntl(2)).  Raises OSError."""
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        file = os.memfd_create(name, flags | kind)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a kernel before 6.3 does not know such flags
            raise
        file = os.memfd_create(name, flags)
    try:
        os.fchmod(file, mode)
        os.ftruncate(file, size)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(file)
        raise
    return file


def private_folder(path: str) -> None:
    """Make a folder, and those above it that are missing, for their owner alone.

    `os.makedirs` gives its mode to the last one only.  Raises OSError.
    """
    above = os.path.dirname(path)
    if above and not os.path.isdir(above):
        private_folder(above)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    if not os.path.isdir(path):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)


@contextlib.contextmanager
def _opened(path: str, what: str, flags: int) -> Iterator[int]:
    """A descriptor of a regular file; what the system refuses is a UsageError."""
    try:
        file = os.open(path, flags | _FLAGS, 0o666)
        try:
            _check(path, what, os.fstat(file))
            yield file
        finally:
            os.close(file)
    except OSError as error:
        raise UsageError(f"{what}{path}: {error.strerror}") from None


def _check(path: str, what: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{what}{path} is {kind_of(status.st_mode)}, not a file")


def kind_of(mode: int) -> str:
    """The words for what is no regular file, by its mode."""
    return _KINDS.get(stat.S_IFMT(mode), "something else")
