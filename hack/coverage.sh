#!/usr/bin/env bash
# Prints the statement coverage of the operator's packages by their unit tests as a table.
set -euo pipefail
cd "$(dirname "$0")/.."

tested=$("${GO:-go}" test -cover . ./controllers/... ./runners/...) || { printf '%s\n' "$tested" >&2; exit 1; }
printf '| package | statements |\n|---|---|\n'
sed -En 's/^ok[[:space:]]+([^[:space:]]+)[[:space:]].*coverage: ([0-9.]+%) of statements.*/| \1 | \2 |/p' <<<"$tested"
