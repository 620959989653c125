"""What every request gets before it leaves: namespace, stream mark, zone, language, and the signature last.

The signature covers all fields, so nothing may be added after it; users' hooks therefore run before it.
"""

from pyromq.client.config import ClientConfig
from pyromq.protocol.command import Command, Serialization
from pyromq.protocol.release import Language
from pyromq.remoting.hooks import RequestHook, Signing


def request_hooks(config: ClientConfig) -> tuple[RequestHook, ...]:
    """The steps a configuration asks for, in their order; empty for the plain one, so that it costs nothing."""
    hooks: list[RequestHook] = []
    fields = _fixed_fields(config)
    if fields or config.binary_headers or config.language is not Language.PYTHON:
        hooks.append(Marking(config, fields))
    hooks.extend(config.request_hooks)
    if config.access_key is not None and config.secret_key is not None:
        hooks.append(Signing(config.access_key, config.secret_key, config.security_token))
    return tuple(hooks)


class Marking:
    """Adds fields that are the same for every request."""

    def __init__(self, config: ClientConfig, fields: dict[str, str]) -> None:
        self._fields = fields
        self._serialization = Serialization.ROCKETMQ if config.binary_headers else Serialization.JSON
        self._language = config.language

    def before(self, command: Command, address: str) -> None:  # noqa: ARG002 - the same for every address
        command.language = self._language
        command.serialization = self._serialization
        if self._fields:
            command.ext.update(self._fields)

    def after(self, command: Command, response: Command, address: str) -> None:
        """Nothing to do."""


def _fixed_fields(config: ClientConfig) -> dict[str, str]:
    fields: dict[str, str] = {}
    if config.namespace_v2:
        fields |= {"nsd": "true", "ns": config.namespace_v2}
    if config.stream_requests:
        fields["ReqT"] = "0"
    if config.zone:
        fields["__ZONE_NAME"] = config.zone
    if config.zone_mode:
        fields["__ZONE_MODE"] = config.zone_mode
    return fields
