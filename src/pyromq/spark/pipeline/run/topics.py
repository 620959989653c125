"""Topics that a pipeline writes to are made when they are missing."""

import time
from collections.abc import Callable

from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.admin import UpdateAndCreateTopicHeader
from pyromq.protocol.names import DEFAULT_TOPIC
from pyromq.protocol.requests import cluster_info
from pyromq.protocol.routes import READ_WRITE, masters
from pyromq.spark.errors import RouteError
from pyromq.spark.net.wire import Wire, succeeded
from pyromq.spark.options import ConnectionOptions, read_options
from pyromq.spark.pipeline.definition.definition import Definition, TopicTarget
from pyromq.spark.pipeline.definition.plan import connection
from pyromq.spark.sink.writabletopic import TIMEOUT

PATIENCE = 30.0
PAUSE = 0.05


def ensure_topics(definition: Definition, *, sleep: Callable[[float], None] = time.sleep) -> list[str]:
    """Make what is missing among the topics that are written; returns what was made. Raises RouteError, BrokerError."""
    wanted = {target.topic: target.queues for _, _, target in definition.targets if isinstance(target, TopicTarget)}
    if definition.dlq is not None:
        wanted[definition.dlq.topic] = definition.dlq.queues
    if not wanted:
        return []
    options = read_options(ConnectionOptions, connection(definition))
    with Wire(options) as wire:
        missing = [topic for topic in wanted if wire.route(options.wire_name(topic)) is None]
        for topic in missing:
            _create(wire, options.wire_name(topic), wanted[topic])
        for topic in missing:
            _await_route(wire, options.wire_name(topic), sleep)
    return missing


def _create(wire: Wire, topic: str, queues: int) -> None:
    known = masters(wire.ask_name_servers(cluster_info(), TIMEOUT).broker_addr_table.values())
    if not known:
        raise RouteError(f"topic {topic} cannot be created: no broker is registered at the name servers")
    header = UpdateAndCreateTopicHeader(
        topic=topic,
        default_topic=DEFAULT_TOPIC,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=READ_WRITE,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
        order=False,
    )
    for name, address in known.items():
        answer = wire.call(address, Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header), TIMEOUT)
        succeeded(answer, f"creating topic {topic}", broker=name)


def _await_route(wire: Wire, topic: str, sleep: Callable[[float], None]) -> None:
    for _ in range(int(PATIENCE / PAUSE)):
        if wire.route(topic) is not None:
            return
        sleep(PAUSE)
    raise RouteError(f"topic {topic} was created, but the name servers do not know it after {PATIENCE:.0f} s")
