"""Pulls that are marked as a stream get as much as they can take; all others keep to the configured limits."""

from pathlib import Path

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.consume import PullMessageHeader
from pyromq.protocol.records.record import decode_records
from tests.integration.broker.servers import SUBSCRIPTION, Peer, standalone

COUNT = 100


async def test_streams_say_how_much_they_take(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        for number in range(COUNT):
            await peer.stored("orders", b"x" * 1000 + b"%d" % number)
        assert await _pulled(peer) == 32
        assert await _pulled(peer, max_msg_bytes=1 << 20) == 32  # as Java's clients always say
        assert await _pulled(peer, request_type=0) == 32
        assert await _pulled(peer, request_type=0, max_msg_bytes=1 << 20) == COUNT
        assert await _pulled(peer, request_type=0, max_msg_bytes=20_000) < 20


async def _pulled(peer: Peer, request_type: int | None = None, max_msg_bytes: int | None = None) -> int:
    header = PullMessageHeader(
        consumer_group="g",
        topic="orders",
        queue_id=0,
        queue_offset=0,
        max_msg_nums=1024,
        sys_flag=SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
        request_type=request_type,
        max_msg_bytes=max_msg_bytes,
    )
    answer = await peer.call(RequestCode.PULL_MESSAGE, header)
    assert answer.code == ResponseCode.SUCCESS
    return len(decode_records(answer.body))
