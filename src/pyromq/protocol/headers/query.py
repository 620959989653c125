"""Headers of looking up single messages."""

from msgspec import field

from pyromq.protocol.bounds import Name, PropertyText
from pyromq.protocol.headers.base import Header, Int, Long, TopicHeader


class QueryMessageHeader(TopicHeader, kw_only=True):
    """By key, or by unique id when `unique_key_query` is set; then `max_num` is forced to 32."""

    topic: Name
    key: PropertyText
    max_num: Int
    begin_timestamp: Long
    end_timestamp: Long
    unique_key_query: bool | None = field(default=None, name="_UNIQUE_KEY_QUERY")


class QueryMessageResponseHeader(Header, kw_only=True):
    index_last_update_timestamp: Long
    index_last_update_phyoffset: Long


class ViewMessageByIdHeader(Header, kw_only=True):
    """`offset` is the physical offset taken out of the offset message id."""

    topic: Name | None = None
    offset: Long
