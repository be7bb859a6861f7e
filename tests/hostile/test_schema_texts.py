"""A short run of `make fuzz`, without its limits of time and memory."""

from __future__ import annotations

import pytest

from hostile.fuzz_schemas import TARGETS, check


@pytest.mark.parametrize("target", TARGETS)
def test_a_random_schema_is_a_type_or_a_value_error(target):
    found = [check(target, 13, number) for number in range(150)]
    assert 10 < sum(found) < 150, "the inputs must contain both valid and invalid schemas"
