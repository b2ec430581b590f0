#!/usr/bin/env bash
# Prints the manifests of an overlay with the given images. It edits a copy and
# leaves the tree unchanged.
#
#   hack/render.sh <kustomize> <overlay, such as config/default> <image> <viewer image>
set -euo pipefail
cd "$(dirname "$0")/.."
kustomize=$1 overlay=$2 image=$3 viewer=$4

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -R config "$copy/"

# kustomize does not treat the viewer's image as one, because it is the value of
# a flag. An image name has no characters that are special in sed.
if [[ ! $viewer =~ ^[A-Za-z0-9._:/@-]+$ ]]; then
  echo "not the name of an image: $viewer" >&2
  exit 1
fi
sed -i.orig "s|--default-viewer-image=.*|--default-viewer-image=$viewer|" "$copy/config/manager/manager.yaml"
grep -qF -- "--default-viewer-image=$viewer" "$copy/config/manager/manager.yaml"

(cd "$copy/config/manager" && "$kustomize" edit set image "controller=$image")
"$kustomize" build "$copy/$overlay"
