"""Line charts on two logarithmic scales as SVG: a straight line that rises with the grid is linear growth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from tools.docs.bar_chart import WIDTH, number, page

LEFT, RIGHT, PLOT_TOP, PLOT_HEIGHT = 70, 236, 92, 230
PANEL_GAP = 66
COLOURS = 5
"""The classes `line0` to `line4` of the style."""

STYLE = """
    .grid { stroke: #d0d7de; stroke-width: 0.7; }
    .linear { stroke: #6e7781; stroke-dasharray: 4 3; fill: none; }
    .line { fill: none; stroke-width: 2; }
    .line0 { stroke: #0969da; } .dot0 { fill: #0969da; }
    .line1 { stroke: #bc4c00; } .dot1 { fill: #bc4c00; }
    .line2 { stroke: #1a7f37; } .dot2 { fill: #1a7f37; }
    .line3 { stroke: #8250df; } .dot3 { fill: #8250df; }
    .line4 { stroke: #6e7781; } .dot4 { fill: #6e7781; }
    @media (prefers-color-scheme: dark) {
      .grid { stroke: #30363d; }
      .linear { stroke: #9198a1; }
      .line0 { stroke: #58a6ff; } .dot0 { fill: #58a6ff; }
      .line1 { stroke: #f0883e; } .dot1 { fill: #f0883e; }
      .line2 { stroke: #3fb950; } .dot2 { fill: #3fb950; }
      .line3 { stroke: #a371f7; } .dot3 { fill: #a371f7; }
      .line4 { stroke: #9198a1; } .dot4 { fill: #9198a1; }
    }"""


@dataclass(frozen=True, slots=True)
class Line:
    label: str
    points: Sequence[tuple[float, float]]
    """Size and cost, by size."""


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    sizes: str
    """What the sizes count."""
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class LineChart:
    title: str
    subtitle: str
    panels: Sequence[Panel]

    def svg(self) -> str:
        shapes: list[str] = []
        top = PLOT_TOP
        for panel in self.panels:
            shapes += _panel(panel, top)
            top += PLOT_HEIGHT + PANEL_GAP + 26
        return page(self.title, self.subtitle, top - 40, shapes, self._description(), STYLE)

    def _description(self) -> str:
        said = [
            f"{panel.title}, {line.label}: " + ", ".join(f"{number(cost)} at {size:,.0f}" for size, cost in line.points)
            for panel in self.panels
            for line in panel.lines
        ]
        return f"{self.title} ({self.subtitle}). " + "; ".join(said)


def _panel(panel: Panel, top: int) -> list[str]:
    """The grid, a dashed line of linear growth, and the lines with their names beside their last points."""
    sizes = sorted({size for line in panel.lines for size, _ in line.points})
    costs = [cost for line in panel.lines for _, cost in line.points if cost > 0]
    low, high = math.floor(math.log10(min(costs))), math.ceil(math.log10(max(costs)))
    high = max(high, low + 1)
    first, last = math.log10(sizes[0]), math.log10(sizes[-1])
    width = WIDTH - LEFT - RIGHT
    bottom = top + PLOT_HEIGHT

    def x(size: float) -> float:
        return LEFT + width * (math.log10(size) - first) / (last - first)

    def y(cost: float) -> float:
        return bottom - PLOT_HEIGHT * (math.log10(max(cost, 10**low)) - low) / (high - low)

    shapes = [f'<text class="group" x="20" y="{top - 14}">{escape(panel.title)}</text>']
    for power in range(low, high + 1):
        at = y(10.0**power)
        shapes.append(f'<path class="grid" d="M{LEFT} {at:.1f} H{WIDTH - RIGHT}"/>')
        shapes.append(f'<text class="small end" x="{LEFT - 8}" y="{at + 4:.1f}">{_tick(10.0**power)}</text>')
    for size in sizes:
        shapes.append(f'<path class="grid" d="M{x(size):.1f} {top} V{bottom}"/>')
        shapes.append(
            f'<text class="small" text-anchor="middle" x="{x(size):.1f}" y="{bottom + 17}">{size:,.0f}</text>'
        )
    shapes.append(
        f'<text class="small" text-anchor="middle" x="{LEFT + width / 2:.0f}" y="{bottom + 34}">'
        f"{escape(panel.sizes)}</text>"
    )
    if high - low >= 2:
        growth = min(last - first, high - low - 1.0)
        end = 10 ** (first + growth)
        shapes.append(
            f'<path class="linear" d="M{x(sizes[0]):.1f} {y(10.0**low * 1.2):.1f} '
            f'L{x(end):.1f} {y(10 ** (low + growth) * 1.2):.1f}"/>'
        )
    for index, line in enumerate(panel.lines):
        places = [(x(size), y(cost)) for size, cost in line.points]
        path = " L".join(f"{a:.1f} {b:.1f}" for a, b in places)
        shapes.append(f'<path class="line line{index % COLOURS}" d="M{path}"/>')
        shapes += [f'<circle class="dot{index % COLOURS}" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in places]
    labels = sorted((y(line.points[-1][1]), index, line.label) for index, line in enumerate(panel.lines) if line.points)
    free = float(top - 20)
    for wanted, index, label in labels:
        free = max(wanted, free + 16)
        at = WIDTH - RIGHT + 12
        shapes.append(f'<circle class="dot{index % COLOURS}" cx="{at}" cy="{free:.1f}" r="4"/>')
        shapes.append(f'<text class="small" x="{at + 9}" y="{free + 4:.1f}">{escape(label)}</text>')
    return shapes


def _tick(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
