"""SQL92 expressions: held against Apache's own results, against a second description of the rules, against malice."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyromq.broker.filter.sql import SqlSyntaxError, compile_sql
from pyromq.broker.filter.sql.errors import EvaluationError
from pyromq.broker.filter.sql.grammar import MAX_COST, MAX_DEPTH, SEARCH_COST, compile_value
from pyromq.broker.filter.sql.lexer import MAX_LENGTH
from tests.unit.broker.sqlgolden import GOLDEN, MESSAGES
from tests.unit.broker.sqloracle import OracleError, Tree, expressions, messages, truth

LETTERS: dict[Any, str] = {True: "T", False: "F", None: "N"}


def letter(evaluate: Any, message: dict[str, str]) -> str:
    try:
        return LETTERS[evaluate(message)]
    except (EvaluationError, OracleError):
        return "E"


@pytest.mark.parametrize(("expression", "expected"), GOLDEN)
def test_as_apache_does_it(expression: str, expected: str) -> None:
    # F-07
    try:
        evaluate = compile_value(expression)
    except SqlSyntaxError:
        assert expected == "C"
        return
    assert "".join(letter(evaluate, message) for message in MESSAGES) == expected
    matches = compile_sql(expression)
    assert [matches(message) for message in MESSAGES] == [each == "T" for each in expected]


@settings(max_examples=300, deadline=None)
@given(expressions(), st.lists(messages, min_size=1, max_size=6))
def test_as_the_rules_say(tree: Tree, several: list[dict[str, str]]) -> None:
    # F-07
    text = tree.text()
    evaluate = compile_value(text)
    for message in several:
        expected = letter(lambda properties: truth(tree, properties), message)
        assert letter(evaluate, message) == expected, (text, message)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60), messages)
@example("a = 'unclosed", {})
@example("((((", {})
@example("\x00", {})
@example("a = 1 \ud800", {})
def test_any_text_compiles_or_is_refused(text: str, message: dict[str, str]) -> None:
    try:
        matches = compile_sql(text)
    except SqlSyntaxError:
        return
    assert matches(message) in (True, False)


TOKENS = [
    "a",
    "b",
    "1",
    "2.5",
    "'x'",
    "''",
    "TRUE",
    "NULL",
    "NOT",
    "AND",
    "OR",
    "BETWEEN",
    "IN",
    "IS",
    "CONTAINS",
    "=",
    "<>",
    ">",
    "<=",
    "(",
    ")",
    ",",
    "+",
    "-",
    "--",
    "/*",
]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(TOKENS), max_size=30).map(" ".join), messages)
def test_any_tokens_compile_or_are_refused(text: str, message: dict[str, str]) -> None:
    try:
        matches = compile_sql(text)
    except SqlSyntaxError:
        return
    assert matches(message) in (True, False)


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 5000 + "a = 1" + ")" * 5000,
        "NOT " * 4000 + "a",
        "- " * 5000 + "1 = a",
        "+" * 10_000 + "1 = a",
        "a" + " = a" * 2000,
        "a" + " IS NULL" * 1500,
        "a = 1" + " OR a = 1" * 1500,
        "a = 1" + " AND NOT a CONTAINS 'x'" * 500,
        "(" * 5000,
        "a IN (" + "'x'," * 4000,
        "'" * 16_001,
        "/*" + "*" * 16_000,
        "--" * 8000,
        "a = " + "9" * 16_000,
        "a = 1e" + "9" * 16_000,
        "a = '" + "x" * MAX_LENGTH + "'",
    ],
)
def test_hostile_expressions_are_refused(expression: str) -> None:
    with pytest.raises(SqlSyntaxError):
        compile_sql(expression)


def test_the_bounds_are_exact() -> None:
    nested = "(" * MAX_DEPTH + "a = '1'" + ")" * MAX_DEPTH
    assert compile_sql(nested)({"a": "1"})
    with pytest.raises(SqlSyntaxError, match="deep"):
        compile_sql(f"({nested})")
    searches = MAX_COST // (SEARCH_COST + 1)
    many = " OR ".join(["a CONTAINS 'x'"] * searches)
    assert compile_sql(many)({"a": "x"})
    with pytest.raises(SqlSyntaxError, match="too much"):
        compile_sql(f"{many} OR {many}")
    listed = "a IN (" + ",".join(f"'{number}'" for number in range(2000)) + ")"
    assert compile_sql(listed)({"a": "1999"})


@pytest.mark.parametrize(
    "value", ["9" * 32_000, "1." + "9" * 32_000, "0" * 32_000 + "7", "-" * 32_000, "1e" + "9" * 30_000]
)
@pytest.mark.parametrize(
    "expression", ["a = 7", "a > 7", "a = 3000000000", "a >= 2.5", "a > b", "a CONTAINS 'xxxxxxxy'"]
)
def test_hostile_properties_cost_little(expression: str, value: str) -> None:
    assert compile_sql(expression)({"a": value, "b": "1"}) in (True, False)


def test_errors_say_where_and_why() -> None:
    with pytest.raises(SqlSyntaxError, match=r"character 9, where 'x' was found.*BETWEEN, IN"):
        compile_sql("age NOT x")
    with pytest.raises(SqlSyntaxError, match="the expression ends"):
        compile_sql("age >")
    with pytest.raises(SqlSyntaxError, match="IS NULL"):
        compile_sql("age = NULL")
