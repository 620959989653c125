"""The reference page of the Spark options, made from their declarations: `python -m pyromq.spark.reference`."""

from pyromq.arrow.columns import COLUMNS, DEFAULT
from pyromq.settings.declaration import options
from pyromq.settings.option import Option
from pyromq.settings.reference import table
from pyromq.spark.columns import word
from pyromq.spark.log.options import LogOptions
from pyromq.spark.options import ConnectionOptions
from pyromq.spark.sink.options import TopicSinkOptions
from pyromq.spark.source.options import SourceOptions

INTRO = """\
# Options of the Spark formats

`spark.read`, `spark.readStream`, `df.write` and `df.writeStream` take these with `.option(name, value)`, SQL with
`OPTIONS (name 'value')`. Names have no case. An unknown one is an error that names the nearest. `accessKey`,
`secretKey` and `securityToken` can come from the driver's environment instead (`PYROMQ_ACCESS_KEY` and so on), since
options show up in query plans.
"""


def page() -> str:
    """The Markdown text."""
    lines = [INTRO]
    seen: set[str] = set()
    for title, cls in (("`rocketmq`", SourceOptions), ("`rocketmq-log`", LogOptions)):
        sections: dict[str, list[Option]] = {}
        for each in options(cls).values():
            if each.key not in seen:
                sections.setdefault(each.section, []).append(each)
            seen.add(each.key)
        for section, members in sections.items():
            own = "" if section in ("Connection", "Rows", "What to read") else f" ({title})"
            lines += [f"## {section}{own}", "", *_table(members), ""]
    own_of_sink = [each for name, each in options(TopicSinkOptions).items() if name not in options(ConnectionOptions)]
    lines += ["## Topic sink (`rocketmq`)", "", *_table(own_of_sink), ""]
    aliases = {**ConnectionOptions.aliases, **SourceOptions.aliases}
    lines += [f"Also accepted: {', '.join(f'`{alias}` for `{name}`' for alias, name in aliases.items())}.", ""]
    lines += ["## Columns", "", "| column | type | without being asked for |", "|---|---|---|"]
    lines += [f"| `{name}` | `{word(name)}` | {'yes' if name in DEFAULT else ''} |" for name in COLUMNS]
    return "\n".join(lines) + "\n"


def _table(members: list[Option]) -> list[str]:
    return table("option", ((f"`{each.key}`", each, each.doc) for each in members))


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201 - the page is the output
