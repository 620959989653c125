"""The language of filter classes: what compiles, what it can reach, and what it cannot."""

import pytest

from pyromq.filtersrv.frames import MAX_SOURCE, FilterContext, FilterMessage
from pyromq.filtersrv.jail.policy import FilterError, load, matches

CONTEXT = FilterContext("group", "t")
MESSAGE = FilterMessage(topic="t", body=b'{"price": 12}', properties={"TAGS": "a", "region": "eu"}, reconsume_times=2)

USEFUL = """
LIMIT: int = 10

def price_of(msg) -> int:
    return json_loads(msg.body)["price"]

class Useful:
    regions = ("eu", "us")

    def __init__(self):
        self.seen = 0
        self.by_region: dict = {}
        nothing: str

    def match(self, msg: object, context: object) -> bool:
        self.seen = self.seen + 1
        region = msg.get("region", "nowhere")
        self.by_region[region] = self.by_region.get(region, 0) + 1
        total = 0
        for number, (name, value) in enumerate(msg.properties.items()):
            total += number
        try:
            missing = msg.properties["none"]
        except KeyError as error:
            missing = None
        label = f"{region!r:>6}" + "%s" % msg.reconsume_times
        wanted = [each for each in self.regions if each == region]
        return price_of(msg) > LIMIT and missing is None and bool(wanted) and label.endswith("2") and total >= 1
"""


def test_ordinary_python_works() -> None:
    # F-06
    assert matches(load("Useful", USEFUL), MESSAGE, CONTEXT)


def probe(body: str) -> str:
    return f"class Probe:\n    def match(self, msg, context):\n        {body}\n"


@pytest.mark.parametrize(
    "body",
    [
        "return msg.__class__",
        "return ().__class__.__base__.__subclasses__()",
        "return self.match.__globals__",
        "return getattr(msg, '__class__')",
        "return getattr(msg, 'x'.join(['__class', '']) + '__')",
        "return '{0.__class__}'.format(msg)",
        "return ''.join(map(str.format, ['{0.__class__}'], [msg]))",
        "return 'x'.format_map({})",
        "return (x for x in ()).gi_frame",
        "return (lambda: 0).__code__",
        "import os",
        "from os import path",
        "return __import__('os')",
        "return open('/etc/passwd')",
        "return eval('1')",
        "exec('1')",
        "return compile('1', '', 'eval')",
        "return globals()",
        "return vars(msg)",
        "return dir(msg)",
        "return type(msg)",
        "return object()",
        "return super()",
        "return input()",
        "return memoryview(msg.body)",
        "return breakpoint()",
        "print(1)",
        "return __builtins__",
        "return _getattr_(msg, 'topic')",
        "global _getattr_",
        "msg.topic = 'x'",
        "msg.topic: str = 'x'",
        "_x: int = 1",
        "self.__class__: str = str",
        "msg.properties.x = 1",
        "str.upper = None",
        "del msg.topic",
        "context.consumer_group = 'other'",
        "json_loads.x = 1",
        "raise SystemExit",
        "raise KeyboardInterrupt",
        "return setattr(self, '__class__', str)",
        "try:\n            1 / 0\n        except Exception as e:\n            return e.__traceback__.tb_frame",
        "try:\n            1 / 0\n        except* Exception as e:\n            return e",
        "async def f(): pass",
        "return 1",
        "return None",
    ],
)
def test_what_is_out_of_reach(body: str) -> None:
    # F-06
    with pytest.raises((FilterError, AttributeError, NameError, TypeError, NotImplementedError)):
        matches(load("Probe", probe(body)), MESSAGE, CONTEXT)


@pytest.mark.parametrize("method", ["__getattribute__", "__class_getitem__", "__del__", "__reduce__", "__str__"])
def test_magic_methods_cannot_be_defined(method: str) -> None:
    with pytest.raises(FilterError, match="invalid variable name"):
        load("Probe", f"class Probe:\n    def {method}(self): pass\n    def match(self, msg, context): return True\n")


def test_a_metaclass_cannot_be_chosen() -> None:
    with pytest.raises(FilterError, match="metaclass"):
        load("Probe", "class Probe(metaclass=int):\n    def match(self, msg, context): return True\n")


@pytest.mark.parametrize(
    ("name", "source", "reason"),
    [
        ("Probe", "", "defines no class"),
        ("Probe", "Probe = 1", "defines no class"),
        ("Probe", "class Probe: pass", "no method match"),
        ("Probe", "class Probe:", "does not compile"),
        ("Probe", "\0", "does not compile"),
        ("not a name", "x = 1", "is no name of a class"),
        ("_Hidden", "x = 1", "is no name of a class"),
        ("Probe", "#" * (MAX_SOURCE + 1), "at most"),
        ("Probe", "(" * 3000, "does not compile"),
    ],
)
def test_what_is_no_filter_class(name: str, source: str, reason: str) -> None:
    # F-04
    with pytest.raises(FilterError, match=reason):
        load(name, source)


def test_filters_share_no_globals() -> None:
    first = load("Probe", "shared = []\n" + probe("shared.append(1)\n        return len(shared) == 1"))
    second = load("Probe", "shared = []\n" + probe("shared.append(1)\n        return len(shared) == 1"))
    assert matches(first, MESSAGE, CONTEXT)
    assert matches(second, MESSAGE, CONTEXT)
    assert not matches(first, MESSAGE, CONTEXT)
