"""The ApiVersions API: which versions of each API a broker speaks, and which features the cluster has enabled.

The first request on every connection.
"""

from __future__ import annotations

import struct
from typing import Any

from penstock.wire.api.error_codes import UNSUPPORTED_VERSION
from penstock.wire.api.frame import FrameReader
from penstock.wire.api.message import Api, Structure, array, int16, int32, text

_ERROR = struct.Struct(">4xh")
_FINALIZED_FEATURES = 2
"""The number of the tagged field with the features that the whole cluster has enabled (KIP-584)."""


class _ApiVersions(Api):
    __slots__ = ()

    def read_response(self, frame: memoryview, version: int, correlation_id: int) -> Any:
        """A broker that does not speak the version of the request answers in version 0."""
        (error_code,) = _ERROR.unpack_from(frame)
        version = 0 if error_code == UNSUPPORTED_VERSION else version
        reader = FrameReader(frame, version >= self.flexible)
        reader.response_header(correlation_id, tagged=self.tagged_response_header)
        response = self.response_body.decode(version, reader)
        response.features = _features(reader.last_tags.get(_FINALIZED_FEATURES))
        return response


def _features(tagged: memoryview | None) -> dict[str, int]:
    """By name: the highest level of a feature that every broker of the cluster uses."""
    found: dict[str, int] = {}
    if tagged is not None:
        reader = FrameReader(tagged, flexible=True)
        for _ in range(reader.count(6)):
            name = reader.text()
            found[name], _ = reader.numbers(">hh")
            reader.tags()
    return found


API_VERSIONS = _ApiVersions(
    "ApiVersions",
    18,
    lowest=0,
    highest=4,
    flexible=3,
    request_body=Structure(
        text("client_software_name", since=3),
        text("client_software_version", since=3),
    ),
    response_body=Structure(
        int16("error_code"),
        array("api_keys", int16("api_key"), int16("min_version"), int16("max_version")),
        int32("throttle_time_ms", since=1, default=0),
    ),
    tagged_response_header=False,
)
