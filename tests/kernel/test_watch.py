"""`%watch` in a notebook: one display a cell, updated in place."""

from __future__ import annotations

import re
from itertools import pairwise

from tests.kernel.conftest import Kernel

LOOP = """
@n = global i64 0
declare i32 @usleep(i32)
define void @loop(i64 %steps, i1 %crash) {
entry:
  br label %again
again:
  %i = phi i64 [ 1, %entry ], [ %j, %again ]
  store volatile i64 %i, ptr @n
  %u = call i32 @usleep(i32 100000)
  %j = add i64 %i, 1
  %more = icmp sle i64 %j, %steps
  br i1 %more, label %again, label %done
done:
  br i1 %crash, label %bad, label %good
bad:
  store volatile i64 0, ptr null
  br label %good
good:
  ret void
}
"""


def shown(kernel: Kernel, source: str) -> tuple[list[dict], list[str]]:
    """The displays of a cell, and the types of all its messages."""
    messages = kernel.iopub_of(identity := kernel.start(source))
    kernel.reply_to(identity)
    kinds = [m["msg_type"] for m in messages]
    found = [m["content"] for m in messages if m["msg_type"].endswith("display_data")]
    return found, kinds


def value(content: dict) -> int:
    return int(re.findall(r"^@n +i64 (\d+)", content["data"]["text/plain"], re.M)[0])


def test_the_display_is_updated_in_place(kernel: Kernel) -> None:
    kernel.ok(LOOP)
    assert "@n" in kernel.ok("%watch @n")
    found, kinds = shown(kernel, "@loop(12, false)")
    assert len({c["transient"]["display_id"] for c in found}) == 1
    assert kinds.count("display_data") == 1 and kinds.count("update_display_data") >= 1
    values = [value(c) for c in found]
    assert values == sorted(values) and values[-1] == 12
    assert "into the run" in found[0]["data"]["text/plain"]
    assert "into the run" not in found[-1]["data"]["text/plain"]
    # Not more than twice a second: 12 steps of 0.1 s, each a change that was seen.
    texts = "".join(c["data"]["text/plain"] for c in found)
    times = [float(t) for t in re.findall(r"([\d.]+) s into", texts)]
    assert all(b - a >= 0.45 for a, b in pairwise(times))

    found, kinds = shown(kernel, "@loop(1, true)")
    assert value(found[-1]) == 1 and kinds.index("error") > kinds.index("display_data")

    assert "nothing is watched any more" in kernel.ok("%watch --stop @n")
    assert shown(kernel, "@loop(1, false)")[0] == []


def test_a_watch_in_the_same_cell_has_one_display(kernel: Kernel) -> None:
    kernel.ok(LOOP)
    found, kinds = shown(kernel, "%watch @n\n@loop(2, false)")
    assert kinds.count("display_data") == 1 and value(found[-1]) == 2
    # A client that runs a notebook stores what was shown last.
    _, (output,) = kernel.run("%watch @n\n@loop(1, false)")
    assert value(output) == 1
    kernel.ok("%watch --stop")


def test_what_is_refused(kernel: Kernel) -> None:
    kernel.ok(LOOP)
    assert "@loop is a function" in kernel.fails("%watch @loop")
    assert "at least 0.5" in kernel.fails("%watch @n --every 0.1")
    assert "not watched" in kernel.fails("%watch --stop @n")
    assert "Nothing is watched" in kernel.ok("%watch")
    assert "volatile" in kernel.page("%watch?")
