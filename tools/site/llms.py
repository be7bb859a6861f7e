"""MkDocs hook: llms.txt, an index of all pages for language models, and llms-full.txt, their text.

Each page is also written as Markdown beside its HTML, by the convention of llms.txt: `batch/index.html.md`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

SUMMARY_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Entry:
    title: str
    url: str
    markdown: str

    @property
    def file(self) -> str:
        """Path of the Markdown copy in the site."""
        return f"{self.url}index.html.md" if self.url.endswith("/") or not self.url else f"{self.url}.md"

    @property
    def summary(self) -> str:
        """The first sentence of the first paragraph."""
        paragraphs = re.split(r"\n\s*\n", self.markdown)
        prose = next((text for text in paragraphs if re.match(r"(?!```)[A-Za-z0-9`*\[]", text)), "")
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(prose.split()))
        sentence = re.split(r"(?<=[.:])\s", plain, maxsplit=1)[0].rstrip(":")
        return sentence if len(sentence) <= SUMMARY_CHARACTERS else sentence[: SUMMARY_CHARACTERS - 3].rstrip() + "..."


entries: dict[str, Entry] = {}
sections: list[tuple[str, list[str]]] = []


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    entries.clear()
    sections.clear()
    for item in nav.items:
        pages = [item] if isinstance(item, Page) else _pages_below(item)
        sections.append((item.title or config.site_name, [page.file.src_uri for page in pages]))
    return nav


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    entries[page.file.src_uri] = Entry(page.title or page.url, page.url, page.markdown or "")
    return html


def on_post_build(config: MkDocsConfig) -> None:
    site = Path(config.site_dir)
    index = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    full = []
    for title, uris in sections:
        found = [entries[uri] for uri in uris if uri in entries]
        index += [f"## {title}", "", *(f"- [{one.title}]({one.file}): {one.summary}" for one in found), ""]
        full += [f"<!-- {one.url or 'index'} -->\n\n{one.markdown.strip()}\n" for one in found]
    for one in entries.values():
        copy = site / one.file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(one.markdown, "utf-8")
    (site / "llms.txt").write_text("\n".join(index), "utf-8")
    (site / "llms-full.txt").write_text("\n".join(full), "utf-8")


def _pages_below(item: object) -> list[Page]:
    children = getattr(item, "children", None) or []
    return [page for child in children for page in ([child] if isinstance(child, Page) else _pages_below(child))]
