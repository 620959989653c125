"""The Markdown reference page of a settings class."""

from pyromq.settings.declaration import Settings, options
from pyromq.settings.option import Option


def reference(cls: type[Settings], title: str, intro: str) -> str:
    """A page with a table for each section."""
    sections: dict[str, list[Option]] = {}
    for each in options(cls).values():
        sections.setdefault(each.section, []).append(each)
    lines = [f"# {title}", "", intro]
    for section, members in sections.items():
        lines += ["", f"## {section}", "", "| key | default | value | meaning |", "|---|---|---|---|"]
        lines += map(_row, members)
    if cls.old_names:
        pairs = ", ".join(f"`{old}` (`{new}`)" for old, new in sorted(cls.old_names.items()))
        lines += ["", "## Old names", "", "Keys of older files that mean the same as the one in brackets:", pairs]
    if cls.ignored:
        keys = ", ".join(f"`{key}`" for key in sorted(cls.ignored))
        lines += ["", "## Accepted without effect", "", "Keys of Apache's files that mean nothing here:", keys]
    return "\n".join(lines) + "\n"


def _row(each: Option) -> str:
    names = [f"`{each.key}`"] if each.secret else [f"`{each.key}`", f"`{each.flag}`"]
    names += [f"`{variable}`" for variable in each.environment]
    marks = [mark for mark, is_set in (("reloadable", each.reloadable), ("secret", each.secret)) if is_set]
    meaning = f"{each.doc} *{', '.join(marks)}*" if marks else each.doc
    default = f"`{each.default}`" if each.default else "none"
    cells = ("<br>".join(names), default, each.allowed, meaning)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
