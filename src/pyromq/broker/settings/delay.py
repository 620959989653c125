"""Delayed and timed messages."""

from pyromq.settings.declaration import Settings, settings
from pyromq.settings.option import option

MB = 1 << 20
DAY = 86_400


@settings
class DelaySettings(Settings):
    """Delayed messages."""

    flush_delay_offset_interval: int = option(
        10_000, "Time between two saves of what was delivered.", unit="ms", minimum=100
    )
    delay_offset_update_version_step: int = option(200, "Deliveries per data version.", minimum=1)
    timer_wheel_enable: bool = option(True, "Accept messages with a time of their own.")
    timer_precision_ms: int = option(
        1_000, "How exactly they are delivered; only before the first one.", unit="ms", choices=(100, 200, 500, 1_000)
    )
    timer_max_delay_sec: int = option(3 * DAY, "Furthest time ahead.", unit="s", minimum=1, reloadable=True)
    timer_roll_window_slot: int = option(
        2 * DAY, "Slots ahead after which a timed message is written again.", minimum=2, maximum=7 * DAY - 60
    )
    timer_congest_num_each_slot: int = option(
        2**31 - 1, "Timed messages per slot above which more are refused, by chance.", minimum=1, reloadable=True
    )
    timer_flush_interval_ms: int = option(1_000, "Time between two saves of the timer.", unit="ms", minimum=10)
    mapped_file_size_timer_log: int = option(100 * MB, "Size of a timer log file.", unit="bytes", minimum=128)
    recall_message_enable: bool = option(False, "Let producers take timed messages back.", reloadable=True)
    allow_recall_when_broker_not_writeable: bool = option(
        True, "Also while brokerPermission forbids sending.", reloadable=True
    )
