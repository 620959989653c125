"""Admin commands about consumer groups."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from pyromq.cli.admin.command import Session, Subject
from pyromq.cli.admin.topics import parse_attributes
from pyromq.cli.options import Broker, Cluster, Group, OnOff, TopicName, Where, one_of, read_list, read_text
from pyromq.cli.output import Lines, Output, Parts, Record, Rows
from pyromq.cli.plaintext import counted
from pyromq.client.errors import BrokerError
from pyromq.protocol.bodies.enums import MessageRequestMode
from pyromq.protocol.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig
from pyromq.protocol.codes import ResponseCode

commands = Subject("Consumer groups")


class Mode(StrEnum):
    """How members of a group get messages."""

    PULL = "PULL"
    POP = "POP"


@commands.command("updateSubGroup", "-c DefaultCluster -g billing -r 5")
def update_group(
    session: Session,
    group: Group,
    broker: Broker = None,
    cluster: Cluster = None,
    enable: Annotated[OnOff | None, typer.Option("--consumeEnable", "-s", help="May consume.")] = None,
    from_min: Annotated[OnOff | None, typer.Option("--consumeFromMinEnable", "-m", help="May start early.")] = None,
    broadcast: Annotated[OnOff | None, typer.Option("--consumeBroadcastEnable", "-d", help="May broadcast.")] = None,
    orderly: Annotated[OnOff | None, typer.Option("--consumeMessageOrderly", "-o", help="Pops in order.")] = None,
    retry_queues: Annotated[
        int | None, typer.Option("--retryQueueNums", "-q", min=0, help="Queues of its retry topic.")
    ] = None,
    retry_max: Annotated[
        int | None, typer.Option("--retryMaxTimes", "-r", min=-1, help="Retries before the dead letters.")
    ] = None,
    retry_policy: Annotated[
        str | None, typer.Option("--groupRetryPolicy", "-p", metavar="JSON", help="Time between retries.")
    ] = None,
    broker_id: Annotated[int | None, typer.Option("--brokerId", "-i", min=0, help="Broker id to read from.")] = None,
    slow_broker: Annotated[
        int | None,
        typer.Option("--whichBrokerWhenConsumeSlowly", "-w", min=0, help="Broker id to read from when slow."),
    ] = None,
    notify: Annotated[
        OnOff | None, typer.Option("--notifyConsumerIdsChanged", "-a", help="Tell members of changes.")
    ] = None,
    attributes: Annotated[
        str | None, typer.Option("--attributes", metavar="+k=v,-k", help="Attributes to set and to remove.")
    ] = None,
) -> Output:
    """Create a consumer group or change it: what is not given stays as it is on the first broker that has it."""
    where = one_of(broker, cluster)
    changes = {
        "consume_enable": _truth(enable),
        "consume_from_min_enable": _truth(from_min),
        "consume_broadcast_enable": _truth(broadcast),
        "consume_message_orderly": _truth(orderly),
        "retry_queue_nums": retry_queues,
        "retry_max_times": retry_max,
        "group_retry_policy": read_text("-p", GroupRetryPolicy, retry_policy),
        "broker_id": broker_id,
        "which_broker_when_consume_slowly": slow_broker,
        "notify_consumer_ids_changed_enable": _truth(notify),
        # A broker reads changes, +name for what to set and -name for what to remove.
        "attributes": _signed(parse_attributes(attributes)),
    }
    given = {name: value for name, value in changes.items() if value is not None}
    config = msgspec.structs.replace(_known(session, group, where), **given)
    session.admin.create_group(config, **where)
    return Record(_fields(config), title=f"group {group}")


@commands.command("updateSubGroupList", "-c DefaultCluster -f groups.json")
def update_group_list(
    session: Session,
    filename: Annotated[Path, typer.Option("--filename", "-f", help="JSON list of group configurations.")],
    broker: Broker = None,
    cluster: Cluster = None,
) -> Output:
    """Create or change the consumer groups that a file lists."""
    configs = read_list(filename, SubscriptionGroupConfig)
    session.admin.create_groups(configs, **one_of(broker, cluster))
    names = [config.group_name for config in configs]
    return Lines([f"{counted(len(names), 'group')} created or changed: {', '.join(names)}"], names)


@commands.command("deleteSubGroup", "-c DefaultCluster -g billing -r true")
def delete_group(
    session: Session,
    group: Group,
    broker: Broker = None,
    cluster: Cluster = None,
    remove_offset: Annotated[OnOff, typer.Option("--removeOffset", "-r", help="Forget its offsets too.")] = OnOff.FALSE,
) -> Output:
    """Delete a consumer group; with -c also its retry topic and its dead letters."""
    session.admin.delete_group(group, clean_offsets=bool(remove_offset), **one_of(broker, cluster))
    return Lines([f"group {group} deleted from {broker or cluster}"], {"group": group, "from": broker or cluster})


@commands.command("getConsumerConfig", "-g billing")
def consumer_config(session: Session, group: Group) -> Output:
    """Show the settings of a consumer group on each broker."""
    found = session.admin.group_config(group)
    return Parts({name: Record(_fields(config), title=f"broker {name}") for name, config in found.items()})


@commands.command("setConsumeMode", "-c DefaultCluster -t orders -g billing -m POP -q 8")
def set_consume_mode(
    session: Session,
    topic: TopicName,
    group: Group,
    mode: Annotated[Mode, typer.Option("--mode", "-m", case_sensitive=False, help="How members get messages.")],
    broker: Broker = None,
    cluster: Cluster = None,
    share_queues: Annotated[
        int, typer.Option("--popShareQueueNum", "-q", help="Queues that members share when they pop.")
    ] = 0,
) -> Output:
    """Choose whether members of a group pull a topic or pop it."""
    session.admin.set_request_mode(
        group, topic, MessageRequestMode(mode.value), share_queues=share_queues, **one_of(broker, cluster)
    )
    return Record({"group": group, "topic": topic, "mode": mode, "popShareQueueNum": share_queues})


@commands.command("listGroups")
def list_groups(session: Session) -> Output:
    """List all consumer groups, and on which brokers they may consume (not in mqadmin)."""
    rows = [
        (name, broker, config.consume_enable, config.retry_max_times)
        for broker, table in session.admin.group_configs().items()
        for name, config in sorted(table.subscription_group_table.items())
    ]
    return Rows(("Group", "Broker Name", "Enabled", "Retries"), sorted(rows))


def _known(session: Session, group: str, where: Where) -> SubscriptionGroupConfig:
    try:
        found = session.admin.group_config(group, **where)
    except BrokerError as error:
        if error.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
            raise
        return SubscriptionGroupConfig(group_name=group)
    return msgspec.structs.replace(next(iter(found.values())), attributes={})


def _truth(value: OnOff | None) -> bool | None:
    return None if value is None else bool(value)


def _signed(changes: dict[str, str | None]) -> dict[str, str] | None:
    signed = {f"-{name}" if value is None else f"+{name}": value or "" for name, value in changes.items()}
    return signed or None


def _fields(config: SubscriptionGroupConfig) -> dict[str, object]:
    fields: dict[str, object] = msgspec.to_builtins(config)
    return {name: "" if value is None else value for name, value in fields.items()}
