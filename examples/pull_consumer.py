"""Read messages at your own pace: iterate, commit when you are done, go back to any place."""

import os

from pyromq import Message, Producer, PullConsumer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
TOPIC = "example-pull"

with Producer("example-pull-producer", namesrv=NAMESRV) as producer:
    for number in range(10):
        producer.send(Message(TOPIC, f"message {number}".encode()))

with PullConsumer("example-pull-consumer", namesrv=NAMESRV, auto_commit=False) as consumer:
    consumer.subscribe(TOPIC)
    for count, message in enumerate(consumer, start=1):
        print(message.queue.queue_id, message.queue_offset, message.body.decode())
        if count == 10:
            break
    consumer.commit()

    queue = message.queue
    consumer.seek_to_begin(queue)
    again = consumer.poll(timeout=30.0)
    print(f"read again from the start of queue {queue.queue_id}: {again[0].body.decode()}")
