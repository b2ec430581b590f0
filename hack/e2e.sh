#!/usr/bin/env bash
# Builds the images of the end-to-end features and runs the features on a kind cluster of their own.
# The totals are on the last line. Besides E2E_TAG it reads E2E_NODE_IMAGE, E2E_KEEP=1 and
# E2E_CLUSTER=<name>, see docs/testing.md.
#
#   MAKE=make GO=go E2E_TAG=e2e ARTIFACTS=artifacts KUBECTL=kubectl hack/e2e.sh [flags of go test]
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/bin/tools
hack/needs-docker.sh
KUBECTL=$(command -v "$KUBECTL") || {
  echo "KUBECTL=$KUBECTL was not found; set KUBECTL to the kubectl to use, or unset it to build one" >&2
  exit 1
}
KUBECTL=$(realpath "$KUBECTL")
export KUBECTL KIND=$tools/kind KUSTOMIZE=$tools/kustomize HELM=$tools/helm PREVIOUS_DIR=$PWD/bin/e2e/previous/source
export IMG=leasehold:$E2E_TAG VIEWER_IMG=leasehold-viewer:$E2E_TAG S3_IMG=leasehold-s3:$E2E_TAG \
  PREVIOUS_IMG=leasehold-previous:$E2E_TAG PREVIOUS_VIEWER_IMG=leasehold-viewer-previous:$E2E_TAG \
  PROVER_IMG=leasehold-prover:$E2E_TAG PROVER_DIR=$PWD/bin/e2e-prover
E2E_NODE_IMAGE=$(hack/node-image.sh)
export E2E_NODE_IMAGE E2E_NAME=leasehold-e2e-$$
hack/e2e-images.sh "$PWD/bin/e2e"

# The tests delete their cluster. The trap is for a test program that is killed.
[[ ${E2E_KEEP:-} == 1 ]] || trap '"$KIND" delete cluster --quiet --name "$E2E_NAME"' EXIT
report=$ARTIFACTS/junit-e2e.xml status=0
mkdir -p "$ARTIFACTS"
rm -f "$report"
"$tools/gotestsum" --format=standard-verbose --hide-summary=skipped --junitfile="$report" \
  -- ./test/e2e -count=1 -timeout=40m -v "$@" || status=$?
echo
"$tools/testsummary" "e2e:$status:$report"
