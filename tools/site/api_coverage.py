"""MkDocs hook: warns about public names that no page of docs/api describes. `--strict` makes that an error."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger

ROOT = Path(__file__).resolve().parents[2]
log = get_plugin_logger("api")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    described = {
        name
        for page in (ROOT / "docs" / "api").glob("*.md")
        for name in re.findall(r"^::: penstock\.(\w+)$", page.read_text("utf-8"), re.MULTILINE)
    }
    for name in sorted(public_names() - described):
        log.warning("penstock.%s is public, but no page of docs/api has it", name)
    return config


def public_names() -> set[str]:
    """`penstock.__all__`, read without importing the package."""
    module = ast.parse((ROOT / "src" / "penstock" / "__init__.py").read_text("utf-8"))
    for node in module.body:
        if isinstance(node, ast.Assign) and any(isinstance(to, ast.Name) and to.id == "__all__" for to in node.targets):
            return set(ast.literal_eval(node.value)) - {"__version__"}
    raise SystemExit("src/penstock/__init__.py has no __all__")
