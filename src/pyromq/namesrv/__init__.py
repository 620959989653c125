"""The name server: routes and key-value configuration."""

from pyromq.namesrv.config import NamesrvConfig
from pyromq.namesrv.server import NameServer

__all__ = ["NameServer", "NamesrvConfig"]
