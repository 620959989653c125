"""Bytes that no client would send: to strangers and to known users, on every port. Nothing crashes, leaks or grows."""

import asyncio
import gc
import json
import logging
import random
import struct
import zlib
from functools import cache
from pathlib import Path

import pytest

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import MAX_HEADER, Command
from pyromq.protocol.frame import FrameReader
from tests.hostile.targets import (
    ROOT,
    TIMEOUT,
    client,
    deep,
    frame,
    is_well,
    json_frame,
    mutated,
    request,
    run,
    target,
    throw,
)

SEND = {
    "a": "p", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0",
    "i": "TAGS\x01a\x02WAIT\x01true\x02", "j": "0", "k": "false", "m": "false",
}  # fmt: skip
PULL = {
    "consumerGroup": "g", "topic": "orders", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32", "sysFlag": "4",
    "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
}  # fmt: skip

REGISTER = {
    "compressed": "true", "clusterName": "c", "brokerName": "b", "brokerAddr": "127.0.0.1:1", "brokerId": "0",
    "haServerAddr": "", "bodyCrc32": "0", "f": "1", "i": "x" * 40_000,
}  # fmt: skip


@pytest.mark.parametrize("auth", [False, True], ids=["open", "guarded"])
@pytest.mark.parametrize("seed", range(3))
def test_mutated_and_random_frames(tmp_path: Path, seed: int, auth: bool) -> None:
    chance = random.Random(seed)
    seeds = [
        request(RequestCode.SEND_MESSAGE_V2, SEND, b"body", auth=auth),
        request(RequestCode.SEND_MESSAGE_V2, SEND, b"body", auth=auth, binary=True),
        request(RequestCode.PULL_MESSAGE, PULL, auth=auth),
        request(RequestCode.HEART_BEAT, {}, b'{"clientID":"c","consumerDataSet":[{"groupName":"g"}]}', auth=auth),
        request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}, auth=auth),
        request(RequestCode.REGISTER_BROKER, {"brokerName": "b", "brokerAddr": "a:1", "clusterName": "c"}, auth=auth),
        request(RequestCode.AUTH_CREATE_USER, {"username": "x"}, b'{"password":"y"}', auth=auth),
        b"",
    ]

    async def scenario() -> None:
        async with target(tmp_path, auth=auth) as server, client(auth=auth) as peer:
            assert server.broker is not None
            await is_well(server, peer)  # strangers of an address that keeps failing must wait
            for _ in range(150):
                good = chance.choice(seeds)
                bad = mutated(good, chance) if good else chance.randbytes(chance.randint(1, 99))
                address = chance.choice((server.broker_address, server.namesrv_address))
                # After a good request, half of the time: the connection is a known one then.
                await throw(address, *([good] if chance.random() < 0.5 else []), bad)
            await is_well(server, peer)
            await nobody_left(server.broker.core.ports.server, 1)

    run(scenario())


async def nobody_left(server: object, connections: int) -> None:
    """Wait until only the polite client is connected and nothing is held for anybody."""
    stats = server.stats  # type: ignore[attr-defined]  # a Server
    while stats.connections > connections + 1:  # noqa: ASYNC110 - sockets take a moment to close
        await asyncio.sleep(0.01)
    assert stats.partial_bytes == 0
    assert stats.stranger_bytes == 0


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(struct.pack(">I", 0x7FFFFFFF) + b"x" * 100, id="a frame of two gigabytes"),
        pytest.param(struct.pack(">i", -1) + b"x" * 100, id="a negative length"),
        pytest.param(struct.pack(">II", 100, 0x00FFFFFF) + b"x" * 96, id="a header longer than its frame"),
        pytest.param(struct.pack(">II", 16 * 2**20 - 8, MAX_HEADER + 1), id="a header of more than a megabyte"),
        pytest.param(struct.pack(">II", 100, 0x7F000010) + b"x" * 96, id="an unknown serialization"),
        pytest.param(frame(deep(100_000).encode()), id="a deep header"),
        pytest.param(json_frame(310, deep(100_000)), id="deep fields"),
        pytest.param(json_frame(310, "[" * 50_000 + "]" * 50_000), id="deep lists"),
        pytest.param(frame(b"\xff\xfe{}"), id="no UTF-8"),
        pytest.param(frame(b'{"code":1e999}'), id="an infinite code"),
        pytest.param(frame(b'{"code":' + b"9" * 5_000 + b"}"), id="a number of five thousand digits"),
        pytest.param(frame(b"\x00" * 21 + struct.pack(">i", 2**31 - 1), serialization=1), id="binary lengths"),
        pytest.param(b"\x16\x03\x01" + b"\x00" * 500, id="TLS where there is none"),
        pytest.param(b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", id="a PROXY header from nobody trusted"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="HTTP"),
    ],
)
@pytest.mark.parametrize("auth", [False, True], ids=["open", "guarded"])
def test_frames_that_are_none(tmp_path: Path, data: bytes, auth: bool) -> None:
    async def scenario() -> None:
        async with target(tmp_path, auth=auth) as server, client(auth=auth) as peer:
            for address in (server.broker_address, server.namesrv_address):
                await throw(address, data)
                if auth:
                    await throw(address, request(RequestCode.GET_BROKER_RUNTIME_INFO, {}, auth=True), data)
            await is_well(server, peer)

    run(scenario())


KINDS = (
    "deep", "deep lists", "references", "a bomb", "a bomb behind lengths", "not text", "long numbers", "many keys",
    "nothing",
)  # fmt: skip


@cache
def bodies() -> dict[str, bytes]:
    bomb = zlib.compress(b"\x00" * (64 << 20), 9)
    return {
        "deep": deep(200_000).encode(),
        "deep lists": b"[" * 200_000,
        "references": b'{"a":' + b'{"$ref":"$"},"b":' * 10_000 + b"1",
        "a bomb": bomb,
        "a bomb behind lengths": struct.pack(">i", 2**31 - 1) + bomb,
        "not text": bytes(range(256)) * 100,
        "long numbers": b'{"offset":' + b"9" * 100_000 + b"}",
        "many keys": json.dumps({str(number): number for number in range(20_000)}).encode(),
        "nothing": b"",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_bodies_that_are_none(tmp_path: Path, kind: str) -> None:
    body = bodies()[kind]
    fields = SEND | PULL | REGISTER

    async def scenario() -> None:
        async with target(tmp_path) as server, client() as peer:
            assert server.broker is not None
            for address, codes in (
                (server.broker_address, server.broker.request_codes),
                (server.namesrv_address, server.name_server.request_codes),
            ):
                for code in sorted(codes):
                    await peer.call(address, Command.request(code, ext=dict(fields), body=body), TIMEOUT)
            await is_well(server, peer)

    run(scenario())


def test_many_and_long_fields(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with target(tmp_path, auth=True) as server, client(auth=True) as peer:
            for ext in (
                {f"f{number}": "v" for number in range(20_000)},
                {"topic": "t" * 500_000},
                {"": "", "\x00": "x"},
            ):
                for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.HEART_BEAT, RequestCode.GET_ROUTEINFO_BY_TOPIC):
                    answer = await peer.call(server.broker_address, Command.request(code, ext=dict(ext)), TIMEOUT)
                    assert answer.code != ResponseCode.SUCCESS or code == RequestCode.HEART_BEAT
            await is_well(server, peer)

    run(scenario())


def test_fields_given_twice_are_checked_as_they_are_used(tmp_path: Path) -> None:
    """Smuggling: what the check saw and what the handler stores must be the same topic."""
    from pyromq.auth.rules import Action, Decision, Entry, PolicyType, Resource  # noqa: PLC0415
    from pyromq.auth.users.access import User  # noqa: PLC0415 - for this test only
    from pyromq.auth.users.store import AccessStore  # noqa: PLC0415
    from pyromq.protocol.signature import sign  # noqa: PLC0415

    async def scenario() -> None:
        async with target(tmp_path, auth=True, auto_create_topic_enable="true") as server, client(auth=True) as peer:
            assert server.broker is not None
            store = AccessStore(tmp_path / "auth")
            store.create_user(User("mallory", "mallory-secret"))
            allow = Entry(Resource.parse("Topic:mine"), Action.PUB, Decision.ALLOW)
            store.add_rules("mallory", PolicyType.CUSTOM, [allow])
            for first, second in (("mine", "secret"), ("secret", "mine")):
                for spelled in ('"b":', '"\\u0062":'):
                    fields = SEND | {"AccessKey": "mallory"}
                    for signed_topic in (first, second):
                        signature = sign(fields | {"b": signed_topic}, b"x", "mallory-secret")
                        text = json.dumps(fields | {"b": first, "Signature": signature})[:-1]
                        smuggled = f"{text},{spelled}{json.dumps(second)}}}"
                        await throw(server.broker_address, json_frame(RequestCode.SEND_MESSAGE_V2, smuggled, b"x"))
            while server.broker.core.topics.get("mine") is None:  # noqa: ASYNC110 - one was proper, and nobody awaited it
                await asyncio.sleep(0.01)
            assert server.broker.core.topics.get("secret") is None
            await is_well(server, peer)

    run(scenario())


def test_two_headers_in_one_are_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with target(tmp_path, auth=True) as server, client(auth=True) as peer:
            assert server.broker is not None
            signed_ext = request(RequestCode.GET_BROKER_RUNTIME_INFO, {}, auth=True)
            (command,) = FrameReader().feed(signed_ext)
            good = json.dumps(command.ext)
            for text in (
                f'{{"code":28,"code":25,"opaque":1,"extFields":{good}}}',
                f'{{"code":25,"opaque":1,"extFields":{good},"extFields":{{}}}}',
                f'{{"code":25,"opaque":1,"extFields":{{}},"extFields":{good}}}',
                f'{{"code":25,"CODE":28,"opaque":1,"extFields":{good}}}',
            ):
                await throw(server.broker_address, frame(text.encode(), b"brokerPermission=2"))
            assert server.broker.config.broker_permission == 6
            await is_well(server, peer)

    run(scenario())


def test_nothing_grows_under_a_stream_of_bad_requests(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with target(tmp_path, auth=True) as server, client(auth=True) as peer:
            assert server.broker is not None
            await is_well(server, peer)  # strangers of an address that keeps failing must wait

            async def abuse(count: int) -> None:
                for number in range(count):
                    name = f"user-{number}-{ROOT.access_key}"
                    unsigned = request(RequestCode.SEND_MESSAGE_V2, SEND | {"AccessKey": name, "Signature": "x"})
                    await throw(server.broker_address, unsigned, json_frame(310, '{"b":'))

            def objects() -> int:
                gc.collect()
                return len(gc.get_objects())

            logging.disable()  # pytest keeps every line
            try:
                await abuse(50)
                before = objects()
                await abuse(400)
            finally:
                logging.disable(logging.NOTSET)
            await nobody_left(server.broker.core.ports.server, 1)
            assert objects() - before < 2_000, "something is kept for each bad request"
            await is_well(server, peer)

    run(scenario())
