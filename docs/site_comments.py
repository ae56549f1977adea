"""The API page shows what `#:` comments say of attributes and of members of enumerations."""

from __future__ import annotations

from typing import Any

from griffe import Attribute, Docstring, Extension


class Comments(Extension):
    """Takes the comment at the end of an attribute's line, or the lines right above it."""

    def on_attribute(self, *, attr: Attribute, **_: Any) -> None:
        """Give an attribute its comment, if it has no docstring."""
        if attr.docstring is None and attr.lineno is not None and attr.parent is not None:
            text = _comment(attr.lines_collection[attr.filepath], attr.lineno - 1)
            if text:
                attr.docstring = Docstring(text, parent=attr)


def _comment(lines: list[str], at: int) -> str:
    _, found, said = lines[at].partition("#: ")
    if found:
        return said
    above = at
    while above and lines[above - 1].lstrip().startswith("#: "):
        above -= 1
    return "\n".join(line.lstrip().removeprefix("#: ") for line in lines[above:at])
