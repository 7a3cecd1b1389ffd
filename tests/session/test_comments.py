"""Comments wherever LLVM reads them, `/* */` too: cells with them run, and what they define is known."""

from __future__ import annotations

from jitkernel import Session


def test_comments_in_every_place() -> None:
    with Session(spare=False) as session:
        run = session.run
        run("/* a\n b */ @g /* c\n*/ = /* ; */ global i32 /* } */ 5 /* end\n */ ; more")
        assert run("@g /* shown */").value == 5
        run("%t = type { i32, ; one\n  i32 /* two */ }")
        run("@s = global %t { i32 1, i32 2 }")
        assert run("%v = load %t, ptr @s").value == (1, 2)
        run("define i32 @f(i32 /* ) */ %x) /* { */ {\n  %y = add i32 %x, /* one\n  more */ 1\n"
            "/* first\n  second */\n  ret i32 %y ; }\n}")  # fmt: skip
        assert run("@f(/* two */ 2) /* three */").value == 3
        assert run("@f(_ /* the last */)").value == 4
        assert run("%r = call i32 @f(i32 /* ten\n*/ 10)").value == 11
