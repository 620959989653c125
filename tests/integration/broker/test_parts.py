"""The order in which a broker starts and stops its parts, whatever they are."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from pyromq.broker.broker import Broker
from pyromq.broker.config import BrokerConfig
from pyromq.broker.core import Core
from pyromq.broker.part import Every, Part
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler
from pyromq.remoting.errors import ConnectError
from tests.integration.broker.servers import Peer, until


class Noted(Part):
    """Notes what it is told; fails where it is told to."""

    def __init__(self, name: str, notes: list[str], core: Core, fails_to: str = "", code: int = 0) -> None:
        self._name = name
        self._notes = notes
        self._core = core
        self._fails_to = fails_to
        self._code = code

    def handlers(self) -> Mapping[int, Handler]:
        return {self._code: self._answer} if self._code else {}

    def every(self) -> Iterable[Every]:
        return [Every(3600, lambda: self._note("work"), at_once=True)]

    async def start(self) -> None:
        self._note("start")

    async def join(self) -> None:
        self._note("join")

    async def leave(self) -> None:
        self._note("leave")

    async def stop(self) -> None:
        self._note("stop")

    def connection_closed(self, _connection: Connection) -> None:
        self._note("connection closed")

    def _answer(self, request: Command, _connection: Connection) -> Command:
        return request.reply(remark=self._name)

    def _note(self, what: str) -> None:
        served = "" if self._core.ports.handlers else " closed"
        self._notes.append(f"{self._name} {what}{served if what in ('start', 'join') else ''}")
        if what == self._fails_to:
            raise RuntimeError(f"{self._name} cannot {what}")


def broker_of(path: Path, notes: list[str], fails_to: str = "", codes: tuple[int, int] = (1, 2)) -> Broker:
    """Of two parts, the second of which may fail."""
    return Broker(
        BrokerConfig(store_path_root_dir=path, listen_port=0, http_port=-1, mapped_file_size_commit_log=1 << 20),
        make=lambda core: [
            Noted("a", notes, core, code=codes[0]),
            Noted("b", notes, core, fails_to, code=codes[1]),
        ],
    )


async def test_parts_are_started_in_order_and_stopped_in_the_reverse(tmp_path: Path) -> None:
    notes: list[str] = []
    broker = broker_of(tmp_path, notes, codes=(RequestCode.PULL_MESSAGE, RequestCode.SEND_MESSAGE))
    await broker.start()
    assert notes == ["a start closed", "b start closed", "a join", "b join"]
    await until(lambda: {"a work", "b work"} <= set(notes))
    async with Peer(broker.address) as peer:
        assert (await peer.call(RequestCode.SEND_MESSAGE)).remark == "b"
        assert (await peer.call(RequestCode.QUERY_MESSAGE)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    await until(lambda: {"a connection closed", "b connection closed"} <= set(notes))
    notes.clear()
    await broker.stop()
    assert notes == ["b leave", "a leave", "b stop", "a stop"]


@pytest.mark.parametrize(
    ("fails_to", "told"),
    [
        ("start", ["a start closed", "b start closed", "b stop", "a stop"]),
        ("join", ["a start closed", "b start closed", "a join", "b join", "b leave", "a leave", "b stop", "a stop"]),
    ],
)
async def test_a_part_that_fails_leaves_nothing_running(tmp_path: Path, fails_to: str, told: list[str]) -> None:
    notes: list[str] = []
    broker = broker_of(tmp_path, notes, fails_to)
    with pytest.raises(RuntimeError, match=f"b cannot {fails_to}"):
        await broker.start()
    assert notes == told
    async with Peer(broker.address) as peer:
        with pytest.raises(ConnectError):
            await peer.call(RequestCode.SEND_MESSAGE)
    again = broker_of(tmp_path, [])  # the store is not locked any more
    await again.start()
    await again.stop()


async def test_two_parts_that_claim_one_request_do_not_start(tmp_path: Path) -> None:
    notes: list[str] = []
    with pytest.raises(ValueError, match="which another part has claimed"):
        await broker_of(tmp_path, notes, codes=(RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE)).start()
    assert notes == []
