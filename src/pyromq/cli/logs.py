"""Logging of the commands: one line for each event, on standard error, as text or JSON.

Only commands configure logging; the library just emits records.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import typer


class LogLevel(StrEnum):
    """From everything to nearly nothing."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """Text for people, JSON for machines."""

    TEXT = "text"
    JSON = "json"


Level = Annotated[LogLevel, typer.Option("--log-level", help="Least important events to log.")]
Format = Annotated[LogFormat, typer.Option("--log-format", help="Form of the log lines on standard error.")]

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}


class JsonLines(logging.Formatter):
    """One JSON object for each record, with whatever `extra` it carries."""

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        event |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event, default=str, ensure_ascii=False)


class TextLines(logging.Formatter):
    """Time, level, logger, message; a line break in a message cannot forge a second event."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        record.message = record.message.replace("\r", "\\r").replace("\n", "\\n")
        return super().formatMessage(record)


def configure(level: LogLevel, form: LogFormat) -> None:
    """Send the events of the whole process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form is LogFormat.JSON else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
