#!/usr/bin/env bash
# Prints the commit of the release before this checkout: the newest tag v* before HEAD, or PREVIOUS if there
# is none. `make e2e` upgrades from it and rolls back to it. It fails if a shallow clone lacks that commit.
set -euo pipefail
cd "$(dirname "$0")/.."

# The last commit whose standbys polled the Lease. It has other permissions, flags and another election.
PREVIOUS=${PREVIOUS:-35c2a0e1e5cdd0daabb0362d4ac290724dbe46f1}

tag=$(git describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>/dev/null || true)
git rev-parse --verify --quiet "${tag:-$PREVIOUS}^{commit}" || {
  echo "previous: this clone does not contain the previous release, ${tag:-$PREVIOUS}; run git fetch --unshallow --tags" >&2
  exit 1
}
