"""Creates the key stores of test_key_stores.py with Java's keytool: `python tests/golden/capture_key_stores.py`."""

from __future__ import annotations

import subprocess
from pathlib import Path

STORES = Path(__file__).parent / "key_stores"
PASSWORD = "store password"
KEY_PASSWORD = "other password"
LEGACY = "-J-Dkeystore.pkcs12.legacy"  # RC2 and 3DES, as Java 8 wrote
OPEN = ("-J-Dkeystore.pkcs12.certProtectionAlgorithm=NONE", "-J-Dkeystore.pkcs12.macAlgorithm=NONE")


def keytool(*arguments: str | Path) -> None:
    subprocess.run(["keytool", "-noprompt", *arguments, "-storepass", PASSWORD], check=True)


def key(store: str, alias: str, *more: str) -> None:
    name = ("-alias", alias, "-dname", f"CN={alias}", "-validity", "36500", "-keystore", STORES / store)
    keytool(*more, "-genkeypair", *name, "-keyalg", "EC", "-groupname", "secp256r1")


def trusted(store: str, *more: str) -> None:
    keytool(*more, "-importcert", "-alias", "authority", "-file", STORES / "client.der", "-keystore", STORES / store)


if __name__ == "__main__":
    STORES.mkdir(exist_ok=True)
    for old in STORES.iterdir():
        old.unlink()
    key("client.jks", "client", "-storetype", "JKS")
    keytool("-exportcert", "-alias", "client", "-keystore", STORES / "client.jks", "-file", STORES / "client.der")
    key("other-key-password.jks", "client", "-storetype", "JKS", "-keypass", KEY_PASSWORD)
    for alias in ("first", "second"):
        key("two-keys.jks", alias, "-storetype", "JKS")
    key("client.jceks", "client", "-storetype", "JCEKS")
    key("client.p12", "client", "-storetype", "PKCS12")
    key("client-legacy.p12", "client", "-storetype", "PKCS12", LEGACY)
    trusted("trust.jks", "-storetype", "JKS")
    trusted("trust.p12", "-storetype", "PKCS12")
    trusted("trust-legacy.p12", "-storetype", "PKCS12", LEGACY)
    trusted("trust-open.p12", "-storetype", "PKCS12", *OPEN)
