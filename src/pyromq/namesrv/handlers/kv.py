"""Key-value configuration: put, get, delete, list."""

from collections.abc import Mapping

from pyromq.namesrv.kv import KVConfig
from pyromq.protocol.bodies.tables import KVTable
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.namesrv import (
    DeleteKvConfigHeader,
    GetKvConfigHeader,
    GetKvConfigResponseHeader,
    GetKvlistByNamespaceHeader,
    PutKvConfigHeader,
)
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler


class KVHandlers:
    def __init__(self, kv: KVConfig) -> None:
        self._kv = kv

    def table(self) -> Mapping[int, Handler]:
        return {
            RequestCode.PUT_KV_CONFIG: self.put,
            RequestCode.GET_KV_CONFIG: self.get,
            RequestCode.DELETE_KV_CONFIG: self.delete,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self.list,
        }

    async def put(self, command: Command, _: Connection) -> Command:
        header = command.header(PutKvConfigHeader)
        await self._kv.put(header.namespace, header.key, header.value)
        return command.reply()

    def get(self, command: Command, _: Connection) -> Command:
        header = command.header(GetKvConfigHeader)
        value = self._kv.get(header.namespace, header.key)
        if value is None:
            remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
            return command.reply(ResponseCode.QUERY_NOT_FOUND, remark=remark)
        return command.reply(header=GetKvConfigResponseHeader(value=value))

    async def delete(self, command: Command, _: Connection) -> Command:
        header = command.header(DeleteKvConfigHeader)
        await self._kv.delete(header.namespace, header.key)
        return command.reply()

    def list(self, command: Command, _: Connection) -> Command:
        namespace = command.header(GetKvlistByNamespaceHeader).namespace
        values = self._kv.namespace(namespace)
        if not values:
            return command.reply(ResponseCode.QUERY_NOT_FOUND, remark=f"No config item, Namespace: {namespace}")
        return command.reply(body=KVTable(table=dict(values)).encode())
