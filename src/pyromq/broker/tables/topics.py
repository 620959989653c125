"""The topics of a broker: the system's own, those that clients create by sending, those that admins make.

The table is `config/topics.json` in memory: every change is on disk before anybody sees it (`savedtable`), bumps the
data version and is told to `listeners`, which register it with the name servers.
"""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from pyromq.broker.config import BrokerConfig
from pyromq.broker.tables.namedtable import NamedTable
from pyromq.broker.tables.newnames import NewNames
from pyromq.broker.tables.savedtable import SAVED, Save
from pyromq.configfile import read_config
from pyromq.protocol import names
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigTable
from pyromq.protocol.routes import INHERIT, READ_WRITE, is_inherited

log = logging.getLogger(__name__)

UNIT_FLAG = 1
UNIT_SUB_FLAG = 2
BENCHMARK_QUEUES = 1024
DELAY_QUEUES = 18
MAX_QUEUES = 65_535
_TABLE = "topicConfigTable"


def system_topics(config: BrokerConfig, *, delay_levels: int = DELAY_QUEUES) -> dict[str, TopicConfig]:
    """The topics that every broker owns from its first start."""
    cluster, broker = config.broker_cluster_name, config.broker_name
    full = READ_WRITE | INHERIT
    topics = [
        _topic(names.SELF_TEST_TOPIC, 1),
        _topic(names.BENCHMARK_TOPIC, BENCHMARK_QUEUES),
        _topic(cluster, 16, full if config.cluster_topic_enable else INHERIT),
        _topic(broker, 1, full if config.broker_topic_enable else INHERIT),
        _topic(names.OFFSET_MOVED_TOPIC, 1),
        _topic(names.SCHEDULE_TOPIC, max(DELAY_QUEUES, delay_levels)),
        _topic(names.reply_topic(cluster), 1),
        _topic(names.revive_topic(cluster), config.revive_queue_num),
        _topic(f"{names.SYSTEM_TOPIC_PREFIX}SYNC_BROKER_MEMBER_{broker}", 1, INHERIT),
        _topic(names.TRANS_HALF_TOPIC, 1),
        _topic(names.TRANS_OP_HALF_TOPIC, 1),
        _topic(names.TIMER_TOPIC, 1),
    ]
    if config.auto_create_topic_enable:
        topics.append(_topic(names.DEFAULT_TOPIC, config.default_topic_queue_nums, full))
    if config.trace_topic_enable:
        topics.append(_topic(config.msg_trace_topic_name, 1))
    return {topic.topic_name: topic for topic in topics}


class Topics(NamedTable[TopicConfig]):
    """Topic name → configuration."""

    def __init__(self, config: BrokerConfig, clock: Callable[[], int], *, path: Path | None = None) -> None:
        newcomers = NewNames("topics", "maxNewTopicsPerUser", config.max_new_topics_per_user, clock)
        super().__init__(path or config.config_dir / "topics.json", clock, newcomers, _TABLE)
        self._config = config
        self._own = {config.broker_name, config.broker_cluster_name, names.reply_topic(config.broker_cluster_name)}
        self.assumed = False
        """Whether topics are there that a slave made up."""

    def _name(self, entry: TopicConfig) -> str:
        return entry.topic_name

    def _bound(self) -> tuple[str, str, int]:
        return "topics", "maxTopics", self._config.max_topics

    def load(self) -> None:
        """Read the file on top of the system topics. Raises ProtocolError when neither it nor its backup is legible."""
        stored = read_config(self._path, TopicConfigTable.decode)
        topics = system_topics(self._config, delay_levels=len(self._config.message_delay_level.split()))
        if stored is not None:
            topics.update(stored.topic_config_table)
        self.saved.load({_TABLE: topics}, stored.data_version if stored is not None else None)

    def is_system(self, topic: str) -> bool:
        """Whether it belongs to RocketMQ or to this broker rather than to users."""
        return names.is_system_topic(topic) or topic in self._own

    def table(self, only: Iterable[TopicConfig] | None = None) -> TopicConfigTable:
        """The table as it is registered and persisted; with `only`, just those topics under the current version."""
        chosen = self._table if only is None else {topic.topic_name: topic for topic in only}
        return TopicConfigTable(topic_config_table=dict(chosen), data_version=self.version)

    def create_on_send(
        self,
        topic: str,
        template: str,
        queues: int,
        *,
        unit: bool = False,
        party: str = "",
        attributes: dict[str, str] | None = None,
    ) -> TopicConfig | None:
        """Make the topic that a producer sent to, by the template it named; None when that is not allowed.

        Raises Unsaved until it is on disk.
        """
        model = self._table.get(template)
        if model is None:
            return None
        inherited = is_inherited(model.perm)
        if template == names.DEFAULT_TOPIC and not self._config.auto_create_topic_enable:
            inherited = False
        count = max(0, min(queues, model.write_queue_nums))
        if not inherited or count == 0:
            return None
        created = TopicConfig(
            topic_name=topic,
            read_queue_nums=count,
            write_queue_nums=count,
            perm=model.perm & ~INHERIT,
            topic_filter_type=model.topic_filter_type,
            topic_sys_flag=UNIT_FLAG if unit else 0,
            attributes=dict(attributes or {}),
        )
        return self._make(created, party)

    def ensure(
        self, topic: str, queues: int, *, permission: int = READ_WRITE, unit: bool = False, party: str = ""
    ) -> TopicConfig:
        """The topic, made with this many queues when it is missing: retry, dead-letter and other inner topics.

        Raises Unsaved until it is on disk.
        """
        known = self._table.get(topic)
        if known is None:
            made = _topic(topic, queues, permission)
            made.topic_sys_flag = UNIT_SUB_FLAG if unit else 0
            known = self._make(made, party)
        return known

    def assume(self, topic: str, queues: int) -> Save | None:
        """On a slave: a topic that its master has, and of which no more is known yet. Lasts until `replace_all`.

        None when there are as many as may be.
        """
        if self.saved.planned(_TABLE, topic) is not None:
            return self.saved.pending(_TABLE, topic) or SAVED
        if self.saved.size(_TABLE) >= self._config.max_topics:
            return None
        made = _topic(topic, max(queues, self._config.default_topic_queue_nums), READ_WRITE)
        self.assumed = True
        return self.saved.stage({_TABLE: {topic: made}}, same_version=True)

    def mark_ordered(self, topics: Iterable[str]) -> Save:
        """Set the order flag of topics that the name server's order configuration names."""
        known = (self.saved.planned(_TABLE, name) for name in topics)
        return self.put_all([msgspec.structs.replace(topic, order=True) for topic in known if topic is not None])

    def replace_all(self, table: TopicConfigTable) -> Save:
        """Take over a master's table; topics that are gone there go here too, in one step."""
        save = self.saved.replace({_TABLE: table.topic_config_table}, table.data_version)
        save.when_saved(self._all_known)
        return save

    def bump(self) -> Save:
        """A new data version without another change, so that name servers take the registration again."""
        return self.saved.stage({})

    def _all_known(self) -> None:
        self.assumed = False


def _topic(name: str, queues: int, permission: int = READ_WRITE) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=permission)
