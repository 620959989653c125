"""The Markdown reference page of settings classes."""

from pyromq.settings.declaration import Settings, options
from pyromq.settings.option import Option


def reference(title: str, intro: str, cls: type[Settings], *more: type[Settings]) -> str:
    """A page with a table for each section of `cls`, then for each that `more` add to it."""
    sections: dict[str, dict[str, str]] = {}
    for declaring in (cls, *more):
        for each in options(declaring).values():
            sections.setdefault(each.section, {})[each.name] = _row(each, keyword=cls.are_keywords)
    lines = [f"# {title}", "", intro]
    name = "option" if cls.are_keywords else "key"
    for section, rows in sections.items():
        lines += ["", f"## {section}", "", f"| {name} | default | value | meaning |", "|---|---|---|---|"]
        lines += rows.values()
    if cls.old_names:
        pairs = ", ".join(f"`{old}` (`{new}`)" for old, new in sorted(cls.old_names.items()))
        lines += ["", "## Old names", "", "Keys of older files that mean the same as the one in brackets:", pairs]
    if cls.ignored:
        keys = ", ".join(f"`{key}`" for key in sorted(cls.ignored))
        lines += ["", "## Accepted without effect", "", "Keys of Apache's files that mean nothing here:", keys]
    return "\n".join(lines) + "\n"


def _row(each: Option, *, keyword: bool) -> str:
    names = [f"`{each.key}`"] if each.secret or keyword else [f"`{each.key}`", f"`{each.flag}`"]
    names += [f"`{variable}`" for variable in each.environment]
    marks = [mark for mark, is_set in (("reloadable", each.reloadable), ("secret", each.secret)) if is_set]
    meaning = f"{each.doc} *{', '.join(marks)}*" if marks else each.doc
    default = f"`{each.default}`" if each.default else "none"
    cells = ("<br>".join(names), default, each.allowed, meaning)
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"
