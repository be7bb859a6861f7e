#!/bin/sh
# Checks that the programs of a Kerberos KDC, and what python-gssapi is built with, are here: for tests that log in to a
# broker by Kerberos. With --install it first installs what is missing: as root, from the packages of Debian or Ubuntu.
# If something is missing, it prints how to get it and ends with 1.

set -u
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
packages="krb5-kdc krb5-admin-server krb5-user libkrb5-dev faketime gcc"

missing() {
    for program in krb5kdc kadmin.local kdb5_util kinit klist krb5-config faketime gcc; do
        command -v "$program" >/dev/null 2>&1 || printf '%s ' "$program"
    done
}

install_packages() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    echo "==> Kerberos, from the system's packages (the tests start a KDC of their own)" >&2
    export DEBIAN_FRONTEND=noninteractive
    install="apt-get install --yes --no-install-recommends $packages"
    $install >&2 || { apt-get update >&2 && $install >&2; }
}

[ -z "$(missing)" ] && exit 0
[ "${1:-}" = --install ] && install_packages && [ -z "$(missing)" ] && exit 0
echo "Kerberos: $(missing)not found. Get them: apt update && apt install $packages (as root). Or run: make kerberos" >&2
exit 1
