"""The Markdown reference page of settings classes."""

from collections.abc import Iterable

from pyromq.settings.declaration import Settings, options
from pyromq.settings.option import Option


def reference(title: str, intro: str, cls: type[Settings], *more: type[Settings]) -> str:
    """A page with a table for each section of `cls`, then for each that `more` add to it."""
    sections: dict[str, dict[str, Option]] = {}
    for declaring in (cls, *more):
        for each in options(declaring).values():
            sections.setdefault(each.section, {})[each.name] = each
    lines = [f"# {title}", "", intro]
    for section, members in sections.items():
        rows = ((_names(each, keyword=cls.are_keywords), each, _meaning(each)) for each in members.values())
        lines += ["", f"## {section}", "", *table("option" if cls.are_keywords else "key", rows)]
    if cls.old_names:
        pairs = ", ".join(f"`{old}` (`{new}`)" for old, new in sorted(cls.old_names.items()))
        lines += ["", "## Old names", "", "Keys of older files that mean the same as the one in brackets:", pairs]
    if cls.ignored:
        keys = ", ".join(f"`{key}`" for key in sorted(cls.ignored))
        lines += ["", "## Accepted without effect", "", "Keys of Apache's files that mean nothing here:", keys]
    return "\n".join(lines) + "\n"


def table(head: str, rows: Iterable[tuple[str, Option, str]]) -> list[str]:
    """The lines of a table of options, each with its names and its meaning as they are to be shown."""
    lines = [f"| {head} | default | value | meaning |", "|---|---|---|---|"]
    for names, each, meaning in rows:
        cells = (names, f"`{each.default}`" if each.default else "none", each.allowed, meaning)
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return lines


def _names(each: Option, *, keyword: bool) -> str:
    flags = () if each.secret or keyword else (each.flag,)
    return "<br>".join(f"`{name}`" for name in (each.key, *flags, *each.environment))


def _meaning(each: Option) -> str:
    marks = [mark for mark, is_set in (("reloadable", each.reloadable), ("secret", each.secret)) if is_set]
    return f"{each.doc} *{', '.join(marks)}*" if marks else each.doc
