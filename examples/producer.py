"""Send messages: one by one, without waiting, and as a batch.

    pyromq standalone &
    python examples/producer.py

The name server is NAMESRV_ADDR, or pass namesrv="host:port".
"""

import os

from pyromq import Message, Producer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")

with Producer("example-producer", namesrv=NAMESRV) as producer:
    for number in range(3):
        message = Message("example", f"message {number}".encode(), tags="plain", keys=[f"order-{number}"])
        result = producer.send(message)
        print(f"sent {result.message_id} to queue {result.queue.queue_id} at offset {result.queue_offset}")

    # Futures, so that many sends can be under way; a callback works too: send_async(message, callback).
    futures = [producer.send_async(Message("example", f"async {number}".encode())) for number in range(3)]
    for future in futures:
        print(f"sent {future.result().message_id}")

    batch = [Message("example", f"batch {number}".encode()) for number in range(3)]
    print(f"sent {len(batch)} messages as one: {producer.send(batch).status}")

    # Fast and without any promise: nobody waits for an answer.
    producer.send_oneway(Message("example", b"one way"))
