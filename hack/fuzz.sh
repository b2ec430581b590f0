#!/usr/bin/env bash
# Runs each fuzz target of the operator for the given time, one after the other, as go test fuzzes
# one target at a time. A failing input is stored in testdata/fuzz of its package.
#
#   hack/fuzz.sh 1m
set -euo pipefail
cd "$(dirname "$0")/.."
found=$(grep -rhoE --include='*_test.go' --with-filename '^func Fuzz\w+' api controllers runners)
[[ -n $found ]] || { echo "fuzz: no fuzz target found" >&2; exit 1; }
failed=()
while IFS=: read -r file function; do
  target=${function#func }
  echo "fuzz: $target of $(dirname "$file"), $1"
  go test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "$1" </dev/null || failed+=("$target")
done <<<"$found"
((${#failed[@]} == 0)) || { echo "fuzz: failed: ${failed[*]}" >&2; exit 1; }
