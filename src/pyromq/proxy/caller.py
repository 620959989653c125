"""`Caller`: who makes a call, as its metadata says."""

from dataclasses import dataclass
from typing import Any

from pyromq.protocol.namespace import wrap
from pyromq.remoting.address import Address


@dataclass(frozen=True, slots=True)
class Caller:
    """A client, with the user who signed, if signatures are asked for. Made once for each call."""

    client_id: str
    peer: Address
    user: str = ""
    namespace: str = ""
    language: str = ""
    version: str = ""

    def name_of(self, resource: Any) -> str:
        """The full name of a topic or group: with the namespace of the resource, else that of the client."""
        namespace = resource.resource_namespace or self.namespace
        name: str = resource.name
        return wrap(namespace, name) if namespace else name
