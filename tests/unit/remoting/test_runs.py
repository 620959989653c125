"""Runs of which a handler takes a part: who is asked next, when the peer is held back, what counts."""

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command, encode
from pyromq.protocol.headers.pullrun import PullRun
from pyromq.protocol.requests import pull_messages
from pyromq.remoting.connection import Connection
from pyromq.remoting.handler import Begun, Grouped
from pyromq.remoting.limits import Limits
from tests.unit.native.twins import needs_core
from tests.unit.remoting.fakes import Rig, run, turn

pytestmark = needs_core


def frame(opaque: int, *, queue_id: int = 0) -> bytes:
    command = pull_messages("g", "t", queue_id, opaque, 1)
    command.opaque = opaque
    return encode(command)


FRAMES = b"".join(map(frame, range(6)))


class Handler:
    """Takes at most `most` pulls of a run, none that begins with one of `alone`."""

    def __init__(self, most: int = 99, alone: tuple[int, ...] = (), size: int = 10) -> None:
        self.most = most
        self.alone = alone
        self.size = size
        self.runs: list[tuple[int, int]] = []
        self.singles: list[int] = []
        self.rooms: list[int] = []
        self.breaks = False

    def one(self, request: Command, _connection: Connection) -> Command:
        self.singles.append(request.opaque)
        return request.reply(remark="x" * self.size)

    def begin(self, pulls: PullRun, connection: Connection) -> Begun | None:
        if self.breaks:
            raise ValueError("no")
        if pulls.offset in self.alone:
            return None
        taken = min(self.most, len(pulls))
        self.rooms.append(connection.room)
        self.runs.append((pulls.offset, taken))
        answers = [Command(0, 1, pulls.offset + number, remark="y" * self.size) for number in range(taken)]
        return Begun(taken, [encode(answer) for answer in answers])

    def rig(self, limits: Limits | None = None, *, runs: bool = True) -> Rig:
        handler = Grouped(self.one, None, self.begin if runs else None)
        return Rig({RequestCode.PULL_MESSAGE: handler}, limits=limits)


def opaques(rig: Rig) -> list[int]:
    return [command.opaque for command in rig.transport.commands]


def test_what_a_handler_leaves_is_offered_to_it_again() -> None:
    async def main() -> None:
        handler = Handler(most=2)
        rig = handler.rig()
        rig.connection.data_received(FRAMES)
        assert handler.runs == [(0, 2), (2, 2), (4, 2)]
        assert opaques(rig) == [0, 1, 2, 3, 4, 5]
        assert (rig.stats.requests, rig.stats.responses) == (6, 6)
        assert len(rig.transport.writes) == 1

    run(main())


def test_one_that_needs_its_own_way_goes_it_in_its_turn() -> None:
    async def main() -> None:
        handler = Handler(most=3, alone=(0, 4))
        rig = handler.rig()
        rig.connection.data_received(FRAMES)
        assert handler.runs == [(1, 3), (5, 1)]
        assert handler.singles == [0, 4]
        assert opaques(rig) == [0, 1, 2, 3, 4, 5]
        assert (rig.stats.requests, rig.stats.responses) == (6, 6)

    run(main())


def test_answers_that_the_peer_must_take_first_hold_back_the_rest() -> None:
    async def main() -> None:
        for runs in (True, False):
            handler = Handler(most=2, size=100)
            rig = handler.rig(Limits(unsent_high=300), runs=runs)
            rig.connection.data_received(FRAMES)
            assert len(rig.transport.writes) == 1
            assert opaques(rig) == [0, 1]
            assert not rig.transport.reading
            rig.connection.pause_writing()
            await turn()
            assert opaques(rig) == [0, 1]
            rig.connection.resume_writing()
            for _ in range(5):
                await turn()
            assert opaques(rig) == [0, 1, 2, 3, 4, 5]
            assert rig.transport.reading
            assert handler.rooms == ([300] * 3 if runs else [])

    run(main())


def test_limits_are_those_of_requests_one_by_one() -> None:
    async def main() -> None:
        handler = Handler()
        rig = handler.rig(Limits(requests_per_connection=5))
        rig.connection.data_received(FRAMES)  # might be too many if all of them had to wait
        assert handler.runs == []
        assert handler.singles == [0, 1, 2, 3, 4, 5]
        rig = handler.rig(Limits(request_rate=2))
        rig.connection.data_received(FRAMES)
        codes = [command.code for command in rig.transport.commands]
        assert codes == [0] * 4 + [ResponseCode.SYSTEM_BUSY] * 2  # a burst of two seconds
        handler.singles.clear()
        rig = handler.rig()
        rig.endpoint.leaving = True
        rig.connection.data_received(FRAMES)
        assert {command.code for command in rig.transport.commands} <= {0, ResponseCode.GO_AWAY}
        assert handler.runs == []

    run(main())


def test_a_fault_is_the_answer_to_each() -> None:
    async def main() -> None:
        handler = Handler()
        handler.breaks = True
        rig = handler.rig()
        rig.connection.data_received(FRAMES)
        assert [command.remark for command in rig.transport.commands] == ["ValueError: no"] * 6
        assert (rig.stats.faults, rig.stats.responses) == (6, 6)

    run(main())


def test_without_a_handler_each_is_told_so() -> None:
    async def main() -> None:
        rig = Rig({})
        rig.connection.data_received(FRAMES)
        assert [command.code for command in rig.transport.commands] == [ResponseCode.REQUEST_CODE_NOT_SUPPORTED] * 6

    run(main())
