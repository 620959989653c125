"""What operators do to servers while clients use them."""

import signal
import threading
from collections.abc import Callable

from pyromq import ClientError, Producer, SendStatus
from tests.interop.scenarios.stage import Stage, eventually, names


def acl_off(stage: Stage) -> None:
    """A client that signs its requests is as welcome as any where nobody checks signatures."""
    producer = stage.producer(access_key="someAccessKey", secret_key="someSecretKey")  # noqa: S106 - of nobody
    for body in names("m", 10):
        assert producer.send(stage.message(body)).status is SendStatus.SEND_OK
    inbox = stage.collect()
    inbox.wait(10)
    assert inbox.bodies == names("m", 10)


def restart_name_server(stage: Stage) -> None:
    _interrupt(stage, stage.cluster.name_server.restart)


def restart_broker(stage: Stage) -> None:
    _interrupt(stage, stage.cluster.broker.restart)


def kill_broker(stage: Stage) -> None:
    _interrupt(stage, lambda: stage.cluster.broker.restart(signal.SIGKILL))


def _interrupt(stage: Stage, disturb: Callable[[], None]) -> None:
    """Messages flow before, during and after; what was acknowledged arrives."""
    stage.cluster.settle()
    producer = stage.producer()
    for body in names("before", 20):
        producer.send(stage.message(body))
    inbox = stage.collect()
    inbox.wait(20)
    acknowledged: list[bytes] = []
    enough = threading.Event()
    sender = threading.Thread(target=_send_until, args=(stage, producer, acknowledged, enough))
    sender.start()
    try:
        disturb()
        count = len(acknowledged)
        eventually("sends to succeed again", lambda: len(acknowledged) >= count + 20)
    finally:
        enough.set()
        sender.join()
    for body in names("after", 20):
        producer.send(stage.message(body))
    wanted = {*names("before", 20), *acknowledged, *names("after", 20)}
    eventually("everything that was acknowledged", lambda: wanted <= set(inbox.bodies))


def _send_until(stage: Stage, producer: Producer, acknowledged: list[bytes], enough: threading.Event) -> None:
    number = 0
    while not enough.wait(0.02):
        body = f"during{number}".encode()
        number += 1
        try:
            if producer.send(stage.message(body)).status is SendStatus.SEND_OK:
                acknowledged.append(body)
        except ClientError:
            continue  # an application tries again; only what was acknowledged counts
