"""Popping."""

from pyromq.settings.declaration import Settings, settings
from pyromq.settings.option import option


@settings
class PopSettings(Settings):
    """Popping."""

    revive_queue_num: int = option(8, "Queues of the revive topic; never fewer than before.", minimum=1, maximum=998)
    pop_from_retry_probability: int = option(
        20, "How often retries come before new messages.", unit="%", minimum=0, maximum=100, reloadable=True
    )
    enable_retry_topic_v2: bool = option(
        False, "Name retry topics of pop consumers group+topic, not group_topic.", key="enableRetryTopicV2"
    )
    retrieve_message_from_pop_retry_topic_v1: bool = option(
        True, "Then also read those named in the old way.", key="retrieveMessageFromPopRetryTopicV1"
    )
    pop_response_return_actual_retry_topic: bool = option(
        False, "Leave retried messages the name of the retry topic.", reloadable=True
    )
    init_pop_offset_by_check_msg_in_mem: bool = option(
        True, "Let a new group have a whole queue that is still in memory.", reloadable=True
    )
    pop_polling_size: int = option(1_024, "Pops of one group and queue that may be held at a time.", minimum=1)
    max_pop_polling_size: int = option(100_000, "Pops that may be held at a time.", minimum=1)
    pop_long_polling_force_notify_interval: int = option(
        800, "Wake a held pop at every so many messages of a queue, whether they match or not.", minimum=1
    )
    enable_pop_buffer_merge: bool = option(
        False, "Keep what was popped in memory for a while and store only what is not acknowledged meanwhile."
    )
    pop_ck_stay_buffer_time: int = option(10_000, "How long it is kept.", unit="ms", minimum=1)
    pop_ck_stay_buffer_time_out: int = option(
        3_000, "How long before it is due it is stored at the latest.", unit="ms", minimum=1
    )
    pop_ck_max_buffer_size: int = option(200_000, "Pops that may be kept at a time.", minimum=1)
    pop_ck_offset_max_queue_size: int = option(20_000, "The same for one group and queue.", minimum=1)
    skip_when_ck_re_put_reach_max_times: bool = option(
        False,
        "Give up on a message that could not be brought back 17 times.",
        key="skipWhenCKRePutReachMaxTimes",
        reloadable=True,
    )
