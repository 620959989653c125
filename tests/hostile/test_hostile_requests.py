"""Every request code, each part of its request at its bound and one beyond, from three kinds of attackers.

Whoever they are (nobody, a user without rules, a user with all rights on something else), whatever they send: what is
others' stays as it was, a polite client on another connection is answered with the same as before, one request makes
only so much work, and the process does not grow. There are no timings here: work is counted in calls of functions.
"""

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from pyromq.auth.rules import ALL, Decision, Entry, PolicyType, Resource
from pyromq.auth.users.access import Credentials, User, UserType
from pyromq.auth.users.store import AccessStore
from pyromq.broker.consume.locks import QueueLocks
from pyromq.broker.standalone import Standalone
from pyromq.broker.transaction.transactions import Transactions
from pyromq.protocol.bodies.queues import LockBatchRequest
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.names import is_system_group
from pyromq.protocol.properties import encode_properties
from pyromq.remoting.client import Client
from pyromq.remoting.errors import ConnectionLost
from pyromq.remoting.hooks import Signing
from tests.hostile.rows import BROKER_NAME, ROWS, Names, fields
from tests.hostile.targets import ROOT, TIMEOUT, run
from tests.hostile.variants import Variant, variants

VICTIM = Names("orders", "readers", "victim-client")
OWN = Names("else-topic", "else-group", "else-client")
USERS = {name: Credentials(name, f"{name}-secret-1") for name in ("victim", "unruly", "mallory")}
LOCK = LockBatchRequest(
    client_id=VICTIM.client, consumer_group=VICTIM.group, mq_set=[MessageQueue(VICTIM.topic, BROKER_NAME, 0)]
)
REFUSED = (ResponseCode.NO_PERMISSION, ResponseCode.SYSTEM_BUSY, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)

MOST_CALLS = 1_000_000
"""What one request may make the whole process do, itself and its answer included."""
MOST_GROWTH = 256 << 20


def test_every_code_has_a_row() -> None:
    assert set(ROWS) == set(RequestCode), "a new request code needs a row in tests/hostile/rows.py"


@dataclass
class Target:
    """A cluster with a victim in it."""

    server: Standalone
    root: Client
    victim: Client

    @property
    def broker(self) -> str:
        return self.server.broker_address

    def addresses(self, code: RequestCode) -> Iterator[str]:
        """Servers that know a code; one that does not know it is asked too, where none does."""
        row = ROWS[code]
        if row.broker or not row.namesrv:
            yield self.server.broker_address
        if row.namesrv or not row.broker:
            yield self.server.namesrv_address

    def belongings(self) -> dict[str, Any]:
        """Everything that is not the attacker's."""
        broker, name_server = self.server.broker, self.server.name_server
        assert broker is not None
        topics = {topic.topic_name: topic.encode() for topic in broker.core.topics if not _own(topic.topic_name)}
        directory = broker.core.gate.directory if broker.core.gate is not None else None
        assert directory is not None
        return {
            "topics": topics,
            "groups": {group.group_name: group.encode() for group in broker.core.groups if not _own(group.group_name)},
            "offsets": {
                (topic, group): broker.core.offsets.queues(group, topic)
                for topic, group in broker.core.offsets.pairs()
                if not _own(topic) and not _own(group) and not is_system_group(group)
            },
            "messages": {
                (topic, queue): broker.store.max_offset(topic, queue) for topic in topics for queue in range(8)
            },
            "consumers": {each.name: each.client_ids for each in broker.core.consumers if not _own(each.name)},
            "producers": {
                name: [each.client_id for each in members]
                for name, members in broker.core.producers.items()
                if not _own(name)
            },
            "locks": {
                (name, queue): lock.owner
                for name, held in broker.part(QueueLocks)._groups.items()
                for queue, lock in held.items()
                if not _own(name)
            },
            "transactions": broker.part(Transactions).halves.counts()[VICTIM.topic],
            "forbidden": {name: dict(each) for name, each in broker.core.groups._forbidden.items() if not _own(name)},
            "settings": broker.config.public(),
            "name server": name_server.config.public(),
            "users": dict(directory.access.users),
            "rules": dict(directory.access.rules),
            "brokers": {name: dict(each.broker_addrs) for name, each in name_server.routes.brokers.items()},
            "route": str(name_server.routes.route(VICTIM.topic)),
            "values": dict(name_server.kv._table),
        }

    async def politely(self) -> tuple[object, ...]:
        """What the victim hears on connections of its own."""
        pull = {"sysFlag": "4", "subscription": "*", "expressionType": "TAG"}
        answers = [
            await self.victim.call(self.broker, _request(RequestCode.LOCK_BATCH_MQ, LOCK.encode()), TIMEOUT),
            await self.victim.call(self.broker, _request(RequestCode.GET_MAX_OFFSET), TIMEOUT),
            await self.victim.call(self.broker, _request(RequestCode.PULL_MESSAGE, b"", **pull), TIMEOUT),
            await self.victim.call(self.server.namesrv_address, _request(RequestCode.GET_ROUTEINFO_BY_TOPIC), TIMEOUT),
        ]
        assert [each.code for each in answers] == [ResponseCode.SUCCESS] * 4, [each.remark for each in answers]
        return tuple((each.ext, bytes(each.body)) for each in answers)


def _own(name: str) -> bool:
    return any(name.removeprefix(prefix).startswith("else-") for prefix in ("", "%RETRY%", "%DLQ%"))


def _request(code: RequestCode, body: bytes = b"", /, **more: str) -> Command:
    """A proper request of the victim."""
    row, values = ROWS[code], fields(VICTIM)
    names = row.header.__struct_encode_fields__ if row.header is not None else ()
    return Command.request(code, ext={name: values[name] for name in names if name in values} | more, body=body)


@asynccontextmanager
async def target(path: Path) -> AsyncIterator[Target]:
    """A broker with messages, a consumer with an offset and a lock, a producer with a transaction: all the victim's."""
    store = AccessStore(path / "auth")
    store.create_user(User(ROOT.access_key, ROOT.secret_key, UserType.SUPER))
    for credentials in USERS.values():
        store.create_user(User(credentials.access_key, credentials.secret_key))
    for name, part in (("victim", "orders,readers"), ("mallory", "else*,else*")):
        topic, group = part.split(",")
        resources = (f"Topic:{topic}", f"Group:{group}", f"Filter:{topic}")
        entries = [Entry(Resource.parse(each), ALL, Decision.ALLOW) for each in resources]
        store.add_rules(name, PolicyType.CUSTOM, entries)
    settings = {
        "authentication_enabled": "true",
        "authorization_enabled": "true",
        "broker_name": BROKER_NAME,
        "connection_rate": "0",
        "transaction_time_out": "3600000",
        "channel_expired_timeout": "3600000",
        "recall_message_enable": "true",
    }
    server = Standalone(path, namesrv_port=0, broker_port=0, settings=settings)
    await server.start()
    root, victim = _client(ROOT), _client(USERS["victim"])
    try:
        made = Target(server, root, victim)
        await _settle_in(made)
        yield made
    finally:
        await root.close()
        await victim.close()
        await server.stop()


async def _settle_in(target: Target) -> None:
    half = encode_properties({"TRAN_MSG": "true", "PGROUP": VICTIM.group, "UNIQ_KEY": "0A00000100000000"}).decode()
    row = ROWS[RequestCode.HEART_BEAT]
    assert callable(row.body)
    for who, request in (
        (target.root, _request(RequestCode.SEND_MESSAGE_V2, b"secret")),
        (target.victim, _request(RequestCode.HEART_BEAT, row.body(VICTIM).encode())),
        (target.victim, _request(RequestCode.LOCK_BATCH_MQ, LOCK.encode())),
        (target.victim, _request(RequestCode.UPDATE_CONSUMER_OFFSET, commitOffset="1")),
        (target.victim, _request(RequestCode.SEND_MESSAGE_V2, b"secret", f="4", i=half)),
    ):
        answer = await who.call(target.broker, request, TIMEOUT)
        assert answer.code == ResponseCode.SUCCESS, (request.name, answer.remark)
    broker, route = target.server.broker, _request(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    assert broker is not None
    while (await target.victim.call(target.server.namesrv_address, route, TIMEOUT)).code != ResponseCode.SUCCESS:
        pass
    assert broker.part(Transactions).halves.counts()[VICTIM.topic] == 1


def _client(credentials: Credentials | None) -> Client:
    return Client(hooks=(Signing(credentials.access_key, credentials.secret_key),) if credentials is not None else ())


@contextmanager
def counted() -> Iterator[list[int]]:
    """How many functions are called, in the one entry of the list."""
    calls = [0]

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        if event in ("call", "c_call"):
            calls[0] += 1

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def memory() -> int:
    """Bytes that the process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def attack(target: Target, attacker: Client, names: Names) -> list[tuple[Variant, Command]]:
    """Send everything about some names; returns the answers. Fails when one makes too much work."""
    answers = []
    before, heard = target.belongings(), await target.politely()
    for code, row in ROWS.items():
        for variant in variants(code, row, names):
            for address in target.addresses(code):
                with counted() as calls, suppress(ConnectionLost):  # strangers who fail too often are cut off
                    answers.append((variant, await attacker.call(address, variant.command(), TIMEOUT)))
                assert calls[0] < MOST_CALLS, f"{variant} made {calls[0]} calls"
        assert await target.politely() == heard, code.name
        assert target.belongings() == before, code.name
    return answers


@pytest.mark.parametrize("who", ["nobody", "unruly"])
def test_who_may_nothing_changes_nothing(tmp_path: Path, who: str) -> None:
    async def scenario() -> None:
        async with target(tmp_path) as found:
            broker = found.server.broker
            assert broker is not None
            attacker = _client(USERS.get(who))
            end, topics, groups = broker.store.max_physical_offset, len(broker.core.topics), len(broker.core.groups)
            await attack(found, attacker, VICTIM)
            grown = memory()
            answers = await attack(found, attacker, OWN)
            assert memory() - grown < MOST_GROWTH
            served = {str(variant) for variant, answer in answers if answer.code == ResponseCode.SUCCESS}
            assert not served
            if who == "nobody":
                assert {answer.code for _, answer in answers} <= set(REFUSED)
            assert (broker.store.max_physical_offset, len(broker.core.topics), len(broker.core.groups)) == (
                end,
                topics,
                groups,
            )
            await attacker.close()

    run(scenario())


def test_who_may_all_elsewhere_changes_nothing_here(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with target(tmp_path) as found:
            attacker = _client(USERS["mallory"])
            answers = await attack(found, attacker, VICTIM)
            assert not {str(variant) for variant, answer in answers if answer.code == ResponseCode.SUCCESS}
            await attacker.close()

    run(scenario())


def test_who_stays_within_its_rights_is_bounded_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with target(tmp_path) as found:
            broker = found.server.broker
            assert broker is not None
            attacker = _client(USERS["mallory"])
            await attack(found, attacker, OWN)
            grown = memory()
            answers = await attack(found, attacker, OWN)
            assert memory() - grown < MOST_GROWTH
            beyond = [(variant, answer) for variant, answer in answers if variant.beyond]
            served = [str(variant) for variant, answer in beyond if answer.code == ResponseCode.SUCCESS]
            assert not served, "\n".join(served)
            await attacker.close()
            assert await found.politely()

    run(scenario())
