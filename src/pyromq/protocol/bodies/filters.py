"""The broker's file `consumerFilter.json`: SQL filters of groups with their bloom filter positions."""

from msgspec import field

from pyromq.protocol.bodies.base import Body, Int, Long
from pyromq.protocol.bodies.enums import ExpressionType


class BloomFilterData(Body):
    bit_num: Int = 0
    bit_pos: list[Int] = field(default_factory=list)


class ConsumerFilterData(Body):
    bloom_filter_data: BloomFilterData | None = None
    born_time: Long = 0
    client_version: Long = 0
    consumer_group: str = ""
    dead: bool = False
    dead_time: Long = 0
    expression: str = ""
    expression_type: ExpressionType = ExpressionType.SQL92
    topic: str = ""


class TopicFilters(Body):
    group_filter_data: dict[str, ConsumerFilterData] = field(default_factory=dict)
    topic: str = ""


class ConsumerFilterTable(Body):
    filter_data_by_topic: dict[str, TopicFilters] = field(default_factory=dict)
