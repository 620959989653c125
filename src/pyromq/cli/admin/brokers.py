"""Admin commands about brokers and the cluster they make up."""

import time
from collections.abc import Iterator, Mapping
from typing import Annotated

import typer

from pyromq.cli.admin.command import Session, Subject, repeated
from pyromq.cli.options import Broker, Cluster, Interval, OnOff, ShortCluster, at_most_one, one_of
from pyromq.cli.output import Lines, Output, Parts, Record, Rows
from pyromq.client.errors import ClientError

commands = Subject("Brokers and clusters")

Key = Annotated[str, typer.Option("--key", "-k", help="Name of the setting, as in broker.conf.")]
Value = Annotated[str, typer.Option("--value", "-v", help="Its new value.")]
MORE = ("Cluster Name", "Broker Name", "In Total Yest", "Out Total Yest", "In Total Today", "Out Total Today")
USUAL = (
    "Cluster Name", "Broker Name", "BID", "Addr", "Version", "InTPS", "OutTPS", "Timer Behind", "PC Wait", "Hour",
    "Space", "Activated",
)  # fmt: skip


@commands.command("clusterList", "-m")
def cluster_list(
    session: Session,
    cluster: Annotated[str | None, typer.Option("--clusterName", "-c", help="Only this cluster.")] = None,
    more: Annotated[bool, typer.Option("--moreStats", "-m", help="Messages of yesterday and today.")] = False,
    interval: Interval = None,
) -> Iterator[Output]:
    """List clusters and their brokers."""
    return repeated(interval, lambda: _clusters(session, cluster, more=more))


@commands.command("brokerStatus", "-c DefaultCluster")
def broker_status(session: Session, broker: Broker = None, cluster: Cluster = None) -> Output:
    """Show the runtime figures of brokers."""
    return _records(session.admin.broker_status(**one_of(broker, cluster)))


@commands.command("getBrokerConfig", "-b 127.0.0.1:10911")
def broker_config(session: Session, broker: Broker = None, cluster: Cluster = None) -> Output:
    """Show the settings of brokers."""
    return _records(session.admin.broker_config(**at_most_one(broker, cluster)))


@commands.command("updateBrokerConfig", "-b 127.0.0.1:10911 -k brokerPermission -v 6")
def update_broker_config(
    session: Session,
    key: Key,
    value: Value,
    broker: Broker = None,
    cluster: Cluster = None,
    everyone: Annotated[OnOff, typer.Option("--updateAllBroker", "-a", help="With -c: slaves too.")] = OnOff.FALSE,
) -> Output:
    """Change a setting of brokers while they run."""
    where = one_of(broker, cluster)
    if everyone and cluster is not None:
        changed = []
        for address in _addresses(session, cluster):
            changed += session.admin.update_broker_config({key: value}, broker=address)
    else:
        changed = session.admin.update_broker_config({key: value}, **where)
    return Lines([f"{name}: {key} = {value}" for name in changed], {"key": key, "value": value, "on": changed})


@commands.command("cleanExpiredCQ", "-c DefaultCluster")
def clean_expired_queues(session: Session, broker: Broker = None, cluster: ShortCluster = None) -> Output:
    """Drop consume queues whose messages are gone."""
    return _told(session.admin.clean_expired_queues(**at_most_one(broker, cluster)))


@commands.command("deleteExpiredCommitLog", "-c DefaultCluster")
def delete_expired_logs(session: Session, broker: Broker = None, cluster: ShortCluster = None) -> Output:
    """Delete commit log files that are past their time."""
    return _told(session.admin.delete_expired_logs(**at_most_one(broker, cluster)))


@commands.command("cleanUnusedTopic", "-c DefaultCluster")
def clean_unused_topics(session: Session, broker: Broker = None, cluster: ShortCluster = None) -> Output:
    """Drop queue files of topics that no longer exist."""
    return _told(session.admin.clean_unused_topics(**at_most_one(broker, cluster)))


@commands.command("getColdDataFlowCtrInfo", "-b 127.0.0.1:10911")
def cold_data_info(session: Session, broker: Broker = None, cluster: Cluster = None) -> Output:
    """Show how brokers limit the reading of cold data."""
    found = session.admin.cold_data_info(**one_of(broker, cluster))
    return Record(found)


@commands.command("updateColdDataFlowCtrGroupConfig", "-c DefaultCluster -g billing -v 1048576")
def update_cold_data(
    session: Session,
    group: Annotated[str, typer.Option("--consumerGroup", "-g", help="Consumer group.")],
    threshold: Annotated[int, typer.Option("--threshold", "-v", min=0, help="Bytes a second.")],
    broker: Broker = None,
    cluster: Cluster = None,
) -> Output:
    """Limit how much cold data a group may read."""
    return _told(session.admin.set_cold_data_limits({group: threshold}, **one_of(broker, cluster)))


@commands.command("removeColdDataFlowCtrGroupConfig", "-c DefaultCluster -g billing")
def remove_cold_data(
    session: Session,
    group: Annotated[str, typer.Option("--consumerGroup", "-g", help="Consumer group.")],
    broker: Broker = None,
    cluster: Cluster = None,
) -> Output:
    """Take away the limit of a group on cold data."""
    return _told(session.admin.remove_cold_data_limit(group, **one_of(broker, cluster)))


@commands.command("setCommitLogReadAheadMode", "-c DefaultCluster -m 0")
def set_read_ahead(
    session: Session,
    mode: Annotated[
        int, typer.Option("--commitLogReadAheadMode", "-m", min=0, max=1, help="0 reads ahead, 1 does not.")
    ],
    broker: Broker = None,
    cluster: Cluster = None,
) -> Output:
    """Let brokers read the commit log ahead, or not."""
    return _told(session.admin.set_read_ahead(enabled=mode == 0, **one_of(broker, cluster)))


def _clusters(session: Session, wanted: str | None, *, more: bool) -> Rows:
    info = session.admin.cluster_info()
    if wanted is not None and wanted not in info.cluster_addr_table:
        raise ClientError(f"there is no cluster {wanted!r}; known are {', '.join(sorted(info.cluster_addr_table))}")
    rows: list[tuple[object, ...]] = []
    for cluster, names in sorted(info.cluster_addr_table.items()):
        if wanted not in (None, cluster):
            continue
        for name in sorted(names):
            data = info.broker_addr_table.get(name)
            for number, address in sorted(data.broker_addrs.items()) if data else ():
                try:
                    status = next(iter(session.admin.broker_status(broker=address).values()))
                except ClientError:  # registered, and does not answer
                    status = {}
                rows.append(_totals(cluster, name, status) if more else _line(cluster, name, number, address, status))
    return Rows(MORE if more else USUAL, rows)


def _line(cluster: str, name: str, number: int, address: str, status: Mapping[str, str]) -> tuple[object, ...]:
    earliest = _integer(status.get("earliestMessageTimeStamp"))
    now = time.time() * 1000
    return (
        cluster,
        name,
        number,
        address,
        status.get("brokerVersionDesc"),
        _rate(status.get("putTps")),
        _rate(status.get("getTransferredTps") or status.get("getTransferedTps")),
        _integer(status.get("timerReadBehind")),
        _integer(status.get("pageCacheLockTimeMills")),
        max(0.0, (now - earliest) / 3_600_000) if earliest is not None and earliest > 0 else 0.0,
        _number(status.get("commitLogDiskRatio")),
        status.get("brokerActive"),
    )


def _totals(cluster: str, name: str, status: Mapping[str, str]) -> tuple[object, ...]:
    def between(kind: str, begin: str, end: str) -> int | None:
        first, last = _integer(status.get(f"msg{kind}Total{begin}")), _integer(status.get(f"msg{kind}Total{end}"))
        return None if first is None or last is None else last - first

    yesterday, today, now = "YesterdayMorning", "TodayMorning", "TodayNow"
    return (
        cluster,
        name,
        between("Put", yesterday, today),
        between("Get", yesterday, today),
        between("Put", today, now),
        between("Get", today, now),
    )


def _addresses(session: Session, cluster: str) -> list[str]:
    info = session.admin.cluster_info()
    names = info.cluster_addr_table.get(cluster)
    if not names:
        raise ClientError(f"there is no cluster {cluster!r}")
    found = (info.broker_addr_table.get(name) for name in sorted(names))
    return [address for data in found if data for _, address in sorted(data.broker_addrs.items())]


def _records(found: Mapping[str, Mapping[str, str]]) -> Output:
    return Parts({name: Record(table, title=f"broker {name}") for name, table in found.items()})


def _told(names: list[str]) -> Output:
    return Lines([f"{name}: done" for name in names], names)


def _rate(text: str | None) -> float | None:
    """The first of the rates over 10 seconds, a minute and ten minutes."""
    return _number(text.split(" ")[0]) if text else None


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None


def _integer(text: str | None) -> int | None:
    number = _number(text)
    return None if number is None else int(number)
