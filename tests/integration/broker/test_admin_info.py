"""The broker about itself: runtime figures, statistics, settings, queue entries, cleaning on demand."""

import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from pyromq.broker.admin.metrics import BrokerMetrics
from pyromq.broker.consume.laggards import Laggards
from pyromq.protocol import javaproperties
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.bodies.route import TopicRouteData
from pyromq.protocol.bodies.stats import BrokerStatsData, ConsumeQueuePage
from pyromq.protocol.bodies.tables import KVTable
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.ids import parse_offset_message_id
from pyromq.protocol.headers.admin import (
    GetBrokerConfigResponseHeader,
    QueryConsumeQueueHeader,
    ViewBrokerStatsDataHeader,
)
from pyromq.protocol.headers.consume import (
    GetEarliestMsgStoretimeHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetHeader,
    GetMinOffsetResponseHeader,
    SearchOffsetByTimestampHeader,
    SearchOffsetByTimestampResponseHeader,
)
from pyromq.protocol.headers.namesrv import GetRouteInfoByTopicHeader
from pyromq.protocol.headers.query import QueryMessageHeader, ViewMessageByIdHeader
from pyromq.protocol.records.record import decode_records
from tests.integration.broker.servers import TIMEOUT, Peer, consumer_of, routed, standalone

RUNTIME_KEYS = """
    brokerVersionDesc brokerActive bootTimestamp runtime putTps getFoundTps getMissTps getTotalTps getTransferredTps
    getTransferedTps sendThreadPoolQueueSize sendThreadPoolQueueCapacity sendThreadPoolQueueHeadWaitTimeMills
    pullThreadPoolQueueSize litePullThreadPoolQueueCapacity queryThreadPoolQueueHeadWaitTimeMills
    ackThreadPoolQueueSize EndTransactionQueueSize EndTransactionThreadPoolQueueCapacity pageCacheLockTimeMills
    earliestMessageTimeStamp startAcceptSendRequestTimeStamp commitLogDiskRatio consumeQueueDiskRatio
    commitLogMinOffset commitLogMaxOffset commitLogDirCapacity dispatchBehindBytes dispatchMaxBuffer
    msgPutTotalYesterdayMorning msgPutTotalTodayMorning msgPutTotalTodayNow msgGetTotalYesterdayMorning
    msgGetTotalTodayMorning msgGetTotalTodayNow putMessageTimesTotal putMessageFailedTimes putMessageSizeTotal
    putMessageAverageSize putMessageDistributeTime putMessageEntireTimeMax getMessageEntireTimeMax putLatency99
    putLatency999 remainTransientStoreBufferNumbs remainHowManyDataToFlush timerReadBehind timerOffsetBehind
    timerCongestNum timerEnqueueTps timerDequeueTps scheduleMessageOffset_1 scheduleMessageOffset_18
"""


async def runtime(peer: Peer) -> dict[str, str]:
    return KVTable.decode((await peer.call(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table


async def change(peer: Peer, text: str) -> Command:
    return await peer.call(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())


async def settings(peer: Peer) -> dict[str, str]:
    return javaproperties.loads(bytes((await peer.call(RequestCode.GET_BROKER_CONFIG)).body).decode())


async def test_the_runtime_information_has_what_the_tools_read(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        fresh = await runtime(peer)
        await peer.stored("orders", b"x" * 100)
        await peer.pull("orders")
        info = await runtime(peer)
        assert not set(RUNTIME_KEYS.split()) - info.keys() - {"scheduleMessageOffset_1", "scheduleMessageOffset_18"}
        assert fresh["putMessageTimesTotal"] == "0"
        assert info["putMessageTimesTotal"] == info["msgPutTotalTodayNow"] == "1"
        assert info["msgGetTotalTodayNow"] == "1"
        assert int(info["commitLogMaxOffset"]) > 100
        assert len(info["putTps"].split(" ")) == 3
        assert float(info["commitLogDiskRatio"]) > 0
        assert info["brokerVersionDesc"] == "V5_3_3"
        assert info["brokerActive"] == "true"


async def test_the_disk_ratio_is_that_of_df(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk where root keeps 100 of 1000 blocks for itself, 450 used ones are half of what others have."""
    real = os.statvfs(tmp_path)
    blocks = {"f_blocks": 1_000, "f_bfree": 550, "f_bavail": 450}
    names = [name for name in dir(real) if name.startswith("f_") and name != "f_fsid"]
    shown = SimpleNamespace(**{name: getattr(real, name) for name in names} | blocks)
    monkeypatch.setattr(os, "statvfs", lambda _path: shown)
    async with standalone(tmp_path, http_port="0") as (broker, peer):
        info = await runtime(peer)
        assert (info["commitLogDiskRatio"], info["consumeQueueDiskRatio"]) == ("0.5", "0.5")
        page = BrokerMetrics(broker.core, broker.parts).page().decode()
        (line,) = re.findall(r"^pyromq_disk_used_ratio\{.*$", page, re.MULTILINE)
        assert line.endswith(" 0.5")


async def test_statistics(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        for _ in range(3):
            await peer.stored("orders")
        await peer.pull("orders", group="g")

        async def figures(name: str, key: str) -> Command:
            header = ViewBrokerStatsDataHeader(stats_name=name, stats_key=key)
            return await peer.call(RequestCode.VIEW_BROKER_STATS_DATA, header)

        for name, key in (
            ("TOPIC_PUT_NUMS", "orders"),
            ("GROUP_GET_NUMS", "orders@g"),
            ("BROKER_PUT_NUMS", "DefaultCluster"),
            ("BROKER_GET_NUMS", "DefaultCluster"),
        ):
            data = BrokerStatsData.decode((await figures(name, key)).body)
            assert data.stats_minute is not None
            assert data.stats_minute.sum == 3, name
        for name, key in (("TOPIC_PUT_NUMS", "missing"), ("NO_SUCH_STATISTIC", "orders")):
            answer = await figures(name, key)
            assert (answer.code, name in str(answer.remark)) == (ResponseCode.SYSTEM_ERROR, True)


async def test_settings_are_read_without_paths_addresses_and_secrets(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        answer = await peer.call(RequestCode.GET_BROKER_CONFIG)
        assert '"counter":' in answer.header(GetBrokerConfigResponseHeader).version
        shown = await settings(peer)
        assert shown["brokerName"] == "broker-a"
        assert shown["fileReservedTime"] == "72"
        text = bytes(answer.body).decode()
        assert str(tmp_path) not in text
        assert broker.config.namesrv_addr[0] not in text
        for key in ("storePathRootDir", "namesrvAddr", "brokerIP1", "bindAddress", "tls.server.keyPassword"):
            assert key not in shown


async def test_settings_are_changed_by_an_allow_list(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        assert (await change(peer, "autoCreateTopicEnable=false\nshortPollingTimeMills = 500")).code == 0
        assert (broker.config.auto_create_topic_enable, broker.config.short_polling_time_mills) == (False, 500)
        assert (await settings(peer))["shortPollingTimeMills"] == "500"
        assert (await peer.send("not-created")).code == ResponseCode.TOPIC_NOT_EXIST
        refused = {
            "storePathRootDir=/tmp/elsewhere": ResponseCode.NO_PERMISSION,
            "namesrvAddr=198.51.100.7:9876": ResponseCode.NO_PERMISSION,
            "brokerIP1=198.51.100.7": ResponseCode.NO_PERMISSION,
            "tls.server.keyPassword=x": ResponseCode.NO_PERMISSION,
            "listenPort=1": ResponseCode.NO_PERMISSION,
            "sendMessageThreadPoolNums=1": ResponseCode.NO_PERMISSION,
            "longPollingEnabel=true": ResponseCode.INVALID_PARAMETER,
            "shortPollingTimeMills=soon": ResponseCode.INVALID_PARAMETER,
            "longPollingEnable=false\nlistenPort=1": ResponseCode.NO_PERMISSION,
        }
        for text, code in refused.items():
            answer = await change(peer, text)
            assert (answer.code, bool(answer.remark)) == (code, True), text
        assert broker.config.long_polling_enable, "a change is made whole or not at all"
        assert "did you mean longPollingEnable" in str((await change(peer, "longPollingEnabel=true")).remark)
        bad = await peer.call(RequestCode.UPDATE_BROKER_CONFIG, body=b"\xff\xfe=1")
        assert bad.code == ResponseCode.INVALID_PARAMETER


async def test_a_broker_that_takes_no_writes_says_so_to_the_name_servers(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (broker, peer):
        await peer.stored("orders")
        await routed(broker, "orders")
        header = GetRouteInfoByTopicHeader(topic="orders")

        async def permission() -> int:
            request = Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
            answer = await broker.core.client.call(broker.config.namesrv_addr[0], request, TIMEOUT)
            return TopicRouteData.decode(answer.body).queue_datas[0].perm

        assert await permission() == 6
        assert (await change(peer, "brokerPermission=4")).code == ResponseCode.SUCCESS
        while await permission() != 4:
            pass
        assert (await peer.send("orders")).code == ResponseCode.SUCCESS, "only ordered topics refuse late senders"
        assert (await change(peer, "brokerPermission=6")).code == ResponseCode.SUCCESS
        while await permission() != 6:
            pass


async def test_queue_entries(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        for tag in ("a", "b", "a"):
            await peer.stored("orders", TAGS=tag)

        async def entries(**changes: object) -> Command:
            fields: dict[str, object] = {"topic": "orders", "queue_id": 0, "index": 0, "count": 10} | changes
            header = QueryConsumeQueueHeader(**fields)  # type: ignore[arg-type]  # named by keyword
            return await peer.call(RequestCode.QUERY_CONSUME_QUEUE, header)

        page = ConsumeQueuePage.decode((await entries()).body)
        assert (page.min_queue_index, page.max_queue_index) == (0, 3)
        assert [row.tags_code for row in page.queue_data or []] == [97, 98, 97]
        assert not any(row.eval for row in page.queue_data), "there is no filter that could let them pass"
        assert page.filter_data is None
        page = ConsumeQueuePage.decode((await entries(index=2, count=2**31 - 1)).body)
        assert len(page.queue_data or []) == 1
        assert not ConsumeQueuePage.decode((await entries(index=-5, count=-5)).body).queue_data
        consumer = consumer_of("g", "orders")
        consumer.subscription_data_set[0].sub_string = "b"
        consumer.subscription_data_set[0].tags_set = ["b"]
        consumer.subscription_data_set[0].code_set = [98]
        await peer.heartbeat("c1", consumer=consumer)
        page = ConsumeQueuePage.decode((await entries(consumer_group="g")).body)
        assert [row.eval for row in page.queue_data or []] == [False, True, False]
        assert page.filter_data == "null"
        for topic, queue in (("missing", 0), ("orders", 9), ("../x", 0), (None, None)):
            assert (await entries(topic=topic, queue_id=queue)).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        RequestCode.DELETE_EXPIRED_COMMITLOG,
        RequestCode.CLEAN_UNUSED_TOPIC,
    ],
)
async def test_cleaning_leaves_what_is_in_use(tmp_path: Path, code: int) -> None:
    async with standalone(tmp_path) as (broker, peer):
        assert (await peer.call(code)).code == ResponseCode.SUCCESS, "an empty store"
        await peer.stored("orders", b"kept")
        await peer.stored("forgotten")
        await broker.core.topics.delete("forgotten")
        assert (await peer.call(code)).code == ResponseCode.SUCCESS
        assert [message.body for message in await peer.messages("orders")] == [b"kept"]
        gone = code == RequestCode.CLEAN_UNUSED_TOPIC
        assert ("forgotten" in broker.store.queues.topics()) is not gone


async def test_offsets_and_times_of_a_queue(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        for _ in range(2):
            await peer.stored("orders")
        for topic, high in (("orders", 2), ("missing", 0), ("../x", 0)):
            answer = await peer.call(RequestCode.GET_MAX_OFFSET, GetMaxOffsetHeader(topic=topic, queue_id=0))
            assert answer.header(GetMaxOffsetResponseHeader).offset == high
            answer = await peer.call(RequestCode.GET_MIN_OFFSET, GetMinOffsetHeader(topic=topic, queue_id=0))
            assert answer.header(GetMinOffsetResponseHeader).offset == 0
        header = GetEarliestMsgStoretimeHeader(topic="orders", queue_id=0)
        answer = await peer.call(RequestCode.GET_EARLIEST_MSG_STORETIME, header)
        assert answer.header(GetEarliestMsgStoretimeResponseHeader).timestamp > 0
        for timestamp, offset in ((0, 0), (2**62, 2)):
            search = SearchOffsetByTimestampHeader(topic="orders", queue_id=0, timestamp=timestamp)
            answer = await peer.call(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search)
            assert answer.header(SearchOffsetByTimestampResponseHeader).offset == offset


async def test_messages_by_id_and_by_key(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        stored = await peer.stored("orders", b"mine", KEYS="k1 k2", UNIQ_KEY="U1")
        await peer.stored("orders", b"other", KEYS="k3")
        place = parse_offset_message_id(stored.msg_id)
        answer = await peer.call(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageByIdHeader(offset=place.physical_offset))
        assert [message.body for message in decode_records(answer.body)] == [b"mine"]
        for offset in (place.physical_offset + 1, 2**62, -1):
            answer = await peer.call(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageByIdHeader(offset=offset))
            assert answer.code == ResponseCode.SYSTEM_ERROR

        async def query(key: str, count: int = 8, *, unique: bool = False) -> Command:
            header = QueryMessageHeader(topic="orders", key=key, max_num=count, begin_timestamp=0, end_timestamp=2**62)
            flag = {"_UNIQUE_KEY_QUERY": "true"} if unique else None
            return await peer.call(RequestCode.QUERY_MESSAGE, header, ext=flag)

        for key, unique in (("k1", False), ("k2", False), ("U1", True)):
            found = await query(key, unique=unique)
            assert [message.body for message in decode_records(found.body)] == [b"mine"], key
        for key, count in (("missing", 8), ("k1", 0), ("k1", -7)):
            assert (await query(key, count)).code == ResponseCode.QUERY_NOT_FOUND
        assert (await query("k1", 2**31 - 1)).code == ResponseCode.SUCCESS


async def test_a_group_far_behind_is_stopped_when_asked_for(tmp_path: Path) -> None:
    async with standalone(tmp_path, consumer_fallbehind_threshold="1000") as (broker, peer):
        for _ in range(20):
            await peer.stored("orders", b"x" * 100)
        for group, offset in (("slow", 0), ("quick", 19), ("done", 20)):
            await broker.core.groups.put(SubscriptionGroupConfig(group_name=group))
            broker.core.offsets.commit(group, "orders", 0, offset)
        await broker.part(Laggards).stop_them()
        assert (await peer.pull("orders", group="slow")).code == ResponseCode.SUCCESS, "off by default"
        broker.config.disable_consume_if_consumer_read_slowly = True
        await broker.part(Laggards).stop_them()
        assert (await peer.pull("orders", group="slow")).code == ResponseCode.NO_PERMISSION
        assert (await peer.pull("orders", group="quick")).code == ResponseCode.SUCCESS
        assert (await peer.pull("orders", group="done")).code == ResponseCode.SUCCESS


async def test_a_code_that_is_not_served_says_so(tmp_path: Path) -> None:
    async with standalone(tmp_path) as (_, peer):
        for code in (13, 22, 23, 27, 47, 209, 214, 302, 999_999, -1):
            answer = await peer.call(code)
            assert (answer.code, str(code) in str(answer.remark)) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, True)
