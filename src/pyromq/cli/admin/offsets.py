"""Admin commands about the progress of consumer groups: lag, resets, clones, rates."""

from collections.abc import Iterator
from typing import Annotated

import typer

from pyromq.cli.admin.command import Session, Subject, repeated
from pyromq.cli.completion import groups
from pyromq.cli.options import ArgumentsError, OnOff, Topic
from pyromq.cli.output import Moment, Output, Record, Rows
from pyromq.cli.plaintext import counted
from pyromq.cli.times import FORMS, millis_of
from pyromq.client.errors import ClientError
from pyromq.clock import wall_clock
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.names import is_dlq_topic, is_retry_topic, is_system_group, is_system_topic

commands = Subject("Progress")

GroupOption = Annotated[str, typer.Option("--group", "-g", help="Consumer group.", autocompletion=groups)]
MOVED = ("Broker Name", "QID", "Before", "Offset", "Moved")
END = -1


@commands.command("consumerProgress", "-g billing", accepted={"-c": "--cluster"})
def consumer_progress(
    session: Session,
    group: Annotated[
        str | None, typer.Option("--groupName", "--group", "-g", help="Consumer group; without it, all in short.")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topicName", "--topic", "-t", help="Only this topic.")] = None,
    show_client: Annotated[
        OnOff, typer.Option("--showClientIP", "-s", help="Which member holds each queue.")
    ] = OnOff.FALSE,
) -> Output:
    """Show how far consumer groups are behind. What nobody knows is shown as unknown."""
    return _all_groups(session) if group is None else _one_group(session, group, topic, show_client=bool(show_client))


@commands.command("brokerConsumeStats", "-b 127.0.0.1:10911")
def broker_consume_stats(
    session: Session,
    broker: Annotated[str, typer.Option("--brokerAddr", "-b", help="Broker, by address or by name.")],
    patience: Annotated[int | None, typer.Option("--timeoutMillis", "-t", min=1, help="As --timeout, in ms.")] = None,
    level: Annotated[int, typer.Option("--level", "-l", min=0, help="Only queues so far behind.")] = 0,
    order: Annotated[OnOff, typer.Option("--order", "-o", help="Only ordered topics.")] = OnOff.FALSE,
) -> Output:
    """Show the progress of all groups on one broker."""
    if patience is not None:
        session.timeout = patience / 1000
    stats = session.admin.broker_consume_stats(broker, ordered=bool(order))
    rows = []
    for table in stats.consume_stats_list:
        for group, parts in table.items():
            for part in parts:
                for queue, seen in sorted(part.offset_table.items()):
                    behind = seen.broker_offset - seen.consumer_offset
                    if behind >= level:
                        place = (queue.topic, group, queue.broker_name, queue.queue_id)
                        rows.append(
                            (*place, seen.broker_offset, seen.consumer_offset, behind, Moment(seen.last_timestamp))
                        )
    columns = ("Topic", "Group", "Broker Name", "QID", "Broker Offset", "Consumer Offset", "Diff", "Last Time")
    return Rows(columns, rows, {"diffTotal": stats.total_diff})


@commands.command(
    "resetOffsetByTime", "-g billing -t orders -s '2026-01-31#08:00:00:000'", accepted={"-c": "--cluster"}
)
def reset_offset_by_time(
    session: Session,
    group: GroupOption,
    topic: Topic,
    timestamp: Annotated[str, typer.Option("--timestamp", "-s", metavar="time", help=f"Where to resume: {FORMS}.")],
    force: Annotated[OnOff, typer.Option("--force", "-f", help="Forwards too.")] = OnOff.TRUE,
    broker: Annotated[str | None, typer.Option("--broker", "-b", help="With -q: the broker of the queue.")] = None,
    queue: Annotated[int | None, typer.Option("--queue", "-q", min=0, help="Only this queue.")] = None,
    offset: Annotated[int | None, typer.Option("--offset", "-o", min=0, help="With -q: resume from here.")] = None,
) -> Output:
    """Make a group resume from a point in time, or one queue of it from an offset."""
    if queue is not None:
        if broker is None or offset is None:
            raise ArgumentsError("one queue needs its broker (-b) and the offset to resume from (-o)")
        place = MessageQueue(topic, _broker_name(session, broker), queue)
        before = _before(session, group, topic)
        return _moved(before, session.admin.reset_offset(group, place, offset), f"group {group} goes on in {topic}")
    when = END if timestamp.strip().lower() == "now" else millis_of(timestamp)
    if when < END:
        raise ArgumentsError(f"{timestamp} is no time: -1 is the end, 0 the beginning, else write {FORMS}")
    return _reset(session, group, topic, when, force=bool(force))


@commands.command("skipAccumulatedMessage", "-g billing -t orders", accepted={"-c": "--cluster"})
def skip_accumulated(
    session: Session,
    group: GroupOption,
    topic: Topic,
    force: Annotated[OnOff, typer.Option("--force", "-f", help="Forwards too.")] = OnOff.TRUE,
) -> Output:
    """Make a group resume at the end of every queue; what waits is skipped."""
    return _reset(session, group, topic, END, force=bool(force))


@commands.command("cloneGroupOffset", "-s billing -d audit -t orders")
def clone_offsets(
    session: Session,
    source: Annotated[str, typer.Option("--srcGroup", "-s", help="Group to copy from.")],
    destination: Annotated[str, typer.Option("--destGroup", "-d", help="Group to copy to.")],
    topic: Topic,
    offline: Annotated[OnOff, typer.Option("--offline", "-o", help="The source need not be online.")] = OnOff.TRUE,
) -> Output:
    """Put one group where another one is in a topic."""
    session.admin.clone_offsets(source, destination, topic, offline=bool(offline))
    return Record({"srcGroup": source, "destGroup": destination, "topic": topic})


@commands.command("statsAll", "-a")
def stats_all(
    session: Session,
    active: Annotated[bool, typer.Option("--activeTopic", "-a", help="Only topics with traffic.")] = False,
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="Only this topic.")] = None,
) -> Output:
    """Show what comes into topics and what goes out to groups."""
    rows = []
    for name in session.admin.topics():
        if topic in (None, name) and not is_retry_topic(name) and not is_dlq_topic(name):
            rows += [row for row in _traffic(session, name) if not active or row[3] or row[4] or row[5]]
    columns = ("Topic", "Consumer Group", "Accumulation", "InTPS", "OutTPS", "In Msg 24 Hour", "Out Msg 24 Hour")
    return Rows(columns, rows)


@commands.command("startMonitoring", "--interval 10")
def start_monitoring(
    session: Session,
    interval: Annotated[
        int, typer.Option("--interval", "-i", min=1, metavar="seconds", help="Time between looks.")
    ] = 60,
    once: Annotated[bool, typer.Option("--once", help="One look only.")] = False,
) -> Iterator[Output]:
    """Watch consumer groups: those that are behind, and those without a member online."""

    def look() -> Output:
        table = _all_groups(session)
        late = [row for row in table.rows if row[1] == 0 or row[6] != 0]
        return Rows(table.columns, late, {"time": Moment(wall_clock()), "groups": len(table.rows)})

    return repeated(None if once else interval, look)


def _one_group(session: Session, group: str, topic: str | None, *, show_client: bool) -> Output:
    lag = session.admin.lag(group, topic)
    for name, error in lag.failed.items():
        if not lag.queues:
            raise ClientError(f"broker {name} cannot be asked: {error}")
    holders = _holders(session, group) if show_client else {}
    rows = [
        (
            row.queue.topic,
            row.queue.broker_name,
            row.queue.queue_id,
            row.broker_offset,
            row.consumer_offset,
            *((holders.get(row.queue),) if show_client else ()),
            row.lag,
            row.inflight,
            Moment(row.last_consumed_ms or 0),
        )
        for row in lag.queues
    ]
    client = ("Client",) if show_client else ()
    columns = ("Topic", "Broker Name", "QID", "Broker Offset", "Consumer Offset", *client, "Diff", "Inflight")
    facts = {"consumeTps": lag.consume_tps, "diffTotal": lag.total, "inflightTotal": lag.inflight}
    return Rows((*columns, "Last Time"), rows, facts)


def _holders(session: Session, group: str) -> dict[MessageQueue, str]:
    held: dict[MessageQueue, str] = {}
    try:
        members = session.admin.consumer_connections(group).connection_set
    except ClientError:
        return held
    for member in members:
        try:
            info = session.admin.running_info(group, member.client_id)
        except ClientError:
            continue
        held |= dict.fromkeys((*info.mq_table, *info.mq_pop_table), member.client_id)
    return held


def _all_groups(session: Session) -> Rows:
    rows = [_short(session, group) for group in session.admin.groups() if not is_system_group(group)]
    return Rows(("Group", "Count", "Version", "Type", "Model", "TPS", "Diff Total"), rows)


def _short(session: Session, group: str) -> tuple[object, ...]:
    from pyromq.protocol.release import version_name  # noqa: PLC0415 - wanted here alone

    count, version, kind, model = 0, "", "", ""
    try:
        online = session.admin.consumer_connections(group)
    except ClientError:
        pass
    else:
        count = len(online.connection_set)
        version = version_name(min(each.version for each in online.connection_set))
        kind = online.consume_type.value if online.consume_type is not None else ""
        model = online.message_model.value if online.message_model is not None else ""
    try:
        lag = session.admin.lag(group)
    except ClientError:
        return group, count, version, kind, model, 0.0, None
    return group, count, version, kind, model, lag.consume_tps, lag.total


def _traffic(session: Session, topic: str) -> Iterator[tuple[object, ...]]:
    """A line for each group that reads a topic, or one when none does."""
    try:
        brokers = [data.broker_name for data in session.admin.topic_route(topic).broker_datas]
        groups = session.admin.groups_of_topic(topic)
    except ClientError:
        return
    came, came_today = _measure(session, brokers, "TOPIC_PUT_NUMS", topic)
    if not groups and not is_system_topic(topic):
        yield topic, "", None, came, None, came_today, None
    for group in groups:
        went, went_today = _measure(session, brokers, "GROUP_GET_NUMS", f"{topic}@{group}")
        try:
            behind = session.admin.lag(group, topic).total
        except ClientError:
            behind = None
        yield topic, group, behind, came, went, came_today, went_today


def _measure(session: Session, brokers: list[str], name: str, key: str) -> tuple[float, int]:
    """A rate and the sum of a day over all brokers; one that never counted it has counted nothing."""
    rate, day = 0.0, 0
    for broker in brokers:
        try:
            data = session.admin.broker_stats(broker, name, key)
        except ClientError:
            continue
        rate += data.stats_minute.tps
        day += data.stats_day.sum
    return rate, day


def _broker_name(session: Session, broker: str) -> str:
    """The name of a broker given by name or address."""
    for data in session.admin.cluster_info().broker_addr_table.values():
        if broker in (data.broker_name, *data.broker_addrs.values()):
            return data.broker_name
    raise ClientError(f"the name servers know no broker {broker!r}")


def _reset(session: Session, group: str, topic: str, when: int, *, force: bool) -> Output:
    if when == END:
        where = "at the end, with what arrives from now on"
    elif when == 0:
        where = "with the first message that is kept"
    else:
        where = f"with the first message stored at {Moment(when)} or later"
    before = _before(session, group, topic)
    offsets = session.admin.reset_offsets(group, topic, when, force=force)
    return _moved(before, offsets, f"group {group} goes on in {topic} {where}")


def _before(session: Session, group: str, topic: str) -> dict[MessageQueue, int | None]:
    """Where a group is; nowhere, as far as anybody knows, when brokers do not know it."""
    try:
        lag = session.admin.lag(group, topic)
    except ClientError:
        return {}
    return {row.queue: row.consumer_offset for row in lag.queues}


def _moved(before: dict[MessageQueue, int | None], offsets: dict[MessageQueue, int], what: str) -> Output:
    """From where to where each queue went, and in one sentence what that means."""
    rows, skipped, again = [], 0, 0
    for queue, offset in sorted(offsets.items()):
        old = before.get(queue)
        step = None if old is None else offset - old
        skipped += max(step or 0, 0)
        again += max(-(step or 0), 0)
        rows.append((queue.broker_name, queue.queue_id, old, offset, step))
    if not rows:
        return Rows(MOVED, rows, note=f"{what}: no queue was moved")
    moved = f"{counted(skipped, 'message')} skipped, {counted(again, 'message')} to come again"
    return Rows(MOVED, rows, note=f"{what}: {counted(len(rows), 'queue')}, {moved}")
