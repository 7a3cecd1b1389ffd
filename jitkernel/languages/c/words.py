"""The words of C that say what a declaration is.  C11 6.7, C23, and GNU C."""

from __future__ import annotations

CONTROL = frozenset("if for while do switch goto return break continue case default else".split())
THREAD_LOCAL = frozenset(("_Thread_local", "thread_local", "__thread"))
#: Storage classes and function specifiers.
STORAGE = THREAD_LOCAL | frozenset(
    "typedef extern static auto register inline __inline __inline__ _Noreturn noreturn constexpr"
    " __extension__".split()
)
QUALIFIERS = frozenset(
    "const volatile restrict __const __const__ __restrict __restrict__ __volatile__ __volatile"
    " _Nonnull _Nullable".split()
)
BASIC_TYPES = frozenset(
    "void char short int long float double signed unsigned _Bool bool _Complex __complex__"
    " _Imaginary __int128 __int128_t __uint128_t _Float16 __bf16 _Float128 __float128 __auto_type"
    " __signed__ __builtin_va_list".split()
)
TAGS = frozenset(("struct", "union", "enum"))
#: Operators that give a type.
TYPE_OPERATORS = frozenset(
    "typeof __typeof__ __typeof typeof_unqual __typeof_unqual__ _Atomic _BitInt".split()
)
ASSEMBLY = frozenset(("asm", "__asm__", "__asm"))
#: What has its arguments in parentheses behind it.
WITH_ARGUMENTS = (
    TYPE_OPERATORS
    | ASSEMBLY
    | frozenset(("__attribute__", "__attribute", "__declspec", "_Alignas", "alignas"))
)
ASSERTIONS = frozenset(("_Static_assert", "static_assert"))
#: Words of C23, and the header that gives them before it ("" for none).  C23 6.4.1.
C23 = {
    "bool": "stdbool.h", "true": "stdbool.h", "false": "stdbool.h",
    "alignas": "stdalign.h", "alignof": "stdalign.h",
    "static_assert": "assert.h", "thread_local": "threads.h",
    "constexpr": "", "nullptr": "", "typeof_unqual": "", "char8_t": "",
}  # fmt: skip
STANDARD_HEADERS = tuple(
    f"{name}.h" for name in "assert complex ctype errno fenv float inttypes iso646 limits locale"
    " math setjmp signal stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn"
    " string tgmath threads time uchar wchar wctype unistd pthread".split()
)  # fmt: skip
_NAMES = {
    "stddef.h": "NULL size_t ptrdiff_t offsetof wchar_t",
    "stdio.h": "FILE EOF stdin stdout stderr SEEK_SET SEEK_CUR SEEK_END BUFSIZ getline getchar getc"
    " fgetc fgets putc ungetc fopen fdopen fclose fseek ftell rewind feof ferror fileno perror"
    " remove rename tmpfile setvbuf setbuf popen pclose"
    " printf fprintf sprintf snprintf scanf fscanf sscanf puts fputs putchar fread fwrite fflush",
    "stdlib.h": "EXIT_SUCCESS EXIT_FAILURE RAND_MAX div_t atoi atol atoll atof strtod strtol"
    " strtoll strtoul strtoull rand srand qsort bsearch getenv setenv system atexit div mkstemp"
    " malloc calloc realloc free abs exit abort",
    "string.h": "strerror strsignal strtok strtok_r strsep strcoll"
    " strlen strcmp strncmp strcpy strncpy strcat strchr strstr memcpy memset memcmp",
    "stdint.h": "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t intptr_t"
    " uintptr_t INT8_MAX INT16_MAX INT32_MAX INT64_MAX UINT8_MAX UINT16_MAX UINT32_MAX UINT64_MAX"
    " SIZE_MAX",
    "limits.h": "INT_MAX INT_MIN UINT_MAX LONG_MAX LONG_MIN ULONG_MAX LLONG_MAX LLONG_MIN CHAR_BIT"
    " CHAR_MAX CHAR_MIN SHRT_MAX SHRT_MIN UCHAR_MAX",
    "float.h": "DBL_MAX DBL_MIN DBL_EPSILON FLT_MAX FLT_MIN FLT_EPSILON",
    "math.h": "M_PI M_E INFINITY NAN HUGE_VAL isnan isinf"
    " sqrt pow fabs floor ceil sin cos tan exp log fmod round",
    "ctype.h": "isalpha isdigit isalnum isspace isupper islower toupper tolower",
    "errno.h": "errno ENOENT EINVAL ERANGE",
    "time.h": "time_t clock_t CLOCKS_PER_SEC time clock clock_gettime CLOCK_MONOTONIC nanosleep"
    " localtime gmtime mktime strftime difftime ctime",
    "signal.h": "SIGINT SIGTERM SIGSEGV SIGALRM sig_atomic_t signal sigaction raise kill",
    "setjmp.h": "jmp_buf setjmp longjmp",
    "stdarg.h": "va_list va_start va_arg va_end",
    "assert.h": "assert",
    "complex.h": "complex I",
    "inttypes.h": "PRId64 PRIu64 PRIx64",
    "pthread.h": "pthread_t pthread_create pthread_join pthread_mutex_t pthread_mutex_lock"
    " pthread_mutex_unlock",
    "threads.h": "thrd_t thrd_create thrd_join mtx_t mtx_lock mtx_unlock",
    "stdatomic.h": "atomic_int atomic_fetch_add atomic_load atomic_store",
    "unistd.h": "sleep usleep fork getpid read write close lseek pipe dup2 unlink getcwd chdir"
    " isatty sysconf alarm access",
    "fcntl.h": "open O_RDONLY O_WRONLY O_RDWR O_CREAT O_TRUNC",
    "sys/mman.h": "mmap munmap mprotect PROT_READ PROT_WRITE PROT_EXEC MAP_PRIVATE MAP_ANONYMOUS",
}
#: Names of the library, and the header to include.  C11 7, POSIX.1-2017.
STANDARD_NAMES = {name: header for header, names in _NAMES.items() for name in names.split()}
