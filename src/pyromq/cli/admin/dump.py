"""Admin commands that read messages of a topic, leaving no trace in the offsets of any group."""

from collections import Counter
from typing import Annotated

import typer

from pyromq.cli.admin.command import Session, Subject
from pyromq.cli.options import ArgumentsError, Begin, End, OnOff, Topic
from pyromq.cli.output import Moment, Output, Parts, Record, Rows, body_text
from pyromq.cli.times import since, until
from pyromq.client.errors import ClientError
from pyromq.protocol.message import MessageQueue, ReceivedMessage

commands = Subject("Reading")

Charset = Annotated[str, typer.Option("--charsetName", "-c", metavar="charset", help="Charset of bodies.")]
Expression = Annotated[
    str | None, typer.Option("--subExpression", "-s", metavar="'TagA || TagB'", help="Only messages with these tags.")
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000_000, help="At most so many messages.")]
PLACE = ("Message ID", "Broker Name", "QID", "Offset", "Store Time", "Tags", "Keys")


@commands.command("printMsg", "-t orders -d true -s 'paid || shipped'", accepted={"-l": "--lmqParentTopic"})
def print_messages(
    session: Session,
    topic: Topic,
    charset: Charset = "utf-8",
    expression: Expression = None,
    begin: Begin = None,
    end: End = None,
    with_body: Annotated[OnOff, typer.Option("--printBody", "-d", help="With bodies.")] = OnOff.TRUE,
    limit: Limit = 1000,
) -> Output:
    """Print the messages of a topic."""
    found = session.admin.messages(topic, tags=expression, begin_ms=since(begin), end_ms=until(end), limit=limit)
    return _table(found, charset if with_body else None)


@commands.command("printMsgByQueue", "-t orders -a broker-a -i 0 -p true -d true")
def print_messages_of_queue(
    session: Session,
    topic: Topic,
    broker: Annotated[str, typer.Option("--brokerName", "-a", help="Broker name.")],
    queue: Annotated[int, typer.Option("--queueId", "-i", min=0, help="Queue.")],
    charset: Charset = "utf-8",
    expression: Expression = None,
    begin: Begin = None,
    end: End = None,
    print_each: Annotated[OnOff, typer.Option("--print", "-p", help="Print the messages.")] = OnOff.FALSE,
    with_body: Annotated[OnOff, typer.Option("--printBody", "-d", help="With bodies.")] = OnOff.FALSE,
    calculate: Annotated[OnOff, typer.Option("--calculate", "-f", help="Count them by tag.")] = OnOff.FALSE,
    limit: Limit = 1000,
) -> Output:
    """Print the messages of one queue, or count them by tag."""
    place = MessageQueue(topic, broker, queue)
    found = session.admin.messages(
        topic, queue=place, tags=expression, begin_ms=since(begin), end_ms=until(end), limit=limit
    )
    parts: dict[str, Output] = {}
    if print_each:
        parts["messages"] = _table(found, charset if with_body else None)
    if calculate:
        counts = Counter(message.tags or "" for message in found)
        parts["tags"] = Rows(("Tag", "Count"), counts.most_common())
    return Parts(parts or {"queue": Record({"messages": len(found)})})


@commands.command("consumeMessage", "-t orders -b broker-a -i 0 -o 100 -c 10", accepted={"-g": "--consumerGroup"})
def consume_messages(
    session: Session,
    topic: Topic,
    broker: Annotated[str | None, typer.Option("--brokerName", "-b", help="Broker name.")] = None,
    queue: Annotated[int | None, typer.Option("--queueId", "-i", min=0, help="With -b: queue.")] = None,
    offset: Annotated[int, typer.Option("--offset", "-o", min=0, help="With -i: begin here.")] = 0,
    begin: Annotated[
        str | None, typer.Option("--beginTimestamp", "-s", metavar="time", help="Stored at or after this.")
    ] = None,
    end: End = None,
    count: Annotated[int, typer.Option("--MessageNumber", "-c", min=1, max=1_000_000, help="At most so many.")] = 128,
) -> Output:
    """Read messages of a topic or a queue."""
    if (queue is not None and broker is None) or (offset and queue is None):
        raise ArgumentsError("a queue (-i) needs its broker (-b), and an offset (-o) needs its queue")
    queues: list[MessageQueue | None] = [None]
    if queue is not None:
        queues = [MessageQueue(topic, broker or "", queue)]
    elif broker is not None:
        queues = [each for each in session.admin.queues(topic) if each.broker_name == broker]
    found: list[ReceivedMessage] = []
    for each in queues:
        if len(found) < count:
            found += session.admin.messages(
                topic, queue=each, begin_ms=since(begin), end_ms=until(end), offset=offset, limit=count - len(found)
            )
    return _table(found, "utf-8")


@commands.command("queryCq", "-t orders -q 0 -i 0 -c 10")
def query_queue(
    session: Session,
    topic: Topic,
    queue: Annotated[int, typer.Option("--queue", "-q", min=0, help="Queue.")],
    index: Annotated[int, typer.Option("--index", "-i", min=0, help="First entry.")],
    count: Annotated[int, typer.Option("--count", "-c", min=1, max=1000, help="How many.")] = 10,
    broker: Annotated[str | None, typer.Option("--broker", "-b", help="Broker, by address or by name.")] = None,
    group: Annotated[str | None, typer.Option("--consumer", "-g", help="Does its filter let them pass?")] = None,
) -> Output:
    """Show entries of a consume queue."""
    if broker is None:
        holders = [each.broker_name for each in session.admin.queues(topic) if each.queue_id == queue]
        if not holders:
            raise ClientError(f"topic {topic!r} has no queue {queue}")
        broker = holders[0]
    page = session.admin.queue_entries(MessageQueue(topic, broker, queue), index, count, group=group)
    rows = [
        (index + number, entry.physic_offset, entry.physic_size, entry.tags_code, entry.eval)
        for number, entry in enumerate(page.queue_data)
    ]
    subscription = page.subscription_data.sub_string if page.subscription_data is not None else ""
    facts = {"minIndex": page.min_queue_index, "maxIndex": page.max_queue_index, "subscription": subscription}
    return Rows(("Index", "Physic Offset", "Physic Size", "Tags Code", "Eval"), rows, facts)


def _table(messages: list[ReceivedMessage], charset: str | None) -> Rows:
    rows: list[tuple[object, ...]] = []
    for each in messages:
        place = (each.message_id, each.broker_name, each.queue_id, each.queue_offset, Moment(each.store_timestamp))
        row: tuple[object, ...] = (*place, each.tags or "", " ".join(each.keys))
        if charset is not None:
            text = body_text(each.body, charset)
            row = (*row, text if text is not None else each.body)
        rows.append(row)
    return Rows((*PLACE, "Body") if charset is not None else PLACE, rows)
