"""Text that comes from elsewhere, made fit for a terminal: nothing in it can move the cursor or forge a line."""

import unicodedata


def printable(text: str) -> str:
    """Text without control characters: they are shown as escapes, apart from line breaks and tabs.

    >>> printable("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    if text.isprintable():
        return text
    return "".join(char if char in "\n\t" or not _is_control(char) else _escaped(char) for char in text)


def one_line(text: str) -> str:
    """The same in a single line.

    >>> one_line("No route.\\nSee the documentation.")
    'No route. See the documentation.'
    """
    return printable(" ".join(text.split()))


def _is_control(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf", "Cs")


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode()
