"""Push consumers that the broker has pop: handed out, acknowledged, and after a failure handed out again."""

from pathlib import Path

import pytest

from pyromq.aio import Message, Producer, PushConsumer, ReceivedMessage
from pyromq.protocol.bodies.enums import MessageRequestMode
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.queues import SetMessageRequestMode
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.remoting.client import Client
from tests.integration.client.clusters import LIMIT, asyncio_test, standalone
from tests.integration.client.inbox import QUICK, Inbox


async def let_pop(broker: str, topic: str, group: str) -> None:
    """Create the group and set its mode."""
    client = Client()
    mode = SetMessageRequestMode(consumer_group=group, topic=topic, mode=MessageRequestMode.POP, pop_share_queue_num=-1)
    try:
        for code, body in (
            (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, SubscriptionGroupConfig(group_name=group).encode()),
            (RequestCode.SET_MESSAGE_REQUEST_MODE, mode.encode()),
        ):
            answer = await client.call(broker, Command.request(code, body=body), LIMIT)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
    finally:
        await client.close()


@asyncio_test
async def test_two_members_pop_one_topic(tmp_path: Path) -> None:
    async with standalone(tmp_path) as server:
        async with Producer("PG", namesrv=server.namesrv_address) as producer:
            for number in range(40):
                await producer.send(Message("T", b"%d" % number))
        await let_pop(server.broker_address, "T", "CG")
        inbox = Inbox()
        members = []
        for _ in range(2):
            consumer = PushConsumer("CG", namesrv=server.namesrv_address, client_rebalance=False, **QUICK)
            consumer.subscribe("T")
            consumer.listen(inbox)
            members.append(consumer)
        async with members[0], members[1]:
            await inbox.different(40)
            assert all(consumer.assignment() == set() for consumer in members)
        assert inbox.repeated == 0
        assert {message.topic for message in inbox.messages} == {"T"}
        assert all("POP_CK" in message.properties for message in inbox.messages)


@asyncio_test
async def test_a_failed_message_comes_again(tmp_path: Path, long_run: bool) -> None:
    if not long_run:
        pytest.skip("the first retry of a popped message takes ten seconds; run with --long")
    async with standalone(tmp_path) as server:
        async with Producer("PG", namesrv=server.namesrv_address) as producer:
            await producer.send(Message("T", b"x"))
        await let_pop(server.broker_address, "T", "CG")
        consumer = PushConsumer("CG", namesrv=server.namesrv_address, client_rebalance=False, **QUICK)
        consumer.subscribe("T")
        inbox = Inbox()

        @consumer.listen
        async def handle(message: ReceivedMessage) -> bool:
            inbox(message)
            return message.reconsume_times > 0

        async with consumer:
            await inbox.until(lambda inbox: inbox.bodies[b"x"] == 2)  # ten seconds later
        assert [message.reconsume_times for message in inbox.messages] == [0, 1]
