"""`Jail`: holds one filter, asks it, and turns whatever it does wrong into a sentence."""

import signal

from pyromq.filtersrv import frames
from pyromq.filtersrv.frames import Answer, FilterContext, Load, Question
from pyromq.filtersrv.jail.policy import Filter, FilterError, filename_of, load, matches


class Jail:
    """Answers questions; `cpu_seconds` is what it may spend on each."""

    def __init__(self, cpu_seconds: float) -> None:
        self._cpu_seconds = cpu_seconds
        self._filter: Filter | None = None
        self._context = FilterContext("", "")
        self._file = ""

    def answer(self, data: bytes) -> Answer:
        """Never raises. More processor time than allowed ends the process, wherever it is spent."""
        signal.setitimer(signal.ITIMER_PROF, self._cpu_seconds)
        try:
            return self._answer(frames.question(data))
        except BaseException as error:  # noqa: BLE001 - a filter may raise whatever it likes
            return Answer(error=self._explain(error))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def _answer(self, question: Question) -> Answer:
        if isinstance(question, Load):
            self._file, self._context = filename_of(question.class_name), question.context
            self._filter = load(question.class_name, question.source)
            return Answer()
        if self._filter is None:
            raise FilterError("no class was loaded")
        chosen, context = self._filter, self._context
        return Answer(matched=bytes(matches(chosen, message, context) for message in question.messages))

    def _explain(self, error: BaseException) -> str:
        """The kind of fault, its text and its line; short, since whoever wrote the filter chose the text."""
        try:
            parts = [] if type(error) is FilterError else [type(error).__name__]
            if isinstance(error, MemoryError):
                parts.append("it needs more memory than filterClassMemory allows")
            elif text := str(error):
                parts.append(text)
            reason = ": ".join(parts)[: frames.MAX_REASON]
        except BaseException:  # noqa: BLE001 - no memory left, or a text that is none
            reason = "it raised something that cannot be printed"
        line = None
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self._file:
                line = trace.tb_lineno
            trace = trace.tb_next
        return reason if line is None else f"{reason} (line {line})"
