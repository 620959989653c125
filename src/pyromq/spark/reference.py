"""The reference page of the Spark options, made from their declarations: `python -m pyromq.spark.reference`."""

from pyromq.settings.declaration import options
from pyromq.settings.option import Option
from pyromq.spark.columns import COLUMNS, DEFAULT
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
            lines += [f"## {section}{own}", "", "| option | default | value | meaning |", "|---|---|---|---|"]
            lines += [_row(each) for each in members]
            lines.append("")
    lines += ["## Topic sink (`rocketmq`)", "", "| option | default | value | meaning |", "|---|---|---|---|"]
    lines += [_row(each) for name, each in options(TopicSinkOptions).items() if name not in options(ConnectionOptions)]
    lines.append("")
    aliases = {**ConnectionOptions.aliases, **SourceOptions.aliases}
    lines += [f"Also accepted: {', '.join(f'`{alias}` for `{name}`' for alias, name in aliases.items())}.", ""]
    lines += ["## Columns", "", "| column | type | without being asked for |", "|---|---|---|"]
    lines += [f"| `{name}` | `{kind}` | {'yes' if name in DEFAULT else ''} |" for name, (kind, _) in COLUMNS.items()]
    return "\n".join(lines) + "\n"


def _row(each: Option) -> str:
    cells = (f"`{each.key}`", f"`{each.default}`" if each.default else "none", each.allowed, each.doc)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201 - the page is the output
