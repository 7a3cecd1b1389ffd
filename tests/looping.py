"""A thread that a program starts, and that goes on until it is told to end.  Start from `looping`."""

from __future__ import annotations

__all__ = ["looping"]


def looping(body: str, start: str = "start", finish: str = "finish") -> str:
    """C of a thread that runs `body` again and again, and of the functions that start it and wait for
    its end, both 0 where they succeed."""
    return f"""#include <pthread.h>
#include <unistd.h>
volatile int stop;
pthread_t thread;
void *worker(void *p) {{ do {{ {body} }} while (!stop); return 0; }}
int {start}(void) {{ return pthread_create(&thread, 0, worker, 0); }}
int {finish}(void) {{ stop = 1; return pthread_join(thread, 0); }}
"""
