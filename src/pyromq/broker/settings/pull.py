"""Pulling."""

from pyromq.settings.declaration import Settings, settings
from pyromq.settings.option import option


@settings
class PullSettings(Settings):
    """Pulling."""

    long_polling_enable: bool = option(True, "Hold a pull that finds nothing.", reloadable=True)
    short_polling_time_mills: int = option(
        1_000, "How long it is held otherwise.", unit="ms", minimum=1, reloadable=True
    )
    max_parked_pulls: int = option(200_000, "Pulls that may be held at a time.", minimum=1)
    lite_pull_message_enable: bool = option(True, "Serve lite pulls.", reloadable=True)
    reject_pull_consumer_enable: bool = option(False, "Refuse pulls of groups that did not register.", reloadable=True)
    slave_read_enable: bool = option(False, "Let slaves serve pulls, and send slow readers to them.", reloadable=True)
    enable_property_filter: bool = option(True, "Serve SQL92 subscriptions.", reloadable=True)
    filter_support_retry: bool = option(False, "Filter retries like the topic they come from.")
    filter_data_clean_time_span: int = option(
        24 * 3_600_000, "How long a SQL92 filter is kept without consumers.", unit="ms", minimum=0
    )
