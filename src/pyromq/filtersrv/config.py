"""The filter server's settings, under RocketMQ's own property names where it has them."""

from pathlib import Path

from pyromq.auth.settings import AuthSettings
from pyromq.filtersrv.worker import JailLimits
from pyromq.remoting.accept.settings import ServerSettings
from pyromq.settings.declaration import settings
from pyromq.settings.option import Address, option

MIB = 1 << 20


@settings
class FilterServerConfig(AuthSettings, ServerSettings):
    """Filter server"""

    listen_port: int = option(0, "Port to listen on; 0 takes a free one.", minimum=0, maximum=65535)
    cluster_name: str = option("DefaultCluster", "Cluster of that broker.")
    connect_which_broker: Address = option("127.0.0.1:10911", "The broker it belongs to and pulls from.")
    client_upload_filter_class_enable: bool = option(
        False, "Let consumers upload filter classes; without it the server serves none."
    )
    compress_msg_body_over_howmuch: int = option(
        8 * 1024, "Bodies of this size or more are compressed on the way out.", unit="bytes", minimum=1
    )
    zip_compress_level: int = option(5, "How hard.", minimum=0, maximum=9)
    fs_server_async_semaphore_value: int = option(2_048, "Pulls and uploads at a time.", minimum=1)
    max_filter_classes: int = option(32, "Filter classes at a time; each has a process.", minimum=1, maximum=1024)
    filter_class_memory: int = option(
        128 * MIB, "Address space of the process of one filter class.", unit="bytes", minimum=64 * MIB
    )
    filter_class_cpu_time: int = option(
        1_000, "Processor time for one batch of messages.", unit="ms", minimum=10, maximum=60_000
    )
    filter_class_wall_time: int = option(
        10_000, "Time for one batch of messages, whether it computes or not.", unit="ms", minimum=10, maximum=120_000
    )
    filter_class_idle_time: int = option(
        120_000, "A class that is neither uploaded nor used for so long is forgotten.", unit="ms", minimum=1_000
    )

    @property
    def users_folder(self) -> Path:
        """Where the broker keeps its users."""
        return self.auth_config_path or Path("auth")

    def jail_limits(self) -> JailLimits:
        """What one filter class may use."""
        return JailLimits(
            memory=self.filter_class_memory,
            cpu=self.filter_class_cpu_time / 1000,
            wall=self.filter_class_wall_time / 1000,
        )
