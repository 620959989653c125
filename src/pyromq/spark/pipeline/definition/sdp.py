"""A pipeline as a project of Spark Declarative Pipelines, for those who run that: same source, stages and sinks.

What SDP has no word for stays behind, and the project's README says so: dead letters, effectively-once topics, replay.
"""

import json
import re
from pathlib import Path

from pyromq.spark.pipeline.definition.definition import (
    Definition,
    DefinitionError,
    DeltaTarget,
    IcebergTarget,
    ParquetTarget,
    TopicTarget,
    columns_of,
)
from pyromq.spark.pipeline.definition.plan import connection, source_texts
from pyromq.spark.pipeline.run.stages import VIEW, spark_interval

_VIEW = re.compile(rf"\b{VIEW}\b")

_SPEC = """\
name: {name}
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""

_HEAD = '''\
"""Pipeline {name}, exported from PyroMQ."""

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()

SOURCE = {source}


@dp.temporary_view(name="{view}_input")
def read():
    return spark.readStream.format("rocketmq").options(**SOURCE).load(){dedup}


'''

_STEP = """\
@dp.temporary_view(name="{view}_{step}")
def step_{step}():
{body}


"""

_TABLE = """\
@dp.table(name="{table}", format="parquet"{partitions})
def {table}():
    return spark.readStream.table("{last}")


"""

_TOPIC = """\
dp.create_sink("{sink}", "rocketmq", {options})


@dp.append_flow(target="{sink}", name="{sink}_flow")
def {sink}():
    rows = spark.readStream.table("{last}")
    return rows.select({columns})


"""

_README = """\
# {name} on Spark Declarative Pipelines

    pip install 'pyromq[spark]' 'pyspark[pipelines]'
    spark-pipelines run --remote "local[2]" --conf spark.sql.catalogImplementation=hive

Each run reads what is there and ends. Left behind, because SDP has no word for it: {left}.
"""


def export(definition: Definition, folder: Path) -> list[Path]:
    """Write the project; returns its files. Raises DefinitionError when the folder is not empty, OSError."""
    if folder.exists() and any(folder.iterdir()):
        raise DefinitionError("", f"{folder} is not empty")
    view = definition.name.replace("-", "_")
    source = source_texts(definition)
    left = ["effectively-once topics (they are at least once)", "replay, rewind and lag commands"]
    parse = definition.parse
    if parse is not None:
        source |= {"bodyFormat": "json", "bodySchema": parse.schema}
        source["badRecords"] = {"dlq": "drop", "drop": "drop", "null": "null", "fail": "fail"}[parse.on_error]
        if parse.on_error == "dlq":
            left.insert(0, "dead letters (bad bodies are dropped)")
    text = _HEAD.format(name=definition.name, view=view, source=_literal(source), dedup=_dedup(definition))
    last = "input"
    for place, step in enumerate(definition.transform):
        text += _STEP.format(view=view, step=place, body=_step(step.sql, step.python, f"{view}_{last}"))
        last = str(place)
    text += "".join(_sinks(definition, f"{view}_{last}"))
    files = {
        "spark-pipeline.yml": _SPEC.format(name=definition.name, storage=(folder / "storage").resolve().as_uri()),
        "transformations/pipeline.py": text.rstrip() + "\n",
        "README.md": _README.format(name=definition.name, left="; ".join(left)),
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return [folder / name for name in files]


def _literal(values: dict[str, str]) -> str:
    return json.dumps(values, indent=4, ensure_ascii=False)


def _dedup(definition: Definition) -> str:
    dedup = definition.dedup
    if dedup is None:
        return ""
    return (
        f".withWatermark({dedup.time!r}, {spark_interval(dedup.within)!r})"
        f".dropDuplicatesWithinWatermark({dedup.keys!r})"
    )


def _step(sql: str | None, python: str | None, before: str) -> str:
    if python is not None:
        module, _, name = python.partition(":")
        return f"    from {module} import {name}\n\n    return {name}(spark.readStream.table({before!r}))"
    return f"    return spark.sql({_VIEW.sub(f'STREAM {before}', sql or '')!r})"


def _sinks(definition: Definition, last: str) -> list[str]:
    made = []
    for name, _, target in definition.targets:
        table = f"{definition.name}_{name}".replace("-", "_")
        if isinstance(target, ParquetTarget | DeltaTarget):
            partitions = f", partition_cols={target.partition_by!r}" if target.partition_by else ""
            made.append(_TABLE.format(table=table, partitions=partitions, last=last))
        elif isinstance(target, IcebergTarget):
            made.append(_TABLE.format(table=table, partitions="", last=last))
        elif isinstance(target, TopicTarget):
            options = {**connection(definition), "topic": target.topic}
            made.append(_TOPIC.format(sink=table, options=_literal(options), last=last, columns=_columns(target)))
    return made


def _columns(target: TopicTarget) -> str:
    body = 'F.to_json(F.struct("*"))' if target.body == "json" else f"F.col({target.body!r})"
    columns = [f'{body}.alias("body")']
    if target.tags:
        columns.append(f'F.col({target.tags!r}).cast("string").alias("tags")')
    if keys := columns_of(target.keys):
        joined = ", ".join(f'F.col({key!r}).cast("string")' for key in keys)
        columns.append(f'F.concat_ws(" ", {joined}).alias("keys")')
    return ", ".join(columns)
