"""The language of filter classes: Python as RestrictedPython compiles it, with few builtins and no import at all.

What is not named in `BUILTINS` does not exist for a filter. Attributes that begin with an underscore, the format
methods of strings and the frames of functions and generators are out of reach; only objects that the filter made
itself can be changed. This is the first fence, not the only one.
"""

import ast
import builtins
import json
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from RestrictedPython.compile import compile_restricted_exec
from RestrictedPython.Guards import (
    full_write_guard,
    guarded_iter_unpack_sequence,
    guarded_unpack_sequence,
    safer_getattr_raise,
)
from RestrictedPython.transformer import RestrictingNodeTransformer

from pyromq.filtersrv.frames import MAX_SOURCE, FilterContext, FilterMessage

_NAMES: Final = (
    "__build_class__ abs all any bool bytes callable chr complex dict divmod enumerate filter float frozenset hash hex "
    "int isinstance issubclass iter len list map max min next oct ord pow range repr reversed round set slice sorted "
    "str sum tuple zip ArithmeticError AssertionError AttributeError Exception IndexError KeyError LookupError "
    "NameError NotImplementedError OverflowError RuntimeError StopIteration TypeError UnicodeDecodeError "
    "UnicodeEncodeError UnicodeError ValueError ZeroDivisionError"
)

_IN_PLACE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "/=": operator.itruediv,
    "//=": operator.ifloordiv,
    "%=": operator.imod,
    "**=": operator.ipow,
    "<<=": operator.ilshift,
    ">>=": operator.irshift,
    "&=": operator.iand,
    "|=": operator.ior,
    "^=": operator.ixor,
}


class FilterError(Exception):
    """A class that cannot be used, or did what it must not."""


class Filter(Protocol):
    """What an uploaded class must be."""

    def match(self, msg: FilterMessage, context: FilterContext, /) -> bool: ...


class _Language(RestrictingNodeTransformer):
    """Says at compile time what would only fail, less clearly, at run time."""

    def visit_Import(self, node: Any) -> None:  # noqa: N802 - the name is that of the node
        self.error(node, "imports are not available to filters; json_loads(text) is there without one.")

    visit_ImportFrom = visit_Import  # noqa: N815 - the name is that of the node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:  # noqa: N802 - the name is that of the node
        """An assignment like any other, guards included; what it says about types is dropped."""
        plain = ast.Pass() if node.value is None else ast.Assign(targets=[node.target], value=node.value)
        return self.visit(ast.copy_location(plain, node))

    def visit_Name(self, node: Any) -> Any:  # noqa: N802 - the name is that of the node
        if node.id == "print":
            self.error(node, "print is not available to filters.")
        return super().visit_Name(node)


def load(class_name: str, source: str) -> Filter:
    """Compile, run the text, make one of the named class. Raises FilterError, and whatever the text itself raises."""
    if not class_name.isidentifier() or class_name.startswith("_"):
        raise FilterError(f"{class_name!r} is no name of a class")
    if len(source) > MAX_SOURCE:
        raise FilterError(f"the source has {len(source)} characters, at most {MAX_SOURCE} are taken")
    try:
        compiled = compile_restricted_exec(source, filename_of(class_name), policy=_Language)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FilterError(f"the source does not compile: {type(error).__name__}: {error}") from None
    if compiled.code is None or compiled.errors:
        raise FilterError(f"the source does not compile: {'; '.join(compiled.errors[:5])}")
    namespace = _namespace()
    exec(compiled.code, namespace)  # noqa: S102 - what this process is for
    made = namespace.get(class_name)
    if not isinstance(made, type):
        raise FilterError(f"the source defines no class {class_name!r}")
    if not callable(getattr(made, "match", None)):
        raise FilterError(f"class {class_name!r} has no method match(self, msg, context)")
    instance: Filter = made()
    return instance


def matches(chosen: Filter, message: FilterMessage, context: FilterContext) -> bool:
    """Ask the filter. Raises FilterError when it does not say True or False, and whatever it raises itself."""
    verdict: object = chosen.match(message, context)
    if verdict is True or verdict is False:
        return verdict
    raise FilterError(f"match() must return True or False, not {type(verdict).__name__}")


def filename_of(class_name: str) -> str:
    """How the text is called in tracebacks."""
    return f"<filter {class_name}>"


def json_loads(text: str | bytes) -> object:
    """Plain values out of JSON."""
    return json.loads(text)


def _in_place(symbol: str, left: Any, right: Any) -> Any:
    return _IN_PLACE[symbol](left, right)


def _get_item(container: Any, key: Any) -> Any:
    return container[key]


def _get_iter(values: Iterable[Any]) -> Iterable[Any]:
    return values


def _make_class(name: str, bases: tuple[type, ...], members: dict[str, Any]) -> type:
    """Classes of the filter may be written to: `_guarded_writes` says so to the write guard."""
    return type(name, bases, members | {"_guarded_writes": True})


def _guarded_getattr(target: object, name: str, *default: object) -> object:
    found: object = safer_getattr_raise(target, name, *default)  # type: ignore[no-untyped-call]  # not annotated
    return found


def _namespace() -> dict[str, Any]:
    """Fresh globals for one filter."""
    allowed: dict[str, Any] = {name: getattr(builtins, name) for name in _NAMES.split()}
    allowed["getattr"] = _guarded_getattr
    allowed["json_loads"] = json_loads
    return {
        "__builtins__": allowed,
        "__name__": "filter",
        "__metaclass__": _make_class,
        "_getattr_": safer_getattr_raise,
        "_getitem_": _get_item,
        "_getiter_": _get_iter,
        "_iter_unpack_sequence_": guarded_iter_unpack_sequence,
        "_unpack_sequence_": guarded_unpack_sequence,
        "_inplacevar_": _in_place,
        "_write_": full_write_guard,
    }
