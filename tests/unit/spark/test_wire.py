"""Questions to several peers at once, over connections that are scripts."""

from collections import deque

import pytest

from pyromq.protocol.command import Command
from pyromq.remoting.errors import CallTimeout, ConnectionLost
from pyromq.spark.net import wire as wires
from pyromq.spark.net.talk import WINDOW
from pyromq.spark.net.wire import Wire
from pyromq.spark.options import ConnectionOptions, read_options


class Peers:
    """Addresses that say what they do: `well` answers, `mute` does not, `stale` loses its first connection."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[tuple[str, str]] = []
        self.made: list[str] = []
        self.most = 0
        self.now = 0.0
        monkeypatch.setattr(wires, "Channel", lambda address, _tls, _clock: Line(self, address))
        monkeypatch.setattr("pyromq.spark.net.wire.select.select", self.select)
        self.wire = Wire(read_options(ConnectionOptions, {"nameServer": "n:1"}, {}), clock=self.clock)

    def clock(self) -> float:
        return self.now

    def select(self, _reading: object, _writing: object, _failing: object, timeout: float) -> tuple[list[object], ...]:
        """Nobody has anything more to say."""
        self.now += timeout
        return [], [], []


class Line:
    def __init__(self, peers: Peers, address: str) -> None:
        self._peers, self._address = peers, address
        self._is_first = address not in peers.made
        peers.made.append(address)
        self._waiting: deque[Command] = deque()
        self.is_open = True

    def send(self, command: Command, _timeout: float) -> None:
        self._peers.events.append((self._address, "asked"))
        self._waiting.append(command.reply(remark=str(command.ext.get("n"))))
        self._peers.most = max(self._peers.most, len(self._waiting))

    def receive(self, timeout: float) -> Command:
        if self._address == "mute:1":
            self._peers.now += timeout
            raise CallTimeout("no answer")
        if self._address == "stale:1" and self._is_first and len(self._peers.events) > 3:
            raise ConnectionLost("it was closed meanwhile")
        self._peers.events.append((self._address, "answered"))
        return self._waiting.popleft()

    @property
    def has_answers(self) -> bool:
        return bool(self._waiting) and self._address != "mute:1"

    def close(self) -> None: ...


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Peers:
    return Peers(monkeypatch)


def questions(count: int) -> list[Command]:
    return [Command.request(1, ext={"n": str(number)}) for number in range(count)]


def remarks(found: object) -> list[str | None]:
    assert isinstance(found, list)
    return [answer.remark for answer in found]


def test_everybody_is_asked_before_anybody_is_heard(peers: Peers) -> None:
    found = peers.wire.exchange_all({"well:1": questions(3), "well:2": questions(2), "well:3": []}, 5.0)
    assert {address: remarks(each) for address, each in found.items()} == {
        "well:1": ["0", "1", "2"],
        "well:2": ["0", "1"],
        "well:3": [],
    }
    assert [what for _, what in peers.events[:5]] == ["asked"] * 5


def test_one_that_hangs_costs_its_own_answers_only(peers: Peers) -> None:
    found = peers.wire.exchange_all({"mute:1": questions(2), "well:1": questions(2)}, 0.05)
    assert isinstance(found["mute:1"], CallTimeout)
    assert remarks(found["well:1"]) == ["0", "1"]


def test_a_connection_that_died_while_it_was_kept_is_replaced_once(peers: Peers) -> None:
    peers.wire.exchange_all({"stale:1": questions(1), "well:1": questions(1)}, 5.0)
    found = peers.wire.exchange_all({"stale:1": questions(2), "well:1": questions(1)}, 5.0)
    assert remarks(found["stale:1"]) == ["0", "1"]
    assert peers.made == ["stale:1", "well:1", "stale:1"]


def test_so_many_are_under_way_at_a_time(peers: Peers) -> None:
    assert len(peers.wire.exchange("well:1", questions(3 * WINDOW), 5.0)) == 3 * WINDOW
    assert peers.most == WINDOW
