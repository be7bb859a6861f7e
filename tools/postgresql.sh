#!/bin/sh
# Prints the folder of PostgreSQL's server programs (initdb, pg_ctl, postgres), for tests that write to a real database.
# With --install it first installs them if they are missing: as root, from the packages of Debian or Ubuntu. If there
# are none, it prints how to get them and ends with 1.

set -u

find_programs() {
    for folder in \
        "${POSTGRESQL_BIN:-}" \
        "$(pg_config --bindir 2>/dev/null)" \
        $(ls -d /usr/lib/postgresql/*/bin /usr/pgsql-*/bin 2>/dev/null | sort -rV) \
        $(ls -d /opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin 2>/dev/null | sort -r) \
        /usr/bin /usr/local/bin; do
        # All three: a client without a server has a pg_config, too.
        if [ -n "$folder" ] && [ -x "$folder/initdb" ] && [ -x "$folder/pg_ctl" ] && [ -x "$folder/postgres" ]; then
            echo "$folder"
            return 0
        fi
    done
    return 1
}

install_programs() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    echo "==> PostgreSQL, from the system's packages (the tests start a server of their own)" >&2
    # Without this, the package would create a database and start it.
    if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
        mkdir -p /etc/postgresql-common
        echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
    fi
    export DEBIAN_FRONTEND=noninteractive
    install="apt-get install --yes --no-install-recommends -o Dpkg::Options::=--force-confold postgresql"
    $install >&2 || { apt-get update >&2 && $install >&2; }
}

if find_programs; then
    exit 0
fi
if [ "${1:-}" = --install ] && install_programs && find_programs; then
    exit 0
fi
if [ "$(uname -s)" = Darwin ]; then
    get="brew install postgresql"
else
    get="apt install postgresql (as root; or your system's package with initdb in it)"
fi
echo "PostgreSQL's server programs: not found. Get them: $get. Or set POSTGRESQL_BIN to the folder of initdb" >&2
exit 1
