"""Which values are live where blocks begin and end."""

from collections.abc import Iterator

from jitkernel.ir.model import Function


def liveness(f: Function) -> Iterator[dict[str, str]]:
    live = f.liveness()
    for b in f.blocks:
        into, out = (sorted(v.ref for v in at[b]) for at in (live.live_in, live.live_out))
        yield {"block": b.ref, "live in": " ".join(into), "live out": " ".join(out)}
