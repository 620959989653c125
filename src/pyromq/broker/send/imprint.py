"""What this broker adds to every message and says in every answer, made once: region, trace switch, cluster."""

from collections.abc import Callable

from pyromq.broker.config import BrokerConfig
from pyromq.protocol.headers.sendreply import SendReplies
from pyromq.protocol.properties import Property, encode_properties


class Imprint:
    """Good as long as `trace` is the configured one; `renew` makes it so."""

    __slots__ = ("_config", "added", "ids", "replies", "suffix", "trace")

    def __init__(self, config: BrokerConfig, ids: Callable[[], str]) -> None:
        self._config = config
        self.ids = ids
        """Makes the id of a message that came without one."""
        self.renew()

    def renew(self) -> None:
        """Make anew what every message gets, because a setting that is part of it changed."""
        config = self._config
        self.trace = config.trace_on
        self.added = {
            Property.MSG_REGION: config.region_id,
            Property.TRACE_ON: "true" if config.trace_on else "false",
            Property.CLUSTER: config.broker_cluster_name,
        }
        self.suffix = encode_properties(self.added)
        """The same as text, to be appended."""
        self.replies = SendReplies(config.region_id, trace_on=config.trace_on)
