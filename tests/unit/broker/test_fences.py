"""Fences before batches: later attempts shut out earlier ones, and only them."""

import pytest

from pyromq.broker.errors import Refused
from pyromq.broker.fences import Fences
from pyromq.protocol.headers import SendMessageV2Header


class Offsets:
    """What groups have committed."""

    def __init__(self, **groups: int) -> None:
        self._groups = groups

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        return self._groups.get(group) if (topic, queue_id) == ("orders", 1) else None


class Sender:
    def handlers(self) -> dict[int, object]:
        return {}


def header(queue: int = 1) -> SendMessageV2Header:
    return SendMessageV2Header(
        producer_group="p",
        topic="orders",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
    )


def fences(**groups: int) -> Fences:
    return Fences(Sender(), Offsets(**groups))  # type: ignore[arg-type]  # what is asked of them is here


def test_only_later_attempts_shut_out() -> None:
    guard = fences(job=5)
    guard.check("job=5", header())
    guard.check("job=6,other=1", header())
    guard.check("job=4", header(queue=0))
    with pytest.raises(Refused, match="attempt 5 of job took over from 4"):
        guard.check("other=1,job=4", header())


@pytest.mark.parametrize(
    "text", ["", "job", "job=", "=1", "job=-1", "job=1.5", "job=" + "9" * 20, ",".join(["a=1"] * 9)]
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        fences().check(text, header())
