"""How much of the log is reflected in saved positions, so that a start has little to read. A slave has none."""

from collections.abc import Iterable

from pyromq.broker.core import Core
from pyromq.broker.delay.levels import DelayLevels
from pyromq.broker.delay.timer import TimerDelivery
from pyromq.broker.part import Every, Part
from pyromq.broker.pop.part import PopPart

INTERVAL = 5.0


class SavedPosition(Part):
    """Saves everything that the log speaks of, and then up to where that is."""

    def __init__(self, core: Core, delays: DelayLevels, timer: TimerDelivery, pop: PopPart) -> None:
        self._core = core
        self._delays = delays
        self._timer = timer
        self._pop = pop

    def every(self) -> Iterable[Every]:
        """Note it."""
        return [Every(INTERVAL, self._save, at_once=True)]

    async def _save(self) -> None:
        core, timer = self._core, self._timer
        if timer.settled:
            saves = self._delays.save, timer.save, self._save_offsets
            await core.tables.log_position.save(core.store, core.durability, *saves)

    async def _save_offsets(self) -> None:
        self._pop.settle()
        await self._core.offsets.save()
