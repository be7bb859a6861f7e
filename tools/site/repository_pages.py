"""MkDocs hook: pages for files outside docs/, and links that work on GitHub and in the site.

Pages link to each other as files of the repository (`../DESIGN.md`, `docs/batch.md`). This hook adds the files that are
linked to the site: Markdown files and examples as pages, others as downloads. It then rewrites the links.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?P<text>\[[^\]]*\]\()(?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
PAGES = {
    "README.md": "index.md",
    "DESIGN.md": "design.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "RELEASING.md": "releasing.md",
    "benchmarks/README.md": "benchmarks.md",
    "examples/README.md": "examples.md",
}
"""Markdown files of the repository, and where the site has them. Those that do not exist are left out."""

log = get_plugin_logger("repository")
origins: dict[str, str] = {}
"""Path in the site -> path in the repository."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    origins.clear()
    for file in files.documentation_pages():
        origins[file.src_uri] = f"docs/{file.src_uri}"
    for path, uri in _pages().items():
        origins[uri] = path
        files.append(File.generated(config, uri, content=_content(path)))
    for path in sorted(_linked_files()):
        files.append(File.generated(config, _site_path(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    here = page.file.src_uri

    def rewrite(link: re.Match[str]) -> str:
        path = _resolve(here, link["target"])
        if path is None:
            return link[0]
        relative = posixpath.relpath(_site_path(path), posixpath.dirname(here) or ".")
        return f"{link['text']}{relative}{link['anchor'] or ''})"

    return LINK.sub(rewrite, markdown)


def _pages() -> dict[str, str]:
    found = {path: uri for path, uri in PAGES.items() if (ROOT / path).exists()}
    for example in sorted((ROOT / "examples").glob("*.py")):
        found[f"examples/{example.name}"] = f"examples/{example.stem}.md"
    return found


def _content(path: str) -> str:
    text = (ROOT / path).read_text("utf-8")
    if path.endswith(".py"):
        return f"# {path}\n\n```python\n{text}```\n"
    return text


def _linked_files() -> set[str]:
    """Files that pages link to and that are not pages themselves."""
    found = set()
    for uri, origin in origins.items():
        for link in LINK.finditer(_content(origin)):
            path = _resolve(uri, link["target"])
            if path is not None and not path.startswith("docs/") and path not in _pages():
                found.add(path)
    return found


def _resolve(uri: str, target: str) -> str | None:
    """The file of the repository that a link of this page leads to; None where it leads to none."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(origins[uri]), target))
    if (ROOT / path).is_dir():
        path = f"{path}/README.md"
    return path if (ROOT / path).is_file() else None


def _site_path(path: str) -> str:
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return _pages().get(path, f"source/{path}")
