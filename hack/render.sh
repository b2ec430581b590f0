#!/usr/bin/env bash
# Prints the manifests of an overlay with the image given, and leaves the tree as
# it is: kustomize edits a copy.
#
#   hack/render.sh <kustomize> <overlay, such as config/default> <image>
set -euo pipefail
cd "$(dirname "$0")/.."
kustomize=$1 overlay=$2 image=$3

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -R config "$copy/"
(cd "$copy/config/manager" && "$kustomize" edit set image "controller=$image")
"$kustomize" build "$copy/$overlay"
