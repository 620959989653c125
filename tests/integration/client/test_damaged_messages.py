"""Poisonous messages in a real broker: every kind of consumer goes on behind them, and none is lost without a word."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pyromq.aio import Admin, MessageModel, PullConsumer, PushConsumer, ReceivedMessage
from pyromq.client.consumer.damage import DamageContext, OnDamaged
from pyromq.client.errors import ClientError
from pyromq.protocol.bodies.enums import MessageRequestMode
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.names import dlq_topic
from tests.integration.client.clusters import asyncio_test, standalone
from tests.integration.client.inbox import QUICK, Inbox, eventually
from tests.poison import POISONS, send_around, send_raw

TOPIC = "orders"
FASTER = QUICK | {"local_retry_delay": 0.05}


class Told:
    """A damage hook."""

    name = "told"

    def __init__(self) -> None:
        self.contexts: list[DamageContext] = []

    def damaged(self, context: DamageContext) -> None:
        self.contexts.append(context)


async def dead_letters(namesrv: str, group: str, count: int) -> list[ReceivedMessage]:
    """The dead letters of a group, once there are so many."""
    async with Admin(namesrv=namesrv) as admin:
        while True:
            try:
                found = await admin.messages(dlq_topic(group))
            except ClientError:
                found = []
            if len(found) >= count:
                return found
            await asyncio.sleep(0.01)


def listening(namesrv: str, inbox: Inbox, *, orderly: bool = False, **options: Any) -> tuple[PushConsumer, Told]:
    consumer = PushConsumer("CG", namesrv=namesrv, **(FASTER | options))
    consumer.subscribe(TOPIC)
    consumer.listen(inbox, orderly=orderly)
    told = Told()
    consumer.damage_hooks.append(told)
    return consumer, told


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
@asyncio_test
async def test_push_makes_poison_a_dead_letter_and_goes_on(tmp_path: Path, orderly: bool) -> None:
    async with standalone(tmp_path) as server:
        sound, bad = await send_around(server.broker_address, TOPIC)
        inbox = Inbox()
        consumer, told = listening(server.namesrv_address, inbox, orderly=orderly)
        async with consumer:
            await inbox.different(len(sound))
            letters = await dead_letters(server.namesrv_address, "CG", len(bad))
            await eventually(lambda: len(told.contexts) >= len(bad))
        assert [message.body for message in inbox.messages] == sound or not orderly
        assert set(inbox.bodies) == set(sound)
        assert sorted(letter.body for letter in letters) == sorted(bad)
        assert all(letter.damaged for letter in letters)
        assert {context.action for context in told.contexts} == {OnDamaged.DEAD_LETTER}
        assert all(context.queue.topic == TOPIC and context.fault for context in told.contexts)


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
@asyncio_test
async def test_push_delivers_poison_as_it_is_if_told_to(tmp_path: Path, orderly: bool) -> None:
    async with standalone(tmp_path) as server:
        sound, bad = await send_around(server.broker_address, TOPIC)
        inbox = Inbox()
        consumer, told = listening(server.namesrv_address, inbox, orderly=orderly, on_damaged="deliver")
        async with consumer:
            await inbox.until(lambda inbox: len(inbox.messages) >= len(sound + bad))
        assert sorted(message.body for message in inbox.messages if not message.damaged) == sorted(sound)
        assert sorted(message.body for message in inbox.messages if message.damaged) == sorted(bad)
        assert len(told.contexts) == len(bad)


@asyncio_test
async def test_push_passes_over_poison_if_told_to(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with standalone(tmp_path) as server:
        sound, bad = await send_around(server.broker_address, TOPIC)
        inbox = Inbox()
        consumer, told = listening(server.namesrv_address, inbox, on_damaged=OnDamaged.SKIP)
        async with consumer:
            await inbox.different(len(sound))
        assert set(inbox.bodies) == set(sound)
        assert len(told.contexts) == len(bad)
        assert f"offset 1 of queue 0 of {TOPIC}" in caplog.text


@asyncio_test
async def test_broadcasting_goes_on(tmp_path: Path) -> None:
    async with standalone(tmp_path) as server:
        sound, bad = await send_around(server.broker_address, TOPIC)
        inbox = Inbox()
        consumer, told = listening(
            server.namesrv_address, inbox, model=MessageModel.BROADCASTING, local_offset_dir=tmp_path / "offsets"
        )
        async with consumer:
            await inbox.different(len(sound))
            await dead_letters(server.namesrv_address, "CG", len(bad))
        assert set(inbox.bodies) == set(sound)
        assert len(told.contexts) == len(bad)


@pytest.mark.parametrize("action", ["dead-letter", "deliver", "skip"])
@asyncio_test
async def test_pop_goes_on(tmp_path: Path, action: str) -> None:
    async with standalone(tmp_path) as server:
        sound, bad = await send_around(server.broker_address, TOPIC)
        async with Admin(namesrv=server.namesrv_address) as admin:
            await admin.create_group("CG")
            await admin.set_request_mode("CG", TOPIC, MessageRequestMode.POP)
        inbox = Inbox()
        consumer, told = listening(server.namesrv_address, inbox, client_rebalance=False, on_damaged=action)
        async with consumer:
            await inbox.different(len(sound) + (len(set(bad)) if action == "deliver" else 0))
            if action == "dead-letter":
                letters = await dead_letters(server.namesrv_address, "CG", len(bad))
                assert sorted(letter.body for letter in letters) == sorted(bad)
            await eventually(lambda: len(told.contexts) >= len(bad))
        assert set(inbox.bodies) == set(sound) | (set(bad) if action == "deliver" else set())


@pytest.mark.parametrize("action", ["dead-letter", "deliver", "skip"])
@asyncio_test
async def test_polling_goes_on(tmp_path: Path, action: str) -> None:
    async with standalone(tmp_path) as server:
        sound, bad = await send_around(server.broker_address, TOPIC)
        expected = sound + (bad if action == "deliver" else [])
        options = {name: value for name, value in QUICK.items() if name != "first_pull_delay"}
        async with PullConsumer("CG", namesrv=server.namesrv_address, on_damaged=action, **options) as consumer:
            consumer.subscribe(TOPIC)
            found: list[ReceivedMessage] = []
            while len(found) < len(expected):
                found += await consumer.poll(1.0)
            assert sorted(message.body for message in found) == sorted(expected)
            if action == "dead-letter":
                await dead_letters(server.namesrv_address, "CG", len(bad))


@asyncio_test
async def test_single_pulls_give_what_is_there(tmp_path: Path) -> None:
    async with standalone(tmp_path) as server:
        sound, bad = await send_around(server.broker_address, TOPIC)
        broker = server.broker
        assert broker is not None
        queue = MessageQueue(TOPIC, broker.config.broker_name, 0)
        async with PullConsumer("CG", namesrv=server.namesrv_address, on_damaged="deliver") as consumer:
            result = await consumer.manual.pull(queue, None, 0)
        assert [message.queue_offset for message in result.messages] == list(range(len(sound + bad)))
        assert [message.damaged for message in result.messages] == [False, True] * len(bad) + [False]


@asyncio_test
async def test_admin_shows_poison_with_its_fault(tmp_path: Path) -> None:
    async with standalone(tmp_path) as server:
        stored = await send_raw(
            server.broker_address, TOPIC, POISONS[0].body, sys_flag=1, properties="KEYS\x01k\x02UNIQ_KEY\x01AB\x02"
        )
        await send_raw(server.broker_address, TOPIC, b"sound", properties="KEYS\x01k\x02")
        async with Admin(namesrv=server.namesrv_address) as admin:
            by_id = await admin.view_message(TOPIC, stored.msg_id)
            by_key = await admin.query_message(TOPIC, "k")
            listed = await admin.messages(TOPIC)
        assert by_id.body == POISONS[0].body
        assert by_id.fault
        assert sorted(message.body for message in by_key) == sorted([POISONS[0].body, b"sound"])
        assert [message.damaged for message in listed] == [True, False]


@asyncio_test
async def test_a_retry_of_a_delivered_poison_stays_marked(tmp_path: Path) -> None:
    async with standalone(tmp_path, message_delay_level="0s 0s 0s 0s 0s") as server:
        await send_raw(server.broker_address, TOPIC, b"junk", sys_flag=1)
        consumer = PushConsumer("CG", namesrv=server.namesrv_address, **FASTER, on_damaged="deliver")
        consumer.subscribe(TOPIC)
        seen: list[ReceivedMessage] = []
        again = asyncio.Event()

        @consumer.listen
        async def handle(message: ReceivedMessage) -> bool:
            seen.append(message)
            if len(seen) > 1:
                again.set()
            return len(seen) > 1

        async with consumer:
            await again.wait()
        assert [message.damaged for message in seen[:2]] == [True, True]
        assert seen[1].reconsume_times == 1


@asyncio_test
async def test_properties_that_say_nothing_sensible_stop_nobody(tmp_path: Path) -> None:
    junk = (
        "no separator at all",
        "\x01\x02\x01\x02",
        "TAGS\x01\x02KEYS",
        "RECONSUME_TIME\x01many\x02MAX_RECONSUME_TIMES\x01\x7f\x02",
        "POP_CK\x01not a handle\x02CONSUME_START_TIME\x01never\x02",
        "RETRY_TOPIC\x01../..\x02REAL_TOPIC\x01%\x02REAL_QID\x01x\x02",
        "UNIQ_KEY\x01not hex\x02",
        "BORN_TIMESTAMP\x01x\x02__BORNHOST\x01nowhere\x02",
        "INSTANCE_ID\x01\x01\x02CORRELATION_ID\x01\x01\x02",
    )
    async with standalone(tmp_path) as server:
        for number, text in enumerate(junk):
            await send_raw(server.broker_address, TOPIC, b"%d" % number, properties=text)
        inbox = Inbox()
        consumer, _ = listening(server.namesrv_address, inbox)
        async with consumer:
            await inbox.different(len(junk))
        assert set(inbox.bodies) == {b"%d" % number for number in range(len(junk))}
