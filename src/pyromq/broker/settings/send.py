"""What is accepted from producers, and from writers whose messages are stored once."""

from pyromq.settings.declaration import Settings, settings
from pyromq.settings.option import option


@settings
class SendSettings(Settings):
    """Sending."""

    start_accept_send_request_time_stamp: int = option(
        0, "Refuse messages before this time.", unit="ms since 1970", reloadable=True
    )
    reject_transaction_message: bool = option(False, "Refuse transactional messages.", reloadable=True)
    store_reply_message_enable: bool = option(True, "Store replies as well as push them.", reloadable=True)


@settings
class WriterSettings(Settings):
    """Sending."""

    max_writers: int = option(
        10_000, "Writers whose messages are stored once; the most silent one makes room.", minimum=1
    )
    max_writer_lanes: int = option(
        100_000, "Tasks of all of them together, and queues that each task writes to.", minimum=1
    )
    writer_reserved_time: int = option(
        168, "How long a silent writer is remembered.", unit="hours", minimum=1, reloadable=True
    )
