#!/bin/sh
# Checks for the programs that `make setup` cannot install: Python, a JDK, Rust, a C compiler. Prints one line for each
# missing one, with the way to get it, and ends with 1. Prints nothing if all are there.
#
# POSIX sh, because Python may be missing.

python=${1:-}
needs=${2:-} # "java", or nothing: `make unit` runs without a JDK
missing=0

missing() {
    printf '  %s\n' "$1" >&2
    missing=$((missing + 1))
}

how() { # the first text on Debian and Ubuntu, the second on macOS
    if [ "$(uname -s)" = Darwin ]; then echo "$2"; else echo "$1"; fi
}

# Python 3.11 or newer, with venv (a package of its own on Debian and Ubuntu).
get=$(how "apt install python3 python3-venv (or set PYTHON=/path/to/python3.11)" "brew install python@3.12")
if [ -z "$python" ] || ! command -v "$python" >/dev/null 2>&1; then
    missing "Python 3.11 or newer: not found. Get it: $get"
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    missing "Python 3.11 or newer: $python is $("$python" -V 2>&1). Get it: $get"
elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    missing "Python's venv module: $python has none. Get it: $get"
fi

# Java: Spark and the embedded Kafka run on it. On macOS /usr/bin/java exists without a Java, so this runs it.
if [ "$needs" = java ]; then
    get=$(how "apt install openjdk-17-jdk-headless (or set JAVA_HOME)" "brew install openjdk@17, then follow its caveats")
    java=java
    [ -n "${JAVA_HOME:-}" ] && java=$JAVA_HOME/bin/java
    version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    if [ -z "$version" ]; then
        missing "JDK 17 or newer: no ${JAVA_HOME:+working }$java. Get it: $get"
    elif [ "$version" -lt 17 ]; then
        missing "JDK 17 or newer: $java is version $version. Get it: $get"
    fi
fi

# Rust, at least the version in kernel/Cargo.toml.
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../kernel/Cargo.toml")
get="see https://rustup.rs (installs for your user, without root)"
if ! found=$(cargo --version 2>/dev/null | cut -d ' ' -f 2) || [ -z "$found" ]; then
    missing "Rust $wanted or newer: no cargo. Get it: $get"
elif [ "$(printf '%s\n%s\n' "$wanted" "$found" | sort -t . -k 1,1n -k 2,2n | head -n 1)" != "$wanted" ]; then
    missing "Rust $wanted or newer: cargo is $found. Get it: rustup update stable, or $get"
fi

# A C compiler: zstd is C, and Rust links with cc.
if ! command -v "${CC:-cc}" >/dev/null 2>&1; then
    missing "A C compiler: no ${CC:-cc}. Get it: $(how "apt install build-essential" "xcode-select --install")"
fi

if [ "$missing" -gt 0 ]; then
    printf 'Missing above: %s. Install and run the same command again.\n' "$missing" >&2
    exit 1
fi
