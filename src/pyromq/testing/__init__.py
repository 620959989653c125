"""A cluster inside your tests: real servers in this process, on free ports, in a folder that goes with them.

    from pyromq.testing import Cluster

    with Cluster() as cluster:
        cluster.create_topic("orders")
        run_my_application(namesrv=cluster.namesrv)
        assert [message.body for message in cluster.messages("orders")] == [b"two pizzas"]

`pyromq.testing.plugin` has the same as pytest fixtures.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyromq.testing.arrivals import NotReceivedError, receive
    from pyromq.testing.cluster import Cluster

__all__ = ["Cluster", "NotReceivedError", "receive"]

_HOMES = {
    "Cluster": "pyromq.testing.cluster",
    "NotReceivedError": "pyromq.testing.arrivals",
    "receive": "pyromq.testing.arrivals",
}


def __getattr__(name: str) -> object:
    """Loaded when first used: pytest imports this package in every run, with or without a cluster."""
    if name not in _HOMES:
        raise AttributeError(f"module 'pyromq.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
