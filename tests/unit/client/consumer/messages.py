"""Messages as a broker would have stored them."""

from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.records.host import Host


def received(offset: int, body: bytes = b"body", topic: str = "T", **properties: str) -> ReceivedMessage:
    """A message of queue 0 of broker-a."""
    return ReceivedMessage(
        topic,
        body,
        {"UNIQ_KEY": f"id-{topic}-{offset}"} | properties,
        broker_name="broker-a",
        queue_offset=offset,
        physical_offset=offset * 1000,
        store_host=Host("10.0.0.1", 10911),
        born_host=Host("10.1.1.1", 4000),
        store_timestamp=1_700_000_000_000,
    )
