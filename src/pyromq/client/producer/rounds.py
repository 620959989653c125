"""The rounds of one synchronous send: which brokers were tried, whether another one may help, how it ended."""

import logging
import random

from pyromq.client.config import ProducerConfig
from pyromq.client.errors import (
    BrokerError,
    ClientError,
    SendFailedError,
    TooManyRequestsError,
    UnsendableError,
    code_of,
)
from pyromq.client.producer.results import SendResult
from pyromq.errors import PyroMQError
from pyromq.remoting.errors import RemotingError

log = logging.getLogger(__name__)


class Rounds:
    """What the rounds of one send leave behind."""

    def __init__(self, topic: str, config: ProducerConfig) -> None:
        self.total = config.retries + 1
        self.brokers: list[str] = []
        self.error: PyroMQError | None = None
        self.earlier: SendResult | None = None
        """A result that says "not stored safely"; better than any later error."""
        self.out_of_time = False
        self._topic = topic
        self._config = config
        self._invoke_id: int | None = None

    @property
    def last_broker(self) -> str | None:
        return self.brokers[-1] if self.brokers else None

    def share(self, left: float) -> float:
        """The time of this round: what is left, or less when a bound per request is set and more rounds can follow."""
        bound = self._config.max_timeout_per_request
        return bound if bound is not None and len(self.brokers) < self.total and bound < left else left

    def may_retry(self, error: BaseException) -> bool:
        """Book the failure of a round; False when no other broker can do better."""
        if isinstance(error, UnsendableError) or not isinstance(error, (RemotingError, ClientError)):
            return False
        if self._invoke_id is None:  # one id ties the log lines of a call together
            self._invoke_id = random.getrandbits(64)
        self.error = error
        log.warning("send %016x of topic %s to %s failed: %s", self._invoke_id, self._topic, self.last_broker, error)
        return not isinstance(error, BrokerError) or error.code in self._config.retryable_codes

    def final_error(self, seconds: float, elapsed_ms: int) -> ClientError:
        """What to raise after the last round."""
        if self.out_of_time:
            return TooManyRequestsError(
                f"send to topic {self._topic!r} ran out of its {seconds:g} s after {len(self.brokers)} attempt(s), "
                f"brokers tried: {', '.join(self.brokers) or 'none'}",
                broker=self.last_broker,
            )
        return SendFailedError(
            topic=self._topic,
            attempts=len(self.brokers),
            elapsed_ms=elapsed_ms,
            brokers=self.brokers,
            cause=self.error,
            code=code_of(self.error),
        )
