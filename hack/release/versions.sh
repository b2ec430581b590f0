#!/usr/bin/env bash
# Writes the version of a release into each go.mod that requires a module of this repository. Importers download that
# version, because the replacements in a go.mod have no effect on them. That of the harness is removed: go run and go
# install refuse the prover of a module with replacements.
#
#   hack/release/versions.sh <version>
set -euo pipefail
cd "$(dirname "$0")/../.."
version=$1
own=$(awk '$1 == "module" {print $2}' go.mod)
find . -name go.mod -not -path './bin/*' -exec sed -i -E "s#^(\t|require )(${own//./\\.}(/[^ ]+)?) v[^ ]+#\1\2 $version#" {} +
sed -i -E "\#^replace ${own//./\\.}/#d" test/harness/go.mod
