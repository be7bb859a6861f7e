"""Download the embedded Kafka into the user's cache folder, if it is not there."""

from __future__ import annotations

import sys

from penstock.errors import PenstockError
from penstock.testing import KAFKA_VERSION, get_distribution
from penstock.testing.distribution import cache_folder, damage


def main() -> int:
    folder = cache_folder() / f"kafka-{KAFKA_VERSION}"
    try:
        if damage(folder) is not None:
            print(f"\n==> Apache Kafka {KAFKA_VERSION}, 43 MB, once for this user", flush=True)
            get_distribution()
    except PenstockError as error:
        print(f"make setup: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
