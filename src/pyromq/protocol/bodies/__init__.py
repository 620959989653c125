"""Typed bodies of requests and responses, and of the JSON files a broker keeps."""

from pyromq.protocol.bodies.base import Body, decode_as
from pyromq.protocol.bodies.dataversion import DataVersion
from pyromq.protocol.bodies.enums import (
    ConsumeFromWhere,
    ConsumeResult,
    ConsumeType,
    ExpressionType,
    MessageModel,
    MessageRequestMode,
    RetryPolicyType,
    TopicFilterType,
)
from pyromq.protocol.bodies.heartbeat import (
    CheckClientBody,
    ConsumerData,
    HeartbeatData,
    ProducerData,
    SubscriptionData,
)
from pyromq.protocol.bodies.kv import KVConfigTable, KVTable
from pyromq.protocol.bodies.locks import LockBatchRequest, LockBatchResponse, UnlockBatchRequest
from pyromq.protocol.bodies.offsets import (
    ConsumerOffsetTable,
    ConsumerStatusBody,
    CorrectionOffsets,
    DelayOffsetTable,
    LmqOffsetTable,
    QueueOffset,
    ResetOffsetBody,
)
from pyromq.protocol.bodies.registration import RegisterBrokerBody, body_crc32
from pyromq.protocol.bodies.route import (
    BrokerData,
    BrokerMemberGroup,
    BrokerMemberGroupBody,
    ClusterInfo,
    LogicQueueMappingItem,
    QueueData,
    TopicQueueMappingDetail,
    TopicQueueMappingInfo,
    TopicRouteData,
)
from pyromq.protocol.bodies.topics import (
    TopicConfig,
    TopicConfigList,
    TopicConfigTable,
    TopicList,
    TopicQueueMappingTable,
)

__all__ = [
    "Body",
    "BrokerData",
    "BrokerMemberGroup",
    "BrokerMemberGroupBody",
    "CheckClientBody",
    "ClusterInfo",
    "ConsumeFromWhere",
    "ConsumeResult",
    "ConsumeType",
    "ConsumerData",
    "ConsumerOffsetTable",
    "ConsumerStatusBody",
    "CorrectionOffsets",
    "DataVersion",
    "DelayOffsetTable",
    "ExpressionType",
    "HeartbeatData",
    "KVConfigTable",
    "KVTable",
    "LmqOffsetTable",
    "LockBatchRequest",
    "LockBatchResponse",
    "LogicQueueMappingItem",
    "MessageModel",
    "MessageRequestMode",
    "ProducerData",
    "QueueData",
    "QueueOffset",
    "RegisterBrokerBody",
    "ResetOffsetBody",
    "RetryPolicyType",
    "SubscriptionData",
    "TopicConfig",
    "TopicConfigList",
    "TopicConfigTable",
    "TopicFilterType",
    "TopicList",
    "TopicQueueMappingDetail",
    "TopicQueueMappingInfo",
    "TopicQueueMappingTable",
    "TopicRouteData",
    "UnlockBatchRequest",
    "body_crc32",
    "decode_as",
]
