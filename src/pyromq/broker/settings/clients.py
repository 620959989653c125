"""Clients, groups and offsets."""

from pyromq.protocol.bodies.enums import MessageRequestMode
from pyromq.settings.declaration import Settings, settings
from pyromq.settings.option import option

GB = 1 << 30


@settings
class ClientSettings(Settings):
    """Clients, groups and offsets."""

    channel_expired_timeout: int = option(
        120_000, "Silence after which a client is dropped.", unit="ms", minimum=100, reloadable=True
    )
    queue_lock_grace_time: int = option(
        3_000,
        "How long a lost connection leaves its client the locks on queues it consumes in order.",
        unit="ms",
        minimum=0,
        maximum=60_000,
        reloadable=True,
    )
    notify_consumer_ids_changed_enable: bool = option(True, "Tell members when their group changes.", reloadable=True)
    flush_consumer_offset_interval: int = option(5_000, "Time between two saves of offsets.", unit="ms", minimum=100)
    use_server_side_reset_offset: bool = option(True, "Keep a reset at the broker until pulled.", reloadable=True)
    consumer_offset_update_version_step: int = option(500, "Commits per data version.", minimum=1)
    disable_consume_if_consumer_read_slowly: bool = option(
        False, "Stop a group that is too far behind.", reloadable=True
    )
    consumer_fallbehind_threshold: int = option(16 * GB, "What too far is.", unit="bytes", reloadable=True)
    server_load_balancer_enable: bool = option(True, "Serve assignments made by the broker.", reloadable=True)
    default_message_request_mode: MessageRequestMode = option(
        MessageRequestMode.PULL,
        "How members of a group get messages, unless set for topic and group.",
        choices=(MessageRequestMode.PULL, MessageRequestMode.POP),
        reloadable=True,
    )
    default_pop_share_queue_num: int = option(
        -1, "With how many further members queues are shared in pop mode; -1: with all.", minimum=-1, reloadable=True
    )
    default_query_max_num: int = option(32, "Messages that a query by unique key looks at.", minimum=1, reloadable=True)
