"""Writers at a real broker: each message is stored once, in order, and nothing of those who were replaced."""

from pathlib import Path

import pytest

from pyromq.broker.writers.writers import Writers
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.handles.writer import PLACE_FIELD, WRITER_FIELD, Place
from pyromq.protocol.headers.admin import DeleteTopicInBrokerHeader
from pyromq.protocol.headers.send import CloseWriterHeader, OpenWriterHeader
from pyromq.protocol.message import Message
from pyromq.protocol.records.batch import encode_batch
from tests.integration.broker.servers import Peer, standalone
from tests.integration.broker.writing import NAME, TOPIC, ask, begin, items, open_lane, send, write

FENCED = ResponseCode.NO_PERMISSION


async def bodies(peer: Peer, queue: int = 0) -> str:
    return " ".join([message.body.decode() for message in await peer.messages(TOPIC, queue=queue)])


async def test_what_is_sent_again_is_not_stored_again(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored(TOPIC, b"other")
        run = await begin(peer)
        queues = await open_lane(peer, run)
        assert queues.ends == queues.origins == {0: 1, 1: 0, 2: 0, 3: 0}
        place = Place(run, 0, 0)
        assert await write(peer, place, "a", "b", "c") == 1
        await peer.stored(TOPIC, b"between")
        assert await write(peer, place._replace(sequence=3), "d") == 5
        assert await write(peer, place, "a", "b", "c") == 1
        assert await write(peer, place._replace(sequence=1), "b") == 2
        assert await write(peer, place._replace(sequence=3), "d") == 5
        assert await write(peer, place._replace(queue=2), "e") == 0, "another queue is numbered by itself"
        assert await bodies(peer) == "other a b c between d"
        assert broker.part(Writers).repeated == 5


async def test_of_a_batch_that_is_stored_in_part_the_rest_is(tmp_path: Path) -> None:
    # A crash may cut a batch in the log.
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored(TOPIC, b"other")
        run = await begin(peer)
        await open_lane(peer, run)
        await write(peer, Place(run, 0, 0), "a", "b")
        assert await write(peer, Place(run, 0, 0), "a", "b", "c", "d") == 3
        assert await write(peer, Place(run, 0, 0, 0, 3), "d", "e") == 5
        assert await bodies(peer) == "other a b c d e"
        assert broker.part(Writers).repeated == 3


async def test_a_gap_is_refused(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        await peer.stored(TOPIC, b"other")
        run = await begin(peer)
        await open_lane(peer, run)
        await write(peer, Place(run, 0, 0), "a")
        late = Place(run, 0, 0, 0, 2)
        answer = await send(peer, late, items(late, ["c"]))
        assert answer.code == ResponseCode.OUT_OF_SEQUENCE
        assert "came before 1" in (answer.remark or "")
        await write(peer, Place(run, 0, 0, 0, 1), "b")
        await write(peer, late, "c")
        assert await bodies(peer) == "other a b c"


async def test_whoever_was_replaced_stores_nothing_more(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored(TOPIC, b"other")
        first = await begin(peer)
        await open_lane(peer, first)
        await write(peer, Place(first, 0, 0), "a", "b")
        queues = await open_lane(peer, first, attempt=3)
        assert queues.ends[0] == 3, "behind all that the first can have stored"
        for place in (Place(first, 0, 0, 0, 2), Place(first, 0, 0), Place(first, 0, 2), Place(first, 0, 4)):
            assert (await send(peer, place, items(place, ["late"]))).code == FENCED
        assert (await ask(peer, run=first, lane=0, attempt=2)).code == FENCED
        second = await begin(peer)
        assert second > first
        for place in (Place(first, 0, 3), Place(second, 0, 3)):
            assert (await send(peer, place, items(place, ["late"]))).code == FENCED
        assert (await ask(peer, run=first, lane=0, attempt=9)).code == FENCED
        assert (await open_lane(peer, second)).origins[0] == 1
        await write(peer, Place(second, 0, 0), "c")
        assert await bodies(peer) == "other a b c"
        assert broker.part(Writers).fenced == 8


async def test_a_writer_that_is_done_is_forgotten(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored(TOPIC, b"other")
        first = await begin(peer)
        run = await begin(peer)
        await open_lane(peer, run)

        async def close(number: int | None) -> int:
            header = CloseWriterHeader(topic=TOPIC, writer=NAME, run=number)
            return (await peer.call(RequestCode.CLOSE_WRITER, header)).code

        assert await close(first) == FENCED
        await write(peer, Place(run, 0, 0), "a")
        assert await close(run) == ResponseCode.SUCCESS
        assert not len(broker.part(Writers).table)
        answer = await send(peer, Place(run, 0, 0, 0, 1), items(Place(run, 0, 0, 0, 1), ["late"]))
        assert answer.code == FENCED
        assert await close(None) == ResponseCode.SUCCESS, "the first answer may have been lost"


async def test_a_broker_that_starts_again_knows_its_writers(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        await peer.stored(TOPIC, b"other")
        first = await begin(peer)
        run = await begin(peer)
        await open_lane(peer, run, attempt=1)
        await open_lane(peer, run, attempt=2)
        await write(peer, Place(run, 0, 2), "a", "b")
    for _ in range(2):
        async with standalone(tmp_path) as (broker, peer):
            assert await write(peer, Place(run, 0, 2), "a", "b") == 1
            for place in (Place(first, 0, 2), Place(run, 0, 1)):
                assert (await send(peer, place, items(place, ["late"]))).code == FENCED
            assert await write(peer, Place(run, 0, 2, 0, 2), "c") == 3
            assert await bodies(peer) == "other a b c"
            assert broker.part(Writers).table.lanes == broker.part(Writers).table.tails == 1


async def test_a_topic_that_was_made_again_has_no_writers(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        await peer.stored(TOPIC, b"other")
        run = await begin(peer)
        await open_lane(peer, run)
        await write(peer, Place(run, 0, 0), "a")
        answer = await peer.call(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerHeader(topic=TOPIC))
        assert answer.code == ResponseCode.SUCCESS
        assert (await ask(peer)).code == ResponseCode.TOPIC_NOT_EXIST
        await peer.stored(TOPIC, b"new")
    async with standalone(tmp_path) as (_, peer):
        answer = await send(peer, Place(run, 0, 0, 0, 1), items(Place(run, 0, 0, 0, 1), ["b"]))
        assert answer.code == FENCED
        assert await bodies(peer) == "new"
        await open_lane(peer, await begin(peer))


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("", ResponseCode.MESSAGE_ILLEGAL),
        ("1.2.3.4", ResponseCode.MESSAGE_ILLEGAL),
        ("RUN.0.0.0.-1", ResponseCode.MESSAGE_ILLEGAL),
        (f"RUN.0.0.0.{'9' * 19}", ResponseCode.MESSAGE_ILLEGAL),
        (f"RUN.0.0.0.{'9' * 4000}", ResponseCode.MESSAGE_ILLEGAL),
        ("RUN.0.0.1.0", ResponseCode.INVALID_PARAMETER),
        (None, ResponseCode.MESSAGE_ILLEGAL),
    ],
)
async def test_places_that_make_no_sense(tmp_path: Path, place: str | None, code: ResponseCode) -> None:
    async with standalone(tmp_path) as (_, peer):
        await peer.stored(TOPIC, b"other")
        run = await begin(peer)
        await open_lane(peer, run)
        right = Place(run, 0, 0)
        ext = {WRITER_FIELD: NAME}
        if place is not None:
            ext[PLACE_FIELD] = place.replace("RUN", str(run))
        assert (await send(peer, right, items(right, ["a"]), ext=ext)).code == code
        assert await bodies(peer) == "other"
        await write(peer, right, "a")


async def test_batches_that_make_no_sense(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        await peer.stored(TOPIC, b"other")
        run = await begin(peer)
        await open_lane(peer, run)
        place = Place(run, 0, 0)
        right = items(place, ["a", "b"])
        for body in (
            b"",
            b"\x00",
            b"\xff" * 100,
            items(place._replace(sequence=1), ["a"]),
            items(place, ["a"], writer="somebody"),
            encode_batch([Message(TOPIC, b"a")]),
        ):
            assert (await send(peer, place, body)).code == ResponseCode.MESSAGE_ILLEGAL
        assert (await send(peer, place, right[:-1])).code == ResponseCode.MESSAGE_ILLEGAL
        await write(peer, place, "a")
        for body in (right[:-1], right + b"\x00"):
            assert (await send(peer, place, body)).code == ResponseCode.MESSAGE_ILLEGAL, "sent again"
        nowhere = place._replace(queue=99)
        assert (await send(peer, nowhere, items(nowhere, ["a"]))).code == ResponseCode.INVALID_PARAMETER
        assert (await send(peer, place, right, queue=-1)).code == ResponseCode.INVALID_PARAMETER
        assert await bodies(peer) == "other a"


@pytest.mark.parametrize(
    "numbers",
    [{"run": 1}, {"lane": 1, "attempt": 1}, {"run": -1, "lane": 0, "attempt": 0}, {"run": 1, "lane": -1, "attempt": 0}],
)
async def test_numbers_that_make_no_sense(tmp_path: Path, numbers: dict[str, int]) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored(TOPIC, b"other")
        assert (await ask(peer, **numbers)).code == ResponseCode.INVALID_PARAMETER
        assert not len(broker.part(Writers).table)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", ResponseCode.MESSAGE_ILLEGAL),
        ("x" * 256, ResponseCode.INVALID_PARAMETER),
        ("a\x01b", ResponseCode.MESSAGE_ILLEGAL),
    ],
)
async def test_names_that_make_no_sense(tmp_path: Path, name: str, code: ResponseCode) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored(TOPIC, b"other")
        answer = await peer.call(RequestCode.OPEN_WRITER, OpenWriterHeader(topic=TOPIC, writer=name))
        assert answer.code == code
        assert not len(broker.part(Writers).table)


async def test_nobody_sends_to_the_topic_of_the_broker(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        await peer.stored(TOPIC, b"other")
        await begin(peer)
        answer = await peer.send("rmq_sys_pyromq_writers", b'{"type":"Closed"}')
        assert answer.code != ResponseCode.SUCCESS
        answer = await peer.call(
            RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerHeader(topic="rmq_sys_pyromq_writers")
        )
        assert answer.code != ResponseCode.SUCCESS
