"""Computes the scope of a stream's dead letters (`dead_letters/scope.py` says what a scope is)."""

from __future__ import annotations

import hashlib
import json
from typing import assert_never

from penstock.config.source import SourceOptions
from penstock.dead_letters.scope import VERSION, LetterScope
from penstock.formats.plan import TypedPlan
from penstock.formats.spec import Avro, ColumnSpec, Custom, Json, Protobuf, RawBytes, Text
from penstock.model.subscription import AssignedPartitions, Subscription, TopicNames, TopicPattern


def stream_scope(query_id: str | None, options: SourceOptions, plan: TypedPlan) -> LetterScope:
    """The scope of one source of a streaming query.

    Spark passes the query id to tasks as a local property of the thread that runs the batch. A thread that a user
    starts inside `foreachBatch` may not inherit it: then the options identify the source, as they did in version 1.
    """
    formats = (options.formats.key.format, options.formats.value.format)
    earlier = version_1_scope(options.rules.group, options.subscription, plan.key, plan.value)
    if query_id is not None:
        return LetterScope("query", query_id, formats, earlier)
    return LetterScope("source", _source_id(options.rules.group, options.subscription), formats, earlier)


def _source_id(group: str | None, subscription: Subscription) -> str:
    fields = {"version": VERSION, "group": group, **_subscription_fields(subscription)}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]


def _subscription_fields(subscription: Subscription) -> dict[str, object]:
    match subscription:
        case TopicNames(names):
            return {"subscribe": list(names)}
        case TopicPattern(pattern):
            return {"subscribePattern": pattern}
        case AssignedPartitions(partitions):
            return {"assign": [[tp.topic, tp.partition] for tp in partitions]}


# --- version 1: keep as it is, see dead_letters/scope.py --------------------------------------------------------------


def version_1_scope(group: str | None, subscription: Subscription, key: ColumnSpec, value: ColumnSpec) -> str:
    """The scope's name in version 1: a hash of what `repr` printed of these four.

    Do not simplify: the texts of class and field names stand here because they are durable, and the classes are not.
    """
    texts = (repr(group), _version_1_subscription(subscription), _version_1_spec(key), _version_1_spec(value))
    return hashlib.sha256(f"({', '.join(texts)})".encode()).hexdigest()[:16]


def _version_1_subscription(subscription: Subscription) -> str:
    match subscription:
        case TopicNames(names):
            return f"TopicNames(names={names!r})"
        case TopicPattern(pattern):
            return f"TopicPattern(pattern={pattern!r})"
        case AssignedPartitions(partitions):
            texts = [f"TopicPartition(topic={tp.topic!r}, partition={tp.partition!r})" for tp in partitions]
            return f"AssignedPartitions(partitions=({', '.join(texts)}{',' if len(texts) == 1 else ''}))"


def _version_1_spec(spec: ColumnSpec) -> str:
    match spec:
        case RawBytes():
            return "RawBytes()"
        case Text():
            return f"Text(framed={spec.framed!r})"
        case Json():
            return f"Json(type={spec.type!r}, framed={spec.framed!r}, time_zone={spec.time_zone!r})"
        case Avro():
            last = f"type={spec.type!r}, framed={spec.framed!r}, schema_id={spec.schema_id!r}"
            return f"Avro(schema={spec.schema!r}, {last})"
        case Protobuf():
            last = f"type={spec.type!r}, framed={spec.framed!r}, schema_id={spec.schema_id!r}"
            return f"Protobuf(descriptors={spec.descriptors!r}, message={spec.message!r}, {last})"
        case Custom():
            last = f"columns={spec.columns!r}, may_end={spec.may_end!r}"
            if spec.arguments is not None:
                last += f", arguments={spec.arguments!r}"
            return f"Custom(path={spec.path!r}, type={spec.type!r}, {last})"
        case _:
            assert_never(spec)
