"""Dead letters after the fact: shown, sent to their topics again, dropped."""

from collections import Counter
from collections.abc import Iterator

import pytest

from pyromq import Admin, Message, Producer
from pyromq.spark.net.wire import Wire
from pyromq.spark.options import ConnectionOptions, read_options
from pyromq.spark.pipeline.definition.definition import Definition, DefinitionError
from pyromq.spark.pipeline.definition.yamlfile import loads
from pyromq.spark.pipeline.run.topics import ensure_topics
from pyromq.spark.pipeline.state.letters import Letters
from pyromq.spark.sink.writabletopic import find_topic, max_offsets, messages_between
from tests.integration.client.clusters import standalone_beside


@pytest.fixture
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Definition]:
    """With three dead letters of its own and one of another pipeline."""
    with standalone_beside(tmp_path_factory.mktemp("letters")) as server:
        made = loads(
            f"""
            name: orders
            source: {{nameServer: "{server.namesrv_address}", topic: orders}}
            parse: {{schema: id bigint}}
            sinks: [{{parquet: {{path: lake}}}}]
            dlq: {{topic: orders-dlq, queues: 2}}
            checkpoint: state
            """
        )
        assert ensure_topics(made) == ["orders-dlq"]
        assert ensure_topics(made) == []
        with Admin(namesrv=server.namesrv_address) as admin:
            admin.create_topic("orders", queues=2)
            admin.wait_for_topic("orders")
        with Producer("p", namesrv=server.namesrv_address) as producer:
            for number in range(4):
                about = {
                    "DLQ_TOPIC": "orders",
                    "DLQ_MSG_ID": f"0A0B{number:028X}",
                    "DLQ_PIPELINE": "orders" if number < 3 else "sales",
                    "DLQ_ERROR": "no number",
                    "colour": "red",
                }
                producer.send(Message("orders-dlq", b"bad %d" % number, tags="paid", properties=about))
        yield made


def in_orders(definition: Definition) -> Counter[tuple[bytes, str | None, str, str]]:
    address = str(definition.source["nameServer"])
    with Wire(read_options(ConnectionOptions, {"nameServer": address})) as wire:
        target = find_topic(wire, "orders")
        return Counter(
            (bytes(each.body), each.tags, each.properties["UNIQ_KEY"], each.properties["colour"])
            for queue, end in max_offsets(wire, target).items()
            for each in messages_between(wire, target, queue, 0, end, "readers")
        )


# SP-13
def test_letters_go_back_to_where_they_came_from_once(pipeline: Definition) -> None:
    with Letters(pipeline) as letters:
        assert {bytes(each.body) for each in letters.waiting(10)} == {b"bad 0", b"bad 1", b"bad 2"}
        assert len(list(letters.waiting(2))) == 2
        assert letters.retry() == 3
        assert letters.retry() == 0
        assert not list(letters.waiting(10))
    assert in_orders(pipeline) == Counter((b"bad %d" % n, "paid", f"0A0B{n:028X}", "red") for n in range(3))


def test_letters_can_be_dropped(pipeline: Definition) -> None:
    with Letters(pipeline) as letters:
        letters.drop()
        assert not list(letters.waiting(10))
    assert not in_orders(pipeline)


def test_a_pipeline_without_dead_letters_says_so(pipeline: Definition) -> None:
    pipeline.dlq = None
    with pytest.raises(DefinitionError, match="has no dead letters"):
        Letters(pipeline)
