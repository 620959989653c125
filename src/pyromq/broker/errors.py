"""How a broker's handler says no: raise `Refused`, and the dispatcher answers with its code and remark."""

from pyromq.errors import PyroMQError
from pyromq.protocol.codes import ResponseCode


class Refused(PyroMQError):  # noqa: N818 - the name says what happened
    """A request that is answered with an error code. The remark says what, why, and what to do about it."""

    def __init__(self, code: ResponseCode, remark: str, ext: dict[str, str] | None = None) -> None:
        super().__init__(remark)
        self.code = code
        self.remark = remark
        self.ext = ext


def topic_not_exist(topic: str) -> Refused:
    return Refused(
        ResponseCode.TOPIC_NOT_EXIST,
        f"topic[{topic}] not exist on this broker: create it with updateTopic, or allow autoCreateTopicEnable",
    )


def group_not_exist(group: str) -> Refused:
    return Refused(
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        f"subscription group [{group}] does not exist: create it with updateSubGroup, "
        "or allow autoCreateSubscriptionGroup",
    )
