"""Columns and fields that a user selects by name, without types."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import OptionError
from penstock.formats.plan import TypedSource
from penstock.formats.spec import Json, RawBytes
from penstock.model.types import list_type, struct_type
from support.configs import format_options

ITEM = struct_type({"price": pa.float64(), "name": pa.string()})
ADDRESS = struct_type({"city": pa.string(), "zip": pa.int32()})
ORDER = struct_type({"id": pa.int64(), "to": ADDRESS, "items": list_type(ITEM), "a.b": pa.int64()})


def source(**options):
    return TypedSource(RawBytes(), Json(ORDER), format_options(**options))


def schema_of(*names, **options):
    return source(**options).select(names).layout.schema


def test_names_select_what_a_schema_selects():
    plan = source().select(["value.to.zip", "offset", "value.id"])
    wanted = pa.schema([("value", struct_type({"to": struct_type({"zip": pa.int32()}), "id": pa.int64()}))])
    assert plan.layout.schema == wanted.append(pa.field("offset", pa.int64()))
    assert plan == source().plan(plan.layout.schema)
    assert plan.fetched == ["value", "offset"]


def test_a_path_goes_through_arrays_of_structs():
    wanted = struct_type({"items": list_type(struct_type({"price": pa.float64()}))})
    assert schema_of("value.items.price").field("value").type == wanted


def test_a_field_with_a_dot_in_its_name_is_found():
    assert schema_of("value.a.b").field("value").type == struct_type({"a.b": pa.int64()})


def test_flattened_fields_are_named_as_columns():
    assert schema_of("id", "to.city", "kafka_offset", flatten=True) == pa.schema(
        [("id", pa.int64()), ("to", struct_type({"city": pa.string()})), ("kafka_offset", pa.int64())]
    )


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["vallue.id"], "vallue.id': is not a column of this source. Did you mean value.id?"),
        (["value.to.ziip"], "Did you mean value.to.zip?"),
        (["key.id"], "key is bytes. To select its fields, set its format"),
        (["nothing_like_it"], "There are key, value, topic"),
        (["value.id", "value.id"], "is named twice"),
        (["value", "value.id"], "value.id': is selected twice: value is named too"),
        (["value.to.zip", "value.to"], "value.to': is selected twice: value.to.zip is named too"),
    ],
)
def test_what_is_wrong_says_so(names, said):
    with pytest.raises(OptionError) as caught:
        source().select(names)
    assert caught.value.name == "columns"
    assert said in str(caught.value)
