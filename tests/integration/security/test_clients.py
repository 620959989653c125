"""Our own clients against servers that know their users: right, wrong, missing and disabled credentials."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from pyromq import aio
from pyromq.auth.rules import Action, PolicyType, Resource
from pyromq.auth.users.access import Credentials, UserStatus
from pyromq.auth.users.store import AccessStore
from pyromq.protocol.bodies.enums import ConsumeFromWhere
from pyromq.protocol.codes import RequestCode, ResponseCode
from tests.integration.security.secured import ALICE, BOB, ROOT, Signer, options, rule, run, secured, users

PUB, SUB = Action.PUB, Action.SUB
RULES = {
    "alice": [rule("Topic:orders", PUB), rule("Topic:TBW102", PUB)],
    "bob": [rule("Topic:orders", SUB), rule("Group:readers", SUB)],
}


async def answered(signer: Signer, code: ResponseCode) -> None:
    """Wait until a route request is answered like that: servers look for changed users every now and then."""
    while (await signer.route("orders")).code != code:  # noqa: ASYNC110 - what is waited for happens in files
        await asyncio.sleep(0.05)


def test_send_and_consume_with_just_enough_permission(tmp_path: Path) -> None:
    users(tmp_path, **RULES)

    async def scenario() -> None:
        async with secured(tmp_path) as (server, _):
            received: asyncio.Queue[bytes] = asyncio.Queue()
            namesrv = server.namesrv_address
            async with aio.Producer("writers", namesrv=namesrv, **options(ALICE)) as producer:
                await producer.send(aio.Message("orders", b"paid"))
            first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
            consumer = aio.PushConsumer("readers", namesrv=namesrv, consume_from=first, **options(BOB))
            consumer.subscribe("orders")

            @consumer.listen
            async def listen(message: aio.ReceivedMessage) -> None:
                received.put_nowait(message.body)

            async with consumer:
                assert await received.get() == b"paid"

    run(scenario())


@pytest.mark.parametrize(
    "credentials", [None, Credentials("alice", "wrong-secret-1"), Credentials("nobody", "some-secret-1"), BOB]
)
def test_others_cannot_send(tmp_path: Path, credentials: Credentials | None) -> None:
    users(tmp_path, **RULES)

    async def scenario() -> None:
        async with secured(tmp_path) as (server, broker):
            known: dict[str, Any] = {} if credentials is None else options(credentials)
            producer = aio.Producer("writers", namesrv=server.namesrv_address, retries=0, **known)
            async with producer:
                with pytest.raises(aio.ClientError) as caught:
                    await producer.send(aio.Message("orders", b"forged"))
            secrets = (ALICE.secret_key, BOB.secret_key, "wrong-secret-1", "some-secret-1")
            assert not any(secret in str(caught.value) for secret in secrets)
            assert broker.store.max_physical_offset == 0

    run(scenario())


def test_a_disabled_user_and_a_changed_rule_count_soon(tmp_path: Path) -> None:
    users(tmp_path, **RULES)

    async def scenario() -> None:
        async with (
            secured(tmp_path) as (server, _),
            Signer(server.namesrv_address, ALICE) as alice,
            Signer(server.broker_address, ROOT) as root,
        ):
            assert (await alice.route("orders")).code == ResponseCode.TOPIC_NOT_EXIST
            store = AccessStore(tmp_path / "auth")
            store.delete_rules("alice", PolicyType.CUSTOM, Resource.parse("Topic:orders"))
            await answered(alice, ResponseCode.NO_PERMISSION)
            store.add_rules("alice", PolicyType.CUSTOM, [rule("Topic:*", PUB)])
            await answered(alice, ResponseCode.TOPIC_NOT_EXIST)
            store.update_user("alice", status=UserStatus.DISABLE)
            await answered(alice, ResponseCode.NO_PERMISSION)
            assert (await root.call(RequestCode.GET_BROKER_RUNTIME_INFO)).code == ResponseCode.SUCCESS

    run(scenario())


def test_administrative_and_denied_requests_are_in_the_audit_log(tmp_path: Path) -> None:
    users(tmp_path, **RULES)

    async def scenario() -> None:
        async with (
            secured(tmp_path) as (server, _),
            aio.Admin(namesrv=server.namesrv_address, **options(ROOT)) as admin,
            Signer(server.broker_address, BOB) as bob,
        ):
            await admin.create_topic("invoices", broker=server.broker_address)
            await admin.create_user("carol", "carols-secret-1", broker=server.broker_address)
            assert (await bob.call(RequestCode.GET_BROKER_CONFIG)).code == ResponseCode.NO_PERMISSION

    run(scenario())
    text = (tmp_path / "auth" / "audit.log").read_text()
    events = [json.loads(line) for line in text.splitlines()]
    facts = [(event["event"], event["user"], event["request"], event["result"]) for event in events]
    assert ("request", "root", "UPDATE_AND_CREATE_TOPIC", "SUCCESS") in facts
    assert ("request", "root", "AUTH_CREATE_USER", "SUCCESS") in facts
    assert ("denied", "bob", "GET_BROKER_CONFIG", "NO_PERMISSION") in facts
    for secret in (ROOT.secret_key, BOB.secret_key, "carols-secret-1"):
        assert secret not in text
