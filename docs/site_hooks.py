"""The site shows the code that pages link to: each file becomes a page of its own.

Pages are read in two places. On the web front of a repository a link to `../examples/x.py` works as
it is; on the site there is nothing outside of docs/. So such a link leads to source/examples/x.py
there, which is made here. A link to a file that isn't there is left as it is, and fails the build.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
LINK: Final = re.compile(r"\]\(\.\./([\w./-]+\.py)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every file of code that some page links to."""
    pages = [file for file in files if file.is_documentation_page()]
    linked = {path for page in pages for path in LINK.findall(page.content_string)}
    for path in sorted(linked):
        if (ROOT / path).is_file():
            files.append(File.generated(config, f"source/{path}.md", content=_page(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to code lead to these pages."""
    del page, config, files
    return LINK.sub(r"](source/\1.md)", markdown)


def _page(path: str) -> str:
    code = (ROOT / path).read_text(encoding="utf-8")
    return f"# {path}\n\n````python\n{code}````\n"
