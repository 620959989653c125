"""The hook through which every message on its way into the store passes: delayed and timed ones have to wait instead.

Decides on the properties alone. A message that was delivered after its wait does not wait again: for delay levels its
`property_map` lacks `DELAY`, for timed ones `TIMER_OUT_MS` is there.
"""

import random
from collections.abc import Callable

from pyromq.broker.config import BrokerConfig
from pyromq.broker.delay.detour import detour, number
from pyromq.protocol import names
from pyromq.protocol.errors import MessageError
from pyromq.protocol.properties import Property
from pyromq.protocol.records import sysflag
from pyromq.store.config import parse_delay_levels
from pyromq.store.log.put import PutMessage, PutResult, PutStatus

TIMED = (Property.TIMER_DELAY_SEC, Property.TIMER_DELAY_MS, Property.TIMER_DELIVER_MS)
MARKS = (Property.DELAY, *TIMED)
"""The properties that make a message a case for this hook."""


def level_of(text: str | None) -> int:
    """The delay level in a property; 0 for none, or for what is no number."""
    return _signed(text) or 0


def _signed(text: str | None) -> int | None:
    value = number((text or "").removeprefix("-"))
    return -value if value is not None and (text or "").startswith("-") else value


class Postpone:
    """`congestion` gives the number of messages that are timed for a slot."""

    def __init__(self, config: BrokerConfig, clock: Callable[[], int], congestion: Callable[[int], int]) -> None:
        self._config = config
        self._clock = clock
        self._congestion = congestion
        self._max_level = len(parse_delay_levels(config.message_delay_level))

    def __call__(self, message: PutMessage) -> PutResult | None:
        kind = message.sys_flag & sysflag.TRANSACTION_MASK
        if kind not in (0, sysflag.COMMIT):
            return None
        properties = message.property_map or {}
        level = level_of(properties.get(Property.DELAY))
        try:
            if level > 0:
                self._delay(message, properties, level)
            elif message.topic != names.TIMER_TOPIC and Property.TIMER_OUT_MS not in properties:
                return self._time(message, properties)
        except MessageError as error:
            return PutResult(PutStatus.PROPERTIES_SIZE_EXCEEDED, reason=str(error))
        return None

    def _delay(self, message: PutMessage, properties: dict[str, str], level: int) -> None:
        level = min(level, self._max_level)
        if level < 1:
            return
        message.property_map = {name: value for name, value in properties.items() if name not in TIMED}
        detour(message, names.SCHEDULE_TOPIC, level - 1, {Property.DELAY: str(level)})

    def _time(self, message: PutMessage, properties: dict[str, str]) -> PutResult | None:
        config, now = self._config, self._clock()
        name = next((name for name in TIMED if name in properties), None)
        if name is None:
            return None
        if not config.timer_wheel_enable:
            return PutResult(PutStatus.WHEEL_TIMER_NOT_ENABLE, reason=f"{name} needs timerWheelEnable=true")
        text = properties[name]
        value = _signed(text)
        if value is None:
            return PutResult(PutStatus.WHEEL_TIMER_MSG_ILLEGAL, reason=f"{name} = {text[:40]!r} is not a number")
        key = properties.get(Property.TIMER_DEL_UNIQ_KEY)
        if key is not None and not key.startswith(f"{message.topic}+"):
            # Who may send to one topic must not take back what waits for another.
            return PutResult(PutStatus.WHEEL_TIMER_MSG_ILLEGAL, reason="it recalls another topic's message")
        due = {Property.TIMER_DELAY_SEC: now + value * 1000, Property.TIMER_DELAY_MS: now + value}.get(name, value)
        if due <= now:
            if Property.TIMER_DEL_UNIQ_KEY in properties:
                return PutResult(PutStatus.WHEEL_TIMER_MSG_ILLEGAL, reason="what is due cannot be recalled")
            return None
        furthest = config.timer_max_delay_sec
        if due - now > furthest * 1000:
            reason = f"{name} is {(due - now) // 1000} s ahead, more than timerMaxDelaySec {furthest}"
            return PutResult(PutStatus.WHEEL_TIMER_MSG_ILLEGAL, reason=reason)
        # A slot is delivered when it is over, so a message belongs to the one that ends at or after its time.
        slot = (due - 1) // config.timer_precision_ms * config.timer_precision_ms
        if self._congested(slot):
            return PutResult(
                PutStatus.WHEEL_TIMER_FLOW_CONTROL,
                reason=f"{self._congestion(slot)} messages are timed for that moment already: choose another",
            )
        detour(message, names.TIMER_TOPIC, 0, {Property.TIMER_OUT_MS: str(slot)})
        return None

    def _congested(self, slot: int) -> bool:
        """Refuse the more often the further a slot is above its limit, all from twice the limit on."""
        limit = self._config.timer_congest_num_each_slot
        excess = self._congestion(slot) - limit
        return excess > 0 and random.random() < excess / limit
