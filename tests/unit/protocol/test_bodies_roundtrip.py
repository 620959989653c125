"""Every body, filled with anything that fits its types, survives encoding and decoding in each form."""

import datetime as dt
from typing import TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from pyromq.protocol.bodies.base import Body
from pyromq.protocol.bodies.enums import TopicFilterType
from pyromq.protocol.bodies.registration import RegisterBrokerBody
from pyromq.protocol.bodies.route import TopicQueueMappingInfo
from pyromq.protocol.bodies.tables import DataVersion
from pyromq.protocol.bodies.topics import TopicConfig, TopicConfigTable
from pyromq.protocol.lenient import dumps
from tests.vocabulary import BODIES

CLASSES = [shape for shape in BODIES if shape is not Body]
T = TypeVar("T", bound=msgspec.Struct)
TEXT = st.text(max_size=8).filter("$ref".__ne__)  # as the only key of a map it would be a reference


def values(kind: inspect.Type) -> st.SearchStrategy[object]:
    """A strategy for what a member of this type may hold."""
    match kind:
        case inspect.IntType(ge=int(low), le=int(high)):
            return st.integers(low, high)
        case inspect.IntType():
            return st.integers(-(2**31), 2**31 - 1)
        case inspect.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case inspect.StrType():
            return TEXT
        case inspect.BoolType():
            return st.booleans()
        case inspect.BytesType():
            return st.binary(max_size=8)
        case inspect.NoneType():
            return st.none()
        case inspect.EnumType(cls=choices):
            return st.sampled_from(list(choices))
        case inspect.ListType(item_type=item):
            return st.lists(values(item), max_size=2)
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(values(key), values(value), max_size=2)
        case inspect.UnionType(types=kinds):
            return st.one_of([values(each) for each in kinds])
        case inspect.StructType(cls=shape):
            return structs(shape)
        case inspect.Metadata(type=inner):
            return values(inner)
    raise AssertionError(f"no strategy for {kind}")


def structs(shape: type[T]) -> st.SearchStrategy[T]:
    info = inspect.type_info(shape)
    assert isinstance(info, inspect.StructType)
    return st.builds(shape, **{field.name: values(field.type) for field in info.fields})


def test_all_bodies_are_covered() -> None:
    def subclasses(shape: type[Body]) -> set[type[Body]]:
        return {shape}.union(*(subclasses(each) for each in shape.__subclasses__()))

    # Other packages may be imported by now and have bodies of their own.
    ours = {shape for shape in subclasses(Body) if shape.__module__.startswith("pyromq.protocol.")}
    public = {shape for shape in ours if not shape.__name__.startswith("_")} - {Body}
    assert public == set(CLASSES)
    assert len(public) > 70


@pytest.mark.parametrize("shape", CLASSES, ids=lambda shape: shape.__name__)
@settings(max_examples=12, deadline=dt.timedelta(seconds=30), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_round_trip(shape: type[Body], data: st.DataObject) -> None:
    body = data.draw(structs(shape))
    assert shape.decode(body.encode()) == body
    assert shape.decode(body.pretty()) == body
    assert shape.decode(dumps(body, strict=True)) == body


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=8)


@given(
    topics=st.lists(
        st.builds(
            TopicConfig,
            topic_name=NAMES,
            perm=st.integers(0, 15),
            read_queue_nums=st.integers(0, 2**31 - 1),
            write_queue_nums=st.integers(0, 2**31 - 1),
            topic_filter_type=st.sampled_from(list(TopicFilterType)),
            attributes=st.dictionaries(TEXT, TEXT, max_size=2),
        ),
        max_size=3,
        unique_by=lambda topic: topic.topic_name,
    ),
    version=structs(DataVersion),
    servers=st.lists(TEXT, max_size=2),
    mappings=st.lists(structs(TopicQueueMappingInfo), max_size=2, unique_by=lambda mapping: mapping.topic),
)
def test_compressed_registration(
    topics: list[TopicConfig],
    version: DataVersion,
    servers: list[str],
    mappings: list[TopicQueueMappingInfo],
) -> None:
    table = TopicConfigTable(
        data_version=version,
        topic_config_table={topic.topic_name: topic for topic in topics},
        topic_queue_mapping_info_map={mapping.topic: mapping for mapping in mappings},
    )
    body = RegisterBrokerBody(filter_servers=servers, topics=table)
    assert RegisterBrokerBody.decode(body.encode(compressed=True)) == body
