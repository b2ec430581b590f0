#!/usr/bin/env bash
# Prints the node image for kind clusters, and makes it available. Progress goes
# to standard error.
#
#  1. E2E_NODE_IMAGE, if set, and no other then
#  2. kindest/node of the pinned Kubernetes
#  3. the image that hack/nodeimage builds, if that cannot be pulled
set -euo pipefail
cd "$(dirname "$0")/.."

# The release notes of kind list the supported images by digest. This is the one of the minor
# version of the control plane of the other tests, and kind's default.
kind=v0.33.0
published=kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5

# Seconds until the registry must answer, and until the image must be complete. A slow network is not a missing one.
answer_within=30
pull_within=900

report() { printf 'node-image: %s\n' "$*" >&2; }

# pinned <go.mod> <module>
pinned() { awk -v module="$2" '$1 == module && $2 ~ /^v/ {print $2; exit}' "$1"; }

here() { docker image inspect "$1" >/dev/null 2>&1; }

log=$(mktemp)
pull=
# A pull that timed out must not continue beside the next one.
trap '[[ -z $pull ]] || kill "$pull" 2>/dev/null || true; rm -f "$log"' EXIT

# pulled <image>
pulled() {
  local second=0 limit=$answer_within last
  report "pulling $1"
  docker pull "$1" >"$log" 2>&1 &
  pull=$!
  while kill -0 "$pull" 2>/dev/null; do
    if grep -q 'Pulling from' "$log"; then
      limit=$pull_within
    fi
    if ((second >= limit)); then
      kill "$pull" 2>/dev/null || true
      last=$(tail -n 1 "$log")
      report "gave up after $second s, in which docker pull printed ${last:-nothing}"
      return 1
    fi
    if ((second % 15 == 14)); then
      report "still pulling, $(grep -c 'Pull complete' "$log" || true) layers done"
    fi
    sleep 1
    second=$((second + 1))
  done
  if wait "$pull"; then
    report "$1 is here after $second s"
    return 0
  fi
  report "pulling failed: $(tail -n 1 "$log")"
  return 1
}

if [[ -n ${E2E_NODE_IMAGE:-} ]]; then
  if ! here "$E2E_NODE_IMAGE" && ! pulled "$E2E_NODE_IMAGE"; then
    report "E2E_NODE_IMAGE is $E2E_NODE_IMAGE, which is not here and cannot be pulled: mend the name, or leave it empty to have an image chosen"
    exit 1
  fi
  report "$E2E_NODE_IMAGE, by E2E_NODE_IMAGE"
  echo "$E2E_NODE_IMAGE"
  exit
fi

version=$(pinned hack/controlplane/go.mod k8s.io/kubernetes)
if [[ $(pinned hack/tools/go.mod sigs.k8s.io/kind) != "$kind" || $published != "kindest/node:${version%.*}."* ]]; then
  report "$published is of kind $kind, and pinned are kind $(pinned hack/tools/go.mod sigs.k8s.io/kind) and Kubernetes $version: put the image from kind's release notes into hack/node-image.sh"
  exit 1
fi

# kind tests its images on cgroup v2 only since 1.35. The systemd of our image works with both.
if [[ $(docker info --format '{{.CgroupVersion}}') == 1 ]]; then
  report "this host has cgroup v1, which $published does not support"
elif here "$published" || pulled "$published"; then
  report "$published"
  echo "$published"
  exit
fi

report "taking the one of hack/nodeimage, which is built from source (10 minutes, once)"
if ! built=$(GO=${GO:-go} "${NODE_IMAGE_BUILDER:-hack/nodeimage/build.sh}" "$PWD/bin/nodeimage" "${NODE_IMG:-}"); then
  report "there is neither an image that can be pulled nor one that can be built, see above; E2E_NODE_IMAGE names one of your own"
  exit 1
fi
echo "$built"
