"""The consumer groups a broker knows and what each may do: `config/subscriptionGroup.json` in memory.

Every change bumps the data version and is on disk before anybody sees it (`savedtable`).
"""

import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from pyromq.broker.config import BrokerConfig
from pyromq.broker.errors import group_not_exist
from pyromq.broker.tables.namedtable import NamedTable
from pyromq.broker.tables.newnames import NewNames
from pyromq.broker.tables.savedtable import SAVED, Save
from pyromq.broker.tables.tablefile import Changes
from pyromq.configfile import read_config
from pyromq.protocol import names
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupTable
from pyromq.protocol.errors import ValidationError

log = logging.getLogger(__name__)

READ_FORBIDDEN = 1 << 2
_TABLE, _FORBIDDEN = "subscriptionGroupTable", "forbiddenTable"

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


class Groups(NamedTable[SubscriptionGroupConfig]):
    """Group name → configuration."""

    def __init__(self, config: BrokerConfig, clock: Callable[[], int], *, path: Path | None = None) -> None:
        newcomers = NewNames("groups", "maxNewGroupsPerUser", config.max_new_groups_per_user, clock)
        super().__init__(path or config.config_dir / "subscriptionGroup.json", clock, newcomers, _TABLE, _FORBIDDEN)
        self._config = config
        self._forbidden: dict[str, dict[str, int]] = self._maps[_FORBIDDEN]

    def _name(self, entry: SubscriptionGroupConfig) -> str:
        return entry.group_name

    def _bound(self) -> tuple[str, str, int]:
        return "groups", "maxGroups", self._config.max_groups

    def load(self) -> None:
        """Read the file. Raises ProtocolError when neither it nor its backup is legible."""
        groups = {name: SubscriptionGroupConfig(group_name=name) for name in PREDEFINED}
        for name in (names.ONS_HTTP_PROXY_GROUP, names.ONS_API_PULL_GROUP, names.ONS_API_PERMISSION_GROUP):
            groups[name].consume_broadcast_enable = True
        stored = read_config(self._path, SubscriptionGroupTable.decode)
        if stored is None:
            self.saved.load({_TABLE: groups})
            return
        groups.update(stored.subscription_group_table)
        self.saved.load({_TABLE: groups, _FORBIDDEN: stored.forbidden_table or {}}, stored.data_version)

    def use(self, group: str, party: str = "") -> SubscriptionGroupConfig | None:
        """The group's configuration, made on first use by a party when that is allowed; None otherwise.

        Raises Refused at the bound, and Unsaved until a new one is on disk.
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
        return self._make(SubscriptionGroupConfig(group_name=group), party)

    def require(self, group: str, party: str = "") -> SubscriptionGroupConfig:
        """`use`, or Refused."""
        known = self._table.get(group) or self.use(group, party)
        if known is None:
            raise group_not_exist(group)
        return known

    def disable(self, group: str) -> Save:
        """Stop a group's consumption."""
        known = self.saved.planned(_TABLE, group)
        return SAVED if known is None else self.put(msgspec.structs.replace(known, consume_enable=False))

    def is_forbidden(self, group: str, topic: str) -> bool:
        """Whether the group may not read this topic."""
        topics = self._forbidden.get(group)
        return topics is not None and topics.get(topic, 0) & READ_FORBIDDEN != 0

    def forbid(self, group: str, topic: str, *, readable: bool) -> Save:
        """Allow or forbid the group to read the topic."""
        topics = dict(self.saved.planned(_FORBIDDEN, group) or {})
        bits = topics.pop(topic, 0)
        bits = bits & ~READ_FORBIDDEN if readable else bits | READ_FORBIDDEN
        if bits:
            topics[topic] = bits
        return self.saved.stage({_FORBIDDEN: {group: topics or None}})

    def table(self) -> SubscriptionGroupTable:
        """The table as it is persisted and sent."""
        return SubscriptionGroupTable(
            subscription_group_table=dict(self._table),
            forbidden_table={group: dict(topics) for group, topics in self._forbidden.items()},
            data_version=self.version,
        )

    def replace_all(self, table: SubscriptionGroupTable) -> Save:
        """Take over a master's table."""
        entries: Changes = {_TABLE: table.subscription_group_table, _FORBIDDEN: table.forbidden_table or {}}
        return self.saved.replace(entries, table.data_version)
