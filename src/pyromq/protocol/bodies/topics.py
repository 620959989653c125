"""Topic configuration: one topic, lists of them, the table a broker keeps and registers (also `topics.json`)."""

from typing import Annotated, ClassVar, Final

from msgspec import field

from pyromq.protocol import bounds
from pyromq.protocol.bodies.base import Body, Int
from pyromq.protocol.bodies.enums import TopicFilterType
from pyromq.protocol.bodies.route import TopicQueueMappingDetail, TopicQueueMappingInfo
from pyromq.protocol.bodies.tables import DataVersion
from pyromq.protocol.bounds import Bound, ResourceName, declared

# Bits of a topic's `topic_sys_flag`.
UNIT: Final = 1
UNIT_SUBSCRIBED: Final = 2


class TopicConfig(Body):
    """One topic on one broker. Permission bits: 4 read, 2 write, 1 inherit. Before 5.0 there were no attributes."""

    attributes: dict[str, str] = field(default_factory=dict)
    mapping_detail: TopicQueueMappingDetail | None = None
    order: bool = False
    perm: Int = 6
    read_queue_nums: Int = 16
    topic_filter_type: TopicFilterType = TopicFilterType.SINGLE_TAG
    topic_name: ResourceName = ""
    topic_sys_flag: Int = 0
    write_queue_nums: Int = 16


class TopicConfigTable(Body):
    """All topics of a broker. The mapping members, left out when None, came with 5.0 and are not in the file."""

    data_version: DataVersion = field(default_factory=DataVersion)
    mapping_data_version: DataVersion | None = None
    topic_config_table: Annotated[dict[str, TopicConfig], declared(bounds.REGISTERED)] = field(default_factory=dict)
    topic_queue_mapping_detail_map: dict[str, TopicQueueMappingDetail] | None = None
    topic_queue_mapping_info_map: Annotated[dict[str, TopicQueueMappingInfo], declared(bounds.REGISTERED)] | None = None


class TopicConfigList(Body):
    size: ClassVar[Bound] = bounds.TABLE

    topic_config_list: list[TopicConfig] = field(default_factory=list)


class TopicList(Body):
    """Names of topics, and for some requests the address of a broker."""

    broker_addr: str | None = None
    topic_list: list[str] = field(default_factory=list)
