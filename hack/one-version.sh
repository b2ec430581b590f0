#!/usr/bin/env bash
# Fails if a module of go.work requires another version than the workspace selects: the module alone, as importers and
# releases build it, would then differ from what the tests of this checkout build.
#
#   GO=go hack/one-version.sh MODULES...
set -euo pipefail
cd "$(dirname "$0")/.."
own=$(awk '$1 == "module" {print $2}' go.mod) failed=0 sums=$(cat go.work.sum)
selected=$("$GO" list -m -f '{{.Path}} {{.Version}}' all | sort)
for module in "$@"; do
  differing=$(awk -v own="$own" '$1 == "require" {sub(/^require /, "")} $2 ~ /^v[0-9]/ && $1 !~ "^" own "(/|$)" {print $1, $2}' \
    "$module/go.mod" | sort | comm -23 - <(echo "$selected"))
  while read -r path version; do
    [[ -n $path ]] || continue
    echo "verify: $module/go.mod requires $path $version, and go.work selects $(awk -v path="$path" '$1 == path {print $2}' <<<"$selected"): go get that version in $module" >&2
    failed=1
  done <<<"$differing"
done
[[ $(cat go.work.sum) == "$sums" ]] || { echo "verify: go.work.sum lacked lines, which were added: commit them" >&2; failed=1; }
exit "$failed"
