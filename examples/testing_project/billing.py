"""Reads orders, sends invoices."""

import json
from typing import Self

from pyromq import Message, Producer, PushConsumer, ReceivedMessage


class Billing:
    """Runs while it is used as a context manager."""

    def __init__(self, namesrv: str, *, orders: str = "orders", invoices: str = "invoices") -> None:
        self.orders = orders
        self.invoices = invoices
        self.producer = Producer("billing", namesrv=namesrv)
        self.consumer = PushConsumer("billing", namesrv=namesrv, consume_from="CONSUME_FROM_FIRST_OFFSET")
        self.consumer.subscribe(orders, tags="paid")
        self.consumer.listen(self.bill)

    def bill(self, message: ReceivedMessage) -> None:
        order = json.loads(message.body)  # raising brings the order back later, in the end to the dead letters
        invoice = {"order": order["id"], "cents": sum(line["cents"] for line in order["lines"])}
        self.producer.send(Message(self.invoices, json.dumps(invoice).encode(), keys=[order["id"]]))

    def __enter__(self) -> Self:
        self.producer.start()
        self.consumer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.close()
        self.producer.close()
