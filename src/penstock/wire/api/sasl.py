"""The SaslHandshake and SaslAuthenticate APIs: choose a mechanism, then exchange its messages."""

from __future__ import annotations

from penstock.wire.api.message import NEVER, Api, Structure, data, int16, int64, nullable_text, text, texts

SASL_HANDSHAKE = Api(
    "SaslHandshake",
    17,
    lowest=1,
    highest=1,
    flexible=NEVER,
    request_body=Structure(text("mechanism")),
    response_body=Structure(int16("error_code"), texts("mechanisms")),
)

SASL_AUTHENTICATE = Api(
    "SaslAuthenticate",
    36,
    lowest=0,
    highest=2,
    flexible=2,
    request_body=Structure(data("auth_bytes")),
    response_body=Structure(
        int16("error_code"),
        nullable_text("error_message"),
        data("auth_bytes"),
        int64("session_lifetime_ms", since=1, default=0),
    ),
)
