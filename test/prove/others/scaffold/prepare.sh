#!/usr/bin/env bash
# Makes a project with kubebuilder, as its quick start does, builds it, and lets prove init
# describe it. No file is edited. It writes project/ and subject/ into the folder BIN.
# Usage: prepare.sh BIN PROVER
set -euo pipefail
prover=$(realpath "$2")
cd "$1"
rm -rf project subject
mkdir project
(
  cd project
  ../kubebuilder init --domain example.com --repo example.com/project
  ../kubebuilder create api --group apps --version v1 --kind Widget --resource --controller
  make manifests build
)
"$prover" init project/config/default --binary project/bin/manager --subject subject --seed 1
