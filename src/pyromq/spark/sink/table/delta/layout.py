"""What a Delta table asks of whoever writes to it. A table that asks for something nobody here knows is refused.

Two ways lead into a table. Files that tasks wrote are added as they are, when types, nulls and partitions are all that
the table cares about. Where it has rules for values (CHECK, generated columns, invariants), rows go through the
library's own writer, which enforces them. Found by trying: adding files checks nothing at all, and the writer ignores
column mapping and lengths of strings.
"""

import json
import re

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from pyromq.spark.errors import SinkError
from pyromq.spark.sink.table.delta.storage import Storage

HONOURED = {
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "columnMapping",  # as long as the mode is none
    "deletionVectors",
    "generatedColumns",
    "invariants",
    "timestampNtz",
    "v2Checkpoint",
}
BY_VERSION = {6: "identityColumns"}
"""Features that a writer version brings along and that nobody here knows."""
FEATURES_VERSION = 7
INDEXED_COLUMNS = 32
_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"


class Layout(msgspec.Struct, frozen=True):
    """A table at one moment, as far as its writers are concerned."""

    columns: dict[str, str]
    """As Delta's JSON, in their order."""
    partition_by: list[str]
    rules: dict[str, str] = {}
    """What is demanded of values, by how people call it."""
    generated: list[str] = []
    lengths: dict[str, int] = {}
    """The longest text that a column takes."""
    indexed: int = INDEXED_COLUMNS
    """How many columns have statistics, -1 for all."""
    indexed_names: list[str] = []
    """Or which."""

    @property
    def schema(self) -> pa.Schema:
        fields = [json.loads(column) for column in self.columns.values()]
        return pa.schema(Schema.from_json(json.dumps({"type": "struct", "fields": fields})).to_arrow())

    def without(self, names: set[str]) -> "Layout":
        """As it was before these columns came."""
        return msgspec.structs.replace(
            self, columns={name: column for name, column in self.columns.items() if name not in names}
        )


def open_table(storage: Storage) -> DeltaTable | None:
    """None when there is none yet. Raises SinkError."""
    try:
        return DeltaTable(storage.path, storage_options=storage.options or None)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError, ValueError) as error:
        raise SinkError(f"Delta table {storage.path} cannot be read: {in_one_line(error)}") from error


def layout_of(table: DeltaTable, path: str) -> Layout:
    """Raises SinkError for a table that cannot be written as it demands."""
    configuration = table.metadata().configuration
    fields = [(each.name, json.loads(each.to_json())) for each in table.schema().fields]
    _check_features(table, path)
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        raise _refusal(path, "columnMapping")
    rules = {
        f"CHECK {name.removeprefix('delta.constraints.')}": rule
        for name, rule in configuration.items()
        if name.startswith("delta.constraints.")
    }
    generated, lengths = [], {}
    for name, field in fields:
        metadata = field.get("metadata") or {}
        if any(key.startswith("delta.identity.") for key in metadata):
            raise _refusal(path, "identityColumns")
        if "delta.generationExpression" in metadata:
            generated.append(name)
            rules[f"generated column {name}"] = metadata["delta.generationExpression"]
        if _LENGTH in metadata:
            lengths[name] = _length(path, name, metadata[_LENGTH])
        rules |= {f"invariant of {where}": rule for where, rule in _invariants(name, field).items()}
    names = configuration.get("delta.dataSkippingStatsColumns") or ""
    return Layout(
        columns={name: json.dumps(field, sort_keys=True) for name, field in fields},
        partition_by=list(table.metadata().partition_columns),
        rules=rules,
        generated=generated,
        lengths=lengths,
        indexed=int(configuration.get("delta.dataSkippingNumIndexedCols") or INDEXED_COLUMNS),
        indexed_names=[name.strip().replace("`", "") for name in names.split(",") if name.strip()],
    )


def in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _check_features(table: DeltaTable, path: str) -> None:
    protocol = table.protocol()
    version = protocol.min_writer_version
    unknown = [name for name in protocol.writer_features or [] if name not in HONOURED]
    if version in BY_VERSION:
        unknown = [BY_VERSION[version]]
    if unknown:
        raise _refusal(path, *unknown)
    if version > FEATURES_VERSION:
        raise SinkError(
            f"Delta table {path} asks for writers of version {version}, and {FEATURES_VERSION} is the newest that is "
            "known here; write to another table, or update deltalake and pyromq"
        )


def _refusal(path: str, *features: str) -> SinkError:
    return SinkError(
        f"Delta table {path} uses {', '.join(features)}, which this sink does not honour, so nothing is written: "
        f"take it off (ALTER TABLE … DROP FEATURE {features[0]}) or write to another table"
    )


def _length(path: str, name: str, kind: str) -> int:
    match = re.fullmatch(r"varchar\((\d+)\)", kind)
    if not match:
        raise SinkError(
            f"column {name} of Delta table {path} is {kind}, which this sink does not honour; "
            "make it a string, or write to another table"
        )
    return int(match[1])


def _invariants(path: str, field: dict[str, object]) -> dict[str, str]:
    """Of a column and of those inside."""
    found: dict[str, str] = {}
    metadata = field.get("metadata")
    if isinstance(metadata, dict) and "delta.invariants" in metadata:
        found[path] = json.loads(metadata["delta.invariants"])["expression"]["expression"]
    kind = field.get("type")
    if isinstance(kind, dict):
        for each in kind.get("fields", []):
            found |= _invariants(f"{path}.{each['name']}", each)
    return found
