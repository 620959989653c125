"""Admin commands about topics."""

from collections import defaultdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from pyromq.cli.admin.command import Session, Subject
from pyromq.cli.options import ArgumentsError, Broker, Cluster, OnOff, Topic, one_of, read_list
from pyromq.cli.output import Document, Lines, Moment, Output, Record, Rows
from pyromq.cli.plaintext import counted
from pyromq.client.errors import ClientError
from pyromq.protocol.routes import READ_WRITE

commands = Subject("Topics")

Perm = Annotated[int, typer.Option("--perm", "-p", min=0, max=7, help="Permission: 2 write, 4 read, 6 both.")]


class OrderMethod(StrEnum):
    """What to do with the order configuration of a topic."""

    PUT = "put"
    GET = "get"
    DELETE = "delete"


@commands.command("updateTopic", "-c DefaultCluster -t orders -r 8 -w 8")
def update_topic(
    session: Session,
    topic: Topic,
    broker: Broker = None,
    cluster: Cluster = None,
    read_queues: Annotated[int, typer.Option("--readQueueNums", "-r", min=1, help="Queues to read.")] = 8,
    write_queues: Annotated[int, typer.Option("--writeQueueNums", "-w", min=1, help="Queues to write.")] = 8,
    perm: Perm = READ_WRITE,
    order: Annotated[OnOff, typer.Option("--order", "-o", help="Tell name servers the order of queues.")] = OnOff.FALSE,
    unit: Annotated[OnOff, typer.Option("--unit", "-u", help="A topic of one unit.")] = OnOff.FALSE,
    has_unit_sub: Annotated[
        OnOff, typer.Option("--hasUnitSub", "-s", help="Has subscriptions of units.")
    ] = OnOff.FALSE,
    attributes: Annotated[
        str | None, typer.Option("--attributes", "-a", metavar="+k=v,-k", help="Attributes to set and to remove.")
    ] = None,
) -> Output:
    """Create a topic or change it."""
    created = session.admin.create_topic(
        topic,
        read_queues=read_queues,
        write_queues=write_queues,
        perm=perm,
        ordered=bool(order),
        unit=bool(unit),
        unit_subscribed=bool(has_unit_sub),
        attributes=parse_attributes(attributes),
        **one_of(broker, cluster),
    )
    rows = [(name, topic, c.read_queue_nums, c.write_queue_nums, c.perm, c.order) for name, c in created.items()]
    return Rows(("Broker Name", "Topic", "Read Queues", "Write Queues", "Perm", "Order"), rows)


@commands.command("updateTopicList", "-c DefaultCluster -f topics.json")
def update_topic_list(
    session: Session,
    filename: Annotated[Path, typer.Option("--filename", "-f", help="JSON list of topic configurations.")],
    broker: Broker = None,
    cluster: Cluster = None,
) -> Output:
    """Create or change the topics that a file lists."""
    from pyromq.protocol.bodies.topics import TopicConfig  # noqa: PLC0415 - wanted here alone

    configs = read_list(filename, TopicConfig)
    session.admin.create_topics(configs, **one_of(broker, cluster))
    names = [config.topic_name for config in configs]
    return Lines([f"{counted(len(names), 'topic')} created or changed: {', '.join(names)}"], names)


@commands.command("deleteTopic", "-c DefaultCluster -t orders")
def delete_topic(
    session: Session,
    topic: Topic,
    cluster: Annotated[str, typer.Option("--clusterName", "-c", help="Cluster to delete it from.")],
) -> Output:
    """Delete a topic from brokers and name servers, with its order configuration."""
    session.admin.delete_topic(topic, cluster=cluster)
    return Lines([f"topic {topic} deleted from cluster {cluster}"], {"topic": topic, "cluster": cluster})


@commands.command("updateTopicPerm", "-c DefaultCluster -t orders -p 4")
def update_topic_perm(
    session: Session, topic: Topic, perm: Perm, broker: Broker = None, cluster: Cluster = None
) -> Output:
    """Change what may be done with a topic."""
    where = one_of(broker, cluster)
    before = session.admin.topic_config(topic, **where)
    after = session.admin.set_topic_permission(topic, perm, **where)
    rows = [(name, topic, before[name].perm, config.perm) for name, config in after.items()]
    return Rows(("Broker Name", "Topic", "Old Perm", "New Perm"), rows)


@commands.command("topicList")
def topic_list(
    session: Session,
    cluster_model: Annotated[
        bool, typer.Option("--clusterModel", "-c", help="With clusters and consumer groups.")
    ] = False,
) -> Output:
    """List all topics."""
    admin = session.admin
    if not cluster_model:
        topics = admin.topics()
        return Lines(topics, topics)
    rows: list[tuple[object, ...]] = []
    for cluster in sorted(admin.cluster_info().cluster_addr_table):
        for topic in admin.topics(cluster=cluster):
            try:
                groups = admin.groups_of_topic(topic)
            except ClientError:  # gone meanwhile, or its broker is
                groups = []
            rows += [(cluster, topic, group) for group in groups or [""]]
    return Rows(("Cluster Name", "Topic", "Consumer Group"), rows)


@commands.command("topicRoute", "-t orders -l")
def topic_route(
    session: Session,
    topic: Topic,
    as_list: Annotated[bool, typer.Option("--list", "-l", help="A table instead of JSON.")] = False,
) -> Output:
    """Show which brokers have a topic."""
    route = session.admin.topic_route(topic)
    if not as_list:
        return Document(route)
    brokers = {data.broker_name: data for data in route.broker_datas}
    rows = []
    for queue in sorted(route.queue_datas, key=lambda data: data.broker_name):
        data = brokers.get(queue.broker_name)
        addresses = [f"{number}={address}" for number, address in sorted(data.broker_addrs.items())] if data else []
        cluster = data.cluster if data else ""
        rows.append((cluster, queue.broker_name, addresses, queue.read_queue_nums, queue.write_queue_nums, queue.perm))
    total = {"readQueues": sum(row[3] for row in rows), "writeQueues": sum(row[4] for row in rows)}
    return Rows(("Cluster Name", "Broker Name", "Broker Addrs", "Read Queue", "Write Queue", "Perm"), rows, total)


@commands.command("topicStatus", "-t orders")
def topic_status(
    session: Session,
    topic: Topic,
    cluster: Annotated[str | None, typer.Option("--cluster", "-c", help="Only brokers of this cluster.")] = None,
) -> Output:
    """Show the offsets of each queue of a topic."""
    stats = session.admin.topic_stats(topic)
    wanted = None
    if cluster is not None:
        wanted = set(session.admin.cluster_info().cluster_addr_table.get(cluster, ()))
    rows = [
        (queue.broker_name, queue.queue_id, seen.min_offset, seen.max_offset, Moment(seen.last_update_timestamp))
        for queue, seen in stats.offset_table.items()
        if wanted is None or queue.broker_name in wanted
    ]
    facts = {"topicPutTps": stats.topic_put_tps, "messages": sum(row[3] - row[2] for row in rows)}
    return Rows(("Broker Name", "QID", "Min Offset", "Max Offset", "Last Updated"), rows, facts)


@commands.command("topicClusterList", "-t orders")
def topic_cluster_list(session: Session, topic: Topic) -> Output:
    """List the clusters that have a topic."""
    clusters = session.admin.clusters_of_topic(topic)
    return Lines(clusters, clusters)


@commands.command("updateOrderConf", "-t orders -m put -v 'broker-a:4;broker-b:4'")
def update_order_conf(
    session: Session,
    topic: Topic,
    method: Annotated[OrderMethod, typer.Option("--method", "-m", help="What to do.")],
    order_conf: Annotated[
        str | None, typer.Option("--orderConf", "-v", metavar="broker:queues;…", help="The order, for put.")
    ] = None,
) -> Output:
    """Read, set or delete the order of queues of a topic."""
    if method is OrderMethod.PUT:
        if not order_conf:
            raise ArgumentsError("put needs an order: -v 'broker-a:4;broker-b:4'")
        session.admin.set_order_conf(topic, order_conf)
    elif method is OrderMethod.DELETE:
        session.admin.delete_order_conf(topic)
    conf = session.admin.order_conf(topic)
    if method is OrderMethod.GET and conf is None:
        raise ClientError(f"topic {topic!r} has no order configuration")
    return Record({"topic": topic, "orderConf": conf or ""})


@commands.command("allocateMQ", "-t orders -i 10.0.0.1,10.0.0.2")
def allocate(
    session: Session,
    topic: Topic,
    ip_list: Annotated[str, typer.Option("--ipList", "-i", metavar="ip,ip,…", help="Members of a group.")],
) -> Output:
    """Show how the queues of a topic would be shared evenly."""
    from pyromq.client.consumer.rebalance.allocation import Average  # noqa: PLC0415 - wanted here alone

    members = sorted({member.strip() for member in ip_list.split(",") if member.strip()})
    queues = session.admin.queues(topic)
    shared = defaultdict(list)
    for member in members:
        shared[member] = Average().allocate(member, queues, members)
    rows = [(member, queue.broker_name, queue.queue_id) for member in members for queue in shared[member]]
    return Rows(("Member", "Broker Name", "QID"), rows)


def parse_attributes(text: str | None) -> dict[str, str | None]:
    """`+k=v,-k` as changes. Raises ClientError.

    >>> parse_attributes("+message.type=FIFO,-old")
    {'message.type': 'FIFO', 'old': None}
    """
    changes: dict[str, str | None] = {}
    for part in filter(None, (text or "").split(",")):
        sign, rest = part[0], part[1:]
        name, equals, value = rest.partition("=")
        if sign == "+" and equals and name and value:
            changes[name] = value
        elif sign == "-" and name and not equals:
            changes[name] = None
        else:
            raise ArgumentsError(f"{part!r} is no change of an attribute; write +name=value or -name")
    return changes
