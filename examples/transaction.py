"""Send a message if, and only if, a database transaction commits."""

import os
import sqlite3
from typing import Any

from pyromq import LocalTransactionState, Message, PullConsumer, ReceivedMessage, TransactionProducer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
TOPIC = "example-transaction"

database = sqlite3.connect(":memory:", check_same_thread=False)
database.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, amount INTEGER CHECK (amount > 0))")


class Orders:
    """The local transaction, and the answer to a broker that did not hear how it ended."""

    def execute(self, message: Message, arg: Any) -> LocalTransactionState:
        try:
            with database:
                database.execute("INSERT INTO orders VALUES (?, ?)", (message.keys[0], arg))
        except sqlite3.IntegrityError:
            return LocalTransactionState.ROLLBACK
        return LocalTransactionState.COMMIT

    def check(self, message: ReceivedMessage) -> LocalTransactionState:
        found = database.execute("SELECT 1 FROM orders WHERE id = ?", (message.keys[0],)).fetchone()
        return LocalTransactionState.COMMIT if found else LocalTransactionState.ROLLBACK


with TransactionProducer("example-orders", Orders(), namesrv=NAMESRV) as producer:
    for order, amount in (("o-1", 10), ("o-2", -5), ("o-3", 7)):
        result = producer.send_in_transaction(Message(TOPIC, order.encode(), keys=[order]), arg=amount)
        print(f"{order}: {result.local_state}")

# Only what was committed is ever seen.
with PullConsumer("example-transaction-reader", namesrv=NAMESRV) as consumer:
    consumer.subscribe(TOPIC)
    visible: set[str] = set()
    while len(visible) < 2:
        visible.update(message.body.decode() for message in consumer.poll())
    print("visible:", ", ".join(sorted(visible)))
