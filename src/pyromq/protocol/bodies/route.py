"""Where topics live: routes, clusters, broker sets, and the queue mapping of static topics."""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import field

from pyromq.protocol.bodies.base import Body, Int, Long
from pyromq.protocol.lenient import dumps


class QueueData(Body):
    """How many queues of a topic one broker set has."""

    renamed: ClassVar[Mapping[str, str]] = {"topicSynFlag": "topicSysFlag"}  # the spelling up to 4.8

    broker_name: str = ""
    perm: Int = 0
    read_queue_nums: Int = 0
    topic_sys_flag: Int = 0
    write_queue_nums: Int = 0


class BrokerData(Body):
    """The addresses of one broker set, by broker id; id 0 is the master."""

    broker_addrs: dict[Long, str] = field(default_factory=dict)
    broker_name: str = ""
    cluster: str = ""
    enable_acting_master: bool = False
    zone_name: str | None = None


class TopicQueueMappingInfo(Body):
    """Which queues of a static topic a broker currently serves: logical id to physical id."""

    bname: str = ""
    curr_id_map: dict[Int, Int] = field(default_factory=dict)
    dirty: bool = False
    epoch: Long = 0
    scope: str | None = None
    topic: str = ""
    total_queues: Int = 0


class LogicQueueMappingItem(Body):
    """One stretch of a logical queue: from `logic_offset` on it lives in a physical queue of `bname`."""

    bname: str = ""
    end_offset: Long = -1
    gen: Int = 0
    logic_offset: Long = 0
    queue_id: Int = 0
    start_offset: Long = 0
    time_of_end: Long = -1
    time_of_start: Long = -1


class TopicQueueMappingDetail(TopicQueueMappingInfo):
    """The mapping of a static topic with the history of each logical queue."""

    hosted_queues: dict[Int, list[LogicQueueMappingItem]] = field(default_factory=dict)


class TopicRouteData(Body):
    """The answer to "where is this topic?"."""

    renamed: ClassVar[Mapping[str, str]] = QueueData.renamed

    broker_datas: list[BrokerData] = field(default_factory=list)
    filter_server_table: dict[str, list[str]] = field(default_factory=dict)
    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = field(default_factory=list)
    topic_queue_mapping_by_broker: dict[str, TopicQueueMappingInfo] | None = None

    def encode(self, strict: bool = False) -> bytes:
        """The form with bare broker ids, or strict JSON for whoever asked for it or has version 401 and above."""
        return dumps(self, strict=strict)


class ClusterInfo(Body):
    """All broker sets and the clusters they belong to."""

    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, list[str]] = field(default_factory=dict)


class BrokerMemberGroup(Body):
    """The members of one broker set that are alive."""

    broker_addrs: dict[Long, str] = field(default_factory=dict)
    broker_name: str = ""
    cluster: str = ""


class BrokerMemberGroupBody(Body):
    broker_member_group: BrokerMemberGroup = field(default_factory=BrokerMemberGroup)
