"""Power cuts: what was acknowledged is there when the machine is on again, with any disk that keeps what is synced."""

import asyncio
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest

from pyromq.auth.users.access import User, UserType
from pyromq.auth.users.store import AccessStore
from pyromq.protocol.bodies.auth import AclInfo, UserInfo
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from pyromq.protocol.bodies.tables import KVTable
from pyromq.protocol.bodies.topics import TopicConfigTable
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.auth import (
    AuthCreateAclHeader,
    AuthCreateUserHeader,
    AuthDeleteUserHeader,
    AuthGetAclHeader,
    AuthGetUserHeader,
)
from pyromq.protocol.headers.consume import (
    GetMaxOffsetHeader,
    GetMaxOffsetResponseHeader,
    PullMessageResponseHeader,
    QueryConsumerOffsetHeader,
    QueryConsumerOffsetResponseHeader,
    UpdateConsumerOffsetHeader,
)
from pyromq.protocol.headers.namesrv import GetKvConfigHeader, GetKvConfigResponseHeader, PutKvConfigHeader
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.records.record import decode_records
from pyromq.store.messagestore import MessageStore
from tests.faults.masters import until
from tests.faults.powercut import NOTHING, cut, on_disk
from tests.faults.powercut.lives import broker, life, name_server
from tests.faults.storewriter import QUEUES, TOPICS, config
from tests.faults.test_delivery_kill import all_of, now
from tests.faults.test_pop_kill import saved_position
from tests.faults.test_store_kill import live_and_die
from tests.faults.test_transactions_kill import GROUP, TOPIC, Producer, judge
from tests.integration.broker.pops import acked, pop
from tests.integration.broker.servers import Peer
from tests.integration.broker.test_admin_topics import create
from tests.integration.security.secured import ALICE, BOB, ROOT, Signer
from tests.integration.security.test_cluster import MAY_SEND


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each story with some disks, with many in a long run."""
    if "seed" in metafunc.fixturenames:
        more = range(1, 21) if metafunc.config.getoption("--long") else range(1, 2)
        metafunc.parametrize("seed", [NOTHING, *more])


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


def bodies(messages: Iterable[ReceivedMessage]) -> list[bytes]:
    return [each.body for each in messages]


async def send_many(peer: Peer, topic: str, prefix: str, count: int, **properties: str) -> list[bytes]:
    """Messages under way together; returns them in the order of the queue, once all are acknowledged."""
    names = [f"{prefix}{number}".encode() for number in range(count)]
    answers = await asyncio.gather(*(peer.stored(topic, name, **properties) for name in names))
    offsets = {answer.queue_offset: name for answer, name in zip(answers, names, strict=True)}
    return [offsets[offset] for offset in sorted(offsets)]


async def test_the_first_message_of_a_new_store(disk: Path, seed: int) -> None:
    server = broker(disk)
    async with life(server, disk, seed) as address, Peer(address) as peer:
        await peer.stored("orders", b"first")
    async with life(server, disk, seed) as address, Peer(address) as peer:
        assert bodies(await all_of(peer, "orders")) == [b"first"]


async def test_messages(disk: Path, seed: int) -> None:
    server, sent = broker(disk), [b""] * 0
    for turn in range(3):
        async with life(server, disk, seed and seed + turn) as address, Peer(address) as peer:
            found = bodies(await all_of(peer, "orders"))
            assert found == sent
            sent += await send_many(peer, "orders", f"{turn}-", 50)
    async with life(server, disk, seed) as address, Peer(address) as peer:
        assert bodies(await all_of(peer, "orders")) == sent


def test_a_store_under_load(disk: Path, seed: int) -> None:
    # Files of the log are so small that they change all the time; starts find what a cut during a start left.
    store = disk / "new" / "store"
    acknowledged: dict[tuple[str, int], list[int]] = {(topic, queue): [] for topic in TOPICS for queue in range(QUEUES)}
    for turn, lines in enumerate((300, 0, 2_000, 1_000)):
        for line in live_and_die(store, seed + turn, lines, on_disk(disk)):
            topic, queue_id, offset, count = line.split()
            sure = acknowledged[topic, int(queue_id)]
            assert not sure or sure[-1] < int(offset), "an offset was given to two messages"
            sure += range(int(offset), int(offset) + int(count))
        cut(disk, seed and seed + turn)
    with MessageStore(config(store), disk_usage=lambda _: 0.1) as opened:
        for (topic, queue), sure in acknowledged.items():
            found = kept(opened, topic, queue)
            # The disk may have pages of what nobody was told about, and not those before them.
            assert found == sorted(set(found))
            assert set(sure) <= set(found), f"{topic} {queue} lost messages"


def kept(store: MessageStore, topic: str, queue: int) -> list[int]:
    """The offsets of all messages of a queue, each of which is the right one."""
    found, offset = [], 0
    while offset < store.max_offset(topic, queue):
        result = store.get(topic, queue, offset, 32)
        for message in result.messages():
            assert message.body.startswith(f"{topic} {queue} {message.queue_offset} ".encode())
            found.append(message.queue_offset)
        assert result.next_offset > offset, "the queue cannot be read any further"
        offset = result.next_offset
    return found


async def test_what_asynchronous_flushes_have_written(disk: Path, seed: int) -> None:
    server = broker(disk, flush_disk_type="ASYNC_FLUSH", flush_interval_commit_log=50, flush_commit_log_least_pages=0)
    async with life(server, disk, seed) as address, Peer(address) as peer:
        early = await send_many(peer, "orders", "early-", 30)
        await until(lambda: is_flushed(peer))
        sent = early + await send_many(peer, "orders", "late-", 300)
    async with life(server, disk, seed) as address, Peer(address) as peer:
        # Of the rest the disk may have any pages: what is whole is there, in its place.
        found = await with_gaps(peer, "orders")
        assert found[:30] == early
        assert found == [body for body in sent if body in found]
        more = await send_many(peer, "orders", "more-", 5)
        assert await with_gaps(peer, "orders") == found + more


async def with_gaps(peer: Peer, topic: str) -> list[bytes]:
    """All messages of a queue, some of which may be lost."""
    found: list[ReceivedMessage] = []
    end = GetMaxOffsetHeader(topic=topic, queue_id=0)
    offset, reached = 0, (await peer.call(RequestCode.GET_MAX_OFFSET, end)).header(GetMaxOffsetResponseHeader).offset
    while offset < reached:
        answer = await peer.pull(topic, offset)
        found += decode_records(answer.body) if answer.code == ResponseCode.SUCCESS else []
        further = answer.header(PullMessageResponseHeader).next_begin_offset
        assert further > offset, "the queue cannot be read any further"
        offset = further
    assert [each.queue_offset for each in found] == sorted({each.queue_offset for each in found})
    return bodies(found)


async def is_flushed(peer: Peer) -> bool:
    """Whether the broker says that its log is on disk."""
    answer = await peer.call(RequestCode.GET_BROKER_RUNTIME_INFO)
    return KVTable.decode(answer.body).table["remainHowManyDataToFlush"] == "0 B"


async def test_topics_and_groups(disk: Path, seed: int) -> None:
    server = broker(disk)
    topics, groups = ({f"{kind}-{number}" for number in range(8)} for kind in ("topic", "group"))
    async with life(server, disk, seed) as address, Peer(address) as peer:
        for name in sorted(topics):
            answer = await create(peer, name, read_queue_nums=3)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
        for name in sorted(groups):
            body = SubscriptionGroupConfig(group_name=name, retry_max_times=7).encode()
            answer = await peer.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
    async with life(server, disk, seed) as address, Peer(address) as peer:
        topic_table = (await peer.call(RequestCode.GET_ALL_TOPIC_CONFIG)).body
        known_topics = TopicConfigTable.decode(topic_table).topic_config_table
        assert {name for name, config in known_topics.items() if config.read_queue_nums == 3} == topics
        group_table = (await peer.call(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body
        known_groups = SubscriptionGroupTable.decode(group_table).subscription_group_table
        assert {name for name, config in known_groups.items() if config.retry_max_times == 7} == groups


async def is_saved(store: Path, offset: int) -> bool:
    """Whether the file of offsets has this one."""
    return saved_position(store) == offset


async def test_offsets_of_groups(disk: Path, seed: int) -> None:
    server, store = broker(disk, flush_consumer_offset_interval=100), disk / "new" / "store"
    async with life(server, disk, seed) as address, Peer(address) as peer:
        await send_many(peer, "orders", "", 30)
        for offset in (10, 20):
            header = UpdateConsumerOffsetHeader(consumer_group="g", topic="orders", queue_id=0, commit_offset=offset)
            assert (await peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, header)).code == ResponseCode.SUCCESS
            await until(partial(is_saved, store, offset))
    async with life(server, disk, seed) as address, Peer(address) as peer:
        # The second may have been under way when the power was cut; the first was not.
        question = QueryConsumerOffsetHeader(consumer_group="g", topic="orders", queue_id=0)
        answer = await peer.call(RequestCode.QUERY_CONSUMER_OFFSET, question)
        assert answer.header(QueryConsumerOffsetResponseHeader).offset in (10, 20)


async def test_no_group_is_ahead_of_the_log(disk: Path, seed: int) -> None:
    never = {"flush_interval_commit_log": 600_000, "flush_commit_log_thorough_interval": 600_000}
    server = broker(disk, flush_disk_type="ASYNC_FLUSH", flush_consumer_offset_interval=100, **never)
    async with life(server, disk, seed) as address, Peer(address) as peer:
        await send_many(peer, "orders", "", 30)
        for offset in (10, 30):
            header = UpdateConsumerOffsetHeader(consumer_group="g", topic="orders", queue_id=0, commit_offset=offset)
            assert (await peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, header)).code == ResponseCode.SUCCESS
            await until(partial(is_saved, disk / "new" / "store", offset))
    async with life(server, disk, seed) as address, Peer(address) as peer:
        more = await send_many(peer, "orders", "more-", 5)
        question = QueryConsumerOffsetHeader(consumer_group="g", topic="orders", queue_id=0)
        answer = await peer.call(RequestCode.QUERY_CONSUMER_OFFSET, question)
        offset = answer.header(QueryConsumerOffsetResponseHeader).offset if not answer.code else 0
        assert bodies(await peer.messages("orders", offset or 0))[-5:] == more


async def test_transactions(disk: Path, seed: int) -> None:
    server = broker(disk, transaction_time_out=300, transaction_check_interval=300, flush_consumer_offset_interval=100)
    acknowledged: set[int] = set()
    for turn in range(2):
        async with life(server, disk, seed and seed + turn) as address, Producer(address, acknowledged) as producer:
            await producer.heartbeat("c1", producer=GROUP)
            await asyncio.gather(*map(producer.transact, range(turn * 100, turn * 100 + 24)))
            # And one whose producer says nothing: it is asked later.
            answer = await producer.send(
                TOPIC, str(turn * 100 + 50).encode(), TRAN_MSG="true", PGROUP=GROUP, UNIQ_KEY=f"u{turn}"
            )
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            acknowledged.add(turn * 100 + 50)
    async with life(server, disk, seed) as address, Producer(address, acknowledged) as producer:
        await producer.heartbeat("c1", producer=GROUP)
        await producer.all_ended()
        judge(await producer.numbers(), acknowledged)


async def test_messages_that_wait(disk: Path, seed: int) -> None:
    server = broker(disk, timer_flush_interval_ms=100, timer_precision_ms=100, flush_delay_offset_interval=100)
    due: dict[bytes, int] = {}
    for turn in range(2):
        async with life(server, disk, seed and seed + turn) as address, Peer(address) as peer:
            begin = now()
            for number in range(12):
                name = f"{turn}-{number}".encode()
                due[name] = begin + 100 * number
                await peer.stored("timed", name, TIMER_DELIVER_MS=str(due[name]))
                await peer.stored("delayed", name, DELAY="1")
            assert await peer.messages("timed", len(await all_of(peer, "timed")), hold=10_000)
    async with life(server, disk, seed) as address, Peer(address) as peer:
        for topic in ("timed", "delayed"):
            found = await all_of(peer, topic)
            while set(bodies(found)) != due.keys():
                found += await peer.messages(topic, len(found), hold=5_000)
                assert {each.body for each in found} <= due.keys()
            if topic == "timed":
                assert all(each.store_timestamp >= due[each.body] for each in found), "delivered early"


async def test_acknowledged_pops(disk: Path, seed: int) -> None:
    server, done = broker(disk), set[bytes]()
    async with life(server, disk, seed) as address, Peer(address) as peer:
        sent = set(await send_many(peer, "orders", "", 24))
        popped = await pop(peer, count=16, queue=0, invisible=3_000)
        await acked(peer, *popped[:8])
        done |= {each.body for each in popped[:8]}
    async with life(server, disk, seed and seed + 1) as address, Peer(address) as peer:
        while done != sent:
            for each in await pop(peer, count=8, invisible=60_000, hold=10_000):
                assert each.body not in done, "acknowledged, and given out again"
                await acked(peer, each)
                done.add(each.body)


async def test_users_and_rules(disk: Path, seed: int) -> None:
    folder, subject = disk / "new" / "store" / "config" / "auth", f"User:{ALICE.access_key}"
    users = AccessStore(folder)
    users.create_user(User(ROOT.access_key, ROOT.secret_key, UserType.SUPER))
    users.create_user(User(BOB.access_key, BOB.secret_key))
    server = broker(disk, authentication_enabled=True, authorization_enabled=True)
    async with life(server, disk, seed) as address, Signer(address, ROOT) as root:
        alice = UserInfo(username=ALICE.access_key, password=ALICE.secret_key, user_type="Normal").encode()
        rules = AclInfo(subject=subject, policies=[MAY_SEND]).encode()
        for code, header, body in (
            (RequestCode.AUTH_CREATE_USER, AuthCreateUserHeader(username=ALICE.access_key), alice),
            (RequestCode.AUTH_CREATE_ACL, AuthCreateAclHeader(subject=subject), rules),
            (RequestCode.AUTH_DELETE_USER, AuthDeleteUserHeader(username=BOB.access_key), b""),
        ):
            answer = await root.call(code, header, body=body)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
    async with life(server, disk, seed) as address, Signer(address, ROOT) as root:
        found = [
            bool((await root.call(RequestCode.AUTH_GET_USER, AuthGetUserHeader(username=each.access_key))).body)
            for each in (ROOT, ALICE, BOB)
        ]
        assert found == [True, True, False]
        kept = AclInfo.decode((await root.call(RequestCode.AUTH_GET_ACL, AuthGetAclHeader(subject=subject))).body)
        assert [entry.resource for policy in kept.policies for entry in policy.entries] == ["Topic:*"]


async def test_what_name_servers_keep(disk: Path, seed: int) -> None:
    server = name_server(disk)
    async with life(server, disk, seed) as address, Peer(address) as peer:
        for number in range(5):
            put = PutKvConfigHeader(namespace="ORDER_TOPIC_CONFIG", key=f"k{number}", value=f"broker-a:{number}")
            assert (await peer.call(RequestCode.PUT_KV_CONFIG, put)).code == ResponseCode.SUCCESS
    async with life(server, disk, seed) as address, Peer(address) as peer:
        for number in range(5):
            get = GetKvConfigHeader(namespace="ORDER_TOPIC_CONFIG", key=f"k{number}")
            answer = await peer.call(RequestCode.GET_KV_CONFIG, get)
            assert answer.header(GetKvConfigResponseHeader).value == f"broker-a:{number}"
