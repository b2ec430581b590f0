#!/usr/bin/env bash
# Fails with a remedy when Go is missing or older than go.mod requires. Go 1.21 and later download a
# newer toolchain unless configured otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."
go=$1
want=$(awk '$1 == "go" {print $2}' go.mod)
command -v "$go" >/dev/null || {
  echo "$go was not found; install Go $want or later, see https://go.dev/doc/install" >&2
  exit 1
}
have=$("$go" env GOVERSION)
printf '%s\n' "go$want" "$have" | sort -VC || {
  echo "Go $want or later is needed, but this is Go ${have#go}; see https://go.dev/doc/install" >&2
  exit 1
}
