"""Filter servers beside the broker."""

from pyromq.settings.declaration import Settings, settings
from pyromq.settings.option import Address, option

MB = 1 << 20


@settings
class FilterServerSettings(Settings):
    """Filter servers."""

    filter_server_nums: int = option(
        0, "Filter server processes beside the broker; needs the extra pyromq[filters].", minimum=0, maximum=16
    )
    filter_server_host: Address = option(
        "127.0.0.1", "Address they listen on, which consumers are told; a wider one needs `insecure`."
    )
    client_upload_filter_class_enable: bool = option(
        False, "Let consumers upload filter classes, Python text that runs locked up beside the broker."
    )
    filter_class_memory: int = option(
        128 * MB, "Address space of the process of one filter class.", unit="bytes", minimum=64 * MB
    )
    filter_class_cpu_time: int = option(
        1_000, "Processor time of a filter class for one batch of messages.", unit="ms", minimum=10, maximum=60_000
    )
