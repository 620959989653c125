"""Admin commands that send: one message, or some to see how long that takes."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from pyromq.cli.admin.command import Session, Subject
from pyromq.cli.options import ArgumentsError, OnOff, Topic
from pyromq.cli.output import Lines, Moment, Output, Rows
from pyromq.client.errors import ClientError
from pyromq.clock import wall_clock
from pyromq.protocol.message import Message, MessageQueue

if TYPE_CHECKING:
    from pyromq.client.blocking.producer import Producer

commands = Subject("Sending")

Size = Annotated[int, typer.Option("--size", "-s", min=1, max=4 * 1024 * 1024, help="Bytes of a message.")]
Amount = Annotated[int, typer.Option("--amount", "-a", min=1, help="How many messages.")]


@commands.command("sendMessage", "-t orders -p 'two pizzas' -k o-17 -c paid")
def send_message(
    session: Session,
    topic: Topic,
    body: Annotated[str, typer.Option("--body", "-p", help="The body, as text.")],
    keys: Annotated[str | None, typer.Option("--key", "-k", help="Keys, separated by blanks.")] = None,
    tags: Annotated[str | None, typer.Option("--tags", "-c", help="Tag.")] = None,
    broker: Annotated[str | None, typer.Option("--broker", "-b", help="Broker name.")] = None,
    queue: Annotated[int | None, typer.Option("--qid", "-i", min=0, help="With -b: queue.")] = None,
    trace: Annotated[OnOff, typer.Option("--msgTraceEnable", "-m", help="Write a trace.")] = OnOff.FALSE,
) -> Output:
    """Send a message."""
    if queue is not None and broker is None:
        raise ArgumentsError("a queue (-i) needs its broker (-b)")
    message = Message(topic, body.encode(), tags=tags, keys=keys or ())
    with _producer(session, trace=bool(trace)) as producer:
        target = None if broker is None else _queue(session, topic, broker, queue)
        result = producer.send(message, queue=target) if target is not None else producer.send(message)
    row = (result.queue.broker_name, result.queue.queue_id, result.status, result.message_id)
    return Rows(("Broker Name", "QID", "Send Result", "Msg Id"), [row])


@commands.command("sendMsgStatus", "-b broker-a -c 5")
def send_status(
    session: Session,
    broker: Annotated[str, typer.Option("--brokerName", "-b", help="Broker name; the topic of that name is used.")],
    size: Annotated[int, typer.Option("--messageSize", "-s", min=1, help="Bytes of a message.")] = 128,
    count: Annotated[int, typer.Option("--count", "-c", min=1, help="How many messages.")] = 50,
) -> Output:
    """Send some messages to a broker and show how long each took."""
    rows = []
    with _producer(session) as producer:
        for number in range(count):
            spent, result = _timed(producer, Message(broker, _payload(size)))
            rows.append((number, spent, result))
    return Rows(("Number", "RT", "Send Result"), rows)


@commands.command("checkMsgSendRT", "-t orders -a 10 -s 128")
def check_send_time(session: Session, topic: Topic, amount: Amount = 100, size: Size = 128) -> Output:
    """Send to the queues of a topic in turn and show how long that takes."""
    rows = []
    with _producer(session) as producer:
        queues = session.admin.queues(topic)
        for number in range(amount):
            queue = queues[number % len(queues)]
            spent, result = _timed(producer, Message(topic, _payload(size)), queue)
            rows.append((queue.broker_name, queue.queue_id, result, spent))
    # The first one also makes the connection.
    later = [row[3] for row in rows[1:]] or [row[3] for row in rows]
    return Rows(("Broker Name", "QID", "Send Result", "RT"), rows, {"averageRt": sum(later) / len(later)})


@commands.command("clusterRT", "-a 10 --once")
def cluster_time(
    session: Session,
    amount: Amount = 100,
    size: Size = 128,
    cluster: Annotated[str | None, typer.Option("--cluster", "-c", help="Only this cluster.")] = None,
    as_log: Annotated[OnOff, typer.Option("--printLog", "-p", help="Lines for a log.")] = OnOff.FALSE,
    room: Annotated[str, typer.Option("--machineRoom", "-m", help="Name of the machine room, for the log.")] = "noname",
    interval: Annotated[int, typer.Option("--interval", "-i", min=1, metavar="seconds", help="Between rounds.")] = 10,
    once: Annotated[bool, typer.Option("--once", help="One round only.")] = False,
) -> Iterator[Output]:
    """Measure how long sending to each broker takes, again and again."""
    while True:
        with _producer(session) as producer:
            rows = [
                (name, broker, *_round(producer, broker, amount, size))
                for name, brokers in sorted(session.admin.cluster_info().cluster_addr_table.items())
                for broker in sorted(brokers)
                if cluster in (None, name)
            ]
        if as_log:
            now = Moment(wall_clock())
            yield Lines([f"{now}|{room}|{name}|{broker}|{rt:.2f}" for name, broker, rt, _, _ in rows])
        else:
            yield Rows(("Cluster Name", "Broker Name", "RT", "Success Count", "Fail Count"), rows)
        if once:
            return
        time.sleep(interval)


def _round(producer: "Producer", topic: str, amount: int, size: int) -> tuple[float, int, int]:
    """Average milliseconds, successes and failures; the first message, which may connect, is not in the average."""
    outcomes = [_timed(producer, Message(topic, _payload(size))) for _ in range(amount + 1)][1:]
    good = [spent for spent, result in outcomes if result == "SEND_OK"]
    return sum(good) / len(good) if good else 0.0, len(good), len(outcomes) - len(good)


def _producer(session: Session, *, trace: bool = False) -> "Producer":
    from pyromq.client.blocking.producer import Producer  # noqa: PLC0415 - --help needs no client

    return Producer("pyromq-admin", enable_trace=trace, send_timeout=session.timeout, **session.options)


def _timed(producer: "Producer", message: Message, queue: MessageQueue | None = None) -> tuple[float, str]:
    begin = time.perf_counter()
    try:
        result = str(producer.send(message, queue=queue).status)
    except ClientError as error:
        result = str(error)
    return (time.perf_counter() - begin) * 1000, result


def _queue(session: Session, topic: str, broker: str, number: int | None) -> MessageQueue:
    for queue in session.admin.queues(topic):
        if queue.broker_name == broker and number in (None, queue.queue_id):
            return queue
    what = f"queue {number}" if number is not None else "queues"
    raise ClientError(f"topic {topic!r} has no {what} on broker {broker!r}")


def _payload(size: int) -> bytes:
    return b"hello pyromq " * (size // 13) + b"." * (size % 13)
