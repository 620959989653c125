"""The message store: commit log, consume queues, index, flush, recovery, retention. Files, no network.

`MessageStore` is the way in; the names below are what a broker needs beside it.
"""

from pyromq.store.config import BrokerRole, FlushDiskType, StoreConfig
from pyromq.store.dispatch import Dispatch
from pyromq.store.errors import DiskFullError, StoreClosedError, StoreError, StoreFormatError, StoreLockedError
from pyromq.store.flags import Flag
from pyromq.store.lookup import QueryResult
from pyromq.store.messagestore import MessageStore
from pyromq.store.offsettime import Boundary
from pyromq.store.putting import PutMessage, PutResult, PutStatus
from pyromq.store.reading import GetResult, GetStatus
from pyromq.store.soundness import CrcOnRead
from pyromq.store.stats import StoreStats

__all__ = [
    "Boundary",
    "BrokerRole",
    "CrcOnRead",
    "DiskFullError",
    "Dispatch",
    "Flag",
    "FlushDiskType",
    "GetResult",
    "GetStatus",
    "MessageStore",
    "PutMessage",
    "PutResult",
    "PutStatus",
    "QueryResult",
    "StoreClosedError",
    "StoreConfig",
    "StoreError",
    "StoreFormatError",
    "StoreLockedError",
    "StoreStats",
]
