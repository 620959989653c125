"""Who is connected: members of a group, their connections and addresses."""

from msgspec import field

from pyromq.protocol.bodies.base import Body, Int, Long
from pyromq.protocol.bodies.enums import ConsumeFromWhere, ConsumeType, MessageModel
from pyromq.protocol.bodies.heartbeat import SubscriptionData


class ConsumerList(Body):
    """Client ids of the members of a group."""

    consumer_id_list: list[str] = field(default_factory=list)


class ConnectionInfo(Body):
    """One connected client; `language` is the name of its language code."""

    client_addr: str = ""
    client_id: str = ""
    language: str = ""
    version: Int = 0


class ConsumerConnection(Body):
    connection_set: list[ConnectionInfo] = field(default_factory=list)
    consume_from_where: ConsumeFromWhere | None = None
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)


class ProducerConnection(Body):
    connection_set: list[ConnectionInfo] = field(default_factory=list)


class ProducerInfo(Body):
    client_id: str = ""
    language: str = ""
    last_update_timestamp: Long = 0
    remote_ip: str = field(default="", name="remoteIP")
    version: Int = 0


class ProducerTable(Body):
    """All producers of a broker, by group."""

    data: dict[str, list[ProducerInfo]] = field(default_factory=dict)
