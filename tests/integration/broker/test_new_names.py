"""New topics and groups: saved off the event loop, many at a time; nobody else waits, nothing is acknowledged early."""

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyromq.broker.admin.metrics import BrokerMetrics
from pyromq.broker.admin.offsets import ORDERED_BATCHES, WHICH_TABLE
from pyromq.broker.broker import Broker
from pyromq.broker.cluster.registration import Registration
from pyromq.broker.tables import tablefile
from pyromq.configfile import write_config
from pyromq.protocol import names
from pyromq.protocol.bodies.base import Body
from pyromq.protocol.bodies.clients import HeartbeatData, ProducerData
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from pyromq.protocol.bodies.offsets import ConsumerOffsetTable
from pyromq.protocol.bodies.pop import ConsumerOrderTable
from pyromq.protocol.bodies.registration import RegisterBrokerBody
from pyromq.protocol.bodies.topics import TopicConfigTable
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.admin import UpdateAndCreateTopicHeader
from pyromq.protocol.headers.namesrv import GetRouteInfoByTopicHeader
from pyromq.protocol.headers.send import ConsumerSendMsgBackHeader
from tests import processes
from tests.integration.broker.servers import Peer, consumer_of, standalone, until
from tests.integration.broker.test_replication import master_of, name_server


class Disk:
    """Stands between the tables and their files: counts saves, can hold them up, can refuse them."""

    def __init__(self) -> None:
        self.saved: list[str] = []
        self.on_the_loop = 0
        self.refuses = False
        self.go = threading.Event()
        self.go.set()

    def write(self, path: Path, text: bytes) -> None:
        self.on_the_loop += threading.current_thread() is threading.main_thread()
        self.saved.append(path.name)
        assert self.go.wait(60)
        if self.refuses:
            raise OSError(5, "Input/output error", str(path))
        write_config(path, text)


@asynccontextmanager
async def watched(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Broker, Peer, Disk]]:
    """A broker with a topic that is there already, and its disk."""
    disk = Disk()
    async with standalone(path) as (broker, peer):
        await peer.stored("known")
        assert (await peer.pull("known", group="known")).code == ResponseCode.SUCCESS
        monkeypatch.setattr(tablefile, "write_config", disk.write)
        try:
            yield broker, peer, disk
        finally:
            disk.go.set()


def crowd(count: int) -> bytes:
    """A heartbeat of so many new groups."""
    groups = [consumer_of(f"group-{number}", "known") for number in range(count)]
    return HeartbeatData(client_id="crowd", consumer_data_set=groups).encode()


async def test_a_heartbeat_with_many_new_groups_holds_up_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(tmp_path, monkeypatch) as (broker, peer, disk), Peer(peer.address) as other:
        disk.go.clear()
        heartbeat = asyncio.create_task(peer.call(RequestCode.HEART_BEAT, body=crowd(2_000)))
        await until(lambda: bool(disk.saved))
        await other.stored("known")
        assert (await other.pull("known", group="known")).code == ResponseCode.SUCCESS
        assert not heartbeat.done()
        assert "group-0" not in broker.core.groups, "seen before it is on disk"
        disk.go.set()
        assert (await heartbeat).code == ResponseCode.SUCCESS
        assert len(broker.core.consumers) == 2_000
        assert sum(names.is_retry_topic(topic.topic_name) for topic in broker.core.topics) == 2_000
        assert disk.saved.count("subscriptionGroup.json") + disk.saved.count("topics.json") < 100, "not one for each"
        assert disk.on_the_loop == 0


async def test_everybody_who_sends_to_a_new_topic_waits_for_one_creation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(tmp_path, monkeypatch) as (broker, peer, disk), Peer(peer.address) as other:
        disk.go.clear()
        sends = [asyncio.create_task(each.send("orders", b"%d" % n)) for n in range(5) for each in (peer, other)]
        await until(lambda: bool(disk.saved))
        await peer.stored("known")
        assert not any(send.done() for send in sends)
        disk.go.set()
        answers = await asyncio.gather(*sends)
        assert [answer.code for answer in answers] == [ResponseCode.SUCCESS] * 10
        bodies = [message.body for message in await peer.messages("orders")]
        assert len(bodies) == 10
        assert disk.saved.count("topics.json") == 1
        assert disk.on_the_loop == 0
        assert broker.core.topics.get("orders") is not None


async def test_what_was_sent_in_order_to_a_new_topic_stays_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(tmp_path, monkeypatch) as (_, peer, _disk):
        # Without waiting for answers in between, before and after the topic is there.
        sends = [asyncio.create_task(peer.send("orders", b"%03d" % number)) for number in range(300)]
        await asyncio.gather(*sends)
        bodies: list[bytes] = []
        while len(bodies) < 300:
            bodies += [message.body for message in await peer.messages("orders", len(bodies))]
        assert bodies == sorted(bodies)


async def test_who_is_told_that_a_topic_exists_finds_its_route_at_once(tmp_path: Path) -> None:
    async def known(topic: str) -> bool:
        answer = await namesrv.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoByTopicHeader(topic=topic))
        return answer.code == ResponseCode.SUCCESS

    async with standalone(tmp_path) as (broker, peer), Peer(broker.part(Registration).name_servers[0]) as namesrv:
        for number in range(20):
            await peer.stored(f"sent-{number}")
            assert await known(f"sent-{number}")
            create = UpdateAndCreateTopicHeader(
                topic=f"made-{number}", default_topic="TBW102", read_queue_nums=4, write_queue_nums=4, perm=6,
                topic_filter_type="SINGLE_TAG", order=False,
            )  # fmt: skip
            assert (await peer.call(RequestCode.UPDATE_AND_CREATE_TOPIC, create)).code == ResponseCode.SUCCESS
            assert await known(f"made-{number}")
            await peer.heartbeat("c1", consumer=consumer_of(f"group-{number}", f"sent-{number}"))
            assert await known(f"%RETRY%group-{number}")


async def test_a_name_server_that_is_gone_holds_up_no_new_topic(tmp_path: Path) -> None:
    """Nor does a broker that leaves wait for those that nobody was told about."""
    async with name_server(tmp_path) as namesrv, master_of(tmp_path / "a", namesrv) as (broker, peer):
        registration = broker.part(Registration)
        await peer.stored("first")
        await registration.leave()
        assert registration.announce([]) == []
        await peer.stored("second")


async def test_one_disk_error_costs_nothing_that_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = UpdateAndCreateTopicHeader(
        topic="made", default_topic="TBW102", read_queue_nums=4, write_queue_nums=4, perm=6,
        topic_filter_type="SINGLE_TAG", order=False,
    )  # fmt: skip
    group = SubscriptionGroupConfig(group_name="made", retry_max_times=3).encode()

    async with watched(tmp_path, monkeypatch) as (broker, peer, disk):
        (message,) = await peer.messages("known")
        back = ConsumerSendMsgBackHeader(offset=message.physical_offset, group="sender-back", delay_level=1)

        async def attempts() -> list[int]:
            calls = [
                peer.call(RequestCode.UPDATE_AND_CREATE_TOPIC, create),
                peer.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group),
                peer.send("sent"),
                peer.pull("known", group="puller"),
                peer.heartbeat("c1", consumer=consumer_of("member", "known")),
                peer.call(RequestCode.CONSUMER_SEND_MSG_BACK, back),
            ]
            answers = []
            for call in calls:
                answer = await call
                assert disk.refuses == ("could not be saved (Input/output error)" in (answer.remark or ""))
                answers.append(answer.code)
            return answers

        disk.refuses = True
        assert set(await attempts()) == {ResponseCode.SYSTEM_ERROR}
        assert {"made", "puller", "member", "sender-back"}.isdisjoint(each.group_name for each in broker.core.groups)
        assert {"made", "sent"}.isdisjoint(each.topic_name for each in broker.core.topics)
        page = BrokerMetrics(broker.core, broker.parts).page().decode()
        assert re.search(r'pyromq_table_saves_total\{.*result="failed",table="topics"\} [1-9]', page)
        disk.refuses = False
        assert set(await attempts()) == {ResponseCode.SUCCESS}
        topics = {each.topic_name for each in broker.core.topics}
        groups = {each.group_name for each in broker.core.groups}
    assert {"made", "sent", "%RETRY%member", "%RETRY%sender-back"} <= topics
    async with standalone(tmp_path) as (broker, _):
        assert {each.topic_name for each in broker.core.topics} == topics
        assert {each.group_name for each in broker.core.groups} == groups


async def test_topics_and_groups_outlive_a_kill(tmp_path: Path) -> None:
    """Each was acknowledged, the last one a moment before."""
    with processes.broker(tmp_path) as broker:
        for round_ in range(3):
            async with Peer(broker["broker"]) as peer:
                await asyncio.gather(*(peer.stored(f"topic-{round_}-{number}") for number in range(50)))
                answer = await peer.heartbeat("c1", consumer=consumer_of(f"group-{round_}", f"topic-{round_}-0"))
                assert answer.code == ResponseCode.SUCCESS
            broker.kill()
            broker.start()
        async with Peer(broker["broker"]) as peer:
            for round_ in range(3):
                for number in range(50):
                    assert len(await peer.messages(f"topic-{round_}-{number}")) == 1
            answer = await peer.call(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
            assert all(f'"group-{round_}"'.encode() in bytes(answer.body) for round_ in range(3))


async def test_a_large_heartbeat_is_taken_in_slices_with_all_its_faults(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("known")
        consumers = [consumer_of(f"group-{number}", "known") for number in range(200)]
        producers = [ProducerData(group_name=f"producer-{number}") for number in range(150)]
        producers[100] = ProducerData(group_name="no/name")
        data = HeartbeatData(client_id="crowd", consumer_data_set=consumers, producer_data_set=producers)
        answer = await peer.call(RequestCode.HEART_BEAT, body=data.encode())
        assert answer.code != ResponseCode.SUCCESS
        assert "no/name" in (answer.remark or "")
        assert (len(broker.core.consumers), len(broker.core.producers)) == (200, 149), "one bad group costs no other"
        data.producer_data_set = []
        assert (await peer.call(RequestCode.HEART_BEAT, body=data.encode())).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("groups", [1, 200])
async def test_whoever_left_while_its_group_was_saved_is_no_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: int
) -> None:
    async with watched(tmp_path, monkeypatch) as (broker, peer, disk):
        disk.go.clear()
        async with Peer(peer.address) as other:
            task = asyncio.create_task(other.call(RequestCode.HEART_BEAT, body=crowd(groups)))
            await until(lambda: bool(disk.saved))
            task.cancel()
        await until(lambda: broker.core.ports.server.stats.connections == 1)
        disk.go.set()
        await until(lambda: broker.core.ports.server.stats.requests_in_flight == 0)
        assert "group-0" in broker.core.groups
        assert len(broker.core.consumers) == 0


async def test_new_names_of_one_address_are_bounded(tmp_path: Path) -> None:
    async with standalone(tmp_path, max_new_topics_per_user="2", max_new_groups_per_user="2") as (_, peer):
        for topic in ("a", "b"):
            await peer.stored(topic)
        answer = await peer.send("c")
        assert answer.code == ResponseCode.SYSTEM_BUSY
        assert "127.0.0.1 had 2 topics created by using them within an hour, the bound maxNewTopicsPerUser" in str(
            answer.remark
        )
        for group in ("g", "h"):
            assert (await peer.pull("a", group=group)).code == ResponseCode.SUCCESS
        answer = await peer.heartbeat("c1", consumer=consumer_of("i", "a"))
        assert (answer.code, "maxNewGroupsPerUser" in str(answer.remark)) == (ResponseCode.SYSTEM_BUSY, True)


async def test_whole_tables_are_encoded_off_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For slaves and name servers, which ask again and again: of many topics that takes a while."""
    threads: dict[str, set[bool]] = {}
    kinds: tuple[type[Body], ...] = (
        TopicConfigTable,
        SubscriptionGroupTable,
        ConsumerOffsetTable,
        ConsumerOrderTable,
        RegisterBrokerBody,
    )
    for kind in kinds:

        def noted(self: Body, encode: Callable[[Body], bytes] = kind.encode) -> bytes:
            on_the_loop = threading.current_thread() is threading.main_thread()
            threads.setdefault(type(self).__name__, set()).add(on_the_loop)
            return encode(self)

        monkeypatch.setattr(kind, "encode", noted)
    async with standalone(tmp_path) as (_, peer):
        await peer.stored("orders")
        for code in (
            RequestCode.GET_ALL_TOPIC_CONFIG,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            RequestCode.GET_ALL_CONSUMER_OFFSET,
        ):
            assert (await peer.call(code)).code == ResponseCode.SUCCESS
        await peer.call(RequestCode.GET_ALL_CONSUMER_OFFSET, ext={WHICH_TABLE: ORDERED_BATCHES})
    assert len(threads) == 5
    assert all(each == {False} for each in threads.values()), threads
