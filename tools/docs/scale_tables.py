"""Tables and lines of the figures about growth, from recorded runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.docs.bar_chart import number
from tools.docs.markdown import table
from tools.docs.results import run_of

PARTITIONS = (100, 1_000, 10_000, 100_000)
RANGE_COUNTS = (1, 10, 100, 1_000)
MEMBERS = (1, 4, 16, 64)
SIDES = {"penstock": "Penstock", "jvm": "Spark's Kafka source"}

PLANNED = {
    "batch": "a batch of all partitions",
    "data in all partitions": "trigger, data in all",
    "idle, discovery at every trigger": "trigger without data, discovery",
    "data in 4 partitions": "trigger, data in 4",
    "idle": "trigger without data",
}
RANGE_STEPS = {"planning": "planned", "pickling": "pickled for Spark", "unpickling": "unpickled by the tasks"}
CHANGES = {
    "all members start": "all members start",
    "one more member joins": "one more joins",
    "one member leaves": "one leaves",
}
GROUP_STEPS = {f"{what}: CPU per member": text for what, text in CHANGES.items()}
GROUP_REST = {"idle": "idle, CPU ms per second and member", "memory": "memory, MB per member"}
NOT_MEASURED = "*Not measured yet.*"


def points(figure: str, what: str, sizes: Sequence[int], factor: float = 1.0) -> list[tuple[float, float]]:
    """Size and value, of the sizes that were measured."""
    run = run_of("scale")
    found = ((size, run.value(figure, f"{what}, {size:,}", "penstock")) for size in sizes)
    return [(size, value * factor) for size, value in found if value is not None]


def chart() -> str:
    """The picture, which is drawn once there are results."""
    return (
        "![Cost against size, on logarithmic scales](figures/scale.svg)" if run_of("scale").measured else NOT_MEASURED
    )


def planning() -> str:
    text = {**{what: f"{name}, CPU ms" for what, name in PLANNED.items()}, "memory": "memory of the process, MB"}
    return _by_size("scale-planning", "partitions", text, PARTITIONS)


def ranges() -> str:
    text = {**{what: f"{name}, CPU ms" for what, name in RANGE_STEPS.items()}, "pickled": "bytes per range"}
    return _by_size("scale-ranges", "ranges", text, RANGE_COUNTS)


def group() -> str:
    seconds = {what: f"{name}, s" for what, name in CHANGES.items()}
    processor = {what: f"{name}, CPU ms per member" for what, name in GROUP_STEPS.items()}
    return _by_size("scale-group", "members", {**seconds, **processor, **GROUP_REST}, MEMBERS)


def broker() -> str:
    run = run_of("scale")
    rows = [
        (text, *(_shown(run.value("scale-broker", case, side)) for side in SIDES))
        for case, text in {
            "": "plan a trigger over 10,000 partitions, ms",
            "discovery at every trigger": "the same, with partition discovery at every trigger, ms",
        }.items()
    ]
    return table(("", *SIDES.values()), rows) if any(row[1] for row in rows) else NOT_MEASURED


def _by_size(figure: str, counted: str, names: Mapping[str, str], sizes: Sequence[int]) -> str:
    rows = []
    for what, text in names.items():
        found = dict(points(figure, what, sizes))
        if found:
            rows.append((text, *(_shown(found.get(size)) for size in sizes)))
    return table((counted, *(f"{size:,}" for size in sizes)), rows) if rows else NOT_MEASURED


def _shown(value: float | None) -> str:
    return "" if value is None else number(value)
