"""What `pyromq pipeline init` writes: a pipeline to start from."""

TEMPLATE = """\
# A pipeline: from a topic to files and a topic. Folders are relative to this file.
# Check it with `pyromq pipeline check`, run it with `pyromq pipeline run`.
name: {name}

source:
  nameServer: {namesrv}
  topic: {topic}
  start: earliest          # or latest, group, a time as 2026-01-31T12:00:00Z
  maxRows: 100000          # messages of a batch at most

parse:
  schema: "id string, amount double, ts timestamp"
  on_error: dlq            # or drop, null, fail

dedup:
  keys: [id]
  within: 10 minutes

transform:
  - sql: SELECT *, date(ts) AS day FROM input WHERE amount > 0

sinks:
  - parquet: {{path: lake/{name}, partition_by: [day]}}
  - topic: {{topic: {topic}-clean, keys: id}}

dlq: {{topic: {topic}-dlq}}
trigger: every 2s          # or available-now
checkpoint: state/{name}
"""


def render(name: str, topic: str, namesrv: str) -> str:
    """The template with these names."""
    return TEMPLATE.format(name=name, topic=topic, namesrv=namesrv)
