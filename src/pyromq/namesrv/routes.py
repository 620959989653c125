"""The route table: brokers, clusters, who is alive, and through `TopicTable` who has which queues.

Pure: no sockets, time from a clock in seconds. Everything is lost with the process and refilled by registrations.

Invariants: a broker name is in `brokers` exactly while it has an address, in a cluster exactly while it is in
`brokers`, and in the topic table only while it is in `brokers`; every address in `brokers` is in `live`, so that it
expires, and `live` is bounded. A broker name belongs to one cluster, that of its first registration, and each of its
ids to one address, until that is gone.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.members import RIVAL_SECONDS, BrokerKey, GroupChange, LiveBroker, Registered, Registration
from pyromq.namesrv.names import check_address, check_name, is_name
from pyromq.namesrv.topics import TopicTable
from pyromq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pyromq.protocol.bodies.tables import DataVersion
from pyromq.protocol.bodies.topics import TopicConfig
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.routes import MASTER_ID, WRITE

log = logging.getLogger(__name__)

DEFAULT_TIMEOUT = 120.0
MAX_TIMEOUT = 3600.0
MAX_FILTER_SERVERS = 64
MEMBER_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"


class RouteTable:
    """All tables of the name server. Reads its switches and bounds from the live configuration."""

    def __init__(self, config: NamesrvConfig, clock: Callable[[], float]) -> None:
        self._config = config
        self._clock = clock
        self.topics = TopicTable(max_topics=config.max_topics, max_entries=config.max_queue_entries)
        self.brokers: dict[str, BrokerData] = {}
        self.clusters: dict[str, set[str]] = {}
        self.live: dict[BrokerKey, LiveBroker] = {}
        self.filter_servers: dict[BrokerKey, list[str]] = {}

    def register(self, registration: Registration, connection: object = None) -> Registered:
        """Take in what a broker says about itself. Raises ValidationError for bad names and at the broker bound.

        It also raises that, with the code NAME_TAKEN, for the name of another cluster's broker, and for an id that
        another address has which is still there: of two masters under one name the first stays. A newcomer that claims
        the id of a broker with an older state takes its place, of one with a newer state it is ignored.

        Apache's server also refuses a first registration that holds exactly one topic, lest it be an increment without
        its base; here an increment is completed by the next full registration, which adds whatever is missing even
        under a known version.
        """
        self._check(registration)
        self._check_place(registration)
        key = registration.key
        known = self.live.get(key)
        if known is not None and known.name != registration.name:
            self._leave(key, known.name)
        group = self._group(registration)
        addresses = group.broker_addrs
        smallest = min(addresses, default=MASTER_ID)
        for broker_id, address in list(addresses.items()):
            if address == registration.address and broker_id != registration.broker_id:
                del addresses[broker_id]
        if self._outdated(registration, addresses.get(registration.broker_id)):
            log.warning("broker %s at %s ignored: its id belongs to a newer state", group.broker_name, key.address)
            self.live.pop(key, None)
            self.filter_servers.pop(key, None)
            return Registered()
        first = registration.broker_id not in addresses
        addresses[registration.broker_id] = registration.address
        if self._speaks_for_group(registration, addresses):
            self._take_topics(registration, first=first)
        self.live[key] = LiveBroker(
            registration.name,
            self._clock(),
            _timeout(registration.timeout),
            registration.version,
            connection,
            registration.ha_address,
            known.rival if known is not None else "",
            known.rival_seen if known is not None else 0.0,
        )
        self._take_filter_servers(registration)
        change = None
        if registration.broker_id < smallest:
            change = _change(group, ha_address=registration.ha_address)
        return self._answer(registration, addresses, change)

    def unregister(self, cluster: str, name: str, address: str) -> GroupChange | None:
        """Forget one broker; returns the change of its group when it had the smallest id and others remain.

        Raises ValidationError for a name that belongs to another cluster.
        """
        self._check_cluster(cluster, name)
        return self._leave(BrokerKey(cluster, address), name)

    def _leave(self, key: BrokerKey, name: str) -> GroupChange | None:
        address = key.address
        live = self.live.get(key)
        if live is not None and live.name == name:
            del self.live[key]
            self.filter_servers.pop(key, None)
        group = self.brokers.get(name)
        if group is None or group.cluster != key.cluster:
            return None
        smallest = min(group.broker_addrs)
        group.broker_addrs = {i: known for i, known in group.broker_addrs.items() if known != address}
        if not group.broker_addrs:
            self._forget(name)
            return None
        if group.enable_acting_master and MASTER_ID not in group.broker_addrs:
            self.topics.forbid_writes(name)
        return _change(group, offline_address=address) if smallest not in group.broker_addrs else None

    def disconnected(self, connection: object) -> list[GroupChange]:
        """Forget every broker that registered over this connection and not over another one since."""
        gone = [(key, live.name) for key, live in self.live.items() if live.connection is connection]
        return self._drop(gone)

    def expire(self) -> tuple[list[object], list[GroupChange]]:
        """Forget brokers that fell silent; returns their connections, to be closed, and the changed groups."""
        now = self._clock()
        silent = [(key, live) for key, live in self.live.items() if live.is_silent(now)]
        for key, live in silent:
            log.warning("broker %s at %s was silent for %.0f s: removed", live.name, key.address, live.timeout)
        return [live.connection for _, live in silent], self._drop([(key, live.name) for key, live in silent])

    def refresh(self, cluster: str, address: str) -> None:
        """A sign of life that carries no topics."""
        live = self.live.get(BrokerKey(cluster, address))
        if live is not None:
            live.last_update = self._clock()

    def cluster_of(self, name: str) -> str | None:
        """The cluster that a broker name belongs to."""
        group = self.brokers.get(name)
        return group.cluster if group is not None else None

    def version(self, cluster: str, address: str) -> DataVersion | None:
        """The data version a broker registered last."""
        live = self.live.get(BrokerKey(cluster, address))
        return live.version if live else None

    def route(self, topic: str) -> TopicRouteData | None:
        """Queues of a topic and the brokers that have them; None unless there are both."""
        queues = [self.topics.queues(topic)[name] for name in sorted(self.topics.queues(topic))]
        groups = [self._shown(topic, entry) for entry in queues if entry.broker_name in self.brokers]
        if not groups:
            return None
        filters = {
            address: servers
            for group in groups
            for address in group.broker_addrs.values()
            if (servers := self.filter_servers.get(BrokerKey(group.cluster, address)))
        }
        return TopicRouteData(
            queue_datas=queues,
            broker_datas=groups,
            filter_server_table=filters,
            topic_queue_mapping_by_broker=dict(self.topics.mappings(topic)) or None,
        )

    def register_topic(self, topic: str, queues: Sequence[QueueData]) -> None:
        """Add queues of known brokers to one topic. Raises ValidationError for bad or unknown names, at the bounds."""
        check_name("topic", topic)
        for entry in queues:
            if entry.broker_name not in self.brokers:
                raise ValidationError(f"broker {entry.broker_name[:255]!r} is unknown", ResponseCode.SYSTEM_ERROR)
        for entry in queues:
            if not self.topics.put(topic, entry):
                raise ValidationError(self._full(), ResponseCode.SYSTEM_ERROR)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, or only its queues on the brokers of one cluster."""
        self.topics.remove(topic, self.clusters.get(cluster, set()) if cluster else None)

    def _check(self, registration: Registration) -> None:
        check_name("cluster", registration.cluster)
        check_name("broker name", registration.name)
        check_address("broker address", registration.address)
        if registration.ha_address:
            check_address("HA address", registration.ha_address)
        if registration.zone:
            check_name("zone", registration.zone)
        if registration.broker_id < 0:
            raise ValidationError(f"broker id {registration.broker_id} is negative", ResponseCode.INVALID_PARAMETER)
        if len(registration.filter_servers or ()) > MAX_FILTER_SERVERS:
            raise ValidationError(f"more than {MAX_FILTER_SERVERS} filter servers", ResponseCode.INVALID_PARAMETER)
        for server in registration.filter_servers or ():
            check_address("filter server", server)
        if registration.key not in self.live and len(self.live) >= self._config.max_brokers:
            raise ValidationError(
                f"the name server has {len(self.live)} brokers, its limit (maxBrokers); unregister one or raise it",
                ResponseCode.SYSTEM_ERROR,
            )

    def _check_cluster(self, cluster: str, name: str) -> None:
        owner = self.cluster_of(name)
        if owner is not None and owner != cluster:
            raise ValidationError(
                f"the broker name {name} belongs to the cluster {owner}, not to {cluster}: choose another brokerName, "
                f"or stop the brokers of that name in {owner} first",
                ResponseCode.NAME_TAKEN,
            )

    def _check_place(self, registration: Registration) -> None:
        """Raise ValidationError when somebody else has the name, or its id; its owner is told with its next answer."""
        self._check_cluster(registration.cluster, registration.name)
        group = self.brokers.get(registration.name)
        holder = group.broker_addrs.get(registration.broker_id) if group is not None else None
        live = self.live.get(BrokerKey(registration.cluster, holder)) if holder is not None else None
        now = self._clock()
        if live is None or holder == registration.address or live.is_silent(now):
            return
        if live.version.state_version != registration.version.state_version:
            return
        text = (
            f"{holder} is registered as {registration.name} with the id {registration.broker_id}, and "
            f"{registration.address} wants to be: only one of them can; choose another brokerName or brokerId, or stop "
            "one of them"
        )
        if (live.rival, now - live.rival_seen < RIVAL_SECONDS) != (registration.address, True):
            log.error("two brokers under one name: %s", text)
        live.rival, live.rival_seen = registration.address, now
        raise ValidationError(text, ResponseCode.NAME_TAKEN)

    def _group(self, registration: Registration) -> BrokerData:
        self.clusters.setdefault(registration.cluster, set()).add(registration.name)
        group = self.brokers.get(registration.name)
        if group is None:
            group = BrokerData(cluster=registration.cluster, broker_name=registration.name, broker_addrs={})
            self.brokers[registration.name] = group
        group.enable_acting_master = bool(registration.acting_master)
        group.zone_name = registration.zone
        return group

    def _outdated(self, registration: Registration, holder: str | None) -> bool:
        if holder is None or holder == registration.address:
            return False
        live = self.live.get(BrokerKey(registration.cluster, holder))
        return live is not None and live.version.state_version > registration.version.state_version

    def _speaks_for_group(self, registration: Registration, addresses: Mapping[int, str]) -> bool:
        if registration.broker_id == MASTER_ID:
            return True
        return registration.acting_master is not None and registration.broker_id == min(addresses)

    def _take_topics(self, registration: Registration, *, first: bool) -> None:
        name = registration.name
        changed = first or self.version(*registration.key) != registration.version
        if self._config.delete_topic_with_broker_registration and not registration.mappings:
            for topic in self.topics.of_broker(name):
                if topic not in registration.topics:
                    self.topics.remove(topic, [name])
        read_only = registration.broker_id != MASTER_ID and registration.acting_master
        for topic, topic_config in registration.topics.items():
            if not changed and name in self.topics.queues(topic):
                continue
            if not is_name(topic):
                log.warning("broker %s: topic %r left out, it is not a name", name, topic[:255])
                continue
            if not self.topics.put(topic, _queue_data(name, topic_config, read_only=bool(read_only))):
                log.error("broker %s: topic %s left out: %s", name, topic, self._full())
        if changed:
            for topic, mapping in registration.mappings.items():
                if mapping.bname == name:
                    self.topics.put_mapping(topic, mapping)

    def _take_filter_servers(self, registration: Registration) -> None:
        if registration.filter_servers:
            self.filter_servers[registration.key] = list(registration.filter_servers)
        elif registration.filter_servers is not None:
            self.filter_servers.pop(registration.key, None)

    def _answer(
        self, registration: Registration, addresses: Mapping[int, str], change: GroupChange | None
    ) -> Registered:
        master, own = addresses.get(MASTER_ID), self.live[registration.key]
        rival = own.rival if own.rival and self._clock() - own.rival_seen < RIVAL_SECONDS else None
        live = self.live.get(BrokerKey(registration.cluster, master)) if master is not None else None
        if registration.broker_id == MASTER_ID or live is None:
            return Registered(change=change, rival=rival)
        return Registered(master, live.ha_address, change, rival)

    def _drop(self, brokers: Sequence[tuple[BrokerKey, str]]) -> list[GroupChange]:
        changes = [self._leave(key, name) for key, name in brokers]
        return [change for change in changes if change is not None]

    def _forget(self, name: str) -> None:
        del self.brokers[name]
        self.topics.remove_broker(name)
        for cluster, members in list(self.clusters.items()):
            members.discard(name)
            if not members:
                del self.clusters[cluster]

    def _shown(self, topic: str, queues: QueueData) -> BrokerData:
        group = self.brokers[queues.broker_name]
        addresses = dict(sorted(group.broker_addrs.items()))
        if (
            self._config.support_acting_master
            and group.enable_acting_master
            and MASTER_ID not in addresses
            and not queues.perm & WRITE
            and not topic.startswith(MEMBER_TOPIC_PREFIX)
        ):
            addresses = {MASTER_ID: addresses.pop(min(addresses)), **addresses}
        return BrokerData(
            cluster=group.cluster,
            broker_name=group.broker_name,
            broker_addrs=addresses,
            enable_acting_master=group.enable_acting_master,
            zone_name=group.zone_name,
        )

    def _full(self) -> str:
        topics, config = self.topics, self._config
        return (
            f"the name server holds {len(topics)} topics (maxTopics {config.max_topics}) with {topics.entries} entries "
            f"(maxQueueEntries {config.max_queue_entries}); delete topics or raise the limit"
        )


def _timeout(wanted: float | None) -> float:
    return min(wanted, MAX_TIMEOUT) if wanted is not None and wanted > 0 else DEFAULT_TIMEOUT


def _queue_data(broker: str, topic: TopicConfig, *, read_only: bool) -> QueueData:
    return QueueData(
        broker_name=broker,
        read_queue_nums=topic.read_queue_nums,
        write_queue_nums=topic.write_queue_nums,
        perm=topic.perm & ~WRITE if read_only else topic.perm,
        topic_sys_flag=topic.topic_sys_flag,
    )


def _change(group: BrokerData, *, offline_address: str | None = None, ha_address: str | None = None) -> GroupChange:
    smallest = min(group.broker_addrs)
    tell = tuple(
        address
        for broker_id, address in group.broker_addrs.items()
        if offline_address is not None or len(group.broker_addrs) == 1 or broker_id != smallest
    )
    return GroupChange(group.broker_name, smallest, group.broker_addrs[smallest], tell, offline_address, ha_address)
