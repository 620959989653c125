"""The grammar of SQL92 subscriptions, turned into closures as it is read. See `compile_sql`.

    or         := and (OR and)*
    and        := equality (AND equality)*
    equality   := comparison (("=" | "<>") comparison | IS [NOT] NULL)*
    comparison := unary ((">" | ">=" | "<" | "<=") unary | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) string
                  | [NOT] BETWEEN unary AND unary | [NOT] IN "(" string ("," string)* ")")*
    unary      := ("+" | "-" | NOT) unary | primary
    primary    := string | integer | float | TRUE | FALSE | NULL | name | "(" or ")"

Invariant: neither reading nor evaluating nests deeper than MAX_DEPTH, and no evaluation costs more than MAX_COST.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pyromq.broker.filter.sql.errors import EvaluationError, SqlSyntaxError
from pyromq.broker.filter.sql.lexer import Kind, Lexer, Token
from pyromq.broker.filter.sql.values import INT_MAX, LONG_MAX, Long, Value, compare, equal, ranked

MAX_DEPTH: Final = 64
MAX_COST: Final = 512
SEARCH_COST: Final = 16
"""Looking through a text costs more than reading a number: a property may have 32 767 characters."""

Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Value]
Predicate = Callable[[Properties], bool]

RANKINGS: Final[dict[str, Callable[[int], bool]]] = {
    ">": lambda rank: rank > 0,
    ">=": lambda rank: rank >= 0,
    "<": lambda rank: rank < 0,
    "<=": lambda rank: rank <= 0,
}
SEARCHES: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": lambda text, part: part in text,
    "STARTSWITH": lambda text, part: text.startswith(part),
    "ENDSWITH": lambda text, part: text.endswith(part),
}


class Node(NamedTuple):
    """A part of an expression: how to evaluate it, and what the rules about operands need to know of it."""

    evaluate: Evaluate
    depth: int = 0
    constant: bool = False
    boolean: bool = False
    name: str | None = None
    """Set for a bare property."""

    @property
    def value(self) -> Value:
        """What a constant is."""
        return self.evaluate({})


def compile_sql(expression: str) -> Predicate:
    """A function that tells whether a message with these properties matches. Raises SqlSyntaxError.

    >>> adult = compile_sql("age >= 18 AND country IS NOT NULL")
    >>> adult({"age": "40", "country": "ch"}), adult({"age": "40"}), adult({"age": "?", "country": "ch"})
    (True, False, False)
    """
    evaluate = compile_value(expression)

    def matches(properties: Properties) -> bool:
        try:
            return evaluate(properties) is True
        except EvaluationError:
            return False

    return matches


def compile_value(expression: str) -> Evaluate:
    """The same in three values, None for unknown, and with EvaluationError coming through."""
    parser = _Parser(Lexer(expression))
    return parser.condition(parser.disjunction(0)).evaluate


class _Parser:
    """Reads one expression. Each method consumes what its rule covers; `depth` counts how far it is nested."""

    def __init__(self, lexer: Lexer) -> None:
        self._lexer = lexer
        self._cost = 0

    def condition(self, node: Node) -> Node:
        """A node where a truth value is needed: a bare property counts as false if it is there."""
        if node.boolean:
            return node
        if node.name is None:
            raise self._error("a condition is needed here, not a value")
        inner = node.evaluate
        return Node(lambda properties: None if inner(properties) is None else False, node.depth, boolean=True)

    def disjunction(self, depth: int) -> Node:
        return self._joined("OR", self._conjunction, depth, deciding=True)

    def _conjunction(self, depth: int) -> Node:
        return self._joined("AND", self._equality, depth, deciding=False)

    def _joined(self, keyword: str, operand: Callable[[int], Node], depth: int, *, deciding: bool) -> Node:
        node = operand(depth)
        if not self._at(keyword):
            return node
        nodes = [self.condition(node)]
        while self._skip(keyword):
            nodes.append(self.condition(operand(depth)))
        parts = [each.evaluate for each in nodes]

        def evaluate(properties: Properties) -> Value:
            unknown = False
            for part in parts:
                value = part(properties)
                if value is deciding:
                    return deciding
                unknown |= value is None
            return None if unknown else not deciding

        return self._node(evaluate, *nodes, cost=len(nodes))

    def _equality(self, depth: int) -> Node:
        node = self._comparison(depth)
        while True:
            if self._skip("IS"):
                negated = self._skip("NOT")
                self._expect("NULL")
                node = self._is_null(node, negated=negated)
            elif self._at("=", "<>"):
                operator = self._lexer.take().text
                node = self._equal(node, self._comparison(depth), negated=operator == "<>")
            else:
                return node

    def _comparison(self, depth: int) -> Node:
        node = self._unary(depth)
        while True:
            if self._at(*RANKINGS):
                operator = self._lexer.take().text
                node = self._ranked(node, operator, self._unary(depth))
            elif self._at("NOT", "BETWEEN", "IN", *SEARCHES):
                negated = self._skip("NOT")
                if self._skip("BETWEEN"):
                    node = self._between(node, depth, negated=negated)
                elif self._skip("IN"):
                    node = self._in(node, negated=negated)
                elif self._at(*SEARCHES):
                    node = self._search(node, self._lexer.take().text, self._string(), negated=negated)
                else:
                    raise self._error("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH is needed after NOT")
            else:
                return node

    def _unary(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self._error(f"the expression is nested more than {MAX_DEPTH} deep")
        if self._skip("+"):
            return self._unary(depth + 1)
        if self._skip("-"):
            return self._negative(self._unary(depth + 1))
        if self._skip("NOT"):
            return self._negation(self.condition(self._unary(depth + 1)))
        return self._primary(depth)

    def _primary(self, depth: int) -> Node:
        token = self._lexer.take()
        if token.kind is Kind.NAME:
            name = sys.intern(token.text)
            return Node(lambda properties: properties.get(name), name=name)
        if token.text == "(" and token.kind is Kind.OPERATOR:
            node = self.disjunction(depth + 1)
            self._expect(")")
            return node
        if token.kind is Kind.KEYWORD and token.text in {"TRUE", "FALSE", "NULL"}:
            truth = {"TRUE": True, "FALSE": False, "NULL": None}[token.text]
            return Node(lambda _properties: truth, constant=True, boolean=True)
        return self._literal(token)

    def _literal(self, token: Token) -> Node:
        value: Value
        if token.kind is Kind.STRING:
            value = token.text
        elif token.kind is Kind.INTEGER:
            value = self._integer(token)
        elif token.kind is Kind.FLOAT:
            value = float(token.text)
            if not 0.0 < value <= sys.float_info.max:
                raise self._error(f"{token.text} must be above 0 and at most {sys.float_info.max}", token)
        else:
            raise self._error("a value, a property or ( is needed here", token)
        return Node(lambda _properties: value, constant=True)

    def _integer(self, token: Token) -> int:
        digits = token.text.rstrip("lL")
        if len(digits) > len(str(LONG_MAX)) or (value := int(digits)) > LONG_MAX:
            raise self._error(f"{digits[:40]} is larger than {LONG_MAX}", token)
        return value if value <= INT_MAX else Long(value)

    def _negative(self, operand: Node) -> Node:
        """Numbers only; the negative of anything else is unknown. Not a constant, by RocketMQ's rules."""
        inner = operand.evaluate

        def evaluate(properties: Properties) -> Value:
            value = inner(properties)
            if isinstance(value, bool) or not isinstance(value, int | float):
                return None
            return type(value)(-value)

        return self._node(evaluate, operand, boolean=False)

    def _negation(self, operand: Node) -> Node:
        inner = operand.evaluate

        def evaluate(properties: Properties) -> Value:
            value = inner(properties)
            return None if value is None else not value

        return self._node(evaluate, operand)

    def _is_null(self, operand: Node, *, negated: bool) -> Node:
        inner = operand.evaluate
        return self._node(lambda properties: (inner(properties) is None) is not negated, operand)

    def _equal(self, left: Node, right: Node, *, negated: bool) -> Node:
        for operand in (left, right):
            if operand.constant and operand.value is None:
                raise self._error("NULL cannot be compared: write IS NULL or IS NOT NULL")
        if left.constant and right.constant and left.boolean and not right.boolean:
            raise self._error("a truth value cannot be compared with another constant")
        first, second = left.evaluate, right.evaluate
        if negated:

            def unequal(properties: Properties) -> Value:
                same = equal(first(properties), second(properties))
                return None if same is None else not same

            return self._node(unequal, left, right)
        return self._node(lambda properties: equal(first(properties), second(properties)), left, right)

    def _ranked(self, left: Node, operator: str, right: Node) -> Node:
        for operand in (left, right):
            if operand.boolean or (operand.constant and not isinstance(operand.value, int | float)):
                raise self._error(f"only numbers and properties can be compared with {operator}")
        first, second, holds = left.evaluate, right.evaluate, RANKINGS[operator]

        def evaluate(properties: Properties) -> Value:
            value = first(properties)
            if value is None:
                return None
            rank = ranked(value, second(properties))
            return None if rank is None else holds(rank)

        return self._node(evaluate, left, right)

    def _between(self, operand: Node, depth: int, *, negated: bool) -> Node:
        low = self._unary(depth)
        self._expect("AND")
        high = self._unary(depth)
        below, above = ("<", ">") if negated else (">=", "<=")
        first, second = self._ranked(operand, below, low), self._ranked(operand, above, high)
        if not negated and low.constant and high.constant and _exceeds(low.value, high.value):
            raise self._error("the lower bound of BETWEEN is above the upper one")
        one, other = first.evaluate, second.evaluate

        def evaluate(properties: Properties) -> Value:
            value = one(properties)
            if value is negated:
                return negated
            further = other(properties)
            if further is negated:
                return negated
            return None if value is None or further is None else not negated

        return self._node(evaluate, first, second)

    def _in(self, operand: Node, *, negated: bool) -> Node:
        if operand.name is None:
            raise self._error("IN needs a property on its left")
        self._expect("(")
        texts = {self._string()}
        while self._skip(","):
            texts.add(self._string())
        self._expect(")")
        inner, choices = operand.evaluate, frozenset(texts)

        def evaluate(properties: Properties) -> Value:
            value = inner(properties)
            return None if value is None else (value in choices) is not negated

        return self._node(evaluate, operand)

    def _search(self, operand: Node, operator: str, part: str, *, negated: bool) -> Node:
        """False without a text to look in or to look for, also when negated."""
        inner, found = operand.evaluate, SEARCHES[operator]

        def evaluate(properties: Properties) -> Value:
            if not part:
                return False
            value = inner(properties)
            return isinstance(value, str) and found(value, part) is not negated

        return self._node(evaluate, operand, cost=SEARCH_COST)

    def _node(self, evaluate: Evaluate, *operands: Node, cost: int = 1, boolean: bool = True) -> Node:
        """A node above others, within the bounds."""
        self._cost += cost
        depth = 1 + max(operand.depth for operand in operands)
        if depth > MAX_DEPTH:
            raise self._error(f"the expression is nested more than {MAX_DEPTH} deep")
        if self._cost > MAX_COST:
            raise self._error(
                f"the expression does too much for a filter: each operator counts 1, a text search {SEARCH_COST}, "
                f"and {MAX_COST} is the limit; a list of texts is cheaper as IN (...)"
            )
        return Node(evaluate, depth, boolean=boolean)

    def _at(self, *texts: str) -> bool:
        token = self._lexer.peek()
        return token.text in texts and token.kind in (Kind.KEYWORD, Kind.OPERATOR)

    def _skip(self, text: str) -> bool:
        if self._at(text):
            self._lexer.take()
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._skip(text):
            raise self._error(f"{text} is needed here")

    def _string(self) -> str:
        token = self._lexer.take()
        if token.kind is not Kind.STRING:
            raise self._error("a text in single quotes is needed here", token)
        return token.text

    def _error(self, message: str, token: Token | None = None) -> SqlSyntaxError:
        token = token or self._lexer.peek()
        found = f"{token.text[:40]!r} was found" if token.kind is not Kind.END else "the expression ends"
        return SqlSyntaxError(f"character {token.position + 1}, where {found}: {message}")


def _exceeds(low: Value, high: Value) -> bool:
    return low is not None and high is not None and compare(low, high) > 0
