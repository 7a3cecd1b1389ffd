"""Programs of a first course of C, and the mistakes of those who write them.

Each is pasted as a whole.  A mistake is what stands there instead, a word of the answer, and the
line that the answer must name: the line of the change where nothing else is written.  Some answers
come when the program runs.  Start from `PROGRAMS`.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PROGRAMS", "Mistake", "Program"]


class Mistake(NamedTuple):
    """`old` is written as `new`: the answer names the line and has the word."""

    old: str
    new: str
    word: str
    line: int = 0


class Program(NamedTuple):
    """A program, what it prints, mistakes in it, and the lines that it reads."""

    source: str
    prints: str
    wrong: list[Mistake]
    input: str = ""


M = Mistake
PROGRAMS = [
    Program(
        """\
#include <stdio.h>

int main(void) {
    printf("Hello, world\\n");
    return 0;
}
""",
        "Hello, world",
        [
            M('\\n");', '\\n")', "';'"),
            M("printf", "pritnf", "'printf'"),
            M("<stdio.h>", "<stido.h>", "'stido.h' file not found"),
            M('"Hello, world\\n"', '"Hello, world\\n', "missing terminating '\"'"),
            M("return 0;\n}", "return 0;", "'{'", 3),
            M("#include", "#inlcude", "did you mean `#include`?"),
        ],
    ),
    Program(
        """\
#include <stdio.h>

int main(void) {
    int age;
    scanf("%d", &age);
    if (age >= 18) {
        printf("adult\\n");
    } else {
        printf("child\\n");
    }
    return 0;
}
""",
        "child",
        [
            M("(age >= 18)", "(age = 18)", "=="),
            M("} else {", "} esle {", "'esle'"),
            M("if (age >= 18) {", "if (age >= 18) then {", "'then'"),
        ],
        "12",
    ),
    Program(
        """\
#include <stdio.h>

int factorial(int n) {
    if (n <= 1) return 1;
    return n * factorial(n - 1);
}

int main(void) {
    printf("%d\\n", factorial(6));
    return 0;
}
""",
        "720",
        [
            M("n * factorial", "n factorial", "';'"),
            M("    if (n <= 1) return 1;\n", "\n", "call itself", 3),
            M("int main(void) {", "int main(void)", "main", 0),
        ],
    ),
    Program(
        """\
#include <stdio.h>

int main(void) {
    int i = 3;
    do {
        printf("%d ", i);
        i--;
    } while (i > 0);
    printf("go\\n");
    return 0;
}
""",
        "3 2 1 go",
        [
            M("while (i > 0);", "while (i > 0)", "';'"),
            M("    do {\n", "    {\n", "while", 8),
        ],
    ),
    Program(
        """\
#include <stdio.h>

int main(void) {
    int n = 42;
    int *p = &n;
    *p = *p + 1;
    printf("%d\\n", n);
    return 0;
}
""",
        "43",
        [
            M("int *p = &n;", "int *p = n;", "'int *'"),
            M("int *p = &n;", "int p = &n;", "'int'"),
            M("int *p = &n;", "int *p = NULL;", "null pointer", 6),
            M("int *p = &n;", "int *p;", "uninitialized", 6),
        ],
    ),
    Program(
        """\
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    int n = 4;
    int *a = malloc(n * sizeof(int));
    if (a == NULL) return 1;
    for (int i = 0; i < n; i++)
        a[i] = i * i;
    printf("%d\\n", a[3]);
    free(a);
    return 0;
}
""",
        "9",
        [
            M("sizeof(int)", "sizeof int", "parentheses"),
            M("malloc(", "maloc(", "'maloc'"),
            M("#include <stdlib.h>\n", "\n", "#include <stdlib.h>", 6),
        ],
    ),
    Program(
        """\
#include <stdio.h>
#include <stdlib.h>

struct node {
    int value;
    struct node *next;
};

struct node *push(struct node *head, int value) {
    struct node *n = malloc(sizeof *n);
    n->value = value;
    n->next = head;
    return n;
}

int main(void) {
    struct node *list = NULL;
    for (int i = 1; i <= 3; i++)
        list = push(list, i);
    for (struct node *p = list; p != NULL; p = p->next)
        printf("%d ", p->value);
    printf("\\n");
    return 0;
}
""",
        "3 2 1",
        [
            M("struct node *next;", "struct node next;", "incomplete type"),
            M("n->value = value;", "n.value = value;", "'->'"),
            M("malloc(sizeof *n)", "NULL", "null pointer", 11),
        ],
    ),
    Program(
        """\
#include <stdio.h>

int main(void) {
    FILE *f = fopen("/tmp/jitkernel_beginner.txt", "w");
    fprintf(f, "one two\\n");
    fclose(f);
    char word[10];
    f = fopen("/tmp/jitkernel_beginner.txt", "r");
    while (fscanf(f, "%9s", word) == 1)
        printf("<%s>", word);
    fclose(f);
    remove("/tmp/jitkernel_beginner.txt");
    return 0;
}
""",
        "<one><two>",
        [
            M(
                'fopen("/tmp/jitkernel_beginner.txt", "w")',
                'fopen("/no/such/folder/x", "w")',
                "null",
                5,
            ),
            M('fprintf(f, "one two\\n");', 'fprintf("one two\\n");', "too few arguments"),
            M("FILE *f = fopen", "FILE f = fopen", "'FILE'"),
        ],
    ),
    Program(
        """\
#include <stdio.h>
#include <stdbool.h>

bool is_prime(int n) {
    if (n < 2) return false;
    for (int d = 2; d * d <= n; d++)
        if (n % d == 0)
            return false;
    return true;
}

int main(void) {
    for (int n = 1; n < 20; n++)
        if (is_prime(n))
            printf("%d ", n);
    printf("\\n");
    return 0;
}
""",
        "2 3 5 7 11 13 17 19",
        [
            M("#include <stdbool.h>\n", "\n", "#include <stdbool.h>", 4),
            M("return true;", "return True;", "'True'"),
            M("if (n < 2) return", "if (n < 2 or n == 4) return", "||"),
        ],
    ),
    Program(
        """\
#include <stdio.h>

#define PI 3.14159

int main(void) {
    double r = 2;
    printf("%.3f\\n", PI * r * r);
    return 0;
}
""",
        "12.566",
        [
            M("#define PI 3.14159", "#define PI 3.14159;", "expected", 7),
            M("#define PI 3.14159", "define PI 3.14159", "#define"),
            M("PI * r * r", "PI r r", "')'"),
        ],
    ),
    Program(
        """\
#include <stdio.h>

/* Counts the words of a line. */
int words(const char *line) {
    int n = 0, inside = 0;
    for (; *line; line++) {
        if (*line == ' ')
            inside = 0;
        else if (!inside) {
            inside = 1;
            n++;
        }
    }
    return n;
}

int main(void) {
    printf("%d\\n", words("the quick brown fox"));
    return 0;
}
""",
        "4",
        [
            M("line. */", "line.", "comment"),
            M("/* Counts", "* Counts", "'Counts'"),
            M("            n++;\n        }\n", "            n++;\n        }}\n", "'}'"),
        ],
    ),
    Program(
        """\
#include <stdio.h>

int main(int argc, char *argv[]) {
    printf("%d argument\\n", argc);
    for (int i = 1; i < argc; i++)
        printf("%s\\n", argv[i]);
    return 0;
}
""",
        "1 argument",
        [
            M("char *argv[]", "char argv", "'char **'"),
            M("int main(int argc,", "int main(argc,", "'argc'"),
            M("argv[i]", "argv", "'char **'"),
        ],
    ),
    Program(
        """\
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    char line[20];
    fgets(line, sizeof line, stdin);
    int n = atoi(line);
    printf("%d\\n", n * 2);
    return 0;
}
""",
        "42",
        [
            M("fgets(line, sizeof line, stdin);", "fgets(line);", "too few arguments"),
            M("fgets(line, sizeof line, stdin);", "line = gets();", "'gets'"),
            M("int n = atoi(line);", "int n = line;", "'int'"),
        ],
        "21",
    ),
    Program(
        """\
#include <stdio.h>
#include <assert.h>

int divide(int a, int b) {
    assert(b != 0);
    return a / b;
}

int main(void) {
    printf("%d\\n", divide(12, 4));
    return 0;
}
""",
        "3",
        [
            M("divide(12, 4)", "divide(12, 0)", "b != 0", 5),
            M(
                "    assert(b != 0);\n    return a / b;",
                "    return a / (b - 4);",
                "division by zero",
                5,
            ),
            M("assert(b != 0);", "assert b != 0;", "assert"),
        ],
    ),
    Program(
        """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *twice(const char *s) {
    char *r = malloc(2 * strlen(s) + 1);
    strcpy(r, s);
    strcat(r, s);
    return r;
}

int main(void) {
    char *s = twice("ab");
    puts(s);
    free(s);
    return 0;
}
""",
        "abab",
        [
            M("char *r = malloc(2 * strlen(s) + 1);", "char r[100];", "address of stack memory", 9),
            M('twice("ab")', "twice(ab)", "'ab'"),
            M('twice("ab")', "twice(NULL)", "null pointer", 6),
        ],
    ),
    Program(
        """\
int a = 3;
int b = 4;
a * b
""",
        "(int) 12",
        [
            M("int b = 4;\n", "int b = 4\n", "';'"),
            M("a * b", "a = b\na", "';'"),
            M("a * b", "a b", "';'"),
            M("a * b", "a *", "expected expression"),
            M("a * b", "(a * b", "'('"),
            M("a * b", "return a * b;", "return"),
        ],
    ),
    Program(
        """\
#include <stdio.h>
for (int i = 0; i < 3; i++)
    printf("%d\\n", i);
""",
        "0\n1\n2",
        [
            M("for (int i = 0; i < 3; i++)", "for i in range(3):", "for (int i = 0; i < 3; i++)"),
            M("i++)", "i++", "'('"),
            M("for (int i = 0; i < 3; i++)", "for (i = 0; i < 3; i++)", "'i'"),
        ],
    ),
    Program(
        """\
#include <stdio.h>
puts("first");
puts("second");
""",
        "first\nsecond",
        [
            M('puts("first");', 'puts("first")', "';'"),
            M('puts("first");', "puts(“first”);", 'write "'),
            M('puts("first");', 'cout << "first";', "printf"),
        ],
    ),
    Program(
        """\
int square(int x) {
    return x * x;
}

square(9)
""",
        "(int) 81",
        [
            M("square(9)", "square(9", "'('"),
            M("    return x * x;\n}", "    return x * x;", "'{'", 1),
            M("int square(int x) {", "def square(x):", "int"),
        ],
    ),
    Program(
        """\
struct fraction { int top, bottom; };
struct fraction half = {1, 2};
half.bottom = 4;
half
""",
        ".top = 1, .bottom = 4",
        [
            M("int top, bottom; };", "int top, bottom; }", "';'"),
            M("half.bottom = 4;", "half->bottom = 4;", "not a pointer"),
            M("{1, 2};", "{1, 2, 3};", "excess elements"),
        ],
    ),
    Program(
        """\
#include <stdlib.h>
int *p = malloc(3 * sizeof *p);
p[0] = 5;
p[0] + 1
""",
        "(int) 6",
        [
            M("p[0] = 5;", "p = NULL;\np[0] = 5;", "null pointer", 4),
            M("#include <stdlib.h>", "#include <stdlib>", "'stdlib' file not found"),
        ],
    ),
    Program(
        """\
int total = 0;
int i = 1;
while (i <= 4) {
    total += i;
    i++;
}
total
""",
        "(int) 10",
        [
            M("    i++;\n}", "    i++;\n", "'{'", 3),
            M("while (i <= 4) {", "while (i <= 4):", "{"),
            M("int total = 0;", "total = 0;", "'total'"),
        ],
    ),
]
