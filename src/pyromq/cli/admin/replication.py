"""Admin commands about replication."""

from collections.abc import Iterator
from typing import Annotated

import typer

from pyromq.cli.admin.command import Session, Subject, repeated
from pyromq.cli.options import Broker, Cluster, Interval, one_of
from pyromq.cli.output import Moment, Output, Parts, Record, Rows
from pyromq.protocol.bodies.replication import EpochEntryCache, HARuntimeInfo

commands = Subject("Replication")

SLAVES = ("Slave Addr", "Slave Ack Offset", "Diff", "Transfer Speed KB/s", "Status", "Transfer From Where")


@commands.command("haStatus", "-c DefaultCluster")
def ha_status(
    session: Session, broker: Broker = None, cluster: Cluster = None, interval: Interval = None
) -> Iterator[Output]:
    """Show how replication goes, as brokers see it."""
    where = one_of(broker, cluster)

    def look() -> Output:
        found = session.admin.ha_status(**where)
        return Parts({name: _master(name, info) if info.master else _slave(name, info) for name, info in found.items()})

    return repeated(interval, look)


@commands.command("getBrokerEpoch", "-b broker-a")
def broker_epoch(
    session: Session,
    broker: Annotated[str | None, typer.Option("--brokerName", "-b", help="Broker name.")] = None,
    cluster: Cluster = None,
    interval: Interval = None,
) -> Iterator[Output]:
    """Show the epochs of the logs of brokers under a controller."""
    where = one_of(broker, cluster)

    def look() -> Output:
        return Parts({name: _epochs(cache) for name, cache in session.admin.broker_epochs(**where).items()})

    return repeated(interval, look)


@commands.command("resetMasterFlushOffset", "-b 127.0.0.1:10921 -o 0")
def reset_master_flush_offset(
    session: Session,
    broker: Annotated[str, typer.Option("--brokerAddr", "-b", metavar="host:port", help="The slave.")],
    offset: Annotated[int, typer.Option("--offset", "-o", min=0, help="How far the master has flushed.")],
) -> Output:
    """Tell a slave how far its master has flushed."""
    session.admin.reset_master_flush_offset(broker, offset)
    return Record({"broker": broker, "masterFlushOffset": offset})


def _master(name: str, info: HARuntimeInfo) -> Output:
    rows = [
        (
            each.addr,
            each.slave_ack_offset,
            each.diff,
            each.transferred_byte_in_second / 1024,
            "OK" if each.in_sync else "Fall Behind",
            each.transfer_from_where,
        )
        for each in info.ha_connection_info
    ]
    facts = {"master": name, "maxOffset": info.master_commit_log_max_offset, "inSyncSlaves": info.in_sync_slave_nums}
    return Rows(SLAVES, rows, facts)


def _slave(name: str, info: HARuntimeInfo) -> Output:
    client = info.ha_client_runtime_info
    return Record(
        {
            "slave": name,
            "masterAddr": client.master_addr or "",
            "maxOffset": client.max_offset,
            "masterFlushOffset": client.master_flush_offset,
            "transferSpeedKBs": client.transferred_byte_in_second / 1024,
            "lastRead": Moment(client.last_read_timestamp),
            "lastWrite": Moment(client.last_write_timestamp),
        }
    )


def _epochs(cache: EpochEntryCache) -> Output:
    rows = [(entry.epoch, entry.start_offset, entry.end_offset) for entry in cache.epoch_list]
    facts = {
        "cluster": cache.cluster_name,
        "broker": cache.broker_name,
        "brokerId": cache.broker_id,
        "maxOffset": cache.max_offset,
    }
    return Rows(("Epoch", "Start Offset", "End Offset"), rows, facts)
