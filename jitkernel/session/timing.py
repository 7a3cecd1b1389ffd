"""How long a call takes, measured by a loop that runs natively.  Start from `time_call`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jitkernel.errors import UsageError
from jitkernel.executor import Outcome
from jitkernel.languages.llvm import CallAction, TypedValue, evaluate, parse_cell
from jitkernel.languages.llvm.expressions import Call

if TYPE_CHECKING:
    from jitkernel.session.engine import Engine
    from jitkernel.session.host import SessionHost

__all__ = ["time_call"]

#: Nanoseconds that a repetition should take, and from which a loop's time can be trusted.
_WANTED, _TRUSTED = 50_000_000, 5_000_000


def time_call(
    engine: Engine,
    host: SessionHost,
    fail: Callable[[Outcome], Exception],
    expression: str,
    number: int,
    repeat: int,
) -> list[float]:
    """Nanoseconds per call, one figure for each repetition of `number` calls (0: chosen).

    Arguments are evaluated once.  Raises UsageError for what is not one call line, and what `fail`
    makes of an outcome that is not "ok".
    """
    plan = parse_cell(expression)
    action = plan.actions[0] if len(plan.actions) == 1 and not plan.entities else None
    expr = action.expr if isinstance(action, CallAction) else None
    if not isinstance(expr, Call):
        raise UsageError("what is timed is one call: @f(arguments)")
    signature = host.full_signature(expr.name)
    symbol = host.known(expr.name)
    if signature is None or symbol is None:
        raise UsageError(f"@{expr.name} is no function that this session knows")
    values: list[TypedValue] = []
    evaluate(expr, None, _Arguments(host, expr.name, values), plan.source)  # type: ignore[arg-type]
    types = tuple(host._type(v.type) for v in values)
    target = engine.target(signature, types, timer=True)
    entry = host.entry(symbol)

    def loop(count: int) -> int:
        outcome, data = host.run(target, entry, values, count.to_bytes(8, "little"))
        if outcome.kind != "ok":
            raise fail(outcome)
        return int.from_bytes(data, "little", signed=True)

    if not number:
        number = 1
        while (spent := loop(number)) < _TRUSTED and number < 1 << 40:
            number *= 10 if spent < _TRUSTED // 10 else 2
        number = max(1, int(number * _WANTED / max(spent, 1)))
    return [loop(number) / number for _ in range(repeat)]


class _Arguments:
    """A host whose outermost call is only noted: for timing, where a loop makes it."""

    def __init__(self, host: SessionHost, name: str, into: list[TypedValue]):
        self._host, self._name, self._into = host, name, into

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def call(self, name: str, arguments: list[TypedValue]) -> TypedValue:
        if name != self._name:
            return self._host.call(name, arguments)
        self._into[:] = arguments
        signature = self._host.full_signature(name)
        assert signature is not None
        result = signature.function.result
        size = 0 if str(result) == "void" else self._host.layout(result).size
        return TypedValue(result, bytes(size), self._host.layout)
