"""Brokers as processes: the cluster, runtime figures, settings, statistics, cleaning, replication, cold data."""

from collections.abc import Mapping

from pyromq.client.admin.reach import Server, Subject, as_client_errors
from pyromq.client.errors import ClientError
from pyromq.protocol import javaproperties
from pyromq.protocol.bodies.replication import EpochEntryCache, HARuntimeInfo
from pyromq.protocol.bodies.route import ClusterInfo
from pyromq.protocol.bodies.stats import BrokerStatsData
from pyromq.protocol.bodies.tables import KVTable
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import BodyError
from pyromq.protocol.headers.admin import SetCommitlogReadModeHeader, ViewBrokerStatsDataHeader
from pyromq.protocol.headers.replication import ResetMasterFlushOffsetHeader

CLEANING_PATIENCE = 6.0
"""Deleting files takes its time."""


class BrokerMethods(Subject):
    """What `Admin` does with brokers. Without `broker` and `cluster`, all masters are meant."""

    async def cluster_info(self) -> ClusterInfo:
        """All clusters, their brokers and the addresses of these."""
        return await self._reach().cluster()

    async def broker_status(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> dict[str, dict[str, str]]:
        """Runtime figures of each broker under RocketMQ's names, such as `putTps` and `commitLogMaxOffset`."""
        reach = self._reach()

        async def one(server: Server) -> dict[str, str]:
            table = await reach.read(server, RequestCode.GET_BROKER_RUNTIME_INFO, KVTable)
            return dict(sorted(table.table.items()))

        return await reach.each("reading runtime figures", await reach.masters(broker=broker, cluster=cluster), one)

    async def broker_config(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> dict[str, dict[str, str]]:
        """The settings of each broker under their property names."""
        reach = self._reach()

        async def one(server: Server) -> dict[str, str]:
            return properties_of(await reach.ask(server, RequestCode.GET_BROKER_CONFIG))

        return await reach.each("reading settings", await reach.masters(broker=broker, cluster=cluster), one)

    async def update_broker_config(
        self, changes: Mapping[str, str], *, broker: str | None = None, cluster: str | None = None
    ) -> list[str]:
        """Change settings while brokers run; the names of those that took them. Brokers refuse what is unsafe."""
        reach = self._reach()
        body = properties_text(changes)
        masters = await reach.masters(broker=broker, cluster=cluster)
        done = await reach.ask_each(
            f"changing {', '.join(sorted(changes))}", masters, RequestCode.UPDATE_BROKER_CONFIG, body=body
        )
        return list(done)

    async def broker_stats(self, broker: str, name: str, key: str) -> BrokerStatsData:
        """One counter of a broker over the last minute, hour and day, for example `TOPIC_PUT_NUMS` of a topic."""
        reach = self._reach()
        header = ViewBrokerStatsDataHeader(stats_name=name, stats_key=key)
        return await reach.read(await reach.master(broker), RequestCode.VIEW_BROKER_STATS_DATA, BrokerStatsData, header)

    async def clean_expired_queues(self, *, broker: str | None = None, cluster: str | None = None) -> list[str]:
        """Drop consume queues whose messages are gone; the names of the brokers that did."""
        return await self._clean(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, broker, cluster)

    async def delete_expired_logs(self, *, broker: str | None = None, cluster: str | None = None) -> list[str]:
        """Delete commit log files that are past their time now; the names of the brokers that did."""
        return await self._clean(RequestCode.DELETE_EXPIRED_COMMITLOG, broker, cluster)

    async def clean_unused_topics(self, *, broker: str | None = None, cluster: str | None = None) -> list[str]:
        """Drop queue files of topics that no longer exist; the names of the brokers that did."""
        return await self._clean(RequestCode.CLEAN_UNUSED_TOPIC, broker, cluster)

    async def ha_status(self, *, broker: str | None = None, cluster: str | None = None) -> dict[str, HARuntimeInfo]:
        """Replication as each broker sees it."""
        reach = self._reach()
        masters = await reach.masters(broker=broker, cluster=cluster)
        return await reach.read_each("reading replication", masters, RequestCode.GET_BROKER_HA_STATUS, HARuntimeInfo)

    async def broker_epochs(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> dict[str, EpochEntryCache]:
        """The epochs of each broker's log, where a controller elects masters."""
        reach = self._reach()
        masters = await reach.masters(broker=broker, cluster=cluster)
        return await reach.read_each("reading epochs", masters, RequestCode.GET_BROKER_EPOCH_CACHE, EpochEntryCache)

    async def reset_master_flush_offset(self, broker: str, offset: int) -> None:
        """Tell a slave (by address) how far its master has flushed."""
        reach = self._reach()
        header = ResetMasterFlushOffsetHeader(master_flush_offset=offset)
        await reach.ask(await reach.master(broker), RequestCode.RESET_MASTER_FLUSH_OFFSET, header)

    async def cold_data_info(self, *, broker: str | None = None, cluster: str | None = None) -> dict[str, str]:
        """How each broker limits reading of cold data: the JSON text that it answers with."""
        reach = self._reach()

        async def one(server: Server) -> str:
            return _text(await reach.ask(server, RequestCode.GET_COLD_DATA_FLOW_CTR_INFO))

        return await reach.each("reading cold data limits", await reach.masters(broker=broker, cluster=cluster), one)

    async def set_cold_data_limits(
        self, limits: Mapping[str, int], *, broker: str | None = None, cluster: str | None = None
    ) -> list[str]:
        """Limit how much cold data groups may read, by group name."""
        reach = self._reach()
        body = properties_text({group: str(limit) for group, limit in limits.items()})
        masters = await reach.masters(broker=broker, cluster=cluster)
        done = await reach.ask_each(
            "setting cold data limits", masters, RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, body=body
        )
        return list(done)

    async def remove_cold_data_limit(
        self, group: str, *, broker: str | None = None, cluster: str | None = None
    ) -> list[str]:
        """Take away the limit of one group."""
        reach = self._reach()
        masters = await reach.masters(broker=broker, cluster=cluster)
        done = await reach.ask_each(
            "removing a cold data limit", masters, RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, body=group.encode()
        )
        return list(done)

    async def set_read_ahead(
        self, *, enabled: bool, broker: str | None = None, cluster: str | None = None
    ) -> list[str]:
        """Let brokers read the commit log ahead, or not."""
        reach = self._reach()
        header = SetCommitlogReadModeHeader(read_ahead_mode=0 if enabled else 1)
        masters = await reach.masters(broker=broker, cluster=cluster)
        done = await reach.ask_each("setting read-ahead", masters, RequestCode.SET_COMMITLOG_READ_MODE, header)
        return list(done)

    async def _clean(self, code: RequestCode, broker: str | None, cluster: str | None) -> list[str]:
        reach = self._reach()
        done = await reach.ask_each(
            "cleaning", await reach.masters(broker=broker, cluster=cluster), code, patience=CLEANING_PATIENCE
        )
        return list(done)


def properties_text(changes: Mapping[str, str]) -> bytes:
    """Settings as the text that servers read. Raises ClientError when there are none."""
    if not changes:
        raise ClientError("no settings to change were given")
    return javaproperties.dumps(dict(changes)).encode()


def properties_of(response: Command) -> dict[str, str]:
    """Settings that a server answered with, in order of their names."""
    with as_client_errors("the server"):
        return dict(sorted(javaproperties.loads(_text(response)).items()))


def _text(response: Command) -> str:
    try:
        return bytes(response.body).decode()
    except UnicodeDecodeError as error:
        raise BodyError(f"the text is not UTF-8: {error}") from None
