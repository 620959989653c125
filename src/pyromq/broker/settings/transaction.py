"""Transactions."""

from pyromq.settings.declaration import Settings, settings
from pyromq.settings.option import option


@settings
class TransactionSettings(Settings):
    """Transactions."""

    transaction_time_out: int = option(
        6_000,
        "How long a half message waits for its outcome before the first check.",
        unit="ms",
        minimum=1,
        reloadable=True,
    )
    transaction_check_interval: int = option(
        30_000, "Time between two checks of one message.", unit="ms", minimum=100, reloadable=True
    )
    transaction_check_max: int = option(15, "Checks before a half message is given up.", minimum=1, reloadable=True)
    max_pending_transactions: int = option(
        200_000, "Half messages without an outcome; more are refused.", minimum=1, maximum=10_000_000
    )
