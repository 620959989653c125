"""The parts of a broker: adding a capability is one folder, and one line here.

Parts are started in this order, and stopped in the reverse.
"""

from pyromq.broker.admin.clients import ClientAdmin
from pyromq.broker.admin.groups import GroupAdmin
from pyromq.broker.admin.info import BrokerAdmin
from pyromq.broker.admin.offsets import OffsetAdmin
from pyromq.broker.admin.pages import HttpPages
from pyromq.broker.admin.replication import ReplicationAdmin
from pyromq.broker.admin.storage import Storage
from pyromq.broker.admin.topics import TopicAdmin
from pyromq.broker.admin.traffic import Traffic
from pyromq.broker.admin.transport import Transport
from pyromq.broker.cluster.heartbeats import Heartbeats
from pyromq.broker.cluster.members import Members
from pyromq.broker.cluster.registration import Registration
from pyromq.broker.config import BrokerConfig
from pyromq.broker.consume.assignment import Assignments
from pyromq.broker.consume.laggards import Laggards
from pyromq.broker.consume.locks import QueueLocks
from pyromq.broker.consume.pull import Puller
from pyromq.broker.consume.query import Queries
from pyromq.broker.consume.queuelooks import QueueLooks
from pyromq.broker.consume.requests import ConsumerRequests
from pyromq.broker.consume.retry import Retries
from pyromq.broker.core import Core
from pyromq.broker.delay.levels import DelayLevels
from pyromq.broker.delay.recall import Recalls
from pyromq.broker.delay.savedposition import SavedPosition
from pyromq.broker.delay.timer import TimerDelivery
from pyromq.broker.filter.filterservers import FilterProcesses, FilterServers
from pyromq.broker.grpcport import GrpcPort
from pyromq.broker.part import Part
from pyromq.broker.pop.part import PopPart
from pyromq.broker.replication.master import Master
from pyromq.broker.replication.slaves import Slaves
from pyromq.broker.replication.succession.actingmaster import ActingMaster
from pyromq.broker.replication.succession.escape import Escape
from pyromq.broker.replication.succession.onward import Onward
from pyromq.broker.send.replies import Replies
from pyromq.broker.send.sender import Sender
from pyromq.broker.tables.keeper import TableKeeper
from pyromq.broker.tables.tail import Tail
from pyromq.broker.transaction.transactions import Transactions
from pyromq.broker.writers.writers import Writers
from pyromq.protocol import names


def check_parts(config: BrokerConfig) -> None:
    """Raise ConfigError for what can be told before anything is opened."""
    FilterProcesses.check(config)


def make_parts(core: Core) -> list[Part]:
    """All parts of a broker. Those that need all others get the list itself."""
    parts: list[Part] = []
    config = core.config
    heartbeats = Heartbeats(core)
    registration = Registration(core, heartbeats.topics_registered)
    members = Members(core)
    may_act = core.is_slave and config.enable_slave_acting_master
    escape = Escape(config, core.client, core.clock) if may_act else None
    onward = Onward(core, escape)
    slaves = None if core.is_slave else Slaves(core, members)

    locks = QueueLocks(core.steady, grace=lambda: config.queue_lock_grace_time)
    retries = Retries(core, locks, onward)
    transactions = Transactions(core, heartbeats, escape)
    # Transactions last: what is on its way to a retry may be redirected first.
    sender = Sender(core, steps=(retries.divert, transactions.prepare))

    revive_topic = names.revive_topic(config.broker_cluster_name)
    tail = Tail.read(core.store, core.tables.log_position, revive_topic, follows=core.is_slave)
    delays = DelayLevels(core, onward, tail)
    timer = TimerDelivery(core, onward, tail, slaves)
    pop = PopPart(core, timer, onward, tail)

    master = Master(core, registration, timer, escape) if core.is_slave else None
    link = master.link if master is not None else None
    acting = None
    if link is not None and escape is not None:
        acting = ActingMaster(core, members, link, timer, escape, parts)
    filter_servers = FilterServers(core, registration.announce_filter_servers)

    made: tuple[Part | None, ...] = (
        Transport(core),
        Storage(core),
        Traffic(core),
        TableKeeper(core),
        locks,
        heartbeats,
        slaves,
        acting,
        members,
        sender,
        Replies(core, sender),
        Puller(core, link),
        ConsumerRequests(core, heartbeats, locks),
        Queries(core),
        QueueLooks(core),
        Laggards(core),
        Assignments(core),
        transactions,
        retries,
        Recalls(core),
        delays,
        timer,
        pop,
        Writers(core, sender),
        None if core.is_slave else SavedPosition(core, delays, timer, pop),
        TopicAdmin(core, parts),
        GroupAdmin(core),
        ClientAdmin(core),
        OffsetAdmin(core),
        BrokerAdmin(core, parts),
        ReplicationAdmin(core, link, acting),
        filter_servers,
        FilterProcesses(core, filter_servers),
        registration,
        master,
        GrpcPort(core),
        HttpPages(core, parts),
    )
    parts += [part for part in made if part is not None]
    return parts
