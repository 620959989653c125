"""Ask a question by message and wait for the answer."""

import os

from pyromq import Admin, Message, Producer, PushConsumer, ReceivedMessage, create_reply

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
TOPIC = "example-questions"

with Admin(namesrv=NAMESRV) as admin:
    admin.create_topic(TOPIC, queues=1)
    admin.wait_for_topic(TOPIC)

with Producer("example-asking", namesrv=NAMESRV) as asking, Producer("example-answering", namesrv=NAMESRV) as answering:
    server = PushConsumer("example-answers", namesrv=NAMESRV)
    server.subscribe(TOPIC)

    @server.listen
    def answer(question: ReceivedMessage) -> None:
        answering.send(create_reply(question, question.body.upper()))

    with server:
        for text in ("hello", "world"):
            reply = asking.request(Message(TOPIC, text.encode()), timeout=30.0)
            print(f"{text} -> {reply.body.decode()}")
