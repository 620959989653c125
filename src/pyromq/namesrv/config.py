"""Every setting of the name server."""

from pathlib import Path
from typing import ClassVar

from pyromq.auth.settings import AuthSettings
from pyromq.remoting.accept.settings import NETTY_KEYS, ServerSettings
from pyromq.settings.declaration import settings
from pyromq.settings.option import computed, option


@settings
class NamesrvConfig(AuthSettings, ServerSettings):
    """Name server"""

    ignored: ClassVar[frozenset[str]] = NETTY_KEYS | {
        "clientRequestThreadPoolNums", "clientRequestThreadPoolQueueCapacity", "clusterTest", "configBlackList",
        "configStorePath", "defaultThreadPoolNums", "defaultThreadPoolQueueCapacity", "productEnvName", "rocketmqHome",
        "unRegisterBrokerQueueCapacity",
    }  # fmt: skip

    listen_port: int = option(9876, "Port to listen on; 0 takes a free one.", minimum=0, maximum=65535)
    kv_config_path: Path = option(
        computed(lambda: Path.home() / "namesrv" / "kvConfig.json", "~/namesrv/kvConfig.json"),
        "File of the key-value configuration.",
    )
    cluster_name: str = option("DefaultCluster", "Cluster that rules about this server's own settings and tables name.")
    scan_not_active_broker_interval: int = option(
        5000, "Time between two searches for brokers that fell silent.", minimum=10, maximum=3_600_000, unit="ms"
    )
    order_message_enable: bool = option(
        False, "Answer routes with the order configuration of their topic.", reloadable=True
    )
    return_order_topic_config_to_broker: bool = option(
        True, "Answer registrations with the list of ordered topics.", reloadable=True
    )
    support_acting_master: bool = option(
        False, "Show the slave with the smallest id as master while a group has none.", reloadable=True
    )
    notify_min_broker_id_changed: bool = option(
        False, "Tell the members of a broker group when their smallest id changes.", reloadable=True
    )
    delete_topic_with_broker_registration: bool = option(
        False, "Drop topics of a broker that its registration does not hold.", reloadable=True
    )
    enable_all_topic_list: bool = option(True, "Answer requests for the list of all topics.", reloadable=True)
    enable_topic_list: bool = option(True, "Answer requests for lists of topics by cluster or unit.", reloadable=True)
    need_wait_for_service: bool = option(
        False, "Refuse route requests for a while after start, until brokers have registered."
    )
    wait_seconds_for_service: int = option(45, "How long to refuse them.", minimum=0, maximum=3600, unit="s")
    enable_controller_in_namesrv: bool = option(
        False, "Apache's embedded controller, which does not exist here.", choices=(False,)
    )
    max_topics: int = option(50_000, "Topics in the route table; registrations leave out what is beyond.", minimum=1)
    max_brokers: int = option(1_000, "Broker addresses in the route table; further brokers are refused.", minimum=1)
    max_queue_entries: int = option(1_000_000, "Pairs of topic and broker name in the route table.", minimum=1)
    max_kv_entries: int = option(10_000, "Entries in the key-value configuration.", minimum=0)
