"""The topic sink against Apache's broker, with tasks and drivers that fail half-way. # SP-11

Sinks are called as Spark calls them; what Spark itself adds does not depend on the broker (tests/spark).
"""

from collections import Counter
from pathlib import Path

from pyromq.spark.net.wire import Wire
from pyromq.spark.sink.marks import groups
from pyromq.spark.sink.sink import Attempt
from pyromq.spark.sink.writabletopic import committed, find_topic
from tests.interop.servers import apache_broker, apache_name_server
from tests.spark.test_topic_sink import QUERY, arrow, bodies, once, options, run, texts
from tests.spark.topics import create

TOPIC = "orders"


def test_effectively_once_on_apache(tmp_path: Path) -> None:
    with apache_name_server(tmp_path / "namesrv") as names, apache_broker(tmp_path / "broker", names.address):
        create(names.address, TOPIC)
        for batch in range(3):
            parts = [texts(batch, 0), texts(batch, 1)]
            killed = once(names.address, TOPIC)
            killed.prepare(QUERY)
            run(killed, batch, parts[:1])  # one task is done, then the driver is gone

            again = once(names.address, TOPIC)
            again.prepare(QUERY)
            half = again.open(Attempt(QUERY, batch, 1), arrow([]).schema)
            half.write(arrow(parts[1][:25]))
            half.close()  # a task that fails after half of its sends
            again.commit(QUERY, batch, run(again, batch, parts, attempt=1))

            repeated = once(names.address, TOPIC)  # committed, but Spark did not note it
            repeated.prepare(QUERY)
            repeated.commit(QUERY, batch, run(repeated, batch, parts))
            sent = [text for number in range(batch + 1) for part in range(2) for text in texts(number, part)]
            assert bodies(names.address, TOPIC) == Counter(sent)
        with Wire(options(names.address)) as wire:
            target = find_topic(wire, TOPIC)
            even, odd = (committed(wire, target, name) for name in groups(wire, QUERY, "topic"))
        assert [even[target.queues[0]], odd[target.queues[0]]] == [150, 100]
