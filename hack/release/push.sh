#!/usr/bin/env bash
# Pushes the images of a release with crane, and prints the references of both: that of the
# manager, then that of the viewer. What was pushed has the digest that install.yaml names.
#
#   hack/release/push.sh <folder of the release> <registry, such as ghcr.io/example> <version>
set -euo pipefail
dist=$1 registry=$2 version=$3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
push() {
  local program=$1 image=$registry/$2
  mkdir "$work/$program"
  tar -xf "$dist/$program-image.tar" -C "$work/$program"
  crane push --image-refs "$work/reference" "$work/$program" "$image:$version" >&2
  local digest
  digest=$(sed 's/.*@//' "$work/reference")
  if ! grep -qF "@$digest" "$dist/install.yaml"; then
    echo "push: $image:$version is $digest, which install.yaml does not name" >&2
    exit 1
  fi
  echo "$image@$digest"
}

push manager leasehold
push viewer leasehold-viewer
