"""A thread that a program starts, and that goes on until it is told to end.  Start from `looping`."""

from __future__ import annotations

__all__ = ["looping"]


def looping(body: str, start: str = "start", finish: str = "finish") -> str:
    """IR of a thread that runs `body`, the lines of blocks that begin in `%loop`, again and again;
    and of the functions that start it and wait for its end, both 0 where they succeed."""
    return f"""@stop = global i32 0
@thread = global i64 0
declare i32 @usleep(i32)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
define ptr @worker(ptr %p) {{
entry:
  br label %loop
loop:
{body}
  %s = load volatile i32, ptr @stop
  %go = icmp eq i32 %s, 0
  br i1 %go, label %loop, label %done
done:
  ret ptr null
}}
define i32 @{start}() {{
  %r = call i32 @pthread_create(ptr @thread, ptr null, ptr @worker, ptr null)
  ret i32 %r
}}
define i32 @{finish}() {{
  store volatile i32 1, ptr @stop
  %t = load i64, ptr @thread
  %r = call i32 @pthread_join(i64 %t, ptr null)
  ret i32 %r
}}
"""
