"""The consumer groups a broker knows and what each may do: `config/subscriptionGroup.json` in memory.

Every change bumps the data version and is on disk before it is answered.
"""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from pyromq.broker.config import BrokerConfig
from pyromq.broker.errors import Refused, group_not_exist
from pyromq.configfile import read_config, write_config
from pyromq.protocol import names
from pyromq.protocol.bodies import DataVersion, SubscriptionGroupConfig, SubscriptionGroupTable
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.errors import ValidationError

log = logging.getLogger(__name__)

READ_FORBIDDEN = 1 << 2

PREDEFINED = (
    names.TOOLS_CONSUMER_GROUP,
    names.FILTER_SERVER_CONSUMER_GROUP,
    names.SELF_TEST_CONSUMER_GROUP,
    names.ONS_HTTP_PROXY_GROUP,
    names.ONS_API_PULL_GROUP,
    names.ONS_API_PERMISSION_GROUP,
    names.ONS_API_OWNER_GROUP,
    names.TRANSACTION_GROUP,
)


class Groups:
    """Group name → configuration."""

    def __init__(self, config: BrokerConfig, clock: Callable[[], int], *, path: Path | None = None) -> None:
        self._config = config
        self._clock = clock
        self._path = path or config.config_dir / "subscriptionGroup.json"
        self._table: dict[str, SubscriptionGroupConfig] = {}
        self._forbidden: dict[str, dict[str, int]] = {}
        self.version = DataVersion(timestamp=clock())
        self.refused = 0
        """How often the bound was met."""

    def load(self) -> None:
        """Read the file. Raises ProtocolError when neither it nor its backup is legible."""
        self._table = {name: SubscriptionGroupConfig(group_name=name) for name in PREDEFINED}
        for name in (names.ONS_HTTP_PROXY_GROUP, names.ONS_API_PULL_GROUP, names.ONS_API_PERMISSION_GROUP):
            self._table[name].consume_broadcast_enable = True
        stored = read_config(self._path, SubscriptionGroupTable.decode)
        if stored is not None:
            self._table.update(stored.subscription_group_table)
            self._forbidden = {group: dict(topics) for group, topics in (stored.forbidden_table or {}).items()}
            self.version = stored.data_version

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """The group's configuration without making it."""
        return self._table.get(group)

    def __iter__(self) -> Iterator[SubscriptionGroupConfig]:
        return iter(self._table.values())

    def __contains__(self, group: str) -> bool:
        return group in self._table

    def __len__(self) -> int:
        return len(self._table)

    def use(self, group: str) -> SubscriptionGroupConfig | None:
        """The group's configuration, made on first use when that is allowed; None otherwise.

        Raises Refused at the bound.
        """
        known = self._table.get(group)
        if known is not None:
            return known
        system = names.is_system_group(group) and self._config.enable_create_sys_group
        if not (self._config.auto_create_subscription_group or system):
            return None
        try:
            names.check_group(group, longest=names.MAX_GROUP_OF_OLD_CLIENTS - len(names.RETRY_PREFIX))
        except ValidationError:
            return None
        if len(self._table) >= self._config.max_groups:
            self.refused += 1
            raise self._full()
        created = SubscriptionGroupConfig(group_name=group)
        log.info("created consumer group %s on first use", group)
        self._table[group] = created
        self._save()
        return created

    def require(self, group: str) -> SubscriptionGroupConfig:
        """`use`, or Refused."""
        known = self._table.get(group) or self.use(group)
        if known is None:
            raise group_not_exist(group)
        return known

    def put(self, group: SubscriptionGroupConfig) -> None:
        """Add or replace a group; equal configuration changes nothing. Raises Refused at the bound."""
        if self._table.get(group.group_name) == group:
            return
        self.put_all([group])

    def put_all(self, groups: list[SubscriptionGroupConfig]) -> None:
        """Add or replace several groups with one save. Raises Refused at the bound."""
        added = sum(group.group_name not in self._table for group in groups)
        if added and len(self._table) + added > self._config.max_groups:
            self.refused += 1
            raise self._full()
        self._table.update({group.group_name: group for group in groups})
        self._save()

    def _full(self) -> Refused:
        return Refused(
            ResponseCode.SYSTEM_ERROR,
            f"the broker has {len(self._table)} groups and maxGroups is {self._config.max_groups}: "
            "delete groups that are not used or raise it, then try again",
        )

    def delete(self, group: str) -> bool:
        """Forget a group; whether it was there."""
        self._forbidden.pop(group, None)
        if self._table.pop(group, None) is None:
            return False
        self._save()
        return True

    def disable(self, group: str) -> None:
        """Stop a group's consumption."""
        known = self._table.get(group)
        if known is not None and known.consume_enable:
            known.consume_enable = False
            self._save()

    def is_forbidden(self, group: str, topic: str) -> bool:
        """Whether the group may not read this topic."""
        topics = self._forbidden.get(group)
        return topics is not None and topics.get(topic, 0) & READ_FORBIDDEN != 0

    def forbid(self, group: str, topic: str, *, readable: bool) -> None:
        """Allow or forbid the group to read the topic."""
        topics = self._forbidden.setdefault(group, {})
        bits = topics.get(topic, 0)
        bits = bits & ~READ_FORBIDDEN if readable else bits | READ_FORBIDDEN
        if bits:
            topics[topic] = bits
        else:
            topics.pop(topic, None)
        if not topics:
            del self._forbidden[group]
        self._save()

    def table(self) -> SubscriptionGroupTable:
        """The table as it is persisted and sent."""
        return SubscriptionGroupTable(
            subscription_group_table=dict(self._table),
            forbidden_table={group: dict(topics) for group, topics in self._forbidden.items()},
            data_version=self.version,
        )

    def replace_all(self, table: SubscriptionGroupTable) -> None:
        """Take over a master's table."""
        self._table = dict(table.subscription_group_table)
        self._forbidden = {group: dict(topics) for group, topics in (table.forbidden_table or {}).items()}
        self.version = table.data_version
        self.persist()

    def persist(self) -> None:
        """Write the file."""
        write_config(self._path, self.table().pretty())

    def _save(self) -> None:
        self.version = self.version.next(self._clock())
        self.persist()
