"""A name server and a broker with transactions that are checked soon. Kills itself before a step, when told to.

    python -m tests.faults.transactionbroker DIRECTORY [TOPIC NUMBER]

Says its address on standard output. With a topic it dies (SIGKILL) at the moment when it is about to store the
NUMBERth record of that topic, so everything before that record in the log is there and it and everything later is not.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from pyromq.broker.standalone import Standalone
from pyromq.store.log.put import PutMessage

SETTINGS = {
    "transaction_time_out": "300",
    "transaction_check_interval": "300",
    "transaction_check_max": os.environ.get("CHECKS", "10000"),
    "mapped_file_size_commit_log": str(1 << 20),
    "max_hash_slot_num": "100",
    "max_index_num": "10000",
    "flush_consumer_offset_interval": "100",
}


async def serve(home: Path, fatal_topic: str = "", countdown: int = 0) -> None:
    server = Standalone(home, namesrv_port=0, broker_port=0, settings=SETTINGS)
    await server.start()
    assert server.broker is not None

    def die(message: PutMessage) -> None:
        nonlocal countdown
        if message.topic == fatal_topic:
            countdown -= 1
            if not countdown:
                os.kill(os.getpid(), signal.SIGKILL)

    server.broker.store.add_hook(die)
    sys.stdout.write(f"{server.broker_address}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    directory, fate, number = [*sys.argv[1:], "", "0"][:3]
    asyncio.run(serve(Path(directory), fate, int(number)))
