#!/usr/bin/env bash
# Lets prove init describe the operator from its own manifests. No file is edited.
# It writes subject/ into the folder BIN.
# Usage: prepare.sh BIN PROVER
set -euo pipefail
prover=$(realpath "$2")
cd "$1"
rm -rf subject
"$prover" init modules/lws/config/default --binary cmd --subject subject --seed 1
