"""What the name server accepts as a name or an address. Everything else never enters a table.

The rule is wider than that of `protocol.names`, because brokers also register topics that no user can create: names of
clusters and hosts, which have dots, and retry topics with a plus sign. It still has no slash, blank or control
character, so no name can harm whoever receives it in a route.
"""

import re

from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.errors import ValidationError

MAX_NAME = 255
_NAME = re.compile(r"(?!\.+\Z)[%|a-zA-Z0-9_.+$@:-]{1,255}")
_ADDRESS = re.compile(r"(?:[a-zA-Z0-9_.-]{1,255}|\[?[0-9a-fA-F:.]{2,45}\]?):([0-9]{1,5})")


def is_name(text: str) -> bool:
    """Whether a topic, broker or cluster may be called so."""
    return _NAME.fullmatch(text) is not None


def check_name(kind: str, text: str) -> None:
    """Raise ValidationError unless `text` may be the name of a topic, broker or cluster."""
    if not is_name(text):
        raise ValidationError(
            f"{kind} {text[:MAX_NAME]!r} is not a name: 1 to {MAX_NAME} letters, digits or any of %|_.+$@:-",
            ResponseCode.INVALID_PARAMETER,
        )


def check_address(kind: str, text: str) -> None:
    """Raise ValidationError unless `text` is `host:port`."""
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match[1]) <= 65535:
        raise ValidationError(f"{kind} {text[:300]!r} is not host:port", ResponseCode.INVALID_PARAMETER)
