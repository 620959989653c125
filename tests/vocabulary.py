"""Every header and every body of the protocol, found where they live, for tests that hold for all of them."""

import importlib
import pkgutil
from types import ModuleType
from typing import TypeVar

from pyromq.protocol import bodies, headers
from pyromq.protocol.bodies.base import Body
from pyromq.protocol.headers.base import Header

T = TypeVar("T")


def _classes(package: ModuleType, base: type[T]) -> list[type[T]]:
    found: dict[type[T], None] = {}
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        for member in vars(importlib.import_module(module.name)).values():
            if isinstance(member, type) and issubclass(member, base) and not member.__name__.startswith("_"):
                found[member] = None
    return list(found)


HEADERS: list[type[Header]] = _classes(headers, Header)
BODIES: list[type[Body]] = _classes(bodies, Body)
