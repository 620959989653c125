"""Receive messages until Ctrl-C. Start it several times: the members of a group share the queues.

python examples/consumer.py
"""

import os
import signal
from queue import SimpleQueue

from pyromq import PushConsumer, ReceivedMessage

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")

consumer = PushConsumer("example-consumer", namesrv=NAMESRV)
consumer.subscribe("example")


@consumer.listen
def handle(message: ReceivedMessage) -> None:
    """Runs on a pool of threads. Raising brings the message back later, and after 16 times to the dead letters."""
    line = f"{message.message_id} {message.body.decode()}\n"
    print(line, end="", flush=True)  # in one piece, since threads share the terminal


stop: SimpleQueue[int] = SimpleQueue()  # unlike an event, a signal may put into it whatever the thread does just then
signal.signal(signal.SIGINT, lambda number, _: stop.put(number))
signal.signal(signal.SIGTERM, lambda number, _: stop.put(number))

with consumer:
    stop.get()
