"""Request signatures: an HMAC-SHA1 over the values of the ext fields, in the order of their keys, and the body.

There is no time and no nonce in it, so a signature proves who wrote a request but not that it is fresh.
"""

import base64
import hashlib
import hmac
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from pyromq.protocol.command import Body, Command
from pyromq.protocol.errors import SignatureError
from pyromq.protocol.release import V4_9_3

ACCESS_KEY = "AccessKey"
SECURITY_TOKEN = "SecurityToken"  # noqa: S105 - the name of a field
SIGNATURE = "Signature"
UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
ZONE_NAME = "__ZONE_NAME"
ZONE_MODE = "__ZONE_MODE"


def sign(ext: Mapping[str, str], body: Body, secret_key: str) -> str:
    """The signature of a request with these ext fields; one that is among them already does not count.

    Raises SignatureError for an empty key or text without a UTF-8 form.

    >>> sign({"AccessKey": "rocketmq2", "topic": "TopicTest"}, b"Hello", "12345678")
    """
    return base64.b64encode(_digest(ext, body, secret_key, ())).decode()


def signed(command: Command, access_key: str, secret_key: str, security_token: str | None = None) -> None:
    """Add the caller's key and the signature to a request. Fields added after this break it."""
    ext = command.ext
    ext[ACCESS_KEY] = access_key
    if security_token is not None:
        ext[SECURITY_TOKEN] = security_token
    ext[SIGNATURE] = sign(ext, command.body, secret_key)


def verify(command_ext: Mapping[str, str], body: Body, version: int, secret_key: str) -> bool:
    """Whether a request of a peer of that `version` was signed with this key.

    Clients do not agree on what they sign, so the fields some of them leave out are tried without, too.
    """
    claimed = command_ext.get(SIGNATURE, "").encode("utf-8", "replace")
    if hmac.compare_digest(claimed, base64.b64encode(_digest(command_ext, body, secret_key, ()))):
        return True
    return any(
        hmac.compare_digest(claimed, base64.b64encode(_digest(command_ext, body, secret_key, left_out)))
        for left_out in _exemptions(command_ext, version)
    )


_QUERY = frozenset({UNIQUE_KEY_QUERY})
_OPTIONAL = (frozenset({ZONE_NAME, ZONE_MODE}), frozenset({SECURITY_TOKEN}), _QUERY)
"""Added after signing by Java, not signed by Go, not signed by old clients."""


def _exemptions(ext: Mapping[str, str], version: int) -> Iterator[frozenset[str]]:
    """Which fields may be missing from the signed content."""
    candidates: list[frozenset[str]] = [frozenset()]
    for names in _OPTIONAL:
        if not names.isdisjoint(ext) and (names is not _QUERY or version <= V4_9_3):
            candidates += [candidate | names for candidate in candidates]
    yield from candidates[1:]


def _digest(ext: Mapping[str, str], body: Body, secret_key: str, left_out: Collection[str]) -> bytes:
    if not secret_key:
        raise SignatureError("the secret key is empty")
    # For ASCII, which all known fields are, Java's order of names is Python's.
    names = sorted(ext) if "".join(ext).isascii() else sorted(ext, key=_java_order)
    try:
        if left_out:
            names = [name for name in names if name not in left_out]
        content = "".join([ext[name] for name in names if name != SIGNATURE]).encode()
        mac = _keyed(secret_key).copy()
    except UnicodeEncodeError as error:
        raise SignatureError(f"a field or the key has no UTF-8 form: {error}") from None
    mac.update(content)
    mac.update(body)
    return mac.digest()


@lru_cache(maxsize=1024)
def _keyed(secret_key: str) -> hmac.HMAC:
    """Taking in the key is half of the work for a small request."""
    return hmac.new(secret_key.encode(), digestmod=hashlib.sha1)


def _java_order(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")
