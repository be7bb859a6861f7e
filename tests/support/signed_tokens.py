"""Signed access tokens, and the settings of a broker that checks signature, issuer, audience and expiry by Kafka's own
code."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from penstock.testing.listeners import MECHANISMS

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
MODULE = f"{PACKAGE}.OAuthBearerLoginModule required"
ISSUER, AUDIENCE = "https://tokens.example.org", "kafka.example.org"


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def signed(key: rsa.RSAPrivateKey, **claims: object) -> str:
    """A token of an hour, with these claims instead of the right ones."""
    now = int(time.time())
    body = {"iss": ISSUER, "aud": AUDIENCE, "sub": "reader", "scope": "read", "iat": now, "exp": now + 3600} | claims
    parts = ({"alg": "RS256", "typ": "JWT", "kid": "k1"}, body)
    text = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
    return f"{text}.{_encoded(key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def checking_broker(key: rsa.RSAPrivateKey, folder: Path) -> tuple[dict[str, str], str]:
    """Settings and a JVM option of a broker that accepts the tokens signed with this key. Needs a SASL listener."""
    public = key.public_key().public_numbers()
    numbers = {
        name: _encoded(value.to_bytes(-(-value.bit_length() // 8), "big"))
        for name, value in (("n", public.n), ("e", public.e))
    }
    keys = folder / "keys.json"
    keys.write_text(json.dumps({"keys": [{"kty": "RSA", "kid": "k1", "use": "sig", "alg": "RS256"} | numbers]}))
    url, prefix = keys.as_uri(), "listener.name.client.oauthbearer.sasl."
    settings = {
        "sasl.enabled.mechanisms": ",".join([*MECHANISMS, "OAUTHBEARER"]),
        f"{prefix}jaas.config": f"{MODULE};",
        f"{prefix}server.callback.handler.class": f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
        f"{prefix}oauthbearer.jwks.endpoint.url": url,
        f"{prefix}oauthbearer.expected.audience": AUDIENCE,
        f"{prefix}oauthbearer.expected.issuer": ISSUER,
    }
    return settings, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
