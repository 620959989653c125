"""Which failures of a query another try may heal: read from the text that Spark makes of an error in its processes."""

import importlib
import re

from pyromq.errors import PyroMQError

_OURS = re.compile(r"^(?:E\s+)?(pyromq(?:\.\w+)*)\.(\w+): (.*)$", re.MULTILINE)
_PASSING = (
    "ExecutorLostFailure",
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "Connection reset",
    "java.net.ConnectException",
    "FetchFailed",
    "No space left on device",
)
_CONDITION = re.compile(r"^\[([A-Z0-9_.]+)\]")
MAX_TEXT = 600


def our_error(text: str) -> tuple[type[PyroMQError], str] | None:
    """The last error of ours in a traceback, with what it says."""
    found = None
    for module, name, message in _OURS.findall(text):
        try:
            kind = getattr(importlib.import_module(module), name, None)
        except ImportError:
            continue
        if isinstance(kind, type) and issubclass(kind, PyroMQError):
            found = (kind, message)
    return found


def is_transient(text: str) -> bool:
    """Whether starting the query again may help."""
    ours = our_error(text)
    if ours is not None:
        return ours[0].retryable
    return any(phrase in text for phrase in _PASSING)


def explain(text: str) -> str:
    """A failure in a few lines, for people."""
    ours = our_error(text)
    if ours is not None:
        return f"{ours[0].__name__}: {ours[1]}"[:MAX_TEXT]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    first = next((line for line in lines if _CONDITION.match(line)), lines[0] if lines else "the query failed")
    return (f"{first} ({errors[-1]})" if errors and errors[-1] not in first else first)[:MAX_TEXT]
