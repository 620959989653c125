"""The request hook that signs."""

from pyromq.protocol.command import Command
from pyromq.protocol.signing import signed


class Signing:
    """Signs what a request has become; must be the last hook, since fields added later break the signature."""

    def __init__(self, access_key: str, secret_key: str, security_token: str | None = None) -> None:
        self._access_key = access_key
        self._secret_key = secret_key
        self._security_token = security_token

    def before(self, command: Command, address: str) -> None:  # noqa: ARG002 - the same for every address
        signed(command, self._access_key, self._secret_key, self._security_token)

    def after(self, command: Command, response: Command, address: str) -> None:
        """Responses are not signed."""
