"""What a consumer tells about itself when a broker asks."""

import sys
import threading
import traceback
from collections.abc import Mapping
from dataclasses import fields

from pyromq.client.consumer.config import ConsumerConfig
from pyromq.client.consumer.member import Member
from pyromq.client.consumer.process_queue import ProcessQueue
from pyromq.protocol.bodies.clients import ConsumerRunningInfo, ProcessQueueInfo
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.release import CURRENT, version_name

MIB = 1024 * 1024


def running_info(
    member: Member[ConsumerConfig],
    properties: Mapping[str, str],
    owned: Mapping[MessageQueue, ProcessQueue],
    *,
    jstack: bool,
) -> ConsumerRunningInfo:
    """Settings (no secrets), subscriptions, what is held of each queue, rates. `properties` complete the settings."""
    # `repr` is off for exactly those settings that must never be shown.
    config, subscriptions = member.config, member.subscriptions.by_topic
    settings = {item.name: str(getattr(config, item.name)) for item in fields(config) if item.repr}
    common = {
        "PROP_CLIENT_VERSION": version_name(CURRENT),
        "PROP_NAMESERVER_ADDR": ";".join(member.instance.name_servers.addresses),
        "PROP_CONSUME_TYPE": str(member.consume_type),
    }
    return ConsumerRunningInfo(
        properties=settings | common | dict(properties),
        subscription_set=list(subscriptions.values()),
        mq_table={queue: queue_info(held, member.offsets.known(queue)) for queue, held in owned.items()},
        status_table={topic: member.stats.status(topic) for topic in subscriptions},
        jstack=thread_dump() if jstack else None,
    )


def queue_info(held: ProcessQueue, offset: int | None) -> ProcessQueueInfo:
    """One queue, as tools show it."""
    low, high = held.bounds
    first, last = held.in_flight_bounds
    return ProcessQueueInfo(
        commit_offset=-1 if offset is None else offset,
        cached_msg_min_offset=low,
        cached_msg_max_offset=high,
        cached_msg_count=len(held) - held.in_flight_count,
        cached_msg_size_in_mib=held.size // MIB,
        transaction_msg_min_offset=first,
        transaction_msg_max_offset=last,
        transaction_msg_count=held.in_flight_count,
        locked=held.locked,
        try_unlock_times=held.unlock_attempts,
        last_lock_timestamp=held.last_lock_ms,
        dropped=held.dropped,
        last_pull_timestamp=held.last_pull_ms,
        last_consume_timestamp=held.last_consume_ms,
    )


def thread_dump() -> str:
    """The stacks of all threads of this process."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(ident, ident)}\n" + "".join(traceback.format_stack(frame))
        for ident, frame in sys._current_frames().items()
    )
