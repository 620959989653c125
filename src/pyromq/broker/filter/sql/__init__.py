"""SQL92 subscriptions: an expression over a message's properties, compiled once, evaluated for each message.

`lexer` makes tokens, `values` compares as RocketMQ does, `grammar` turns tokens into closures and bounds their cost.
"""

from pyromq.broker.filter.sql.errors import SqlSyntaxError
from pyromq.broker.filter.sql.grammar import Predicate, compile_sql

__all__ = ["Predicate", "SqlSyntaxError", "compile_sql"]
