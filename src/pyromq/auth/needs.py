"""What a request is about: from its fields and body to the resources and actions that must be allowed.

Read from `request.ext`, which the typed header of the handler is made of afterwards, so both see the same values.
A retry or dead-letter topic belongs to its group. Topics in which the broker keeps messages of all others are a matter
of the cluster. Requests that name a stored message by its place are about the topic that message belongs to.

The docstring of each function that reads a request is its line on the reference page.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from pyromq.auth.rules import Action, Kind, action_names
from pyromq.protocol import names
from pyromq.protocol.bodies.base import Body
from pyromq.protocol.bodies.clients import CheckClientBody, HeartbeatData
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList
from pyromq.protocol.bodies.offsets import QueueLook
from pyromq.protocol.bodies.pop import BatchAckBody
from pyromq.protocol.bodies.queues import LockBatchRequest, QueryAssignmentRequest, SetMessageRequestMode
from pyromq.protocol.bodies.topics import TopicConfigList
from pyromq.protocol.command import Command
from pyromq.protocol.errors import ProtocolError
from pyromq.protocol.handles.ids import parse_offset_message_id
from pyromq.protocol.handles.recall import decode_recall_handle

# Plain numbers and texts, for each request passes here: hashing and combining enum members takes microseconds.
PUB, SUB, GET = Action.PUB.value, Action.SUB.value, Action.GET.value
CREATE, UPDATE = Action.CREATE.value, Action.UPDATE.value
TOPIC, GROUP, CLUSTER, FILTER = Kind.TOPIC.value, Kind.GROUP.value, Kind.CLUSTER.value, Kind.FILTER.value


class Need(NamedTuple):
    """One resource, and the actions (the bits of `Action`) of which one must be allowed."""

    kind: str
    name: str
    actions: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(slots=True)
class Scene:
    """What is known about the server that was asked.

    `topic_at` gives the topic that the stored message at a place in the log belongs to, None when there is none.
    `name` and `address` are the broker's. `cluster_of` gives the cluster that a broker name belongs to, for a server
    that knows several.
    """

    cluster: str
    topic_at: Callable[[int], str | None] = lambda _offset: None
    name: str = ""
    address: Callable[[], str] = lambda: ""
    cluster_of: Callable[[str], str | None] = lambda _name: None


Needs = Callable[[Command, Scene], Iterable[Need]]
B = TypeVar("B", bound=Body)


def topic_need(name: str, actions: int, scene: Scene) -> Need:
    """Whose permission a topic is a matter of."""
    if name.startswith(_OF_GROUPS):
        group = name.removeprefix(names.RETRY_PREFIX if names.is_retry_topic(name) else names.DLQ_PREFIX)
        return Need(GROUP, group.partition("+")[0], actions & ~PUB | SUB if actions & PUB else actions)
    if name in _HOLDING or name.startswith(names.SYSTEM_TOPIC_PREFIX):
        return Need(CLUSTER, scene.cluster, UPDATE if actions & ~(SUB | GET) else GET)
    return Need(TOPIC, name, actions)


_OF_GROUPS = (names.RETRY_PREFIX, names.DLQ_PREFIX)
_HOLDING = names.FORBIDDEN_TOPICS - {names.SELF_TEST_TOPIC, names.OFFSET_MOVED_TOPIC}


_WHICH = {"srcGroup": " to copy from", "destGroup": " to copy to"}


def _told(needs: Needs, actions: Action, what: str) -> Needs:
    needs.__doc__ = f"{' or '.join(action_names(actions))} on {what}"
    return needs


def topic(actions: Action, field: str = "topic", *, optional: bool = False) -> Needs:
    """The topic in a field."""
    wanted = actions.value

    def needs(request: Command, scene: Scene) -> Iterable[Need]:
        name = request.ext.get(field, "")
        return () if optional and not name else (topic_need(name, wanted, scene),)

    return _told(needs, actions, "the topic" + (", if one is given" if optional else ""))


def group(actions: Action, field: str = "consumerGroup", *, optional: bool = False) -> Needs:
    """The group in a field."""
    wanted = actions.value

    def needs(request: Command, _scene: Scene) -> Iterable[Need]:
        name = request.ext.get(field, "")
        return () if optional and not name else (Need(GROUP, name, wanted),)

    return _told(needs, actions, f"the group{_WHICH.get(field, '')}" + (", if one is given" if optional else ""))


def cluster(actions: Action, field: str = "") -> Needs:
    """The cluster in a field, or that of the server."""
    wanted = actions.value

    def needs(request: Command, scene: Scene) -> Iterable[Need]:
        return (Need(CLUSTER, request.ext.get(field, "") if field else scene.cluster, wanted),)

    return _told(needs, actions, "the cluster")


def cluster_of_broker(actions: Action, field: str = "brokerName") -> Needs:
    """The cluster of the broker in a field."""
    wanted = actions.value

    def needs(request: Command, scene: Scene) -> Iterable[Need]:
        return (Need(CLUSTER, scene.cluster_of(request.ext.get(field, "")) or scene.cluster, wanted),)

    return _told(needs, actions, "the broker's cluster")


def filters(field: str = "topic") -> Needs:
    """Uploading filter classes for the topic in a field."""

    def needs(request: Command, _scene: Scene) -> Iterable[Need]:
        return (Need(FILTER, request.ext.get(field, ""), CREATE),)

    return _told(needs, Action.CREATE, "the topic's filters")


def message_at(actions: Action, offset: Callable[[Command], int]) -> Needs:
    """The stored message at a physical offset. One that is not there is the handler's to answer."""
    wanted = actions.value

    def needs(request: Command, scene: Scene) -> Iterable[Need]:
        found = scene.topic_at(offset(request))
        return () if found is None else (topic_need(found, wanted, scene),)

    return _told(needs, actions, "the topic of the message")


def message_id(actions: Action, field: str = "msgId") -> Needs:
    """The stored message with the offset id in a field."""
    wanted = actions.value

    def needs(request: Command, scene: Scene) -> Iterable[Need]:
        try:
            _, offset = parse_offset_message_id(request.ext.get(field, ""))
        except ProtocolError:
            return ()
        found = scene.topic_at(offset)
        return () if found is None else (topic_need(found, wanted, scene),)

    return _told(needs, actions, "the topic of the message")


def recall_handle(request: Command, scene: Scene) -> Iterable[Need]:
    """Pub on the topic in the handle"""
    try:
        handle = decode_recall_handle(request.ext.get("recallHandle", ""))
    except ProtocolError:
        return ()
    return (topic_need(handle.topic, PUB, scene),)


def reply_topic(_request: Command, scene: Scene) -> Iterable[Need]:
    """Pub on the cluster's reply topic"""
    return (Need(TOPIC, names.reply_topic(scene.cluster), PUB),)


def heartbeat(request: Command, scene: Scene) -> Iterable[Need]:
    """Sub on the consumer groups and their topics; for producer groups, Pub on some topic"""
    for consumer in _body(request, HeartbeatData).consumer_data_set:
        yield Need(GROUP, consumer.group_name, SUB)
        for each in consumer.subscription_data_set:
            yield topic_need(each.topic, SUB, scene)


def locks(request: Command, scene: Scene) -> Iterable[Need]:
    """Sub on the group and the topics"""
    body = _body(request, LockBatchRequest)
    yield Need(GROUP, body.consumer_group, SUB)
    for name in {queue.topic for queue in body.mq_set}:
        yield topic_need(name, SUB, scene)


def running_info(request: Command, _scene: Scene) -> Iterable[Need]:
    """Sub or Get on the group, Get for a dump of threads"""
    # A member looks whether another one still has a queue; what its threads do is for operators.
    plain = request.ext.get("jstackEnable", "false") == "false"
    yield Need(GROUP, request.ext.get("consumerGroup", ""), SUB | GET if plain else GET)


def batch_acks(request: Command, scene: Scene) -> Iterable[Need]:
    """Sub on the groups and topics"""
    for group_name, topic_name in {(ack.consumer_group, ack.topic) for ack in _body(request, BatchAckBody).acks}:
        yield Need(GROUP, group_name, SUB)
        yield topic_need(topic_name, SUB, scene)


def assignment(request: Command, scene: Scene) -> Iterable[Need]:
    """Sub on the group and the topic"""
    body = _body(request, QueryAssignmentRequest)
    return Need(GROUP, body.consumer_group, SUB), topic_need(body.topic, SUB, scene)


def request_mode(request: Command, scene: Scene) -> Iterable[Need]:
    """Update on the group and the topic"""
    body = _body(request, SetMessageRequestMode)
    return Need(GROUP, body.consumer_group, UPDATE), topic_need(body.topic, UPDATE, scene)


def check_client(request: Command, scene: Scene) -> Iterable[Need]:
    """Sub on the group and the topic"""
    body = _body(request, CheckClientBody)
    return Need(GROUP, body.group, SUB), topic_need(body.subscription_data.topic, SUB, scene)


def looked_at(request: Command, scene: Scene) -> Iterable[Need]:
    """Sub or Get on the topics"""
    for name in {run.topic for run in _body(request, QueueLook).runs}:
        yield topic_need(name, SUB | GET, scene)


def new_topics(request: Command, scene: Scene) -> Iterable[Need]:
    """Create on the topics"""
    for each in _body(request, TopicConfigList).topic_config_list:
        yield topic_need(each.topic_name, CREATE, scene)


def new_group(request: Command, _scene: Scene) -> Iterable[Need]:
    """Create on the group"""
    return (Need(GROUP, _body(request, SubscriptionGroupConfig).group_name, CREATE),)


def new_groups(request: Command, _scene: Scene) -> Iterable[Need]:
    """Create on the groups"""
    for each in _body(request, SubscriptionGroupList).group_config_list:
        yield Need(GROUP, each.group_name, CREATE)


def listed_topics(actions: Action, field: str) -> Needs:
    """Topics in one field, separated by semicolons."""
    wanted = actions.value

    def needs(request: Command, scene: Scene) -> Iterable[Need]:
        return [topic_need(name, wanted, scene) for name in request.ext.get(field, "").split(";") if name]

    return _told(needs, actions, "the topics, if some are given")


def _body(request: Command, kind: type[B]) -> B:
    return kind.of_request(request.body) if request.body else kind()
