"""Messages as users see them: what is sent, what is received, and the queue it lives in.

Tags, keys, delays and the like are views on `properties`, the one place that is encoded. Code inside PyroMQ may write
any entry there; `put_property` is the door for users and refuses the names that the protocol keeps for itself.
"""

from collections.abc import Iterable, Mapping

import msgspec

from pyromq.protocol.errors import ValidationError
from pyromq.protocol.handles.ids import offset_message_id
from pyromq.protocol.properties import RESERVED, Property
from pyromq.protocol.records.host import Host

__all__ = ["Host", "Message", "MessageQueue", "ReceivedMessage"]


class MessageQueue(msgspec.Struct, frozen=True, order=True, cache_hash=True, rename="camel"):
    """One queue of a topic on one broker. Sorts by topic, broker, number, as all clients of a group must agree to."""

    topic: str
    broker_name: str
    queue_id: int


_BYTES = (bytes, bytearray, memoryview)


def _check_text(what: str, value: object) -> None:
    """Text only: `str()` of anything else would be stored, and found by nobody. Raises ValidationError."""
    if not isinstance(value, str):
        hint = "; a message has one tag" if what == "tags" else ""
        raise ValidationError(f"{what} must be text, not {_shown(value)}{hint}")


def _check_number(what: str, value: object) -> None:
    """Whole numbers from 0 on, as the broker reads them. Raises ValidationError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValidationError(f"{what} must be a whole number, not {_shown(value)}")
    if value < 0:
        raise ValidationError(f"{what} must be 0 or more, not {value}")


def _shown(value: object) -> str:
    return f"{type(value).__name__}: {value!r:.80}"


class _Text:
    """A property that is text; None when absent. Setting None or "" removes it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __set_name__(self, _owner: type, attribute: str) -> None:
        self.attribute = attribute

    def __get__(self, message: "Message", owner: type["Message"]) -> str | None:
        return message.properties.get(self.name)

    def __set__(self, message: "Message", value: str | None) -> None:
        if value:
            _check_text(self.attribute, value)
            message.properties[self.name] = value
        else:
            message.properties.pop(self.name, None)


class _Number:
    """A property that is an integer; 0 when absent or unreadable. Setting 0 removes it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __set_name__(self, _owner: type, attribute: str) -> None:
        self.attribute = attribute

    def __get__(self, message: "Message", owner: type["Message"]) -> int:
        try:
            return int(message.properties.get(self.name, 0))
        except ValueError:
            return 0

    def __set__(self, message: "Message", value: int) -> None:
        if value:
            _check_number(self.attribute, value)
            message.properties[self.name] = str(value)
        else:
            message.properties.pop(self.name, None)


class Message:
    """A message to send.

    >>> Message("orders", b"...", tags="paid", keys=["o-17", "c-4"]).properties
    {'KEYS': 'o-17 c-4', 'TAGS': 'paid', 'WAIT': 'true'}

    `flag` is an integer of the user's own, stored as it is. `delay_level` 1 to 18 stands for 1s 5s 10s 30s, 1 to 10
    minutes, 20m 30m 1h 2h; `delay_seconds`, `delay_ms` and `deliver_at_ms` (Unix time) ask for any other time.
    `keys` are a text, in which blanks separate them, or several texts without blanks.
    Raises ValidationError for a reserved or blank name in `properties`, and for what has the wrong type.
    """

    __slots__ = ("body", "flag", "properties", "topic", "transaction_id")

    topic: str
    body: bytes
    flag: int
    properties: dict[str, str]
    transaction_id: str | None
    """Set by the client: the unique id of a half message once it is stored, or of a received transactional one."""

    tags = _Text(Property.TAGS)
    unique_id = _Text(Property.UNIQ_KEY)
    sharding_key = _Text(Property.SHARDING_KEY)
    producer_group = _Text(Property.PRODUCER_GROUP)
    instance_id = _Text(Property.INSTANCE_ID)
    correlation_id = _Text(Property.CORRELATION_ID)
    reply_to_client = _Text(Property.REPLY_TO_CLIENT)
    cluster = _Text(Property.CLUSTER)
    message_type = _Text(Property.MSG_TYPE)
    buyer_id = _Text(Property.BUYER_ID)
    ttl_ms = _Number(Property.TTL)
    delay_level = _Number(Property.DELAY)
    delay_seconds = _Number(Property.TIMER_DELAY_SEC)
    delay_ms = _Number(Property.TIMER_DELAY_MS)
    deliver_at_ms = _Number(Property.TIMER_DELIVER_MS)
    check_immunity_seconds = _Number(Property.CHECK_IMMUNITY_TIME)

    def __init__(
        self,
        topic: str,
        body: bytes,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        flag: int = 0,
        delay_level: int = 0,
        delay_seconds: int = 0,
        delay_ms: int = 0,
        deliver_at_ms: int = 0,
        sharding_key: str | None = None,
        wait_store_ok: bool = True,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(topic, str):
            raise ValidationError(f"the topic must be text, not {_shown(topic)}")
        if not isinstance(body, _BYTES) and body is not None:  # a message without a body may get one before it is sent
            hint = "; encode it: text.encode()" if isinstance(body, str) else ""
            raise ValidationError(f"the body must be bytes, not {type(body).__name__}{hint}")
        if not isinstance(flag, int):
            raise ValidationError(f"flag must be a whole number, not {_shown(flag)}")
        self.topic = topic
        self.body = body
        self.flag = flag
        held: dict[str, str] = {}
        self.properties = held
        self.transaction_id = None
        if properties:
            for name, value in properties.items():
                self.put_property(name, value)
        if keys:
            self.keys = keys
        if tags:
            _check_text("tags", tags)
            held[Property.TAGS] = tags
        if sharding_key:
            self.sharding_key = sharding_key
        if delay_level or delay_seconds or delay_ms or deliver_at_ms:
            self.delay_level = delay_level
            self.delay_seconds = delay_seconds
            self.delay_ms = delay_ms
            self.deliver_at_ms = deliver_at_ms
        if wait_store_ok is True:
            held[Property.WAIT] = "true"
        else:
            self.wait_store_ok = wait_store_ok

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys under which the message can be found again; stored as one text, separated by blanks."""
        return tuple(self.properties.get(Property.KEYS, "").split())

    @keys.setter
    def keys(self, keys: str | Iterable[str]) -> None:
        text = keys if isinstance(keys, str) else _joined(keys)
        if text:
            self.properties[Property.KEYS] = text
        else:
            self.properties.pop(Property.KEYS, None)

    @property
    def wait_store_ok(self) -> bool:
        """Whether the broker answers only after the flush and the replicas that its configuration asks for."""
        return self.properties.get(Property.WAIT, "true").lower() == "true"

    @wait_store_ok.setter
    def wait_store_ok(self, wait: bool) -> None:
        if not isinstance(wait, bool):
            raise ValidationError(f"wait_store_ok must be True or False, not {_shown(wait)}")
        self.properties[Property.WAIT] = "true" if wait else "false"

    @property
    def is_delayed(self) -> bool:
        """Whether any of the four forms of delay is asked for."""
        return self.delay_level > 0 or self.delay_seconds > 0 or self.delay_ms > 0 or self.deliver_at_ms > 0

    def get_property(self, name: str, default: str | None = None) -> str | None:
        """The value of any property, reserved or not."""
        return self.properties.get(name, default)

    def put_property(self, name: str, value: str) -> None:
        """Set a property of the user's own. Raises ValidationError for reserved names and blank names or values."""
        _check_text("a property name", name)
        _check_text(f"the value of property {name!r}", value)
        if name in RESERVED:
            raise ValidationError(f"property name {name!r} is reserved, choose another one")
        if not name or name.isspace():
            raise ValidationError("a property name must not be blank")
        if not value or value.isspace():
            raise ValidationError(f"the value of property {name!r} must not be blank")
        if "\x01" in name or "\x02" in name or "\x02" in value:
            raise ValidationError(f"property {name!r} contains a separator character (0x01 or 0x02)")
        self.properties[name] = value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.topic!r}, {len(self.body or b'')} bytes, properties={self.properties!r})"


def _joined(keys: Iterable[str]) -> str:
    """Several keys as one text. Raises ValidationError for what would come out as another number of keys."""
    if isinstance(keys, _BYTES) or not isinstance(keys, Iterable):
        raise ValidationError(f"keys must be text or several texts, not {_shown(keys)}")
    several = tuple(keys)
    for key in several:
        _check_text("a key", key)
        if not key:
            raise ValidationError("a key is empty")
        if key.split() != [key]:
            raise ValidationError(f"the key {key!r} holds a blank, which separates keys")
    return " ".join(several)


_NOWHERE = Host("0.0.0.0", 0)  # noqa: S104 - the address of a record that has none, nothing is bound to it


class ReceivedMessage(Message):
    """A message as it is stored: what was sent, where and when it was born and stored, and its places in the log.

    `body` is the text that was sent (inflated unless asked otherwise); `store_size` and `body_crc` are those of the
    stored form. `broker_name` is filled in by whoever knows which broker answered. `fault` says in words what is wrong
    with a record that is damaged; its body is then as it was found, compressed if it was.
    """

    __slots__ = (
        "body_crc",
        "born_host",
        "born_timestamp",
        "broker_name",
        "fault",
        "physical_offset",
        "prepared_transaction_offset",
        "queue_id",
        "queue_offset",
        "reconsume_times",
        "store_host",
        "store_size",
        "store_timestamp",
        "sys_flag",
    )

    def __init__(
        self,
        topic: str,
        body: bytes,
        properties: dict[str, str],
        *,
        flag: int = 0,
        broker_name: str = "",
        queue_id: int = 0,
        queue_offset: int = 0,
        physical_offset: int = 0,
        sys_flag: int = 0,
        born_timestamp: int = 0,
        born_host: Host = _NOWHERE,
        store_timestamp: int = 0,
        store_host: Host = _NOWHERE,
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
        body_crc: int = 0,
        store_size: int = 0,
        fault: str | None = None,
    ) -> None:
        # The parent's constructor is for users: it checks and encodes what a record holds already.
        self.topic = topic
        self.body = body
        self.properties = properties
        self.flag = flag
        self.transaction_id = (
            properties.get(Property.UNIQ_KEY) if properties.get(Property.TRANSACTION_PREPARED) == "true" else None
        )
        self.broker_name = broker_name
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.physical_offset = physical_offset
        self.sys_flag = sys_flag
        self.born_timestamp = born_timestamp
        self.born_host = born_host
        self.store_timestamp = store_timestamp
        self.store_host = store_host
        self.reconsume_times = reconsume_times
        self.prepared_transaction_offset = prepared_transaction_offset
        self.body_crc = body_crc
        self.store_size = store_size
        self.fault = fault

    @property
    def damaged(self) -> bool:
        """Whether the record could not be read as it was sent; `fault` says why."""
        return self.fault is not None

    @property
    def offset_message_id(self) -> str:
        """The id that names the record's place: store host and physical offset."""
        return offset_message_id(self.store_host.ip, self.store_host.port, self.physical_offset)

    @property
    def message_id(self) -> str:
        """The id the sender gave it, which all copies share; the offset id when it has none."""
        return self.properties.get(Property.UNIQ_KEY) or self.offset_message_id

    @property
    def queue(self) -> MessageQueue:
        """The queue it was read from."""
        return MessageQueue(self.topic, self.broker_name, self.queue_id)

    def __repr__(self) -> str:
        return (
            f"ReceivedMessage({self.topic!r}, queue {self.queue_id}, offset {self.queue_offset}, "
            f"id {self.message_id}, {len(self.body)} bytes, properties={self.properties!r}"
            f"{f', damaged: {self.fault}' if self.fault else ''})"
        )
