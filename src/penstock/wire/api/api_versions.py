"""The ApiVersions API: which versions of each API a broker speaks. The first request on every connection."""

from __future__ import annotations

import struct
from typing import Any

from penstock.wire.api.error_codes import UNSUPPORTED_VERSION
from penstock.wire.api.message import Api, Structure, array, int16, text

_ERROR = struct.Struct(">4xh")


class _ApiVersions(Api):
    __slots__ = ()

    def read_response(self, frame: memoryview, version: int, correlation_id: int) -> Any:
        """A broker that does not speak the version of the request answers in version 0."""
        (error_code,) = _ERROR.unpack_from(frame)
        return Api.read_response(self, frame, 0 if error_code == UNSUPPORTED_VERSION else version, correlation_id)


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
    ),
    tagged_response_header=False,
)
