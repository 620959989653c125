"""Handlers that answer several requests at once: when they are asked to, and what counts."""

from collections.abc import Sequence

from pyromq.protocol.command import Command, encode
from pyromq.remoting.connection import Connection
from pyromq.remoting.handler import MAX_GROUP, Deferred, Grouped
from pyromq.remoting.limits import Limits
from tests.unit.remoting.fakes import Rig, run


def frame(opaque: int, *, code: int = 10, oneway: bool = False) -> bytes:
    return encode(Command.request(code, opaque=opaque, oneway=oneway))


class Counter:
    """Answers, and remembers how it was asked."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.singles: list[int] = []
        self.refuses = False
        self.breaks = False
        self.later: Deferred | None = None

    def one(self, request: Command, _connection: Connection) -> Command:
        self.singles.append(request.opaque)
        return request.reply(remark="one")

    def many(self, requests: Sequence[Command], _connection: Connection) -> bytes | Deferred | None:
        if self.refuses:
            return None
        if self.breaks:
            raise ValueError("no")
        self.groups.append([request.opaque for request in requests])
        self.answers = b"".join(encode(each.reply(remark="many")) for each in requests if not each.is_oneway)
        return self.later or self.answers

    def rig(self, limits: Limits | None = None) -> Rig:
        return Rig({10: Grouped(self.one, self.many), 11: self.one}, limits=limits)


def opaques(rig: Rig) -> list[int]:
    return [command.opaque for command in rig.transport.commands]


def test_requests_of_one_code_that_arrive_together_are_answered_together() -> None:
    async def main() -> None:
        counter = Counter()
        rig = counter.rig()
        rig.connection.data_received(frame(1) + frame(2) + frame(3, code=11) + frame(4) + frame(5, oneway=True))
        rig.connection.data_received(frame(6))
        assert counter.groups == [[1, 2], [4, 5]]
        assert counter.singles == [3, 6]
        assert opaques(rig) == [1, 2, 3, 4, 6]
        assert (rig.stats.requests, rig.stats.oneways, rig.stats.responses) == (5, 1, 5)

    run(main())


def test_a_group_is_bounded() -> None:
    async def main() -> None:
        counter = Counter()
        rig = counter.rig()
        rig.connection.data_received(b"".join(frame(number) for number in range(MAX_GROUP + 2)))
        assert [len(group) for group in counter.groups] == [MAX_GROUP, 2]
        assert opaques(rig) == list(range(MAX_GROUP + 2))

    run(main())


def test_a_group_that_needs_more_is_served_one_by_one() -> None:
    async def main() -> None:
        counter = Counter()
        counter.refuses = True
        rig = counter.rig()
        rig.connection.data_received(frame(1) + frame(2))
        assert counter.singles == [1, 2]
        assert (rig.stats.requests, rig.stats.responses) == (2, 2)

    run(main())


def test_a_fault_is_the_answer_to_each_of_the_group() -> None:
    async def main() -> None:
        counter = Counter()
        counter.breaks = True
        rig = counter.rig()
        rig.connection.data_received(frame(1) + frame(2, oneway=True) + frame(3))
        assert [(each.opaque, each.remark) for each in rig.transport.commands] == [
            (1, "ValueError: no"),
            (3, "ValueError: no"),
        ]

    run(main())


def test_a_group_that_waits_counts_as_so_many_requests() -> None:
    async def main() -> None:
        counter = Counter()
        counter.later = Deferred()
        rig = counter.rig(Limits(requests_per_connection=3))
        rig.connection.data_received(frame(1) + frame(2))
        assert rig.stats.requests_in_flight == rig.connection.requests_in_flight == 2
        rig.connection.data_received(frame(3) + frame(4))  # no room for two more: refused or taken one by one
        assert counter.groups == [[1, 2]]
        assert counter.singles == [3, 4]
        counter.later.answer(counter.answers)
        counter.later.answer(b"never twice")
        assert (rig.stats.requests_in_flight, rig.stats.bytes_in_flight) == (0, 0)

    run(main())


def test_an_answer_given_before_the_handler_returned_is_written_at_once() -> None:
    async def main() -> None:
        counter = Counter()
        counter.later = Deferred()
        counter.later.answer(encode(Command(0, flag=1, opaque=9)))
        rig = counter.rig()
        rig.connection.data_received(frame(1) + frame(2))
        assert opaques(rig) == [9]
        assert rig.stats.requests_in_flight == 0

    run(main())
