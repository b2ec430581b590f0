#!/usr/bin/env bash
# Runs the prover as another repository would: from the zip of its module, on a machine without a
# control plane, which the prover builds. It needs a module proxy and takes 3 minutes, and 5 more if
# Go's build cache has no `make controlplane`.
set -euo pipefail
cd "$(dirname "$0")/.."
# The flags of the Makefile, so that it shares their cache.
export MODULE_PROOF=1 CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath -gcflags=all=-dwarf=false"
go test ./test/module -count=1 -timeout=20m -v
