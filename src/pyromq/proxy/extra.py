"""Whether the extra `grpc` is installed. Imports nothing of it, so that everything else works without."""

from importlib.util import find_spec
from typing import Final

MISSING: Final = "gRPC clients are not served: that needs the extra `grpc` (pip install 'pyromq[grpc]')"


def is_installed() -> bool:
    """Whether there is what serving gRPC clients needs."""
    return find_spec("google") is not None and find_spec("google.protobuf") is not None
