#!/usr/bin/env bash
# Uses the prover as another repository does, from the zip of its module, on a machine without a
# control plane: with an empty home, the prover builds one. It needs a module proxy, and takes 3
# minutes; 5 more if Go's build cache has nothing of `make controlplane`.
set -euo pipefail
cd "$(dirname "$0")/.."
export MODULE_PROOF=1 CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -trimpath"
go test ./test/module -count=1 -timeout=20m -v
