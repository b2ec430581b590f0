#!/usr/bin/env bash
# Uses the prover as another repository does, from the zip of its module. It needs a module proxy, and
# takes 5 minutes. The control plane is that of KUBEBUILDER_ASSETS, or the one that is built here.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ -n ${KUBEBUILDER_ASSETS:-} ]] || make --no-print-directory controlplane
export MODULE_PROOF=1 KUBEBUILDER_ASSETS="${KUBEBUILDER_ASSETS:-$(readlink -f bin/controlplane/current)}"
go test ./test/module -count=1 -timeout=20m -v
