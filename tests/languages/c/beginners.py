"""Programs of a first course of C, and the mistakes of those who write them.

Each is pasted as a whole.  A mistake is what stands there instead, a word of the answer, and the
line that the answer must name: the line of the change where nothing else is written.  Some answers
come when the program runs.  Start from `PROGRAMS`.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["PROGRAMS", "Mistake", "Program"]


class Mistake(NamedTuple):
    """`old` is written as `new`: the answer names the line and has the word.  `apart`: only where
    nothing is inlined; else LLVM makes one instruction of several lines, and none is named."""

    old: str
    new: str
    word: str
    line: int = 0
    apart: bool = False


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
    int first, second;
    printf("Two numbers: ");
    scanf("%d %d", &first, &second);
    int sum = first + second;
    printf("%d + %d = %d\\n", first, second, sum);
    return 0;
}
""",
        "3 + 4 = 7",
        [
            M("int first, second;", "int first second;", "';'"),
            M("&first, &second", "first, second", "'int *' but the argument has type 'int'"),
            M("second, sum);", "second);", "more '%' conversions than data arguments"),
        ],
        "3 4",
    ),
    Program(
        """\
#include <stdio.h>

int main(void) {
    double celsius = 36.6;
    double fahrenheit = celsius * 9 / 5 + 32;
    printf("%.1f degrees\\n", fahrenheit);
    return 0;
}
""",
        "97.9 degrees",
        [
            M("%.1f", "%d", "'int' but the argument has type 'double'"),
            M("double celsius", "duoble celsius", "did you mean 'double'?"),
            M("9 / 5", "9 % 5", "invalid operands"),
        ],
    ),
    Program(
        """\
#include <stdio.h>

int main(void) {
    int n = 10, sum = 0;
    for (int i = 1; i <= n; i++) {
        sum += i;
    }
    printf("The sum is %d\\n", sum);
    return 0;
}
""",
        "The sum is 55",
        [
            M("i = 1; i <= n; i++", "i = 1, i <= n, i++", "';'"),
            M("i <= n", "i =< n", "expected expression"),
            M("int i = 1", "i = 1", "undeclared identifier 'i'"),
        ],
    ),
    Program(
        """\
#include <stdio.h>

int main(void) {
    int n = 5;
    long product = 1;
    while (n > 0) {
        product *= n;
        n--;
    }
    printf("%ld\\n", product);
    return 0;
}
""",
        "120",
        [
            M("while (n > 0) {", "while (n > 0); {", "empty body"),
            M("while (n > 0)", "while n > 0", "'('"),
            M("%ld", "%s", "'char *' but the argument has type 'long'"),
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

int square(int x) {
    return x * x;
}

int main(void) {
    printf("%d\\n", square(12));
    return 0;
}
""",
        "144",
        [
            M("square(12)", "square()", "too few arguments"),
            M("square(12)", "square(1, 2)", "too many arguments"),
            M("int square(int x) {", "int square(int x); {", "function body"),
        ],
    ),
    Program(
        """\
#include <stdio.h>
#include <math.h>

double hypotenuse(double a, double b) {
    return sqrt(a * a + b * b);
}

int main(void) {
    printf("%.2f\\n", hypotenuse(3, 4));
    return 0;
}
""",
        "5.00",
        [
            M("#include <math.h>", "", "#include <math.h>", 5),
            M("double a, double b", "double a, b", "type specifier missing"),
            M("return sqrt(", "return = sqrt(", "expected expression"),
        ],
    ),
    Program(
        """\
#include <stdio.h>

int maximum(int a, int b);

int main(void) {
    printf("%d\\n", maximum(8, 3));
    return 0;
}

int maximum(int a, int b) {
    if (a > b)
        return a;
    else
        return b;
}
""",
        "8",
        [
            M("int maximum(int a, int b) {", "int maximum(int a, double b) {", "conflicting types"),
            M("int maximum(int a, int b);\n", "\n", "'maximum'", 6),
            M("        return a;\n", "        return a\n", "';'"),
        ],
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
    int n;
    scanf("%d", &n);
    if (n % 2 == 0)
        printf("even\\n");
    else
        printf("odd\\n");
    return 0;
}
""",
        "odd",
        [
            M("n % 2 == 0", "n % 0 == 0", "zero"),
            M('        printf("even\\n");\n', "        n = 0;\n        n++;\n", "no `if`", 9),
        ],
        "7",
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
    int grade = 2;
    switch (grade) {
    case 1:
        printf("very good\\n");
        break;
    case 2:
        printf("good\\n");
        break;
    default:
        printf("try again\\n");
    }
    return 0;
}
""",
        "good",
        [
            M("case 2:", "case 1:", "duplicate case"),
            M("default:", "defualt:", "unused label"),
            M("case 2:", "case 2", "':'"),
            M("case 2:", 'case "two":', "'char[4]'"),
        ],
    ),
    Program(
        """\
#include <stdio.h>

enum colour { RED, GREEN, BLUE };

const char *name(enum colour c) {
    switch (c) {
    case RED: return "red";
    case GREEN: return "green";
    case BLUE: return "blue";
    }
    return "none";
}

int main(void) {
    enum colour c = GREEN;
    printf("%s\\n", name(c));
    return 0;
}
""",
        "green",
        [
            M("BLUE };", "BLUE }", "';'"),
            M("RED, GREEN", "RED GREEN", "','"),
            M('    case BLUE: return "blue";\n', "", "'BLUE'", 6),
        ],
    ),
    Program(
        """\
#include <stdio.h>

int main(void) {
    int marks[5] = {3, 1, 4, 1, 5};
    int sum = 0;
    for (int i = 0; i < 5; i++)
        sum += marks[i];
    printf("%.1f\\n", sum / 5.0);
    return 0;
}
""",
        "2.8",
        [
            M("marks[5] = {3", "marks[4] = {3", "excess elements"),
            M("marks[5] = {3, 1, 4, 1, 5}", "marks[5] = (3, 1, 4, 1, 5)", "array initializer"),
            M("marks[i]", "marks(i)", "not a function"),
        ],
    ),
    Program(
        """\
#include <stdio.h>

int main(void) {
    int a[4] = {9, 2, 7, 5};
    int largest = a[0];
    for (int i = 1; i < 4; i++) {
        if (a[i] > largest) {
            largest = a[i];
        }
    }
    printf("%d\\n", largest);
    return 0;
}
""",
        "9",
        [
            M("a[0]", "a[10]", "past the end"),
            M(
                "            largest = a[i];\n        }\n",
                "            largest = a[i];\n",
                "'{'",
                7,
            ),
            M("largest = a[i];", "a[i] == largest;", "unused"),
        ],
    ),
    Program(
        """\
#include <stdio.h>

#define SIZE 6

void sort(int a[], int n) {
    for (int i = 0; i < n - 1; i++)
        for (int j = 0; j < n - 1 - i; j++)
            if (a[j] > a[j + 1]) {
                int t = a[j];
                a[j] = a[j + 1];
                a[j + 1] = t;
            }
}

int main(void) {
    int a[SIZE] = {5, 2, 6, 1, 4, 3};
    sort(a, SIZE);
    for (int i = 0; i < SIZE; i++)
        printf("%d ", a[i]);
    printf("\\n");
    return 0;
}
""",
        "1 2 3 4 5 6",
        [
            M("#define SIZE 6", "#define SIZE 6;", "';'", 16),
            M("#define SIZE 6", "#define SIZE = 6", "expected expression", 16),
            M("sort(a, SIZE);", "sort(a[], SIZE);", "expected expression"),
        ],
    ),
    Program(
        """\
#include <stdio.h>

int find(const int *a, int n, int wanted) {
    int low = 0, high = n - 1;
    while (low <= high) {
        int middle = (low + high) / 2;
        if (a[middle] == wanted)
            return middle;
        else if (a[middle] < wanted)
            low = middle + 1;
        else
            high = middle - 1;
    }
    return -1;
}

int main(void) {
    int a[] = {1, 3, 5, 7, 9, 11};
    printf("%d\\n", find(a, 6, 9));
    return 0;
}
""",
        "4",
        [
            M("else if", "elseif", "'elseif'"),
            M("int a[] = {1, 3, 5, 7, 9, 11};", "int a[] = 1, 3, 5, 7, 9, 11;", "initializer"),
            M("return middle;", "a[middle] = 0;", "read-only"),
        ],
    ),
    Program(
        """\
#include <stdio.h>
#include <string.h>

int main(void) {
    char word[20];
    scanf("%19s", word);
    printf("%s has %zu letters\\n", word, strlen(word));
    return 0;
}
""",
        "apple has 5 letters",
        [
            M('"%19s", word', '"%19s", &word', "'char *' but the argument has type 'char (*)[20]'"),
            M("char word[20];", "char word;", "'const char *'", 7),
            M("char word[20];", "string word;", "'string'"),
        ],
        "apple",
    ),
    Program(
        """\
#include <stdio.h>

int length(const char *s) {
    int n = 0;
    while (s[n] != '\\0')
        n++;
    return n;
}

int main(void) {
    char name[] = "Ada";
    printf("%d\\n", length(name));
    return 0;
}
""",
        "3",
        [
            M("'\\0'", '"\\0"', "comparison"),
            M('char name[] = "Ada"', "char name[] = 'Ada'", "array initializer"),
            M('char name[] = "Ada"', 'char name = "Ada"', "'char'"),
        ],
    ),
    Program(
        """\
#include <stdio.h>
#include <ctype.h>

int main(void) {
    char text[] = "hello";
    for (int i = 0; text[i]; i++)
        text[i] = toupper(text[i]);
    puts(text);
    return 0;
}
""",
        "HELLO",
        [
            M("puts(text);", 'text = "bye";', "not assignable"),
            M("puts(text);", "put(text);", "'put'"),
        ],
    ),
    Program(
        """\
#include <stdio.h>
#include <string.h>

int main(void) {
    char secret[] = "rabbit";
    char guess[20];
    scanf("%19s", guess);
    if (strcmp(guess, secret) == 0)
        printf("right\\n");
    else
        printf("wrong\\n");
    return 0;
}
""",
        "right",
        [
            M("strcmp(guess, secret) == 0", 'guess == "rabbit"', "string literal"),
            M("strcmp(guess, secret) == 0", "strcmp(guess) == 0", "too few arguments"),
        ],
        "rabbit",
    ),
    Program(
        """\
#include <stdio.h>

void swap(int *a, int *b) {
    int t = *a;
    *a = *b;
    *b = t;
}

int main(void) {
    int x = 1, y = 2;
    swap(&x, &y);
    printf("%d %d\\n", x, y);
    return 0;
}
""",
        "2 1",
        [
            M("swap(&x, &y)", "swap(x, y)", "'int *'"),
            M("int t = *a;", "int t = a;", "'int'"),
            M("void swap(int *a, int *b)", "void swap(int a, int b)", "indirection", 4),
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

struct point {
    double x;
    double y;
};

int main(void) {
    struct point p = {1.5, 2.5};
    p.x += 1;
    printf("(%.1f, %.1f)\\n", p.x, p.y);
    return 0;
}
""",
        "(2.5, 2.5)",
        [
            M("double y;\n};", "double y;\n}", "';'", 6),
            M("struct point p", "point p", "'struct'"),
            M("p.x += 1", "p->x += 1", "not a pointer"),
        ],
    ),
    Program(
        """\
#include <stdio.h>
#include <string.h>

typedef struct {
    char name[20];
    int age;
} Person;

void birthday(Person *p) {
    p->age++;
}

int main(void) {
    Person p;
    strcpy(p.name, "Grace");
    p.age = 36;
    birthday(&p);
    printf("%s is %d\\n", p.name, p.age);
    return 0;
}
""",
        "Grace is 37",
        [
            M('strcpy(p.name, "Grace");', 'p.name = "Grace";', "not assignable"),
            M("p->age++;", "p.age++;", "pointer"),
            M("birthday(&p);", "birthday(p);", "'Person *'"),
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
            M("malloc(sizeof *n)", "NULL", "null pointer", 11, True),
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

int gcd(int a, int b) {
    while (b != 0) {
        int r = a % b;
        a = b;
        b = r;
    }
    return a;
}

int main(void) {
    printf("%d\\n", gcd(48, 36));
    return 0;
}
""",
        "12",
        [
            M("while (b != 0)", "while (b =! 0)", "!"),
        ],
    ),
    Program(
        """\
#include <stdio.h>

int fibonacci(int n) {
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

int main(void) {
    for (int i = 0; i < 10; i++) {
        printf("%d ", fibonacci(i));
    }
    printf("\\n");
    return 0;
}
""",
        "0 1 1 2 3 5 8 13 21 34",
        [
            M("n < 2 ? n : fib", "n < 2 ? n fib", "':'"),
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

int main(void) {
    int table[3][4];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++)
            table[i][j] = i * j;
    printf("%d\\n", table[2][3]);
    return 0;
}
""",
        "6",
        [
            M("table[2][3]", "table[2, 3]", "'int *'"),
            M("int table[3][4];", "int table[][];", "incomplete"),
            M("int table[3][4];", "int table[3,4];", "']'"),
        ],
    ),
    Program(
        """\
#include <stdio.h>
#include <stdlib.h>

int compare(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

int main(void) {
    int a[] = {3, 1, 2};
    qsort(a, 3, sizeof a[0], compare);
    printf("%d%d%d\\n", a[0], a[1], a[2]);
    return 0;
}
""",
        "123",
        [
            M("qsort(a, 3, sizeof a[0], compare);", "qsort(a, 3, compare);", "too few arguments"),
            M("*(const int *)a -", "*a -", "void"),
        ],
    ),
    Program(
        """\
#include <stdio.h>

int counter = 0;

void count(void) {
    counter++;
}

int main(void) {
    count();
    count();
    printf("%d\\n", counter);
    return 0;
}
""",
        "2",
        [
            M("    count();\n", "    count;\n", "unused"),
            M("int counter = 0;", "int counter = O;", "'O'"),
            M("void count(void)", "void Count(void)", "'Count'", 10),
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

int main(void) {
    char c;
    int letters = 0;
    while ((c = getchar()) != '\\n') {
        letters++;
    }
    printf("%d letters\\n", letters);
    return 0;
}
""",
        "5 letters",
        [
            M("'\\n')", '"\\n")', "comparison"),
            M("'\\n')", "'\\n)", "missing terminating '"),
            M("((c = getchar())", "(c = getchar()", "parentheses"),
        ],
        "hello",
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

void hanoi(int n, char from, char to, char by) {
    if (n == 0) return;
    hanoi(n - 1, from, by, to);
    printf("%c%c ", from, to);
    hanoi(n - 1, by, to, from);
}

int main(void) {
    hanoi(2, 'A', 'C', 'B');
    printf("\\n");
    return 0;
}
""",
        "AB AC BC",
        [
            M("if (n == 0) return;", "if (n == 0) return 0;", "should not return a value"),
            M("hanoi(2, 'A', 'C', 'B');", "hanoi(2, A, C, B);", "'A'"),
            M("void hanoi", "viod hanoi", "'viod'"),
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

union number {
    int i;
    float f;
};

int main(void) {
    union number n;
    n.f = 1.0f;
    printf("%08x\\n", n.i);
    return 0;
}
""",
        "3f800000",
        [
            M("union number n;", "union number n", "';'"),
            M("n.f = 1.0f", "number.f = 1.0f", "'number'"),
            M("1.0f", "1.0ff", "suffix"),
        ],
    ),
    Program(
        """\
#include <stdio.h>

int stack[10];
int top = 0;

void push(int x) { stack[top++] = x; }
int pop(void) { return stack[--top]; }

int main(void) {
    push(1);
    push(2);
    printf("%d", pop());
    printf("%d\\n", pop());
    return 0;
}
""",
        "21",
        [
            M("return stack[--top];", "return stack[--top]", "';'"),
            M("push(1);", "push('one', 1);", "too many arguments"),
            M("int pop(void)", "int pop(void);", "function body"),
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

int main(void) {
    int i, j;
    for (i = 1; i <= 3; i++) {
        for (j = 1; j <= i; j++) {
            printf("*");
        }
        printf("\\n");
    }
    return 0;
}
""",
        "*\n**\n***",
        [
            M("int i, j;", "int i; j;", "'j'"),
            M('            printf("*");\n        }\n', '            printf("*");\n', "'{'", 6),
            M('printf("*");', 'print("*");', "'printf'"),
        ],
    ),
    Program(
        """\
#include <stdio.h>

int main(void) {
    float price = 19.99;
    int count = 3;
    float total = price * count;
    printf("Total: %.2f\\n", total);
    return 0;
}
""",
        "Total: 59.97",
        [
            M("float price = 19.99;", "float price = 19,99;", "';'"),
            M("float price = 19.99;", 'float price = "19.99";', "'float'"),
            M("total);", "&total);", "'float *'"),
        ],
    ),
    Program(
        """\
#include <stdio.h>

int day_of(int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (month < 1 || month > 12)
        return 0;
    return days[month - 1];
}

int main(void) {
    printf("%d\\n", day_of(4));
    return 0;
}
""",
        "30",
        [
            M("month < 1 || month > 12", "month < 1 | | month > 12", "expected expression"),
            M("30, 31};", "30, 31;", "'{'"),
            M("day_of(4)", "day_of[4]", "subscript"),
        ],
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
#include <stdio.h>

struct book {
    char title[30];
    int pages;
};

int main(void) {
    struct book shelf[2] = {{"Emma", 474}, {"Dracula", 418}};
    int pages = 0;
    for (int i = 0; i < 2; i++)
        pages += shelf[i].pages;
    printf("%d pages\\n", pages);
    return 0;
}
""",
        "892 pages",
        [
            M("shelf[i].pages", "shelf.pages[i]", "pages"),
            M("shelf[i].pages", "shelf[i].page", "'page'"),
            M("shelf[i].pages", "shelf[i]", "'struct book'"),
        ],
    ),
    Program(
        """\
#include <stdio.h>

int apply(int (*f)(int), int x) {
    return f(x);
}

int next(int x) { return x + 1; }

int main(void) {
    printf("%d\\n", apply(next, 6));
    return 0;
}
""",
        "7",
        [
            M("apply(next, 6)", "apply(next(6))", "too few arguments"),
        ],
    ),
    # Cells of a notebook, without main.
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
    Program(
        """\
#define LIMIT 3
char word[LIMIT + 1] = "abc";
word[0] = 'x';
word
""",
        '"xbc"',
        [
            M("#define LIMIT 3", "#define LIMIT", "too long", 2),
            M("word[0] = 'x';", 'word[0] = "x";', "'char'"),
            M("word[0] = 'x';", "word[0] := 'x';", "expected"),
        ],
    ),
    Program(
        """\
enum level { LOW = 1, HIGH = 9 };
enum level now = HIGH;
switch (now) {
case LOW: now = HIGH; break;
case HIGH: now = LOW; break;
}
now
""",
        "LOW",
        [
            M("LOW = 1, HIGH", "LOW = 1; HIGH", "'}'"),
            M("case LOW:", "case low:", "'low'"),
        ],
    ),
    Program(
        """\
double average(const double *v, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += v[i];
    }
    return sum / n;
}
double v[] = {1, 2, 6};
average(v, 3)
""",
        "(double) 3",
        [
            M("double v[] =", "double v =", "'const double *'", 9),
            M("average(v, 3)", "average(3, v)", "'const double *'"),
            M("    return sum / n;\n}", "}\nreturn sum / n;", "return", 7),
        ],
    ),
]
