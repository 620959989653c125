"""The page of a report: title, checks, sections with tables and plots. No script, no reference to another file."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #212529 }
h1 { color: #d9480f } h2 { margin-top: 2rem }
table { border-collapse: collapse; margin: .5rem 0 } td, th { padding: .25rem .8rem; border-bottom: 1px solid #dee2e6 }
th { text-align: left } td.number { text-align: right; font-variant-numeric: tabular-nums }
ul.checks { list-style: none; padding: 0 } .held::before { content: "✔ "; color: #2f9e44 }
.failed { font-weight: 600 } .failed::before { content: "✘ "; color: #e03131 }
code { background: #f1f3f5; padding: .1rem .3rem; border-radius: 3px } svg { width: 100%; max-width: 45rem }
"""


@dataclass(slots=True)
class Report:
    """Collect what is to be shown, then `write` it.

    report = Report("Orders")
    report.check("sent 10 = stored 10", True)
    report.section("Revenue", plot=bars({"Berlin": 3.5}, unit="EUR"))
    report.write(Path("report.html"))
    """

    title: str
    intro: str = ""
    _checks: list[str] = field(default_factory=list)
    _sections: list[str] = field(default_factory=list)

    def check(self, text: str, held: bool) -> None:
        """A promise, and whether it held."""
        self._checks.append(f'<li class="{"held" if held else "failed"}">{escape(text)}</li>')

    def section(
        self,
        heading: str,
        text: str = "",
        *,
        command: str = "",
        plot: str = "",
        columns: Sequence[str] = (),
        rows: Sequence[Sequence[object]] = (),
    ) -> None:
        """A heading with whatever there is to show: a sentence, the command that does it alone, a plot, a table."""
        parts = [f"<h2>{escape(heading)}</h2>"]
        parts += [f"<p>{escape(text)}</p>"] if text else []
        parts += [f"<p><code>{escape(command)}</code></p>"] if command else []
        parts += [plot] if plot else []
        parts += [_table(columns, rows)] if columns else []
        self._sections.append("\n".join(parts))

    def html(self) -> str:
        checks = f'<ul class="checks">{"".join(self._checks)}</ul>' if self._checks else ""
        return "\n".join(
            (
                "<!doctype html>",
                f'<html lang="en"><head><meta charset="utf-8"><title>{escape(self.title)}</title>',
                f"<style>{_STYLE}</style></head><body>",
                f"<h1>{escape(self.title)}</h1>",
                f"<p>{escape(self.intro)}</p>" if self.intro else "",
                checks,
                *self._sections,
                "</body></html>",
            )
        )

    def write(self, path: Path) -> None:
        """Make the file, and its folder. Raises OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.html(), encoding="utf-8")


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"<td>{escape(str(value))}</td>"
    return f'<td class="number">{value:,.2f}</td>' if isinstance(value, float) else f'<td class="number">{value:,}</td>'
