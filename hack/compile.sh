#!/usr/bin/env bash
# Compiles packages and prints the progress, because go test prints nothing before its first test.
# It ignores compile errors, which go test reports.
# Usage: hack/compile.sh GO [flags and packages of go build...]
set -euo pipefail
go=$1
shift
compiled=0 shown=0
"$go" build -v "$@" 2>&1 | while read -r package; do
  compiled=$((compiled + 1))
  if ((SECONDS - shown >= 20)); then
    shown=$SECONDS
    echo "compiled $compiled packages after $SECONDS s, the last is $package"
  fi
done || true
