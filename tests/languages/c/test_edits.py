"""Random edits of a notebook of C: the program is always the one that the cells' texts say."""

from __future__ import annotations

import random

import pytest

from jitkernel import Session
from jitkernel.errors import CompileError, TypeMismatch

pytest.importorskip("ziglang")

FIELDS = ["int a;", "long b;", "double c;", "char d;", "struct {short e, f;} in;", "int g : 5;"]


class Notebook:
    """Cells by name, and what each of them is now."""

    def __init__(self, rng):
        self.rng = rng
        self.fields = {}
        self.texts = {}

    def text(self, name):
        """Another text for a cell; every function reads what stands above it."""
        rng, kind, number = self.rng, name[0], int(name[1:])
        if kind == "M":
            lower = f" + M{rng.randrange(number)}" if number and rng.random() < 0.5 else ""
            return f"#define M{number} ({rng.randrange(50)}{lower})"
        if kind == "E":
            names = rng.sample(["R", "Q", "B", "W"], 4)
            return f"enum E{number} {{{', '.join(f'{n}{number}' for n in names)}}};"
        if kind == "T":
            return f"typedef {rng.choice(['int', 'long', 'double', 'short'])} T{number};"
        if kind == "S":
            fields = rng.sample(FIELDS, rng.randint(3, len(FIELDS)))
            if "int a;" not in fields:
                fields.append("int a;")
            self.fields[name] = fields
            return f"struct S{number} {{{' '.join(fields)}}};"
        if kind == "G":
            if number % 2:
                return f"struct S{number % 3} G{number} = {{.a = {rng.randrange(100)}}};"
            return f"T{number % 2} G{number} = {rng.randrange(100)};"
        return self.function(number)

    def function(self, number):
        rng = self.rng
        terms = [f"M{rng.randrange(3)}", f"R{rng.randrange(2)}", f"G{rng.randrange(4)}"]
        terms[2] += ".a" if int(terms[2][1:]) % 2 else ""
        s = rng.randrange(3)
        terms += [f"(int)sizeof(struct S{s})", f"(int)((T{rng.randrange(2)})7 / 2 * 2)"]
        if number:
            terms.append(f"F{rng.randrange(number)}({rng.choice(['x', '3', 'M0'])})")
        terms = rng.sample(terms, rng.randint(2, len(terms)))
        head = rng.choice(["int", "int", "long", "static int", "inline int"])
        parameter = rng.choice(["int x", "int x", "long x", "int y"])
        word = parameter.split()[1]
        body = " + ".join(t.replace("(x)", f"({word})") for t in terms)
        before = f"struct S{s} v = {{.a = {word}}};" if rng.random() < 0.5 else ""
        more = " + v.a" if before else ""
        return f"{head} F{number}({parameter}) {{ {before} return {body}{more}; }}"


ORDER = (
    [f"M{i}" for i in range(3)] + [f"E{i}" for i in range(2)] + [f"T{i}" for i in range(2)]
    + [f"S{i}" for i in range(3)] + [f"G{i}" for i in range(4)] + [f"F{i}" for i in range(6)]
)  # fmt: skip
ASKED = [f"(long)F{i}(5)" for i in range(6)] + ["G0", "G1.a", "G2", "G3.a", "sizeof(struct S0)"]


def run(session, name, text):
    return session.run(text, "c", cell_id=name)


def values(session):
    return [session.run(expression, "c").text for expression in ASKED]


def fresh(texts):
    with Session(capacity=64 << 20) as session:
        for name in ORDER:
            run(session, name, texts[name])
        return values(session)


def edits(seed, count):
    """Make so many edits; how many were made, and how many were refused."""
    rng = random.Random(seed)
    book = Notebook(rng)
    refused = 0
    with Session(capacity=64 << 20, undo_depth=100) as session:
        for name in ORDER:
            book.texts[name] = book.text(name)
            run(session, name, book.texts[name])
        for step in range(count):
            dice, name = rng.random(), rng.choice(ORDER)
            before = dict(book.texts)
            text = book.text(name) if dice < 0.8 else book.texts[name]
            try:
                run(session, name, text)
                book.texts[name] = text
            except (CompileError, TypeMismatch):
                refused += 1
            else:
                if dice > 0.9 or 0.6 < dice < 0.7:
                    session.undo()
                    book.texts = before
            session.inspect.program.linker.check()
            live = values(session)
            assert live == fresh(book.texts), (seed, step, name, text, book.texts)
        session.check()
    return count, refused


def test_a_few_random_edits():
    count, refused = edits(0, 10)
    assert refused < count / 2


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_five_hundred_random_edits():
    done = [edits(seed, 50) for seed in range(100, 110)]
    print(f"{sum(c for c, _ in done)} edits, {sum(r for _, r in done)} refused")
