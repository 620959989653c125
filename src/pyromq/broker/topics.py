"""The topics of a broker: the system's own, those that clients create by sending, those that admins make.

The table is `config/topics.json` in memory: every change bumps the data version, is on disk before it is answered and
is told to `changed`, which registers it with the name servers.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from pyromq.broker import perm
from pyromq.broker.config import BrokerConfig
from pyromq.broker.errors import Refused
from pyromq.configfile import read_config, write_config
from pyromq.protocol import names
from pyromq.protocol.bodies import DataVersion, TopicConfig, TopicConfigTable
from pyromq.protocol.codes import ResponseCode

log = logging.getLogger(__name__)

UNIT_FLAG = 1
UNIT_SUB_FLAG = 2
BENCHMARK_QUEUES = 1024
DELAY_QUEUES = 18
MAX_QUEUES = 65_535


def system_topics(config: BrokerConfig, *, delay_levels: int = DELAY_QUEUES) -> dict[str, TopicConfig]:
    """The topics that every broker owns from its first start."""
    cluster, broker = config.broker_cluster_name, config.broker_name
    full = perm.READ_WRITE | perm.INHERIT
    topics = [
        _topic(names.SELF_TEST_TOPIC, 1),
        _topic(names.BENCHMARK_TOPIC, BENCHMARK_QUEUES),
        _topic(cluster, 16, full if config.cluster_topic_enable else perm.INHERIT),
        _topic(broker, 1, full if config.broker_topic_enable else perm.INHERIT),
        _topic(names.OFFSET_MOVED_TOPIC, 1),
        _topic(names.SCHEDULE_TOPIC, max(DELAY_QUEUES, delay_levels)),
        _topic(names.reply_topic(cluster), 1),
        _topic(names.revive_topic(cluster), config.revive_queue_num),
        _topic(f"{names.SYSTEM_TOPIC_PREFIX}SYNC_BROKER_MEMBER_{broker}", 1, perm.INHERIT),
        _topic(names.TRANS_HALF_TOPIC, 1),
        _topic(names.TRANS_OP_HALF_TOPIC, 1),
        _topic(names.TIMER_TOPIC, 1),
    ]
    if config.auto_create_topic_enable:
        topics.append(_topic(names.DEFAULT_TOPIC, config.default_topic_queue_nums, full))
    if config.trace_topic_enable:
        topics.append(_topic(config.msg_trace_topic_name, 1))
    return {topic.topic_name: topic for topic in topics}


class Topics:
    """Topic name → configuration."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Callable[[], int],
        changed: Callable[[list[TopicConfig]], None] = lambda _topics: None,
        *,
        path: Path | None = None,
    ) -> None:
        self._config = config
        self._clock = clock
        self._path = path or config.config_dir / "topics.json"
        self._table: dict[str, TopicConfig] = {}
        self._own = {config.broker_name, config.broker_cluster_name, names.reply_topic(config.broker_cluster_name)}
        self.changed = changed
        self.refused = 0
        """How often the bound was met."""
        self.assumed = False
        """Whether topics are there that a slave made up."""
        self.version = DataVersion(timestamp=clock(), counter=0, state_version=0)

    def load(self) -> None:
        """Read the file on top of the system topics. Raises ProtocolError when neither it nor its backup is legible."""
        stored = read_config(self._path, TopicConfigTable.decode)
        self._table = system_topics(self._config, delay_levels=len(self._config.message_delay_level.split()))
        if stored is not None:
            self._table.update(stored.topic_config_table)
            self.version = stored.data_version

    def get(self, topic: str) -> TopicConfig | None:
        """The topic's configuration, or None."""
        return self._table.get(topic)

    def __iter__(self) -> Iterator[TopicConfig]:
        return iter(self._table.values())

    def __contains__(self, topic: str) -> bool:
        return topic in self._table

    def __len__(self) -> int:
        return len(self._table)

    def is_system(self, topic: str) -> bool:
        """Whether it belongs to RocketMQ or to this broker rather than to users."""
        return names.is_system_topic(topic) or topic in self._own

    def table(self, only: Iterable[TopicConfig] | None = None) -> TopicConfigTable:
        """The table as it is registered and persisted; with `only`, just those topics under the current version."""
        chosen = self._table if only is None else {topic.topic_name: topic for topic in only}
        return TopicConfigTable(topic_config_table=dict(chosen), data_version=self.version)

    def create_on_send(self, topic: str, template: str, queues: int, *, unit: bool = False) -> TopicConfig | None:
        """Make the topic that a producer sent to, by the template it named; None when that is not allowed."""
        model = self._table.get(template)
        if model is None:
            return None
        inherited = perm.is_inherited(model.perm)
        if template == names.DEFAULT_TOPIC and not self._config.auto_create_topic_enable:
            inherited = False
        count = max(0, min(queues, model.write_queue_nums))
        if not inherited or count == 0:
            return None
        created = TopicConfig(
            topic_name=topic,
            read_queue_nums=count,
            write_queue_nums=count,
            perm=model.perm & ~perm.INHERIT,
            topic_filter_type=model.topic_filter_type,
            topic_sys_flag=UNIT_FLAG if unit else 0,
        )
        log.info("created topic %s with %d queues, after the template %s", topic, count, template)
        self.put(created)
        return created

    def ensure(self, topic: str, queues: int, *, permission: int = perm.READ_WRITE, unit: bool = False) -> TopicConfig:
        """The topic, made with this many queues when it is missing: retry, dead-letter and other inner topics."""
        known = self._table.get(topic)
        if known is None:
            known = _topic(topic, queues, permission)
            known.topic_sys_flag = UNIT_SUB_FLAG if unit else 0
            self.put(known)
        return known

    def assume(self, topic: str, queues: int) -> None:
        """On a slave: a topic that its master has, and of which no more is known yet. Lasts until `replace_all`."""
        if len(self._table) < self._config.max_topics:
            self._table[topic] = _topic(topic, max(queues, self._config.default_topic_queue_nums), perm.READ_WRITE)
            self.assumed = True
            try:
                self.persist()
            except OSError as error:
                log.warning("topic %s is not saved yet: %s", topic, error)

    def put(self, topic: TopicConfig) -> None:
        """Add or replace a topic; the same configuration again changes nothing. Raises Refused at the bound."""
        if self._table.get(topic.topic_name) == topic:
            return
        self.put_all([topic])

    def put_all(self, topics: list[TopicConfig]) -> None:
        """Add or replace several topics with one save and one registration. Raises Refused at the bound."""
        added = sum(topic.topic_name not in self._table for topic in topics)
        if added and len(self._table) + added > self._config.max_topics:
            self.refused += 1
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"the broker has {len(self._table)} topics and maxTopics is {self._config.max_topics}: "
                "delete topics that are not used or raise it, then try again",
            )
        self._table.update({topic.topic_name: topic for topic in topics})
        self._save()
        self.changed(topics)

    def delete(self, topic: str) -> bool:
        """Forget a topic; whether it was there."""
        if self._table.pop(topic, None) is None:
            return False
        self._save()
        return True

    def mark_ordered(self, topics: Iterable[str]) -> None:
        """Set the order flag of topics that the name server's order configuration names."""
        ordered = [known for name in topics if (known := self._table.get(name)) and not known.order]
        for topic in ordered:
            topic.order = True
        if ordered:
            self._save()

    def replace_all(self, table: TopicConfigTable) -> None:
        """Take over a master's table; topics that are gone there go here too, in one step."""
        self._table = dict(table.topic_config_table)
        self.version = table.data_version
        self.assumed = False
        self.persist()

    def bump(self) -> None:
        """A new data version without another change, so that name servers take the registration again."""
        self.version = self.version.next(self._clock())

    def persist(self) -> None:
        """Write the file."""
        write_config(self._path, self.table().pretty())

    def _save(self) -> None:
        self.bump()
        self.persist()


def _topic(name: str, queues: int, permission: int = perm.READ_WRITE) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=permission)
