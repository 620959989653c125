"""What a look of a Spark stream costs over thousands of queues: processor time of the driver and of the broker.

A stream without new messages looks again and again. Its way with PyroMQ's brokers, one request for all queues, stands
beside the one that Apache's brokers understand, two requests a queue, over the same connections.
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from tests.processes import Server

from pyromq import Admin
from pyromq.spark.options import read_options
from pyromq.spark.source.brokers.cluster import Cluster
from pyromq.spark.source.brokers.longpoll import LongPoll
from pyromq.spark.source.offsets import Offset, ranges
from pyromq.spark.source.options import SourceOptions
from pyromq.spark.source.tracker import Tracker
from pyromq.store.config import FlushDiskType, StoreConfig
from pyromq.store.log.put import PutMessage
from pyromq.store.messagestore import MessageStore

TOPICS = 10
LOOKS = 40
SINGLE_LOOKS = 3
TICKS = os.sysconf("SC_CLK_TCK")


def fill(root: Path, queues: int) -> None:
    """A store with a message in each of so many queues of ten topics."""
    store = MessageStore(StoreConfig(store_path_root_dir=root, flush_disk_type=FlushDiskType.ASYNC_FLUSH))
    store.open()
    for number in range(queues):
        store.put(PutMessage(f"wide-{number % TOPICS}", number // TOPICS, b"x", b""))
    store.close()


def looks(root: Path, queues: int) -> dict[str, float | int | str]:
    """Milliseconds of processor time of a look, ours and by single requests."""
    fill(root, queues)
    ports = [text for name in ("namesrv", "broker", "http") for text in (f"--{name}-port", "0")]
    with Server("standalone", "--data", str(root), *ports) as server:
        with Admin(namesrv=server["namesrv"], api_timeout=30.0) as admin:
            for number in range(TOPICS):
                admin.create_topic(f"wide-{number}", queues=queues // TOPICS, cluster="DefaultCluster")
                admin.wait_for_topic(f"wide-{number}", seconds=60)
        given = {"nameServer": server["namesrv"], "topicsPattern": "wide-.*", "startingOffsets": "earliest"}
        options = read_options(SourceOptions, given | {"offsetCacheMs": "0", "maxWaitMs": "0"}, {})
        with Cluster(options) as cluster:
            tracker = Tracker(options, cluster, LongPoll(cluster))
            begin = tracker.initial()
            end = tracker.latest(begin)
            text = json.dumps(end, separators=(",", ":"))
            assert sum(each.messages for each in ranges(Offset.parse(begin), Offset.parse(end))) == queues
            found = cluster.queues()
            ours = _spent(lambda: tracker.latest(json.loads(text)), LOOKS, server.pid)
            single = _spent(lambda: cluster.single_bounds(found), SINGLE_LOOKS, server.pid)
            tracker.close()
    return {
        f"a look at {queues:,} queues, ms of the driver's processor": ours[0],
        "the same, ms of the broker's processor": ours[1],
        "by single requests / at once, driver": single[0] / ours[0],
        "by single requests / at once, broker": single[1] / ours[1],
        "bytes of its offset in Spark's log, a queue": len(text) / queues,
    }


def _spent(work: Callable[[], object], times: int, server: int) -> tuple[float, float]:
    """Milliseconds of processor time of one of many, here and in the server."""
    work()
    mine, theirs = time.process_time(), _ticks(server)
    for _ in range(times):
        work()
    return (time.process_time() - mine) * 1000 / times, (_ticks(server) - theirs) * 1000 / TICKS / times


def _ticks(pid: int) -> int:
    """Processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
