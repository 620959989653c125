"""Topics and consumer groups: which may be created, how, and how many."""

from pyromq.settings.declaration import Settings, settings
from pyromq.settings.option import option


@settings
class TopicSettings(Settings):
    """Topics and groups."""

    auto_create_topic_enable: bool = option(True, "Create a topic when its first message arrives.", reloadable=True)
    default_topic_queue_nums: int = option(8, "Queues of the template TBW102.", minimum=1, maximum=1024)
    auto_create_subscription_group: bool = option(True, "Create a group when it is first used.", reloadable=True)
    enable_create_sys_group: bool = option(True, "Create system groups in any case.", reloadable=True)
    cluster_topic_enable: bool = option(True, "Let the topic named like the cluster be used.")
    broker_topic_enable: bool = option(True, "Let the topic named like the broker be used.")
    trace_topic_enable: bool = option(False, "Own the topic of message traces.")
    msg_trace_topic_name: str = option("RMQ_SYS_TRACE_TOPIC", "Its name.")
    trace_on: bool = option(True, "Tell clients that tracing is welcome.", reloadable=True)
    region_id: str = option("DefaultRegion", "Region written into messages and responses.")
    validate_system_topic_when_update_topic: bool = option(True, "Refuse changes of system topics.", reloadable=True)
    enable_mixed_message_type: bool = option(False, "Accept the topic attribute message.type=MIXED.", reloadable=True)
    max_topics: int = option(50_000, "Bound on the number of topics.", minimum=16, reloadable=True)
    max_groups: int = option(50_000, "Bound on the number of consumer groups.", minimum=16, reloadable=True)
    max_new_topics_per_user: int = option(
        25_000, "Topics that one user, or else one address, may create by sending, at once and in an hour.", minimum=1
    )
    max_new_groups_per_user: int = option(
        25_000, "The same of consumer groups that are created when they are first used.", minimum=1
    )
