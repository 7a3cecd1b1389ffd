"""The program that the executor's process runs; its arguments are a stack's size, and where the
arena begins and ends.

It maps the arena, opens the C library, fills in the control block, and then stays in the native
loop `jk_serve`, which comes back only for rare requests: looking up symbols, loading libraries.
It stands alone: nothing of jitkernel can be imported here, and little of Python, since every
import costs start-up time and memory.

The first message is a marshalled dict (see process.py); the parent is trusted, never the reverse:
what goes back is plain bytes that the parent takes apart itself.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # without the enums of the module signal
import ctypes
import marshal
import os
import struct
import sys

TYPE_CHECKING = False  # the module that has it is too large to import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, NoReturn

HEAD = struct.Struct("<8Q")
RLIMIT_DATA, RLIMIT_STACK, RLIMIT_CORE, RLIMIT_NOFILE = 2, 3, 4, 7
MAP_SHARED, MAP_PRIVATE, MAP_ANONYMOUS = 1, 2, 0x20
MAP_POPULATE, MAP_FIXED_NOREPLACE = 0x8000, 0x100000
F_DUPFD_CLOEXEC = 1030
LARGE_STACK = 100 << 20  # Linux leaves at least 128 MB below the top of the stack
PROT = {"r": 1, "rw": 3, "rx": 5}
SIG_DFL = 0
PR_SET_PDEATHSIG = 1  # prctl(2), <linux/prctl.h>
# what follows: see arena/writes.py
UFFDIO_API, UFFDIO_REGISTER = 0xC018AA3F, 0xC020AA00
UFFD_API, WP_ASYNC, WP_SHMEM, MODE_WP, USER_MODE_ONLY = 0xAA, 1 << 15, 1 << 12, 2, 1
QUERY, FIXED_ADDRESSES = 0xFFFFFFFF, 0x40000  # personality(2)
#: glibc picks these by CPU at load time; their names are not where their code is.
BY_CPU = (
    "memchr memcmp memcpy memmove mempcpy memrchr memset rawmemchr stpcpy stpncpy strcasecmp "
    "strcat strchr strchrnul strcmp strcpy strcspn strlen strncasecmp strncat strncmp strncpy "
    "strnlen strpbrk strrchr strspn strstr wcslen wcsnlen wmemset sin cos tan exp log pow atan "
    "atan2 sinf cosf expf logf powf floor ceil rint nearbyint trunc fma fmaf"
).split()

libc = ctypes.CDLL(None, use_errno=True)
long, pointer = ctypes.c_long, ctypes.c_void_p

#: What the C library calls the program, as in a failed assertion's line.
PROGRAM = ctypes.create_string_buffer(b"jitkernel")

SOCKET, LIFELINE, SLAB = 3, 4, 5  # the descriptors that it has at first
control_socket = SOCKET
numbers: dict[str, int] = {}  # `NAMES` of abi.py
fields: dict[str, int] = {}  # offsets of the control words, as there
control = 0  # where they begin
entry: dict[str, int] = {}  # addresses of the runtime's functions
reaper: Any = None  # kept: the arguments of the program that cleans up


class Info(ctypes.Structure):
    """Dl_info of <dlfcn.h>."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


class Loader:
    """The libraries of this process, and what else is asked for rarely: each request is a call of a
    method, which answers with bytes or nothing, and raises OSError and ValueError.  services.py
    asks."""

    def __init__(self) -> None:
        self.handles: list[int] = []  # of loaded libraries
        self._by_cpu: list[tuple[int, str]] = []  # addresses and names of BY_CPU

    def open(self, others: list[str]) -> list[str]:
        """Open the C library and those that were loaded before; the loader's words for what is
        lost."""
        lost = []
        for name in ("libc.so.6", "libm.so.6", "libgcc_s.so.1", *others):
            try:
                self.library(os.fsencode(name))
            except ValueError as error:
                lost += [str(error)] if name in others else []
        return lost

    def library(self, path: bytes) -> None:
        """Load a library for all to see."""
        handle = libc.dlopen(path, os.RTLD_NOW | os.RTLD_GLOBAL)
        if not handle:
            raise ValueError((libc.dlerror() or b"dlopen failed").decode("utf-8", "replace"))
        self.handles.append(handle)

    def chdir(self, path: bytes) -> None:
        """Change the working directory."""
        os.chdir(path)

    def setenv(self, name: bytes, value: bytes) -> None:
        """Set a variable of the environment."""
        os.environb[name] = value

    def map(self, start: int, size: int, file: int, inode: int) -> None:
        """Map memory that the kernel process has at the same address, in a file that it has
        open; where all of it is there, so that no page of it faults when it is first used."""
        fd = os.open(f"/proc/{os.getppid()}/fd/{file}", os.O_RDWR | os.O_CLOEXEC)
        try:
            found = os.fstat(fd)
            if found.st_ino != inode:
                raise OSError(0, "it is gone")
            populate = MAP_POPULATE if 512 * found.st_blocks >= size else 0
            map_pages(start, size, 3, MAP_SHARED | MAP_FIXED_NOREPLACE | populate, fd)
        finally:
            os.close(fd)

    def show(self, path: bytes) -> None:
        """Map the beginning of a file, executable, for perf to see that it is there."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            map_pages(None, 4096, PROT["rx"], MAP_PRIVATE, fd)
        finally:
            os.close(fd)

    def unmap(self, ranges: list[tuple[int, int]]) -> None:
        """Unmap such files: addresses and sizes."""
        for start, size in ranges:
            libc.munmap(pointer(start), ctypes.c_size_t(size))

    def lookup(self, names: list[bytes]) -> bytes:
        """Addresses of names in the libraries; what only Python itself exports does not count."""
        out = []
        for name in names:
            known = any(libc.dlsym(h, name) for h in self.handles)
            found = libc.dlsym(None, name) if known else self._of_processor(name)
            out.append(found or 0)
        return struct.pack(f"<{len(out)}Q", *out)

    def _of_processor(self, name: bytes) -> int:
        """The address of a versioned symbol of libgcc, for `__builtin_cpu_supports`; 0 if none."""
        if not name.startswith(b"__cpu_"):
            return 0
        every = (libc.dlvsym(h, name, b"GCC_4.8.0") for h in self.handles)
        return next(filter(None, every), 0)

    def locate(self, addresses: list[int]) -> bytes:
        """The place of each: `strlen+0x2d, libc.so.6`, or "" for what is in no library."""
        return b"\0".join(self._place(a & (1 << 64) - 1).encode()[:600] for a in addresses)

    def _place(self, address: int) -> str:
        info = Info()
        if not libc.dladdr(address, ctypes.byref(info)) or not info.file:
            return ""
        file = os.path.basename(os.fsdecode(info.file))
        if info.name:
            return f"{os.fsdecode(info.name)}+{address - info.address:#x}, {file}"
        if not self._by_cpu:
            for name in BY_CPU:
                # dlsym gives the chosen one's address
                self._by_cpu.append((symbol(name), name))
            self._by_cpu.sort()
        best = max(((a, n) for a, n in self._by_cpu if a <= address < a + 0x1000), default=None)
        if best is not None:
            other = Info()
            if libc.dladdr(best[0], ctypes.byref(other)) and other.base == info.base:
                return f"{best[1]}+{address - best[0]:#x}, {file}"
        return f"{file}+{address - info.base:#x}"


loader = Loader()


def fail(words: str) -> NoReturn:
    """Say why there will be no executor, and end."""
    text = words.encode("utf-8", "replace")
    answer(numbers["HELLO"], 0, 1, text[:50000])
    os._exit(95)


def symbol(name: str) -> int:
    """Address of a name in the process, 0 where unknown."""
    return libc.dlsym(None, name.encode()) or 0


def map_pages(
    address: int | None, size: int, prot: int, flags: int, fd: int = -1, offset: int = 0
) -> int:
    at: int | None = libc.mmap(address, size, prot, flags, fd, offset)
    if at is None or at == 2**64 - 1 or (address and at != address):
        raise OSError(ctypes.get_errno(), "mmap")
    return at


def map_regions(fd: int, base: int, regions: Iterable[tuple[int, int, str]], flags: int) -> None:
    """Every region of a slab where it belongs; the system joins neighbours of one protection.

    What is not to be written comes through a description of the file that cannot write: the system
    refuses to make such pages writable later, too (mprotect(2), EACCES).  Raises OSError.
    """
    readable = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for start, stop, prot in regions:
            file = fd if "w" in prot else readable
            try:
                map_pages(start, stop - start, PROT[prot], MAP_SHARED | flags, file, start - base)
            except OSError as error:
                words = f"address range {start:#x}-{stop:#x} cannot be mapped: {error}"
                raise OSError(error.errno, words) from None
    finally:
        os.close(readable)


def current(resource: int) -> int:
    """A soft resource limit."""
    pair = (ctypes.c_ulong * 2)()
    libc.getrlimit(resource, pair)
    return pair[0]


def limit(resource: int, value: int) -> None:
    """Set a soft resource limit, as far as the hard one allows."""
    pair = (ctypes.c_ulong * 2)()
    libc.getrlimit(resource, pair)
    pair[0] = min(value, pair[1])
    libc.setrlimit(resource, pair)


def keep(fd: int, lowest: int) -> int:
    """A copy of a descriptor where programs do not look, not inherited by other programs."""
    copy: int = libc.fcntl(fd, F_DUPFD_CLOEXEC, lowest)
    if copy < 0:
        copy = libc.fcntl(fd, F_DUPFD_CLOEXEC, 3)
    if copy < 0:
        fail(f"descriptor {fd} cannot be copied: {os.strerror(ctypes.get_errno())}")
    return copy


def native(name: str, *types: Any) -> Any:
    """A function of the runtime; calling it releases Python's lock."""
    return ctypes.CFUNCTYPE(long, *types)(entry[name])


def word(name: str) -> ctypes.c_uint64:
    """A control word; what its `value` is set to is taken modulo 2 to the 64."""
    return ctypes.c_uint64.from_address(control + fields[name])


def put(name: str, value: int) -> None:
    word(name).value = value


def answer(op: int, seq: int, status: int = 0, payload: bytes = b"") -> None:
    os.write(control_socket, HEAD.pack(op, seq, os.getpid(), status, 0, 0, 0, 0) + payload)


def let_protect(start: int, stop: int, high: int) -> None:
    """Let the kernel process protect the data zone, to learn what is written; and give it
    pages on which it sees whether this process forked: a child's writes it would not learn of."""
    fd = libc.syscall(numbers["SYS_userfaultfd"], os.O_CLOEXEC | USER_MODE_ONLY)
    if fd < 0:
        return  # not allowed, or not there: all is compared then
    api = ctypes.create_string_buffer(struct.pack("<3Q", UFFD_API, WP_ASYNC | WP_SHMEM, 0), 24)
    area = ctypes.create_string_buffer(struct.pack("<4Q", start, stop - start, MODE_WP, 0), 32)
    if libc.ioctl(fd, long(UFFDIO_API), api) == 0 == libc.ioctl(fd, long(UFFDIO_REGISTER), area):
        keep(fd, high)
        at = map_pages(None, 8192, 3, MAP_PRIVATE | MAP_ANONYMOUS)
        libc.mlock(pointer(at), ctypes.c_size_t(8192))
        for page in (at, at + 4096):
            ctypes.c_char.from_address(page).value = b"\1"
        put("fork_pages", at)
    os.close(fd)


def close_data(start: int, stop: int) -> None:
    """Let nothing of the data zone be accessible before something is there: native/serve.ll opens
    what is."""
    libc.mprotect(start, stop - start, 0)
    put("data_open", start)


def give_children_copies(slab_file: str) -> None:
    """Forked children get a copy of the data zone: see native/fork.ll."""
    own = map_pages(None, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS)
    path = slab_file.encode() + b"\0"
    ctypes.memmove(own + 24, path, len(path))
    put("fork_own", own)
    handlers = (entry[name] for name in ("jk_before_fork", "jk_after_fork", "jk_in_child"))
    libc.__register_atfork(*map(pointer, handlers), None)


def start_lifeline(argv: list[str]) -> None:
    """Start the thread that ends this process, and what it started, with the kernel process: it
    executes `argv`, without an environment."""
    global reaper
    reaper = (ctypes.c_char_p * (len(argv) + 1))(*(a.encode() for a in argv))
    at = ctypes.addressof(reaper)
    put("reaper_path", ctypes.c_uint64.from_address(at).value)
    put("reaper_argv", at)
    put("reaper_envp", at + 8 * len(argv))
    size = 64 << 10
    stack = map_pages(None, size, 3, MAP_PRIVATE | MAP_ANONYMOUS)
    thread = native("jk_lifeline", pointer, long)(stack + size, LIFELINE)
    if thread < 0:
        fail("the lifeline thread cannot be started")
    put("lifeline_tid", thread)
    # A program that has stopped itself goes on when the process is an orphan: the thread, too.
    libc.prctl(PR_SET_PDEATHSIG, _signal.SIGCONT, 0, 0, 0)
    state = word("lifeline_state")
    while not state.value:
        os.sched_yield()
    if state.value == numbers["LIFELINE_APART"]:
        os.close(LIFELINE)
    put("own_links", os.stat("/proc/self/task").st_nlink)


def guarded_stack(size: int) -> int:
    """Memory for the handlers' stack, with a page below it that faults."""
    at = map_pages(None, size + 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS)
    libc.mprotect(at, 4096, 0)
    return at + 4096


def serve_rare(message: bytes) -> None:
    """Serve what the native loop leaves to Python: one request, one answer.  The program's `errno`
    stays as it is."""
    op, seq, *_ = HEAD.unpack_from(message)
    kept = ctypes.get_errno()
    try:
        name, arguments = marshal.loads(message[HEAD.size :])
        answer(op, seq, 0, getattr(loader, name)(*arguments) or b"")
    except Exception as error:  # it may be the program that has written where requests lie
        answer(op, seq, 1, str(error).encode("utf-8", "replace"))
    finally:
        ctypes.set_errno(kept)


def declare() -> None:
    libc.mmap.argtypes = [pointer, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, long]
    libc.mmap.restype = pointer
    libc.mprotect.argtypes = [pointer, ctypes.c_size_t, ctypes.c_int]
    libc.dlsym.argtypes, libc.dlsym.restype = [pointer, ctypes.c_char_p], pointer
    libc.dlvsym.argtypes = [pointer, ctypes.c_char_p, ctypes.c_char_p]
    libc.dlvsym.restype = pointer
    libc.dlopen.argtypes, libc.dlopen.restype = [ctypes.c_char_p, ctypes.c_int], pointer
    libc.dlerror.restype = ctypes.c_char_p
    libc.dladdr.argtypes = [pointer, pointer]
    libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, pointer], pointer
    libc.setvbuf.argtypes = [pointer, pointer, ctypes.c_int, ctypes.c_size_t]
    libc.on_exit.argtypes = [pointer, pointer]


def start_again() -> NoReturn:
    """Execute this program once more, with what was set for it."""
    os.execv(sys.executable, sys.orig_argv)


def make_room(start: int, stop: int) -> None:
    """Start again where the heap lies in the arena's range, with the heap where it begins.

    A Python that is not position independent has its heap at a random place below 1 GiB; with
    addresses that are not random it follows the program (personality(2)).
    """
    with open("/proc/self/maps") as maps:
        spans = [[int(x, 16) for x in line.split(None, 1)[0].split("-")] for line in maps]
    kind = libc.personality(QUERY)
    if any(low < stop and start < high for low, high in spans) and not kind & FIXED_ADDRESSES:
        libc.personality(kind | FIXED_ADDRESSES)
        start_again()
    libc.personality(kind & ~FIXED_ADDRESSES)  # for the programs that cells start


def settle_limits(stack_size: int) -> None:
    """The stack that cells have; this program begins once more where that must be known then."""
    if stack_size != current(RLIMIT_STACK):
        limit(RLIMIT_STACK, stack_size)
        if stack_size > LARGE_STACK and current(RLIMIT_STACK) == stack_size:
            start_again()  # where mappings begin was decided when this program started


def reset_for_c() -> None:
    """Signals, streams and the program's name as a C program has them, not as Python does."""
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    for number in (_signal.SIGINT, _signal.SIGPIPE, _signal.SIGXFSZ):
        libc.signal(number, SIG_DFL)
    for stream, mode in (("stdin", 1), ("stdout", 1), ("stderr", 2)):
        libc.setvbuf(pointer.from_address(symbol(stream)), None, mode, 0)
    for name in ("program_invocation_name", "program_invocation_short_name"):
        pointer.from_address(symbol(name)).value = ctypes.addressof(PROGRAM)


def find_tid() -> int:
    """The offset in a thread's descriptor (glibc: struct pthread) of its number for the system."""
    libc.pthread_self.restype = pointer
    words = struct.unpack("<512I", ctypes.string_at(libc.pthread_self(), 2048))
    return 4 * words.index(os.getpid()) if os.getpid() in words else 0


def tell_runtime(
    tell: Callable[[str, int], None], names: Iterable[str], function: Callable[[str], Any]
) -> None:
    """Fill in the control words, of these names, that only the process knows that runs cells;
    `function` gives one of the runtime's."""
    for name in names:
        whose, _, called = name.partition("_")
        if whose in ("libc", "python"):
            tell(name, symbol(called))
    size = function("jk_xsave_size")()
    tell("has_avx", function("jk_has_avx")())
    tell("has_xsave", int(size > 0))
    tell("xsave_size", size or 512)
    tell("pid", os.getpid())


class KnownCode:
    """Session code, which lies in [start, stop), as the unwinder knows of it.

    One function that has all of the range is registered, of which libgcc makes a table; then its
    object, which is at `object`, leads to one of ours, for good: see linker/unwind_table.py.
    """

    def __init__(self, start: int, stop: int):
        cie = struct.pack("<IIBBBBB3x", 12, 0, 1, 0, 1, 0x78, 16)
        frames = cie + struct.pack("<IIQQI", 20, len(cie) + 4, start, stop - start, 0)
        self.object = at = map_pages(None, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS)
        self._begin, self._none, self._bases = at + 64, at + 128, at + 192  # behind struct object
        ctypes.memmove(self._begin, frames, len(frames))
        self._start = start
        register, self._look, self._forget = (
            ctypes.CFUNCTYPE(pointer, pointer, pointer)(symbol(name))
            for name in ("__register_frame_info", "_Unwind_Find_FDE", "__deregister_frame_info")
        )
        register(self._begin, at)
        self._look(start, self._bases)  # it makes its table
        self._words = (ctypes.c_uint64 * 5).from_address(at)
        self._first = self._words[:]
        self.show(self._none, 1 | 0x1B << 3)
        self._words[0] = start

    def show(self, table: int, flags: int) -> None:
        """Functions are found by this table from here on."""
        self._words[4] = flags
        self._words[3] = table

    def hide(self) -> None:
        """Nothing is found until the next `show`: records may go."""
        self._words[3] = self._none
        self._look(self._start, self._bases)  # after all who search, with GCC's lock until 12

    def take_back(self) -> None:
        """Nothing is registered any more."""
        for i in (4, 3, 0):
            self._words[i] = self._first[i]
        self._forget(self._begin, None)


def make_own(high: int) -> None:
    """Fill in those of what a process of its own has: the first thread, the handlers' stack, and
    copies of descriptors that programs do not find."""
    put("tid", os.getpid())
    put("tid_at", find_tid())
    put("own_result", map_pages(None, numbers["BUFFER_SIZE"], 3, MAP_PRIVATE | MAP_ANONYMOUS))
    put("socket", control_socket)
    put("socket_inode", os.fstat(control_socket).st_ino)
    for fd in (0, 1, 2):
        put(f"keep_{fd}", keep(fd, high))
    size = 64 << 10
    put("alt_stack", guarded_stack(size))
    put("alt_size", size)


def main() -> NoReturn:
    """Become an executor; comes back only when the kernel process is gone."""
    global control_socket, numbers, fields, control, entry
    stack_size, start, stop = map(int, sys.argv[1:])
    settle_limits(stack_size)
    make_room(start, stop)
    setup = marshal.loads(os.read(SOCKET, 1 << 20))
    numbers, fields, entry = setup["numbers"], setup["fields"], setup["entry"]
    control = setup["control"]
    high = max(min(current(RLIMIT_NOFILE), 1024) - 16, 16)
    declare()
    try:
        map_regions(SLAB, setup["base"], setup["regions"], MAP_FIXED_NOREPLACE)
        if setup["cwd"]:
            os.chdir(setup["cwd"])
    except OSError as error:
        fail(str(error) if error.filename else error.strerror or "")
    os.close(SLAB)
    data = word("data_start").value, word("data_stop").value
    let_protect(*data, high)
    close_data(*data)
    control_socket = keep(SOCKET, high)
    os.close(SOCKET)
    limit(RLIMIT_CORE, 0)
    lost = loader.open(setup["libraries"])
    for array in setup["shared"]:
        try:
            loader.map(*array)
        except OSError as error:
            lost.append(f"the array at {array[0]:#x}: {error}")
    reset_for_c()
    tell_runtime(put, fields, native)
    put("unwind_object", KnownCode(word("runtime_start").value, word("text_stop").value).object)
    make_own(high)
    libc.on_exit(entry["jk_on_exit"], None)
    give_children_copies(setup["slab_file"])
    native("jk_arm")()  # an interrupt may come before the first call
    start_lifeline(setup["reaper"])
    if setup["memory_limit"]:
        limit(RLIMIT_DATA, setup["memory_limit"])
    answer(numbers["HELLO"], 0, 0, "\n".join(lost).encode())
    serve = ctypes.CFUNCTYPE(long, use_errno=True)(entry["jk_serve"])
    while True:
        serve_rare(ctypes.string_at(control + numbers["FRAME_AT"], serve()))
