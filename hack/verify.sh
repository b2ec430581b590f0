#!/usr/bin/env bash
# Generates everything in a copy of the tree and compares. A generated file that
# is stale, missing, unneeded or untracked is an error, here and in CI. The tree
# itself is not changed.
#
#   hack/verify.sh <folder of the tools>
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$1

# The files that `make generate` writes.
generated=(config/crd/bases config/webhook/manifests.yaml docs/api.md)
while IFS= read -r file; do
  generated+=("$file")
done < <(find api -name 'zz_generated.*.go')

# The Makefile refuses a path with spaces, which TMPDIR may have, and this tree does not.
mkdir -p bin
copy=$(mktemp -d "$PWD/bin/verify-XXXXXX")
trap 'rm -rf "$copy"' EXIT
mkdir -p "$copy/hack"
cp -Rp Makefile go.mod go.sum api controllers runners config docs "$copy/"
cp -Rp hack/tools hack/boilerplate.go.txt "$copy/hack/"
(cd "$copy" && rm -rf "${generated[@]}")
# The copy has no go.work, and Go would use that of this tree.
GOWORK=off make --no-print-directory -C "$copy" generate TOOLS="$tools" >/dev/null

failed=0
for dir in api config docs; do
  diff -ru "$dir" "$copy/$dir" || failed=1
done
if ((failed)); then
  echo "verify: generated files are out of date (see above); run make generate" >&2
fi

if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  unknown=$(git ls-files --others --exclude-standard -- "${generated[@]}")
  if [[ -n $unknown ]]; then
    echo "verify: generated files that are not tracked by git; add them:" >&2
    echo "$unknown" >&2
    failed=1
  fi
fi
exit "$failed"
