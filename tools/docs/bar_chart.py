"""Horizontal bar charts as SVG, readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from xml.sax.saxutils import escape

WIDTH = 760
LABELS = 268
"""Width of the column of names."""
VALUES = 96
"""Room for the number behind the longest bar."""
BAR, BAR_STEP = 16, 23
GROUP_TITLE, GROUP_GAP = 24, 12
TOP = 62

Kind = Literal["penstock", "rival", "bound"]

STYLE = """
    .page { fill: #ffffff; stroke: #d0d7de; }
    .axis { stroke: #d0d7de; }
    .penstock { fill: #0969da; }
    .rival { fill: #afb8c1; }
    .bound { fill: none; stroke: #6e7781; stroke-dasharray: 4 3; }
    text { fill: #1f2328; font: 13px -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", Arial, sans-serif; }
    .title { font-size: 15px; font-weight: 600; }
    .group { font-weight: 600; }
    .small { font-size: 12px; fill: #57606a; }
    .end { text-anchor: end; }
    @media (prefers-color-scheme: dark) {
      .page { fill: #0d1117; stroke: #30363d; }
      .axis { stroke: #30363d; }
      .penstock { fill: #58a6ff; }
      .rival { fill: #57606a; }
      .bound { stroke: #9198a1; }
      text { fill: #e6edf3; }
      .small { fill: #9198a1; }
    }"""


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    value: float
    kind: Kind


@dataclass(frozen=True, slots=True)
class Group:
    """Bars that are compared with each other, on a scale of their own unless the chart has one for all."""

    title: str
    bars: Sequence[Bar]


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    subtitle: str
    groups: Sequence[Group]
    one_scale: bool = False

    def svg(self) -> str:
        shapes: list[str] = []
        y = TOP
        largest = max((bar.value for group in self.groups for bar in group.bars), default=0.0)
        for group in self.groups:
            shapes.append(f'<text class="group" x="20" y="{y + 14}">{escape(group.title)}</text>')
            y += GROUP_TITLE
            top = y
            scale = largest if self.one_scale else max((bar.value for bar in group.bars), default=0.0)
            for bar in group.bars:
                shapes += _bar(bar, y, scale)
                y += BAR_STEP
            shapes.append(f'<path class="axis" d="M{LABELS}.5 {top - 3} V{y - BAR_STEP + BAR + 3}"/>')
            y += GROUP_GAP
        return page(self.title, self.subtitle, y + 2, shapes, self._description())

    def _description(self) -> str:
        said = [
            f"{group.title}: " + ", ".join(f"{bar.label} {number(bar.value)}" for bar in group.bars)
            for group in self.groups
        ]
        return f"{self.title} ({self.subtitle}). " + "; ".join(said)


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.3g}"


def _bar(bar: Bar, y: int, scale: float) -> list[str]:
    length = (WIDTH - LABELS - VALUES) * bar.value / scale if scale else 0
    shown = max(length, 1.5)
    return [
        f'<text class="end" x="{LABELS - 10}" y="{y + 13}">{escape(bar.label)}</text>',
        f'<rect class="{bar.kind}" x="{LABELS + 1}" y="{y}" width="{shown:.1f}" height="{BAR}" rx="2"/>',
        f'<text x="{LABELS + shown + 9:.1f}" y="{y + 13}">{number(bar.value)}</text>',
    ]


def page(title: str, subtitle: str, height: int, shapes: Sequence[str], description: str, more_style: str = "") -> str:
    """The SVG of a chart: its frame, its titles and these shapes."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" aria-labelledby="title">',
        f'  <title id="title">{escape(description)}</title>',
        "  <!-- generated from benchmarks/results by `make docs` -->",
        f"  <style>{STYLE}{more_style}\n  </style>",
        f'  <rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        f'  <text class="title" x="20" y="28">{escape(title)}</text>',
        f'  <text class="small" x="20" y="47">{escape(subtitle)}</text>',
        *(f"  {shape}" for shape in shapes),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"
