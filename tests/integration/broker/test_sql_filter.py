"""SQL92 subscriptions end to end: checked at the start, filtered by the broker, kept over a restart."""

import asyncio
from pathlib import Path

import pytest

from pyromq.aio import ConsumeFromWhere, PushConsumer, ReceivedMessage
from pyromq.broker.consume.pull import Puller
from pyromq.protocol.bodies.clients import CheckClientBody, ConsumerData, SubscriptionData
from pyromq.protocol.bodies.enums import ExpressionType
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.records.record import decode_records
from tests.integration.broker.servers import Peer, routed, standalone, until


def sql(expression: str, version: int = 1) -> SubscriptionData:
    return SubscriptionData(
        topic="orders", sub_string=expression, sub_version=version, expression_type=ExpressionType.SQL92
    )


def consumer(expression: str, version: int = 1) -> ConsumerData:
    return ConsumerData(group_name="g", subscription_data_set=[sql(expression, version)])


async def colours(peer: Peer, expression: str | None, *, offset: int = 0, version: int = 0, hold: int = 0) -> list[str]:
    answer = await peer.pull("orders", offset, tags=expression, expression_type="SQL92", version=version, hold=hold)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return [message.properties["colour"] for message in decode_records(answer.body)]


async def test_the_broker_filters_by_properties(tmp_path: Path) -> None:
    # F-07
    async with standalone(tmp_path) as (_, peer):
        for number, colour in enumerate(("red", "green", "red", "blue")):
            await peer.stored("orders", colour=colour, number=str(number), TAGS=colour)
        assert await colours(peer, "colour = 'red' AND number > 1") == ["red"]
        assert await colours(peer, "TAGS IN ('green', 'blue')") == ["green", "blue"]
        answer = await peer.pull("orders", tags="colour = 'black'", expression_type="SQL92")
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert answer.ext["nextBeginOffset"] == "4"


async def test_a_waiting_pull_is_woken_by_a_match_only(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders", colour="red")
        waiting = asyncio.ensure_future(colours(peer, "colour = 'blue'", offset=1, hold=30_000))
        await until(lambda: len(broker.part(Puller).park) == 1)
        await peer.stored("orders", colour="green")
        await peer.stored("orders", colour="blue")
        assert await waiting == ["blue"]


@pytest.mark.parametrize(
    ("expression", "enabled", "code"),
    [
        ("a > 1", "true", ResponseCode.SUCCESS),
        ("a > ", "true", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ("(" * 10_000, "true", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ("a > 1", "false", ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_a_subscription_is_checked_before_it_is_used(
    tmp_path: Path, expression: str, enabled: str, code: ResponseCode
) -> None:
    # F-07
    async with standalone(tmp_path, enable_property_filter=enabled) as (_, peer):
        body = CheckClientBody(client_id="c1", group="g", subscription_data=sql(expression))
        answer = await peer.call(RequestCode.CHECK_CLIENT_CONFIG, body=body.encode())
        assert answer.code == code
        assert bool(answer.remark) is (code != ResponseCode.SUCCESS)


async def test_the_heartbeats_filter_has_versions_and_survives_a_restart(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        await peer.stored("orders", colour="red")
        await peer.stored("orders", colour="green")
        await peer.heartbeat("c1", consumer=consumer("colour = "))
        answer = await peer.pull("orders", tags=None, expression_type="SQL92", version=1)
        assert answer.code == ResponseCode.FILTER_DATA_NOT_EXIST
        await peer.heartbeat("c1", consumer=consumer("colour = 'red'", 2))
        assert await colours(peer, None, version=2) == ["red"]
        await peer.heartbeat("c1", consumer=consumer("colour = ", 3))
        answer = await peer.pull("orders", tags=None, expression_type="SQL92", version=3)
        assert answer.code == ResponseCode.FILTER_DATA_NOT_LATEST
        await peer.heartbeat("c1", consumer=consumer("colour = 'green'", 4))
        assert await colours(peer, None, version=4) == ["green"]
    async with standalone(tmp_path) as (broker, peer):
        known = broker.core.tables.filters.registered.get("g", "orders")
        assert known is not None
        assert known.is_dead
        await peer.heartbeat("c1", consumer=consumer("colour = 'green'", 4))
        assert not known.is_dead
        assert await colours(peer, None, version=4) == ["green"]


async def test_a_push_consumer_gets_what_it_asked_for(tmp_path: Path) -> None:
    # F-07
    async with standalone(tmp_path) as (broker, peer):
        for number in range(20):
            await peer.stored("orders", str(number).encode(), number=str(number))
        await routed(broker, "orders")
        got: list[int] = []
        complete = asyncio.Event()
        push = PushConsumer(
            "g",
            namesrv=broker.config.namesrv_addr[0],
            consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )

        @push.listen
        async def handle(message: ReceivedMessage) -> None:
            got.append(int(message.body))
            if len(got) == 3:
                complete.set()

        push.subscribe("orders", sql="number BETWEEN 5 AND 7")
        async with push:
            await complete.wait()
        assert sorted(got) == [5, 6, 7]
