"""Name servers: key-value configuration, their own settings, write permission of brokers.

They do not tell each other anything: what changes something goes to all of them.
"""

from collections.abc import Mapping

from pyromq.client.admin.brokers import properties_of, properties_text
from pyromq.client.admin.reach import Subject, as_client_errors
from pyromq.client.errors import BrokerError
from pyromq.protocol.bodies.tables import KVTable
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.headers.namesrv import (
    AddWritePermOfBrokerHeader,
    AddWritePermOfBrokerResponseHeader,
    DeleteKvConfigHeader,
    GetKvConfigHeader,
    GetKvConfigResponseHeader,
    GetKvlistByNamespaceHeader,
    PutKvConfigHeader,
    WipeWritePermOfBrokerHeader,
    WipeWritePermOfBrokerResponseHeader,
)


class NameServerMethods(Subject):
    """What `Admin` does with name servers."""

    def name_servers(self) -> tuple[str, ...]:
        """Addresses of the name servers this client uses."""
        return self._reach().instance.name_servers.addresses

    async def name_server_config(self) -> dict[str, dict[str, str]]:
        """The settings of each name server under their property names."""
        answers = await self._reach().each_name_server("reading settings", RequestCode.GET_NAMESRV_CONFIG)
        return {address: properties_of(answer) for address, answer in answers.items()}

    async def update_name_server_config(self, changes: Mapping[str, str]) -> list[str]:
        """Change settings of all name servers while they run; the addresses of those that took them."""
        what = f"changing {', '.join(sorted(changes))}"
        code = RequestCode.UPDATE_NAMESRV_CONFIG
        return list(await self._reach().each_name_server(what, code, body=properties_text(changes)))

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Store a value on all name servers."""
        header = PutKvConfigHeader(namespace=namespace, key=key, value=value)
        await self._reach().each_name_server(f"storing {namespace}/{key}", RequestCode.PUT_KV_CONFIG, header)

    async def get_kv(self, namespace: str, key: str) -> str | None:
        """A value as one name server knows it; None when it does not."""
        header = GetKvConfigHeader(namespace=namespace, key=key)
        try:
            response = await self._reach().ask_name_server(RequestCode.GET_KV_CONFIG, header)
        except BrokerError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        with as_client_errors("name server"):
            return response.header(GetKvConfigResponseHeader).value

    async def delete_kv(self, namespace: str, key: str) -> None:
        """Delete a value on all name servers."""
        header = DeleteKvConfigHeader(namespace=namespace, key=key)
        await self._reach().each_name_server(f"deleting {namespace}/{key}", RequestCode.DELETE_KV_CONFIG, header)

    async def list_kv(self, namespace: str) -> dict[str, str]:
        """All values of a namespace as one name server knows them."""
        header = GetKvlistByNamespaceHeader(namespace=namespace)
        try:
            table = await self._reach().read_name_server(RequestCode.GET_KVLIST_BY_NAMESPACE, KVTable, header)
        except BrokerError as error:
            if error.code == ResponseCode.QUERY_NOT_FOUND:
                return {}
            raise
        return dict(sorted(table.table.items()))

    async def wipe_write_permission(self, broker_name: str) -> dict[str, int]:
        """Let no producer write to a broker any more, for example before it is stopped; topics changed, by server."""
        header = WipeWritePermOfBrokerHeader(broker_name=broker_name)
        what = f"taking away writing to {broker_name!r}"
        answers = await self._reach().each_name_server(what, RequestCode.WIPE_WRITE_PERM_OF_BROKER, header)
        with as_client_errors("name server"):
            return {
                address: answer.header(WipeWritePermOfBrokerResponseHeader).wipe_topic_count
                for address, answer in answers.items()
            }

    async def add_write_permission(self, broker_name: str) -> dict[str, int]:
        """Undo `wipe_write_permission`; topics changed, by server."""
        header = AddWritePermOfBrokerHeader(broker_name=broker_name)
        what = f"giving back writing to {broker_name!r}"
        answers = await self._reach().each_name_server(what, RequestCode.ADD_WRITE_PERM_OF_BROKER, header)
        with as_client_errors("name server"):
            return {
                address: answer.header(AddWritePermOfBrokerResponseHeader).add_topic_count
                for address, answer in answers.items()
            }
