"""C functions that a cell may use without declaring them, with their types on x86-64 Linux.

Start from `PRELUDE`.
"""

from __future__ import annotations

from functools import cache

from jitkernel.ir.types import FunctionType, function_type

# Result, name, parameters.  Small integers never occur, so no signext is needed; `i64` is size_t.
_FUNCTIONS = """
i32 puts(ptr)
i32 putchar(i32)
i32 getchar()
i32 printf(ptr, ...)
i32 fprintf(ptr, ptr, ...)
i32 sprintf(ptr, ptr, ...)
i32 snprintf(ptr, i64, ptr, ...)
i32 dprintf(i32, ptr, ...)
i32 scanf(ptr, ...)
i32 sscanf(ptr, ptr, ...)
i32 fflush(ptr)
i32 fputs(ptr, ptr)
i32 fputc(i32, ptr)
ptr fgets(ptr, i32, ptr)
i32 fgetc(ptr)
ptr fopen(ptr, ptr)
i32 fclose(ptr)
i64 fread(ptr, i64, i64, ptr)
i64 fwrite(ptr, i64, i64, ptr)
i64 read(i32, ptr, i64)
i64 write(i32, ptr, i64)
void perror(ptr)
ptr malloc(i64)
ptr calloc(i64, i64)
ptr realloc(ptr, i64)
void free(ptr)
ptr aligned_alloc(i64, i64)
ptr memcpy(ptr, ptr, i64)
ptr memmove(ptr, ptr, i64)
ptr memset(ptr, i32, i64)
i32 memcmp(ptr, ptr, i64)
ptr memchr(ptr, i32, i64)
i64 strlen(ptr)
i32 strcmp(ptr, ptr)
i32 strncmp(ptr, ptr, i64)
ptr strcpy(ptr, ptr)
ptr strncpy(ptr, ptr, i64)
ptr strcat(ptr, ptr)
ptr strchr(ptr, i32)
ptr strrchr(ptr, i32)
ptr strstr(ptr, ptr)
ptr strdup(ptr)
i32 atoi(ptr)
i64 atol(ptr)
double atof(ptr)
i64 strtol(ptr, ptr, i32)
double strtod(ptr, ptr)
i32 abs(i32)
i64 labs(i64)
i32 rand()
void srand(i32)
void qsort(ptr, i64, i64, ptr)
i32 isalpha(i32)
i32 isdigit(i32)
i32 isspace(i32)
i32 isupper(i32)
i32 islower(i32)
i32 toupper(i32)
i32 tolower(i32)
double sqrt(double)
double cbrt(double)
double sin(double)
double cos(double)
double tan(double)
double asin(double)
double acos(double)
double atan(double)
double atan2(double, double)
double sinh(double)
double cosh(double)
double tanh(double)
double exp(double)
double exp2(double)
double log(double)
double log2(double)
double log10(double)
double pow(double, double)
double fmod(double, double)
double hypot(double, double)
double floor(double)
double ceil(double)
double round(double)
double trunc(double)
double fabs(double)
float sqrtf(float)
float sinf(float)
float cosf(float)
float powf(float, float)
float fabsf(float)
i64 time(ptr)
i64 clock()
i32 usleep(i32)
i32 sleep(i32)
ptr getenv(ptr)
i32 system(ptr)
i32 getpid()
i32 fork()
void exit(i32)
void abort()
"""


# Name to declaration: `declare i32 @puts(ptr)`.
PRELUDE: dict[str, str] = {
    line[line.index(" ") + 1 : line.index("(")]: "declare " + line.replace(" ", " @", 1)
    for line in _FUNCTIONS.strip().split("\n")
}


def prelude_type(name: str) -> FunctionType | None:
    """The type of a prelude function; None for other names."""
    return _type(name) if name in PRELUDE else None  # of other names there is no end


@cache
def _type(name: str) -> FunctionType:
    return function_type(PRELUDE[name].removeprefix("declare ").replace(f"@{name}", "", 1))
