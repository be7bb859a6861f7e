"""Fuzzes the schemas that are parsed in Python: JSON Schema, DDL, Spark's schema JSON, Avro's references, and documents
from which a schema is inferred. Any text must become a type or a ValueError, within limits.

    python -m hostile.fuzz_schemas --seconds 60        (make fuzz), with the src and tests folders in the path

A failure prints the target, the seed and the number of the input. `--target`, `--seed` and `--only` repeat it.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from penstock.formats.inference import infer_json
from penstock.formats.json_schema import json_schema_type
from penstock.formats.registry.avro_references import inline, root_names
from penstock.formats.schema import parse_schema
from penstock.model.types import check_size

CPU_SECONDS = 10.0
"""Limit for one input. An input takes a second or two on an idle machine, and more on a busy one."""

MEMORY_BYTES = 2 << 30
"""Limit for the whole process; loaded libraries take most of it."""

LONGEST = 200_000
"""Approximate limit for the characters of a text: longer ones find nothing new."""


DEFINITIONS = 8


class Maker:
    """Random parts that repeat and refer to each other."""

    def __init__(self, random_: random.Random) -> None:
        self.random = random_
        self._left = 300
        """Parts that may still be created: nested parts multiply."""
        self._may_repeat = True
        self._definition = -1
        """The definition of a JSON Schema that is being created: it refers to later ones."""

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def size(self) -> int:
        """Usually small, and very large once."""
        self._left -= 1
        if self._left < 0:
            return 0
        if self._may_repeat and self.chance(0.03):
            self._may_repeat = False
            return self.random.choice([50, 300, 1_000])
        return self.random.choice([0, 1, 1, 2, 2, 3, 5])

    def is_deep(self, depth: int) -> bool:
        self._left -= 1
        return depth > 5 or self._left < 0

    def name(self) -> str:
        names = ["a", "b", "d0", "d1", "d2", "type", "", "a.b", "ä", "~1", "%", "x" * 2_000]
        return self.random.choice(names) if self.chance(0.7) else f"n{self.random.randrange(50)}"

    def json(self, depth: int = 0) -> Any:
        kind = self.random.randrange(6 if self.is_deep(depth) else 8)
        if kind == 6:
            return [self.json(depth + 1)] * self.size()
        if kind == 7:
            return {self.name(): self.json(depth + 1) for _ in range(min(self.size(), 5))}
        return [None, True, self.random.randrange(10**6), 0.5, self.name(), 10**40][kind]

    # JSON Schema

    def json_document(self) -> Any:
        """A whole document. Definitions mostly refer to later ones, so that not all of them are circular."""
        document: dict[str, Any] = {"properties": {}, "$defs": {}}
        for self._definition in reversed(range(DEFINITIONS)):
            self._left += 20
            document["$defs"][f"d{self._definition}"] = self.json_schema(3)
        self._definition = -1
        self._left += 100
        document["properties"] = {f"p{at}": self.json_schema() for at in range(self.random.randrange(1, 4))}
        return document if self.chance(0.9) else self.json_schema()

    def json_schema(self, depth: int = 0) -> Any:
        body: dict[str, Any] = {}
        for _ in range(self.random.choice([1, 1, 1, 2, 3])):
            self._keyword(body, depth)
        return body if self.chance(0.97) else self.json()

    def _keyword(self, body: dict[str, Any], depth: int) -> None:
        deeper = (
            [] if self.is_deep(depth) else ["properties", "items", "allOf", "oneOf", "additionalProperties", "$defs"]
        )
        keyword = self.random.choice(
            ["type", "$ref", "$ref", "enum", "$id", "$anchor", "format", "connect.index", *deeper]
        )
        inner = depth + 1
        match keyword:
            case "type":
                types = ["object", "array", "string", "integer", "number", "boolean", "null", "any"]
                body["type"] = self.random.choice([self.random.choice(types), [*types[: self.size()]], self.json(5)])
            case "$ref" if self.chance(0.05):
                targets = ["", "/$defs/d0", "a", "/properties/a", "/allOf/0", "/nowhere"]
                body["$dynamicRef"] = self.random.choice(["#", "x#", "other#"]) + self.random.choice(targets)
            case "$ref" if self._definition + 1 < DEFINITIONS:
                body["$ref"] = f"#/$defs/d{self.random.randrange(self._definition + 1, DEFINITIONS)}"
            case "properties" | "$defs":
                names = [self.name() for _ in range(min(self.size(), 4))] + [f"w{at}" for at in range(self.size())]
                shared = self.json_schema(inner)
                body[keyword] = {name: shared if name[:1] == "w" else self.json_schema(inner) for name in names}
            case "allOf" | "oneOf":
                body[self.random.choice([keyword, "anyOf"])] = [self.json_schema(inner)] * self.size()
            case "items" | "additionalProperties":
                body[keyword] = self.json_schema(inner)
            case "enum":
                body["enum"] = [self.json(5)] * self.size()
            case "$id" | "$anchor":
                body[keyword] = self.name()
            case _:
                body[keyword] = self.json(4)

    # DDL and Spark's JSON

    def ddl(self, depth: int = 0) -> str:
        marks = [
            ",",
            ":",
            "<",
            ">",
            "(",
            ")",
            "`",
            "'",
            '"',
            "\\",
            "--",
            "/*",
            "*/",
            "!",
            "NOT NULL",
            "COMMENT 'x'",
            "\n",
        ]
        columns = [f"{self.name()} {self.ddl_type(depth)}" for _ in range(self.size() or 1)]
        text = self.random.choice([", ", ",", " , "]).join(columns)
        if depth == 0 and self.chance(0.3):
            at = self.random.randrange(len(text) + 1)
            text = text[:at] + self.random.choice(marks) * self.random.choice([1, 1, 2, 1_000]) + text[at:]
        return text

    def ddl_type(self, depth: int) -> str:
        if self.is_deep(depth) or self.chance(0.5):
            return self.random.choice(
                ["INT", "STRING", "DECIMAL(38, 2)", "TIMESTAMP", "blob", "VARIANT", "CHAR(1)", "9"]
            )
        if self.chance(0.05):
            levels = self.random.choice([30, 61, 2_000, 50_000])
            return "ARRAY<" * levels + "INT" + ">" * levels
        kind = self.random.choice(["ARRAY<{}>", "MAP<STRING, {}>", "STRUCT<{}>"])
        return kind.format(self.ddl(depth + 1) if kind.startswith("STRUCT") else self.ddl_type(depth + 1))

    def spark_json(self, depth: int = 0) -> Any:
        match self.random.randrange(2 if self.is_deep(depth) else 5):
            case 0 | 1:
                return self.random.choice(["integer", "string", "decimal(10,2)", "array<int>", "nothing"])
            case 2:
                return {"type": "array", "elementType": self.spark_json(depth + 1), "containsNull": True}
            case 3:
                return {"type": "map", "keyType": "string", "valueType": self.spark_json(depth + 1)}
        fields = [{"name": f"f{at}", "type": self.spark_json(depth + 1)} for at in range(self.size() if depth else 3)]
        return {"type": "struct", "fields": fields}

    # Avro

    def avro(self, depth: int = 0) -> Any:
        name = self.random.choice(["A", "B", "n.C", "D", "x" * 600])
        match self.random.randrange(2 if self.is_deep(depth) else 7):
            case 0:
                return self.random.choice(["int", "string", "null"])
            case 1:
                return name
            case 2:
                return {"type": "array", "items": self.avro(depth + 1)}
            case 3:
                return [self.avro(depth + 1)] * min(self.size(), 50)
            case 4:
                return {"type": "fixed", "name": name, "size": 1} | (
                    {"namespace": "y" * 900} if self.chance(0.3) else {}
                )
            case 5:
                return {"type": self.avro(depth + 1)}
        fields = [{"name": f"f{at}", "type": self.avro(depth + 1)} for at in range(min(self.size(), 50))]
        return {"type": "record", "name": name, "fields": fields, "aliases": ["Z"]}


def damaged(maker: Maker, text: str) -> str:
    """The text, sometimes with a part repeated or left out."""
    text = text[:LONGEST]
    if text and maker.chance(0.2):
        at, size = maker.random.randrange(len(text)), maker.random.randrange(1, 50)
        text = text[:at] + text[at : at + size] * maker.random.choice([0, 2, 1_000]) + text[at + size :]
    return text


def check_json_schema(maker: Maker) -> None:
    references = [("other", damaged(maker, json.dumps(maker.json_schema())))] if maker.chance(0.3) else []
    check_size(json_schema_type(damaged(maker, json.dumps(maker.json_document())), references))


def check_ddl(maker: Maker) -> None:
    check_size(parse_schema(damaged(maker, maker.ddl())))


def check_spark_json(maker: Maker) -> None:
    document = {"type": "struct", "fields": [{"name": "a", "type": maker.spark_json()}]}
    check_size(parse_schema(damaged(maker, json.dumps(document))))


def check_inference(maker: Maker) -> None:
    documents = [damaged(maker, json.dumps(maker.json())).encode() for _ in range(maker.random.randrange(1, 20))]
    check_size(infer_json(documents))


def check_avro_references(maker: Maker) -> None:
    text = damaged(maker, json.dumps(maker.avro()))
    root_names(text)
    made = inline(text, [damaged(maker, json.dumps(maker.avro())) for _ in range(maker.random.randrange(4))])
    assert len(made) < 50 * LONGEST, "the expanded type is much longer than the text"


TARGETS: dict[str, Callable[[Maker], None]] = {
    "json_schema": check_json_schema,
    "ddl": check_ddl,
    "spark_json": check_spark_json,
    "inference": check_inference,
    "avro_references": check_avro_references,
}


def check(target: str, seed: int, number: int) -> bool:
    """Whether the input of that number is a schema. Raises for an error in Penstock."""
    try:
        TARGETS[target](Maker(random.Random(f"{target} {seed} {number}")))
    except ValueError:
        return False
    return True


class TooSlow(Exception):
    """An input exceeded the time limit."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--target", choices=TARGETS, action="append")
    parser.add_argument("--only", type=int, help="run only the input of that number")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(10**9) if arguments.seed is None else arguments.seed

    def too_slow(number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"an input took more than {CPU_SECONDS:g} s")

    signal.signal(signal.SIGPROF, too_slow)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for target in arguments.target or TARGETS:
        end, number, good = time.monotonic() + arguments.seconds, 0, 0
        while time.monotonic() < end or number == 0:
            number = arguments.only if arguments.only is not None else number + 1
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            try:
                good += check(target, seed, number)
            except BaseException:
                print(f"{target}: repeat with --target {target} --seed {seed} --only {number}", flush=True)
                raise
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0.0)
            if arguments.only is not None:
                break
        print(f"{target}: {number} inputs, {good} of them schemas, seed {seed}", flush=True)


if __name__ == "__main__":
    main()
