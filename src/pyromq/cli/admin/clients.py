"""Admin commands about connected producers and consumers."""

from typing import Annotated

import typer

from pyromq.cli.admin.command import Session, Subject
from pyromq.cli.options import ConsumerGroup, Topic
from pyromq.cli.output import Lines, Moment, Output, Parts, Record, Rows
from pyromq.client.errors import ClientError
from pyromq.protocol.bodies.clients import ConnectionInfo, ConsumerRunningInfo
from pyromq.protocol.release import version_name

commands = Subject("Clients")

CONNECTION = ("Client Id", "Client Addr", "Language", "Version")


@commands.command("consumerConnection", "-g billing")
def consumer_connection(
    session: Session,
    group: ConsumerGroup,
    broker: Annotated[str | None, typer.Option("--brokerAddr", "-b", help="Only as this broker sees it.")] = None,
) -> Output:
    """Show the members of a consumer group and what they subscribe to."""
    found = session.admin.consumer_connections(group, broker=broker)
    subscriptions = [(topic, data.sub_string) for topic, data in sorted(found.subscription_table.items())]
    return Parts(
        {
            "connections": Rows(CONNECTION, [_connection(each) for each in found.connection_set]),
            "subscriptions": Rows(("Topic", "Sub Expression"), subscriptions),
            "group": Record(
                {
                    "consumeType": found.consume_type,
                    "messageModel": found.message_model,
                    "consumeFromWhere": found.consume_from_where,
                }
            ),
        }
    )


@commands.command("producerConnection", "-g orders-service -t orders")
def producer_connection(
    session: Session,
    group: Annotated[str, typer.Option("--producerGroup", "--group", "-g", help="Producer group.")],
    topic: Topic,
) -> Output:
    """Show the members of a producer group."""
    found = session.admin.producer_connections(group, topic)
    return Rows(CONNECTION, [_connection(each) for each in found.connection_set])


@commands.command("producer", "-b 127.0.0.1:10911")
def producers(
    session: Session,
    broker: Annotated[str, typer.Option("--broker", "-b", help="Broker, by address or by name.")],
) -> Output:
    """List all producers that are connected to a broker."""
    rows = [
        (
            group,
            each.client_id,
            each.remote_ip,
            each.language,
            version_name(each.version),
            Moment(each.last_update_timestamp),
        )
        for table in session.admin.producers(broker=broker).values()
        for group, members in sorted(table.data.items())
        for each in members
    ]
    return Rows(("Group", "Client Id", "Remote IP", "Language", "Version", "Last Update"), rows)


@commands.command("consumerStatus", "-g billing -i 10.0.0.1@4711")
def consumer_status(
    session: Session,
    group: ConsumerGroup,
    client_id: Annotated[str | None, typer.Option("--clientId", "-i", help="All about this member.")] = None,
    broker: Annotated[
        str | None, typer.Option("--brokerAddr", "-b", help="Only members that this broker sees.")
    ] = None,
    jstack: Annotated[bool, typer.Option("--jstack", "-s", help="What its threads are doing.")] = False,
) -> Output:
    """Show what members of a consumer group are doing, in their own words."""
    if client_id is not None:
        return _running(session.admin.running_info(group, client_id, jstack=jstack))
    members = session.admin.consumer_connections(group, broker=broker).connection_set
    rows: list[tuple[object, ...]] = []
    subscriptions = set()
    held: list[object] = []
    stacks: list[str] = []
    for member in members:
        try:
            info = session.admin.running_info(group, member.client_id, jstack=jstack)
        except ClientError as error:
            rows.append((member.client_id, version_name(member.version), None, None, str(error)))
            continue
        subscriptions.add(tuple(sorted((data.topic, data.sub_string) for data in info.subscription_set)))
        queues = [*info.mq_table, *info.mq_pop_table]
        held += queues
        waiting = sum(each.cached_msg_count for each in info.mq_table.values())
        rows.append((member.client_id, version_name(member.version), len(queues), waiting, "ok"))
        stacks += [f"{member.client_id}\n{info.jstack}"] if info.jstack else []
    facts = {"sameSubscription": len(subscriptions) <= 1, "queuesHeldTwice": len(held) - len(set(held))}
    table = Rows(("Client Id", "Version", "Queues", "Cached", "Answer"), rows, facts)
    return Parts({"members": table, "stacks": Lines(stacks, stacks)}) if stacks else table


def _running(info: ConsumerRunningInfo) -> Output:
    queues = [
        (
            q.topic,
            q.broker_name,
            q.queue_id,
            each.commit_offset,
            each.cached_msg_count,
            each.locked,
            Moment(each.last_pull_timestamp),
        )
        for q, each in sorted(info.mq_table.items())
    ]
    popped = [
        (q.topic, q.broker_name, q.queue_id, each.wait_ack_count, Moment(each.last_pop_timestamp))
        for q, each in sorted(info.mq_pop_table.items())
    ]
    rates = [
        (
            topic,
            each.pull_rt,
            each.pull_tps,
            each.consume_rt,
            each.consume_ok_tps,
            each.consume_failed_tps,
            each.consume_failed_msgs,
        )
        for topic, each in sorted(info.status_table.items())
    ]
    parts: dict[str, Output] = {
        "properties": Record(info.properties, title="properties"),
        "subscriptions": Rows(("Topic", "Sub Expression"), [(d.topic, d.sub_string) for d in info.subscription_set]),
        "queues": Rows(("Topic", "Broker Name", "QID", "Commit Offset", "Cached", "Locked", "Last Pull"), queues),
        "rates": Rows(("Topic", "Pull RT", "Pull TPS", "Consume RT", "OK TPS", "Failed TPS", "Failed In Hour"), rates),
    }
    if popped:
        parts["popped"] = Rows(("Topic", "Broker Name", "QID", "Wait Ack", "Last Pop"), popped)
    if info.jstack:
        parts["jstack"] = Lines(info.jstack.splitlines(), info.jstack)
    return Parts(parts)


def _connection(each: ConnectionInfo) -> tuple[object, ...]:
    return each.client_id, each.client_addr, each.language, version_name(each.version)
