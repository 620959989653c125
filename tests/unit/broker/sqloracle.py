"""Expressions as trees, made by hypothesis: their text with as few parentheses as possible, and what they mean.

The meaning is written down here a second time, straight from the rules and without looking at the program under test.
"""

import re
from dataclasses import dataclass
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

OR, AND, EQUALITY, COMPARISON, UNARY, PRIMARY = range(6)
NAMES = ("a", "b", "c")
Truth = bool | None


class OracleError(Exception):
    """The evaluation of a message fails."""


@dataclass(frozen=True)
class Tree:
    """`level` is how tightly its outermost operator binds; `parts` are trees or texts."""

    kind: str
    level: int
    parts: tuple[Any, ...] = ()

    def text(self, level: int = OR) -> str:
        """The expression, in parentheses if it stands where tighter binding is needed."""
        plain = self._plain()
        return f"({plain})" if self.level < level else plain

    def _plain(self) -> str:
        parts = self.parts
        match self.kind:
            case "or" | "and":
                return f" {self.kind.upper()} ".join(part.text(self.level + 1) for part in parts)
            case "not":
                return f"NOT {parts[0].text(UNARY)}"
            case "minus":
                return f"- {parts[0].text(UNARY)}"
            case "equal":
                return f"{parts[1].text(EQUALITY)} {parts[0]} {parts[2].text(COMPARISON)}"
            case "rank":
                return f"{parts[1].text(COMPARISON)} {parts[0]} {parts[2].text(UNARY)}"
            case "null":
                return f"{parts[1].text(EQUALITY)} IS {parts[0]}NULL"
            case "between":
                return (
                    f"{parts[1].text(COMPARISON)} {parts[0]}BETWEEN {parts[2].text(UNARY)} AND {parts[3].text(UNARY)}"
                )
            case "in":
                return f"{parts[1].text(COMPARISON)} {parts[0]}IN ({', '.join(map(quoted, parts[2]))})"
            case "search":
                return f"{parts[2].text(COMPARISON)} {parts[0]}{parts[1]} {quoted(parts[3])}"
            case "text":
                return quoted(parts[0])
            case _:
                return str(parts[0])

    def value(self, message: dict[str, str]) -> Any:  # noqa: C901 - one case for each rule
        """What it evaluates to: None, a truth value, a text, or a number with its type as (type, number)."""
        parts = self.parts
        match self.kind:
            case "name":
                return message.get(parts[0])
            case "text":
                return parts[0]
            case "truth":
                return {"TRUE": True, "FALSE": False, "NULL": None}[parts[0]]
            case "number":
                text = parts[0].rstrip("lL")
                if not text.isdigit():
                    return "double", float(text)
                return ("int", int(text)) if int(text) < 2**31 else ("long", int(text))
            case "minus":
                value = parts[0].value(message)
                return (value[0], -value[1]) if isinstance(value, tuple) else None
            case "not":
                value = truth(parts[0], message)
                return None if value is None else not value
            case "or" | "and":
                return self._join(message)
            case "equal":
                same = equals(parts[1].value(message), parts[2].value(message))
                return same if parts[0] == "=" or same is None else not same
            case "null":
                return (parts[1].value(message) is None) == (parts[0] == "")
            case "rank":
                return ranks(parts[0], parts[1].value(message), lambda: parts[2].value(message))
            case "between":
                return self._between(message)
            case "in":
                found = parts[1].value(message)
                return None if found is None else (found in parts[2]) == (parts[0] == "")
            case "search":
                return self._search(message)
        raise AssertionError(self.kind)

    def _join(self, message: dict[str, str]) -> Truth:
        """Kleene's logic from left to right, stopping at what decides."""
        decides = self.kind == "or"
        values: list[Truth] = []
        for part in self.parts:
            values.append(truth(part, message))
            if values[-1] is decides:
                return decides
        return None if None in values else not decides

    def _between(self, message: dict[str, str]) -> Truth:
        negated, value, low, high = self.parts
        below, above = ("<", ">") if negated else (">=", "<=")
        bounds = Tree("rank", COMPARISON, (below, value, low)), Tree("rank", COMPARISON, (above, value, high))
        return Tree("or" if negated else "and", OR, bounds)._join(message)

    def _search(self, message: dict[str, str]) -> bool:
        negated, how, where, what = self.parts
        if what == "":
            return False
        text = where.value(message)
        if not isinstance(text, str):
            return False
        pattern = {"CONTAINS": f".*{re.escape(what)}.*", "STARTSWITH": f"{re.escape(what)}.*"}.get(
            how, f".*{re.escape(what)}"
        )
        return (re.fullmatch(pattern, text, re.DOTALL) is not None) is not bool(negated)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def truth(tree: Tree, message: dict[str, str]) -> Truth:
    """A tree as a condition: a property that is there is false, whatever it says."""
    value: Truth = tree.value(message)
    if tree.kind == "name":
        return None if value is None else False
    return value


def read(text: str, kind: str) -> float:
    if kind == "double" and re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text):
        return float(text)
    if kind != "double" and re.fullmatch(r"[+-]?\d+", text):
        number, bits = int(text), {"int": 31, "long": 63}[kind]
        if -(2**bits) <= number < 2**bits:
            return number
    raise OracleError(text)


def equals(left: Any, right: Any) -> Truth:
    if left is None or right is None:
        return True if left is right else None if left is None else False
    match left, right:
        case str(), str():
            return bool(left == right)
        case str(), bool():
            return (left.upper() == "TRUE") == right
        case bool(), str():
            raise OracleError(right)
        case str(), (kind, number):
            return bool(read(left, kind) == number)
        case (kind, number), str():
            return bool(read(right, kind) == number)
        case (_, first), (_, second):
            return bool(first == second)
    return left is right


def ranks(operator: str, left: Any, right_of: Any) -> Truth:
    if left is None:
        return None
    right = right_of()
    if right is None:
        return None
    match left, right:
        case str(), str():
            first, second = read(left, "double"), read(right, "double")
        case str(), (kind, second):
            first = read(left, kind)
        case (kind, first), str():
            second = read(right, kind)
        case (_, first), (_, second):
            pass
        case _:
            raise AssertionError((left, right))
    return {"<": first < second, "<=": first <= second, ">": first > second, ">=": first >= second}[operator]


TEXTS = ("x", "xy", "1", "15", "-3", "2.5", "true", "FALSE", "", "it's", "3000000000", "1e3", "1.0")
NUMBERS = ("0", "1", "15", "3L", "2147483647", "2147483648", "2.5", ".5", "1.", "1e3")
MAX_DEPTH = 3

texts = st.sampled_from(TEXTS)
messages = st.dictionaries(st.sampled_from(NAMES), texts.filter(bool), max_size=3)
negations = st.sampled_from(["", "NOT "])


@st.composite
def names(draw: st.DrawFn) -> Tree:
    return Tree("name", PRIMARY, (draw(st.sampled_from(NAMES)),))


@st.composite
def numeric(draw: st.DrawFn) -> Tree:
    """What may stand beside < and its like."""
    number = Tree("number", PRIMARY, (draw(st.sampled_from(NUMBERS)),))
    name = draw(names())
    return draw(st.sampled_from([name, name, number, Tree("minus", UNARY, (number,)), Tree("minus", UNARY, (name,))]))


@st.composite
def operands(draw: st.DrawFn, depth: int) -> Tree:
    """What may stand beside =, and before IS NULL or CONTAINS."""
    match draw(st.integers(0, 5 if depth < MAX_DEPTH else 4)):
        case 0 | 1:
            return draw(names())
        case 2:
            return draw(numeric())
        case 3:
            return Tree("text", PRIMARY, (draw(texts),))
        case 4:
            return Tree("truth", PRIMARY, (draw(st.sampled_from(["TRUE", "FALSE", "NULL"])),))
    return draw(expressions(depth + 1))


@st.composite
def expressions(draw: st.DrawFn, depth: int = 0) -> Tree:
    """A condition of any kind that compiles."""
    match draw(st.integers(0 if depth < MAX_DEPTH else 3, 9)):
        case 0:
            return Tree("or", OR, tuple(draw(expressions(depth + 1)) for _ in range(draw(st.integers(2, 4)))))
        case 1:
            return Tree("and", AND, tuple(draw(expressions(depth + 1)) for _ in range(draw(st.integers(2, 4)))))
        case 2:
            return Tree("not", UNARY, (draw(expressions(depth + 1)),))
        case 3:
            left, right = draw(operands(depth)), draw(operands(depth))
            assume("NULL" not in (left.parts[0], right.parts[0]))
            assume(left.kind != "truth" or right.kind not in ("text", "number"))
            return Tree("equal", EQUALITY, (draw(st.sampled_from(["=", "<>"])), left, right))
        case 4:
            return Tree("null", EQUALITY, (draw(negations), draw(operands(depth))))
        case 5:
            return Tree(
                "rank", COMPARISON, (draw(st.sampled_from(["<", "<=", ">", ">="])), draw(numeric()), draw(numeric()))
            )
        case 6:
            negated, low, high = draw(negations), draw(numeric()), draw(numeric())
            if not negated and low.kind == high.kind == "number":
                low, high = sorted((low, high), key=lambda tree: float(tree.value({})[1]))
            return Tree("between", COMPARISON, (negated, draw(numeric()), low, high))
        case 7:
            return Tree(
                "in", COMPARISON, (draw(negations), draw(names()), draw(st.lists(texts, min_size=1, max_size=7)))
            )
        case 8:
            how = draw(st.sampled_from(["CONTAINS", "STARTSWITH", "ENDSWITH"]))
            return Tree("search", COMPARISON, (draw(negations), how, draw(operands(depth)), draw(texts)))
    return draw(
        st.sampled_from([draw(names()), Tree("truth", PRIMARY, (draw(st.sampled_from(["TRUE", "FALSE", "NULL"])),))])
    )
