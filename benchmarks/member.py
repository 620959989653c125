"""One of our consumers as a process: a member of a group that says what it gets. `benchmarks.rebalance` starts it.

    python -m benchmarks.member NAMESRV GROUP TOPIC concurrent|orderly MILLISECONDS

It prints the queue and the body of each message, works on it for so long, and leaves when its input ends. It starts
when a first line arrives, so that several can start at one moment.
"""

import sys
import threading
import time

from pyromq import PushConsumer
from pyromq.protocol.message import ReceivedMessage


def main() -> None:
    """Until the end of the input."""
    namesrv, group, topic, kind, work = sys.argv[1:]
    consumer = PushConsumer(group, namesrv=namesrv, consume_from="CONSUME_FROM_FIRST_OFFSET")
    consumer.subscribe(topic)
    speaking = threading.Lock()

    def say(line: str) -> None:
        with speaking:
            print(line, flush=True)

    @consumer.listen(orderly=kind == "orderly")
    def take(message: ReceivedMessage) -> None:
        say(f"{message.queue_id} {message.body.decode()}")
        time.sleep(int(work) / 1000)

    say("ready")
    sys.stdin.readline()
    with consumer:
        sys.stdin.read()


if __name__ == "__main__":
    main()
