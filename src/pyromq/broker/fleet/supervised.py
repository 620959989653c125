"""A broker that has a supervisor: it shows its pages through the channel, and ends when the supervisor is gone."""

import os
import signal
import socket
import threading
from typing import Final

from pyromq.broker.admin.pages import HttpPages
from pyromq.broker.broker import Broker
from pyromq.broker.fleet.channel import Answers
from pyromq.broker.httpserver import Pages

LONGEST_STOP: Final = 30.0
"""How long a broker without a supervisor may take for an orderly stop; the next one wants its store and ports."""


class Supervised:
    """Starts and stops the broker; `descriptor` is the broker's end of the channel."""

    def __init__(self, broker: Broker, descriptor: int) -> None:
        self._broker = broker
        self._sock = socket.socket(fileno=descriptor)
        self._sock.setblocking(False)
        self._answers = Answers(self._sock, self._pages, self._asked_to_stop, self._alone)
        self._stopping = False

    async def start(self) -> None:
        """The channel first: a supervisor may be gone before the broker is up."""
        await self._answers.open()
        await self._broker.start()

    async def stop(self) -> None:
        """In order; what is asked meanwhile is answered."""
        self._stopping = True
        await self._broker.stop()
        await self._answers.close()

    def _pages(self) -> Pages:
        return next((part.pages for part in self._broker.parts if isinstance(part, HttpPages)), {})

    def _asked_to_stop(self) -> None:
        """As if by a signal, unless a service manager sent one to all and it stops already."""
        if not self._stopping:
            self._stopping = True
            signal.raise_signal(signal.SIGTERM)

    def _alone(self) -> None:
        """The supervisor is gone: stop in order, but not for ever; if it went while stopping, do not wait."""
        if self._stopping:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        else:
            self._stopping = True
            bound = threading.Timer(LONGEST_STOP, os._exit, (1,))
            bound.daemon = True
            bound.start()
        signal.raise_signal(signal.SIGTERM)
