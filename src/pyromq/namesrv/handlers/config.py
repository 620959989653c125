"""Remote reading and changing of the server's own settings: an allow-list, for as long as the process lives."""

from collections.abc import Mapping

from pyromq.namesrv.config import NamesrvConfig
from pyromq.protocol import javaproperties
from pyromq.protocol.bounds import SETTINGS, check_size
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.errors import BodyError
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler
from pyromq.settings.errors import ConfigError, NotReloadableError


class ConfigHandlers:
    def __init__(self, config: NamesrvConfig) -> None:
        self._config = config

    def table(self) -> Mapping[int, Handler]:
        return {RequestCode.UPDATE_NAMESRV_CONFIG: self.update, RequestCode.GET_NAMESRV_CONFIG: self.get}

    def update(self, command: Command, _: Connection) -> Command:
        check_size("the body", command.body, SETTINGS)
        try:
            self._config.change(javaproperties.loads(bytes(command.body).decode()))
        except UnicodeDecodeError:
            raise BodyError("the properties are not UTF-8") from None
        except NotReloadableError as error:
            return command.reply(ResponseCode.NO_PERMISSION, remark=str(error))
        except ConfigError as error:
            return command.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        return command.reply()

    def get(self, command: Command, _: Connection) -> Command:
        return command.reply(body=javaproperties.dumps(self._config.public()).encode())
