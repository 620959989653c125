"""How the members of a group get the messages of a topic, by pull or by pop, as it was set."""

from pathlib import Path

from pyromq.broker.config import BrokerConfig
from pyromq.broker.errors import Refused
from pyromq.broker.tables.savedtable import SAVED, Save, SavedTable
from pyromq.broker.tables.tablefile import TableFile
from pyromq.configfile import read_config
from pyromq.protocol import names
from pyromq.protocol.bodies.queues import MessageRequestModeTable, SetMessageRequestMode
from pyromq.protocol.codes import ResponseCode

MAX_MODES = 100_000
_TABLE = "messageRequestModeMap"


class RequestModes:
    """Topic and group → pull or pop: `config/messageRequestMode.json` in memory, on disk before anybody sees it."""

    def __init__(self, config: BrokerConfig, path: Path | None = None) -> None:
        self._config = config
        self._path = path or config.config_dir / "messageRequestMode.json"
        self._table: dict[str, dict[str, SetMessageRequestMode]] = {}
        self.saved = SavedTable(TableFile(self._path, _TABLE), {_TABLE: self._table}, lambda: 0)

    def load(self) -> None:
        """Read the file. Raises ProtocolError when neither it nor its backup is legible."""
        stored = read_config(self._path, MessageRequestModeTable.decode)
        self.saved.load({_TABLE: stored.message_request_mode_map if stored is not None else {}})

    def table(self) -> MessageRequestModeTable:
        """The table as it is persisted and sent to slaves."""
        return MessageRequestModeTable(message_request_mode_map=dict(self._table))

    def get(self, topic: str, group: str) -> SetMessageRequestMode:
        """What was set, else the broker's default; retries are always pulled."""
        known = self._table.get(topic, {}).get(group)
        if known is not None:
            return known
        if names.is_retry_topic(topic):
            return SetMessageRequestMode(topic=topic, consumer_group=group)
        return SetMessageRequestMode(
            topic=topic,
            consumer_group=group,
            mode=self._config.default_message_request_mode,
            pop_share_queue_num=self._config.default_pop_share_queue_num,
        )

    def put(self, mode: SetMessageRequestMode) -> Save:
        """Set the mode of a topic and group. Raises Refused at the bound."""
        if sum(map(len, self._table.values())) >= MAX_MODES:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{MAX_MODES} request modes are set already: delete topics")
        known = self.saved.planned(_TABLE, mode.topic) or {}
        return self.saved.stage({_TABLE: {mode.topic: {**known, mode.consumer_group: mode}}})

    def replace_all(self, table: MessageRequestModeTable) -> Save:
        """Take over a master's table."""
        if table.message_request_mode_map == self._table:
            return SAVED
        return self.saved.replace({_TABLE: table.message_request_mode_map})

    def forget_topic(self, topic: str) -> Save:
        """Drop what was set for a topic."""
        return SAVED if self.saved.planned(_TABLE, topic) is None else self.saved.stage({_TABLE: {topic: None}})
