#!/usr/bin/env bash
# Pushes the images of a release with crane and prints their references: the manager's, then the
# viewer's. The digests must be those in install.yaml.
#
#   hack/release/push.sh <folder of the release> <registry, such as ghcr.io/example> <version>
set -euo pipefail
dist=$1 registry=$2 version=$3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
push() {
  local layout=$work/$1 reference
  mkdir "$layout"
  tar -xf "$dist/$1-image.tar" -C "$layout"
  reference=$(crane push "$layout" "$registry/$2:$version")
  if ! grep -qF "@${reference#*@}" "$dist/install.yaml"; then
    echo "push: install.yaml does not name $reference" >&2
    exit 1
  fi
  echo "$reference"
}

push manager leasehold
push viewer leasehold-viewer
