"""Send messages that are delivered later: by level, or after any number of milliseconds."""

import os
import time

from pyromq import Message, Producer, PullConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
TOPIC = "example-delayed"

with Producer("example-delayed-producer", namesrv=NAMESRV) as producer:
    producer.send(Message(TOPIC, b"at once"))
    producer.send(Message(TOPIC, b"level 1, a second", delay_level=1))
    producer.send(Message(TOPIC, b"1500 ms", delay_ms=1500))

with PullConsumer("example-delayed-consumer", namesrv=NAMESRV) as consumer:
    consumer.subscribe(TOPIC)
    for count, message in enumerate(consumer, start=1):
        waited = time.time() - message.born_timestamp / 1000
        print(f"{message.body.decode()}: after {waited:.1f} s", flush=True)
        if count == 3:
            break
