"""Delayed, timed and retried messages through a broker that is killed (-9) again and again: none lost, none early."""

import asyncio
import json
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from pathlib import Path

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.send import ConsumerSendMsgBackHeader
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.names import SCHEDULE_TOPIC, retry_topic
from tests.integration.broker.servers import Peer

GROUP = "g"
ROUNDS = 3


async def start(data: Path) -> tuple[Process, str]:
    """A standalone server in a process of its own, and its broker's address."""
    command = ["standalone", "--data", str(data), "--namesrv-port", "0", "--broker-port", "0", "--http-port", "-1"]
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "pyromq", *command, "--json", stdout=PIPE)
    assert process.stdout is not None
    line = await process.stdout.readline()
    return process, json.loads(line)["broker"]


async def kill(process: Process) -> None:
    process.send_signal(signal.SIGKILL)
    await process.wait()


def now() -> int:
    return time.time_ns() // 1_000_000


async def all_of(peer: Peer, topic: str) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    while messages := await peer.messages(topic, len(found)):
        found += messages
    return found


async def send_back(peer: Peer, message: ReceivedMessage) -> None:
    header = ConsumerSendMsgBackHeader(offset=message.physical_offset, group=GROUP, delay_level=1)
    answer = await peer.call(RequestCode.CONSUMER_SEND_MSG_BACK, header)
    assert answer.code == ResponseCode.SUCCESS, answer.remark


async def test_messages_that_wait_survive_kills(tmp_path: Path) -> None:
    # P-18 P-19 C-12
    delayed: set[bytes] = set()
    timed: dict[bytes, int] = {}
    retried: set[bytes] = set()
    for number in range(ROUNDS):
        process, address = await start(tmp_path)
        try:
            async with Peer(address) as peer:
                begin = now()
                for index in range(30):
                    name = f"{number}-{index}".encode()
                    await peer.stored("delayed", name, DELAY=str(1 + index % 2))
                    delayed.add(name)
                    timed[name] = begin + 500 + 150 * index
                    await peer.stored("timed", name, TIMER_DELIVER_MS=str(timed[name]))
                    await peer.stored("plain", name)
                    (message,) = await peer.messages("plain", number * 30 + index)
                    await send_back(peer, message)
                    retried.add(name)
                # In the middle: some more were delivered, others wait; where sending took long, all are there already.
                for topic in ("delayed", "timed")[: 1 + number % 2]:
                    found = await all_of(peer, topic)
                    if len(found) < len(delayed):
                        assert await peer.messages(topic, len(found), hold=10_000)
        finally:
            await kill(process)
    process, address = await start(tmp_path)
    try:
        async with Peer(address) as peer:
            for topic, expected in (("delayed", delayed), ("timed", set(timed)), (retry_topic(GROUP), retried)):
                found = await all_of(peer, topic)
                while {message.body for message in found} != expected:
                    assert {message.body for message in found} < expected
                    found += await peer.messages(topic, len(found), hold=5_000)
            parked = {
                message.properties["UNIQ_KEY"]: message.store_timestamp + (1_000, 5_000)[queue]
                for queue in (0, 1)
                for message in await parked_at(peer, queue)
            }
            for message in await all_of(peer, "delayed") + await all_of(peer, retry_topic(GROUP)):
                key = message.properties["UNIQ_KEY"]
                assert message.store_timestamp >= parked[key], "delivered early"
            for message in await all_of(peer, "timed"):
                assert message.store_timestamp >= timed[message.body], "delivered early"
    finally:
        await kill(process)


async def parked_at(peer: Peer, queue: int) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    while messages := await peer.messages(SCHEDULE_TOPIC, len(found), queue=queue):
        found += messages
    return found


async def test_a_broker_that_dies_again_and_again_delivers_each_message_once(tmp_path: Path, long_run: bool) -> None:
    # Positions are saved more rarely than the broker lives: what it delivered is known from the log alone.
    expected = {f"{number}".encode() for number in range(120)}
    for life in range(30 if long_run else 8):
        process, address = await start(tmp_path)
        try:
            async with Peer(address) as peer:
                if life == 0:
                    begin = now()
                    for number, name in enumerate(sorted(expected)):
                        await peer.stored("delayed", name, DELAY=str(1 + number % 2))
                        await peer.stored("timed", name, TIMER_DELIVER_MS=str(begin + 1_000 + 60 * number))
                for topic in ("delayed", "timed"):
                    # Some more of each, where there are more to come.
                    known = len(await all_of(peer, topic))
                    if known < len(expected):
                        assert await peer.messages(topic, known, hold=10_000)
        finally:
            await kill(process)
    process, address = await start(tmp_path)
    try:
        async with Peer(address) as peer:
            for topic in ("delayed", "timed"):
                found = await all_of(peer, topic)
                while {message.body for message in found} != expected:
                    found += await peer.messages(topic, len(found), hold=5_000)
                assert len(found) == len(expected), "a message was delivered again"
    finally:
        await kill(process)
