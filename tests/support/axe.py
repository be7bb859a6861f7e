"""What axe-core finds on a page: the rules of accessibility that a program can check.

The script comes with the package axe-playwright-python, in the dependency group `browser`.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

SERIOUS = ("serious", "critical")


def serious_findings(page: Any) -> list[str]:
    """The serious findings on the page as it is now. Its context must have been made with `bypass_csp`."""
    script = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(f"{script}; undefined")
    passes, found = page.evaluate("axe.run().then((results) => [results.passes.length, results.violations])")
    assert passes > 10, "axe looked at nothing"
    return [
        f"{each['id']} ({each['impact']}): {each['help']}: {[node['html'][:200] for node in each['nodes'][:3]]}"
        for each in found
        if each["impact"] in SERIOUS
    ]
