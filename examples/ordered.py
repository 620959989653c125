"""Keep the order of what belongs together: same key, same queue, one message of a queue at a time."""

import os
import threading
from collections import defaultdict

from pyromq import Admin, Message, Producer, PushConsumer, ReceivedMessage
from pyromq.selectors import by_hash

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
TOPIC = "example-ordered"
STEPS = ["created", "paid", "packed", "shipped"]
ORDERS = [f"order-{number}" for number in range(5)]

with Admin(namesrv=NAMESRV) as admin:
    admin.create_topic(TOPIC, queues=4)
    admin.wait_for_topic(TOPIC)

with Producer("example-ordered-producer", namesrv=NAMESRV) as producer:
    for step in STEPS:
        for order in ORDERS:
            producer.send(Message(TOPIC, step.encode(), keys=[order]), selector=by_hash, arg=order)

seen: defaultdict[str, list[str]] = defaultdict(list)
done = threading.Event()
consumer = PushConsumer("example-ordered-consumer", namesrv=NAMESRV)
consumer.subscribe(TOPIC)


@consumer.listen(orderly=True)
def handle(message: ReceivedMessage) -> None:
    seen[message.keys[0]].append(message.body.decode())
    if sum(map(len, seen.values())) == len(STEPS) * len(ORDERS):
        done.set()


with consumer:
    done.wait()
for order in ORDERS:
    print(order, " -> ".join(seen[order]))
