"""MkDocs hook: pages for files outside docs/, and links that work on GitHub and in the site.

Pages link to each other as files of the repository (`../DESIGN.md`, `docs/batch.md`). This hook adds the files that are
linked to the site: Markdown files, examples and folders as pages, others as downloads. It then rewrites the links.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
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

origins: dict[str, str] = {}
"""Path in the site -> path in the repository."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    origins.clear()
    for file in files.documentation_pages():
        origins[file.src_uri] = f"docs/{file.src_uri}"
    waiting = [*_pages(), *(path for uri in list(origins) for path in _linked(uri))]
    added: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in added:
            continue
        added.add(path)
        uri = _site_path(path)
        if uri.endswith(".md"):
            origins[uri] = path
            files.append(File.generated(config, uri, content=_content(path)))
            waiting += _linked(uri)
        else:
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
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
    source = ROOT / path
    if source.is_dir():
        names = sorted(file.name for file in source.iterdir() if file.is_file())
        return f"# {path}\n\n" + "".join(f"- [{name}]({path}/{name})\n" for name in names)
    text = source.read_text("utf-8")
    return f"# {path}\n\n```python\n{text}```\n" if path.endswith(".py") else text


def _linked(uri: str) -> list[str]:
    """Files and folders outside docs/ that a page links to."""
    paths = (_resolve(uri, link["target"]) for link in LINK.finditer(_content(origins[uri])))
    return [path for path in paths if path is not None and not path.startswith("docs/")]


def _resolve(uri: str, target: str) -> str | None:
    """The file or folder of the repository that a link leads to; None where it leads to none."""
    origin = origins[uri]
    base = "" if (ROOT / origin).is_dir() else posixpath.dirname(origin)
    path = posixpath.normpath(posixpath.join(base, target))
    if (ROOT / path / "README.md").is_file():
        path = f"{path}/README.md"
    return path if (ROOT / path).exists() else None


def _site_path(path: str) -> str:
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path in _pages():
        return _pages()[path]
    # MkDocs leaves out names that begin with a dot.
    place = f"source/{path}".replace("/.", "/dot-")
    return f"{place}.md" if (ROOT / path).is_dir() else place
