"""Admin commands that look for messages: by id, key, place; and for their traces."""

from typing import Annotated

import typer

from pyromq.cli.admin.command import Session, Subject
from pyromq.cli.options import OnOff, Topic
from pyromq.cli.output import Moment, Output, Parts, Record, Rows, body_text
from pyromq.cli.times import since, until
from pyromq.client.errors import ClientError
from pyromq.protocol.message import Message, MessageQueue, ReceivedMessage
from pyromq.protocol.names import TRACE_TOPIC
from pyromq.protocol.properties import RESERVED

commands = Subject("Messages")

MessageId = Annotated[str, typer.Option("--msgId", "-i", help="Id of the message.")]
Group = Annotated[str | None, typer.Option("--consumerGroup", "-g", help="With -d: have it consumed again.")]
Client = Annotated[str | None, typer.Option("--clientId", "-d", help="With -g: the member that is to consume it.")]
Charset = Annotated[str, typer.Option("--bodyFormat", "-f", metavar="charset", help="Charset of the body.")]
Begin = Annotated[str, typer.Option("--beginTimestamp", "-b", metavar="time", help="Stored at or after this.")]
End = Annotated[str | None, typer.Option("--endTimestamp", "-e", metavar="time", help="Stored before this.")]


@commands.command("queryMsgById", "-t orders -i 7F00000100002A9F0000000000000000", accepted={"-c": "--cluster"})
def query_by_id(
    session: Session,
    topic: Topic,
    message_id: Annotated[str, typer.Option("--msgId", "-i", help="One id or several, separated by commas.")],
    group: Group = None,
    client_id: Client = None,
    resend: Annotated[OnOff, typer.Option("--sendMessage", "-s", help="Send it again.")] = OnOff.FALSE,
    unit: Annotated[str | None, typer.Option("--unitName", "-u", help="Unit of the producer that sends again.")] = None,
    body_format: Charset = "utf-8",
) -> Output:
    """Show messages by their ids and what groups did with them."""
    found = {each: session.admin.view_message(topic, each) for each in filter(None, message_id.split(","))}
    if resend:
        return _sent_again(session, list(found.values()), unit)
    if group is not None and client_id is not None:
        return Parts({each: _consumed(session, message, group, client_id) for each, message in found.items()})
    return Parts({each: _with_tracks(session, message, body_format) for each, message in found.items()})


@commands.command("queryMsgByKey", "-t orders -k o-17", accepted={"-c": "--cluster"})
def query_by_key(
    session: Session,
    topic: Topic,
    key: Annotated[str, typer.Option("--msgKey", "-k", help="Key.")],
    begin: Begin = "0",
    end: End = None,
    max_num: Annotated[int, typer.Option("--maxNum", "-m", min=1, help="At most so many.")] = 64,
) -> Output:
    """Find messages by key."""
    found = session.admin.query_message(topic, key, max_num, since(begin), until(end))
    return _listed(found)


@commands.command("queryMsgByUniqueKey", "-t orders -i 7F0000010BB818B4AAC22D21A2BB0000", accepted={"-c": "--cluster"})
def query_by_unique_key(
    session: Session,
    topic: Topic,
    message_id: MessageId,
    group: Group = None,
    client_id: Client = None,
    show_all: Annotated[bool, typer.Option("--showAll", "-a", help="All copies, up to 32.")] = False,
) -> Output:
    """Show a message by the id that its sender gave it."""
    if show_all:
        return _listed(session.admin.messages_of_id(topic, message_id, max_num=32))
    message = session.admin.messages_of_id(topic, message_id, max_num=32)[0]
    if group is not None and client_id is not None:
        return _consumed(session, message, group, client_id)
    return _with_tracks(session, message, "utf-8")


@commands.command("queryMsgByOffset", "-t orders -b broker-a -i 0 -o 4711")
def query_by_offset(
    session: Session,
    topic: Topic,
    broker: Annotated[str, typer.Option("--brokerName", "-b", help="Broker name.")],
    queue: Annotated[int, typer.Option("--queueId", "-i", min=0, help="Queue.")],
    offset: Annotated[int, typer.Option("--offset", "-o", min=0, help="Offset in the queue.")],
    body_format: Charset = "utf-8",
) -> Output:
    """Show the message at one offset of a queue."""
    message = session.admin.message_at(MessageQueue(topic, broker, queue), offset)
    return _with_tracks(session, message, body_format)


@commands.command("queryMsgTraceById", "-i 7F0000010BB818B4AAC22D21A2BB0000")
def query_trace(
    session: Session,
    message_id: MessageId,
    topic: Annotated[str, typer.Option("--traceTopic", "-t", help="Topic of traces.")] = TRACE_TOPIC,
    begin: Begin = "0",
    end: End = None,
    max_num: Annotated[int, typer.Option("--maxNum", "-c", min=1, help="At most so many trace messages.")] = 64,
) -> Output:
    """Show who sent a message and who consumed it."""
    found = session.admin.message_trace(
        message_id, topic=topic, begin_ms=since(begin), end_ms=until(end), max_num=max_num
    )
    sent = [
        ("Pub", each.group, bean.client_host, Moment(each.timestamp), each.cost_ms, each.success)
        for each in found.sends
        for bean in each.beans[:1]
    ]
    consumed = []
    for each in found.consumptions:
        known = each.before or each.after
        host = known.beans[0].client_host if known is not None and known.beans else None
        began = Moment(known.timestamp if known is not None else 0)
        consumed.append(("Sub", each.group, host, began, each.after.cost_ms if each.after else None, each.success))
    return Parts(
        {
            "sent": Rows(("Type", "Producer Group", "Client Host", "Send Time", "Cost Times", "Success"), sent),
            "consumed": Rows(
                ("Type", "Consumer Group", "Client Host", "Consume Time", "Cost Times", "Success"), consumed
            ),
        }
    )


@commands.command("resumeCheckHalfMessage", "-t orders -i 7F00000100002A9F0000000000000000")
def resume_half_message(session: Session, topic: Topic, message_id: MessageId) -> Output:
    """Have the broker ask again about a half message that it gave up on (not in mqadmin)."""
    session.admin.resume_half_message(topic, message_id)
    return Record({"topic": topic, "msgId": message_id, "resumed": True})


def message_fields(message: ReceivedMessage, charset: str = "utf-8") -> dict[str, object]:
    """A message as mqadmin's queries describe it."""
    text = body_text(message.body, charset)
    return {
        "msgId": message.message_id,
        "offsetId": message.offset_message_id,
        "topic": message.topic,
        "tags": message.tags or "",
        "keys": " ".join(message.keys),
        "brokerName": message.broker_name,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "commitLogOffset": message.physical_offset,
        "reconsumeTimes": message.reconsume_times,
        "bornTimestamp": Moment(message.born_timestamp),
        "storeTimestamp": Moment(message.store_timestamp),
        "bornHost": str(message.born_host),
        "storeHost": str(message.store_host),
        "systemFlag": message.sys_flag,
        "properties": dict(sorted(message.properties.items())),
        "body": text if text is not None else message.body,
    }


def _with_tracks(session: Session, message: ReceivedMessage, charset: str) -> Output:
    try:
        tracks = session.admin.message_track(message)
    except ClientError:  # the message is what was asked for
        tracks = []
    rows = [(track.group, track.track_type, track.reason or "") for track in tracks]
    return Parts(
        {"message": Record(message_fields(message, charset)), "tracks": Rows(("Group", "Track", "Reason"), rows)}
    )


def _listed(messages: list[ReceivedMessage]) -> Output:
    rows = [
        (each.message_id, each.broker_name, each.queue_id, each.queue_offset, Moment(each.store_timestamp))
        for each in messages
    ]
    return Rows(("Message ID", "Broker Name", "QID", "Offset", "Store Time"), rows)


def _consumed(session: Session, message: ReceivedMessage, group: str, client_id: str) -> Output:
    done = session.admin.consume_directly(group, client_id, message.topic, message.offset_message_id)
    return Record(
        {
            "msgId": message.message_id,
            "consumeResult": done.consume_result,
            "spentTimeMills": done.spent_time_mills,
            "order": done.order,
            "autoCommit": done.auto_commit,
            "remark": done.remark or "",
        }
    )


def _sent_again(session: Session, messages: list[ReceivedMessage], unit: str | None) -> Output:
    from pyromq.client.blocking.producer import Producer  # noqa: PLC0415 - only this one sends

    rows = []
    with Producer("ReSendMsgById", unit_name=unit, **session.options) as producer:
        for old in messages:
            message = Message(old.topic, old.body, tags=old.tags, keys=old.keys, flag=old.flag)
            message.properties |= {name: value for name, value in old.properties.items() if name not in RESERVED}
            result = producer.send(message)
            rows.append((old.message_id, result.message_id, result.status))
    return Rows(("Message ID", "New Message ID", "Send Result"), rows)
