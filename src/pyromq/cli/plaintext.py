"""Text for a terminal: nothing from elsewhere can move the cursor or forge a line; counts come with their noun."""

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


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "message"), counted(2, "message")
    ('1 message', '2 messages')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _is_control(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf", "Cs")


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode()
