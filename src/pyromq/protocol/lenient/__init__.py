"""JSON as Java's fastjson writes and reads it.

`loads` accepts strict JSON and what fastjson adds to it; `dumps` writes the form a given peer needs. Nothing here
knows a particular body: shapes live in `pyromq.protocol.bodies`.
"""

from pyromq.protocol.lenient.limits import MAX_DEPTH, MAX_INPUT
from pyromq.protocol.lenient.objectkey import ObjectKey
from pyromq.protocol.lenient.reader import loads
from pyromq.protocol.lenient.writer import dumps, java_double

__all__ = ["MAX_DEPTH", "MAX_INPUT", "ObjectKey", "dumps", "java_double", "loads"]
