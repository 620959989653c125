"""Progress of a stream from the offsets that Spark tells."""

import json
from typing import Any

from pyromq.protocol.message import MessageQueue
from pyromq.spark import ProgressListener
from pyromq.spark.source.offsets import Mark, Offset
from pyromq.spark.streamprogress import stream_progress

A0, A1 = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)


def source(start: Offset | None, end: Offset, latest: Offset | None, *, as_text: bool = False) -> dict[str, Any]:
    shapes = {"startOffset": start, "endOffset": end, "latestOffset": latest}
    found = {key: offset.render() for key, offset in shapes.items() if offset is not None}
    return {key: json.dumps(shape) if as_text else shape for key, shape in found.items()}


def progress(*sources: dict[str, Any], name: str | None = "orders", now: float = 1_000.0) -> Any:
    event = {"id": "1-2-3", "name": name, "batchId": 7, "sources": list(sources)}
    return ProgressListener(clock=lambda: now).read(json.dumps(event))


def test_messages_seconds_and_losses() -> None:
    start, end = Offset({A0: 5, A1: 5}), Offset({A0: 20, A1: 9}, skip={A0: 10}, marks={A0: Mark(19, 990_000)})
    made = progress(source(start, end, Offset({A0: 50, A1: 9}), as_text=True))
    assert (made.query, made.batch, made.messages, made.messages_behind) == ("orders", 7, 14, 30)
    assert (made.seconds_behind, made.lost) == (10.0, 5)
    assert [(each.start, each.end, each.reason) for each in made.losses] == [(5, 10, "expired")]


def test_what_is_not_known_is_not_made_up() -> None:
    end = Offset({A0: 20}, init={A0: 5}, marks={A1: Mark(3, 1)})
    made = progress(source(None, end, Offset({A0: 21})), name=None)
    assert (made.query, made.messages, made.messages_behind, made.seconds_behind) == ("1-2-3", 15, 1, None)
    made = progress(source(Offset({A0: 20}), end, Offset({A0: 20})))
    assert (made.messages_behind, made.seconds_behind) == (0, 0.0)
    assert progress({"endOffset": {"kafka": 1}}, {"description": "rate"}) is None
    assert stream_progress(source(None, end, None)) is not None


def test_several_topics_are_one_figure() -> None:
    def one(at: int, latest: int) -> dict[str, Any]:
        end = Offset({A0: 20}, marks={A0: Mark(19, at)})
        return source(Offset({A0: 10}), end, Offset({A0: latest}))

    made = progress(one(900_000, 25), one(500_000, 20), one(950_000, 26))
    assert (made.messages, made.messages_behind, made.seconds_behind) == (30, 11, 100.0)
