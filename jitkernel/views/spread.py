"""Places on a line that keep their distance.  Start from `spread`."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["mean", "spread"]


def mean(values: Sequence[float], otherwise: float) -> float:
    """The mean of `values`, of none of them `otherwise`."""
    return sum(values) / len(values) if values else otherwise


def spread(
    wanted: Sequence[float], weights: Sequence[float], offsets: Sequence[float]
) -> list[float]:
    """Places in this order, no closer than `offsets` says, of the least squared distance to
    `wanted`.

    Pool adjacent violators: boxes that would overlap move as one block.
    """
    blocks: list[tuple[float, float, int]] = []  # mean, weight, members
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        middle, total, count = want - offset, weight, 1
        while blocks and blocks[-1][0] > middle:
            other, heavy, members = blocks.pop()
            middle = (middle * total + other * heavy) / (total + heavy)
            total, count = total + heavy, count + members
        blocks.append((middle, total, count))
    places: list[float] = []
    for middle, _, count in blocks:
        places += [middle] * count
    return [place + offset for place, offset in zip(places, offsets, strict=True)]
