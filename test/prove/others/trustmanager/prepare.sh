#!/usr/bin/env bash
# Lets prove init describe the operator from its chart. It writes subject/ into the folder BIN.
# Usage: prepare.sh BIN PROVER
set -euo pipefail
folder=$(realpath "$(dirname "$0")")
prover=$(realpath "$2")
cd "$1"
rm -rf subject
"$prover" init modules/trust-manager/deploy/charts/trust-manager --binary trust-manager --values "$folder/values.yaml" \
  --samples "$folder/samples" --subject subject --seed 1
cp "$folder"/scenarios/*.yaml subject/scenarios/
