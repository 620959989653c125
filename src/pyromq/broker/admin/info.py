"""The broker itself: its runtime figures, statistics, settings, and cleaning on demand."""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pyromq import native
from pyromq.broker.admin.daytotals import DayTotals
from pyromq.broker.admin.reload import change_settings
from pyromq.broker.core import Core
from pyromq.broker.errors import Refused
from pyromq.broker.part import Every, Part
from pyromq.protocol import javaproperties
from pyromq.protocol.bodies.stats import ConsumeQueueEntry, ConsumeQueuePage
from pyromq.protocol.bodies.tables import KVTable
from pyromq.protocol.bounds import SETTINGS, check_size
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.admin import (
    GetBrokerConfigResponseHeader,
    QueryConsumeQueueHeader,
    ViewBrokerStatsDataHeader,
)
from pyromq.protocol.release import CURRENT, version_name
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler
from pyromq.settings.errors import ConfigError, NotReloadableError
from pyromq.settings.option import text_of
from pyromq.store.config import BrokerRole
from pyromq.store.log.damage import Stretch
from pyromq.store.space import used_ratio

log = logging.getLogger(__name__)

MAX_QUEUE_PAGE = 1000
DAY_LOOK = 10.0


class BrokerAdmin(Part):
    """Administration of the broker as a process."""

    def __init__(self, core: Core, parts: Sequence[Part]) -> None:
        self._core = core
        self._parts = parts
        stats = core.store.stats
        self._days = DayTotals(core.clock, lambda: (stats.put_count, stats.get_transferred))

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_BROKER_RUNTIME_INFO: self._runtime,
            RequestCode.GET_BROKER_CONFIG: self._get_config,
            RequestCode.UPDATE_BROKER_CONFIG: self._update_config,
            RequestCode.VIEW_BROKER_STATS_DATA: self._stats,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self._clean_queues,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self._clean_log,
            RequestCode.CLEAN_UNUSED_TOPIC: self._clean_unused,
            RequestCode.QUERY_CONSUME_QUEUE: self._queue_entries,
        }

    def every(self) -> Iterable[Every]:
        """Notice midnight."""
        return [Every(DAY_LOOK, self._days.tick)]

    def runtime(self) -> Mapping[str, object]:
        """Messages by day."""
        return self._days.table()

    def _runtime(self, request: Command, _connection: Connection) -> Command:
        return request.reply(body=KVTable(table=runtime_info(self._core, self._parts)).encode())

    def _get_config(self, request: Command, _connection: Connection) -> Command:
        text = javaproperties.dumps(self._core.config.public())
        version = self._core.topics.version.encode().decode()
        return request.reply(header=GetBrokerConfigResponseHeader(version=version), body=text.encode())

    async def _update_config(self, request: Command, connection: Connection) -> Command:
        check_size("the body", request.body, SETTINGS)
        try:
            texts = javaproperties.loads(bytes(request.body).decode())
            changed = await change_settings(self._core, texts)
        except NotReloadableError as error:
            raise Refused(ResponseCode.NO_PERMISSION, str(error)) from None
        except (ConfigError, UnicodeDecodeError) as error:
            raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None
        log.info("settings changed by %s: %s", connection.peer, ", ".join(changed))
        return request.reply()

    def _stats(self, request: Command, _connection: Connection) -> Command:
        header = request.header(ViewBrokerStatsDataHeader)
        data = self._core.stats.data(header.stats_name, header.stats_key)
        if data is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"The stats <{header.stats_name}> <{header.stats_key}> not exist")
        return request.reply(body=data.encode())

    def _clean_queues(self, request: Command, _connection: Connection) -> Command:
        store = self._core.store
        for topic in store.queues.topics():
            ends = [queue.max_physical_offset for queue in store.queues if queue.topic == topic]
            if not self._core.topics.is_system(topic) and max(ends) < store.min_physical_offset:
                log.info("dropping the queues of %s: none of their messages is kept any more", topic)
                store.delete_topic(topic)
        return request.reply()

    def _clean_log(self, request: Command, _connection: Connection) -> Command:
        self._core.store.retention.request()
        return request.reply()

    def _clean_unused(self, request: Command, _connection: Connection) -> Command:
        kept = [topic.topic_name for topic in self._core.topics]
        self._core.store.delete_unused_topics(kept)
        return request.reply()

    def _queue_entries(self, request: Command, _connection: Connection) -> Command:
        header = request.header(QueryConsumeQueueHeader)
        topic, queue_id = header.topic or "", header.queue_id or 0
        queue = self._core.store.queues.get(topic, queue_id)
        if queue is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
        live = self._core.consumers.get(header.consumer_group or "")
        subscription = live.subscriptions.get(topic) if live is not None else None
        chosen = self._core.tables.filters.of_group(live.name, subscription) if live and subscription else None
        begin = max(header.index or 0, queue.min_offset)
        count = min(header.count or 0, MAX_QUEUE_PAGE, max(0, queue.max_offset - begin))
        rows = []
        for index in range(begin, begin + count):
            entry = queue.entry(index)
            if entry is None:
                continue
            physical, size, code = entry
            passes = chosen is not None and (chosen.entry is None or chosen.entry(code))
            if passes and chosen is not None and chosen.record is not None:
                record = self._core.store.lookup.record_at(physical, size)
                passes = record is not None and chosen.record(record)
            rows.append(ConsumeQueueEntry(physic_offset=physical, physic_size=size, tags_code=code, eval=passes))
        page = ConsumeQueuePage(
            max_queue_index=queue.max_offset,
            min_queue_index=queue.min_offset,
            queue_data=rows,
            subscription_data=subscription,
            # mqadmin shows the compiled form of an SQL filter here; of tags there is none, which is JSON too.
            filter_data="null" if chosen is not None and chosen.record is None else None,
        )
        return request.reply(body=page.encode())


NAMED_PLACES = 20
"""Damaged places of the log that the runtime information names."""


def runtime_info(core: Core, parts: Iterable[Part]) -> dict[str, str]:
    """What `clusterList` and `brokerStatus` show, under the names they look for."""
    store, stats, now = core.store, core.store.stats, core.clock()
    info: dict[str, object] = {
        "brokerVersionDesc": version_name(CURRENT),
        "brokerVersion": CURRENT,
        "nativeCore": native.core,
        "nativeCoreFaults": native.core.faults,
        "brokerActive": core.config.broker_role is not BrokerRole.SLAVE,
        "bootTimestamp": core.started_at,
        "runtime": _duration(now - core.started_at),
        "startAcceptSendRequestTimeStamp": core.config.start_accept_send_request_time_stamp,
        "putTps": _rates(stats.put_tps()),
        "getFoundTps": _rates(stats.get_found_tps()),
        "getMissTps": _rates(stats.get_missed_tps()),
        "getTotalTps": _rates(_sums(stats.get_found_tps(), stats.get_missed_tps())),
        "getTransferredTps": _rates(stats.get_transferred_tps()),
        "getTransferedTps": _rates(stats.get_transferred_tps()),
        "putMessageTimesTotal": stats.put_count,
        "putMessageFailedTimes": stats.put_failed,
        "putMessageSizeTotal": stats.put_bytes,
        "putMessageAverageSize": stats.average_size,
        "putMessageDistributeTime": stats.put_distribution(),
        "putMessageEntireTimeMax": stats.put_latency_max,
        "getMessageEntireTimeMax": 0,
        "putLatency99": stats.put_latency_percentile(0.99),
        "putLatency999": stats.put_latency_percentile(0.999),
        "commitLogMinOffset": store.min_physical_offset,
        "commitLogMaxOffset": store.max_physical_offset,
        "commitLogDiskRatio": used_ratio(_existing(store.config.commit_log_dir)),
        "consumeQueueDiskRatio": used_ratio(store.config.store_path_root_dir),
        "commitLogDirCapacity": _capacity(store.config.commit_log_dir),
        "storeDamagedRecords": len(store.damage),
        "storeDamagedPlaces": " ".join(map(_place, store.damage.stretches[:NAMED_PLACES])),
        "dispatchBehindBytes": store.progress.behind,
        "dispatchMaxBuffer": 0,
        "pageCacheLockTimeMills": 0,
        "earliestMessageTimeStamp": store.lookup.earliest_time(),
        "remainTransientStoreBufferNumbs": 2**31 - 1,
        "remainHowManyDataToCommit": 0,
        "remainHowManyDataToFlush": f"{store.max_physical_offset - store.progress.flushed} B",
        "timerReadBehind": 0,
        "timerOffsetBehind": 0,
        "timerCongestNum": 0,
        "timerEnqueueTps": 0.0,
        "timerDequeueTps": 0.0,
    }
    # One event loop instead of thread pools: nothing queues in front of the handlers.
    for pool in ("send", "pull", "litePull", "query", "ack"):
        info[f"{pool}ThreadPoolQueueSize"] = 0
        info[f"{pool}ThreadPoolQueueCapacity"] = core.ports.server.limits.requests_per_connection
        info[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = 0
    info["EndTransactionQueueSize"] = 0
    info["EndTransactionThreadPoolQueueCapacity"] = core.ports.server.limits.requests_per_connection
    for part in parts:
        info.update(part.runtime())
    return {key: text_of(value) for key, value in info.items()}


def _place(damage: Stretch) -> str:
    """Where the log is damaged, and which message that was: begin-end@topic/queue/offset, as far as it is known."""
    where = f"@{damage.topic}/{damage.queue_id}/{damage.queue_offset}" if damage.topic else ""
    return f"{damage.begin}-{damage.end}{where}"


def _rates(rates: tuple[float, ...]) -> str:
    return " ".join(map(str, rates))


def _sums(some: tuple[float, ...], others: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(one + other for one, other in zip(some, others, strict=True))


def _duration(millis: int) -> str:
    seconds = millis // 1000
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, seconds = divmod(rest, 60)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _capacity(path: Path) -> str:
    space = os.statvfs(_existing(path))
    total, free = space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize
    return f"Total : {total / 2**30:.1f} GiB, Free : {free / 2**30:.1f} GiB."


def _existing(path: Path) -> Path:
    """On the disk that holds the folder, or will: folders are made with the first message."""
    return path if path.exists() else path.parent
