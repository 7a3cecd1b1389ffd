"""Data breakpoints of the Debug Adapter Protocol.  Messages are checked against its schema."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jitkernel.errors import UsageError
from jitkernel.executor.watches import Watch, check
from tests.kernel.conftest import Kernel
from tests.kernel.debug_client import DebugClient, debug_client

COUNT = """\
int total;
int count(int n) {
  int i = 0;
  while (i < n)
    total += ++i;
  return total;
}
count(3)"""


@pytest.fixture
def client(c_kernel: Kernel) -> Iterator[DebugClient]:
    try:
        check(Watch(0x1000, 8))
    except UsageError as error:
        pytest.skip(str(error))
    with debug_client(c_kernel) as client:
        yield client


def test_a_local_is_watched_from_the_panel(client: DebugClient) -> None:
    client.attach()
    client.breaks(COUNT, 4)
    cell = client.kernel.start(COUNT)
    client.stopped("breakpoint")
    client.breaks(COUNT)
    told = client.ask("dataBreakpointInfo", variablesReference=client.scope(), name="i")
    assert told["accessTypes"] == ["write", "readWrite"]
    none = client.ask("dataBreakpointInfo", name="1 + 1", frameId=1)
    assert none["dataId"] is None and "no memory" in none["description"]
    wanted = [{"dataId": told["dataId"], "accessType": "write"}]
    [point] = client.ask("setDataBreakpoints", breakpoints=wanted)["breakpoints"]
    assert point["verified"]
    for before in range(3):
        client.goes()
        stop = client.stopped("data breakpoint")
        assert stop["text"] == f"i: {before} -> {before + 1}"
        assert stop["hitBreakpointIds"] == [point["id"]]
    assert client.ask("setDataBreakpoints", breakpoints=[])["breakpoints"] == []
    client.goes()
    reply, shown = client.ends(cell)
    assert reply["status"] == "ok" and "(int) 6" in shown
