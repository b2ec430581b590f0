#!/usr/bin/env bash
# Builds the operator, the page server and an S3 server as static programs for
# the machine that Docker runs on, and an image of each that has nothing else.
# It pulls nothing from a registry. Without changes an image is kept.
#
#   GO=go IMG=.. VIEWER_IMG=.. S3_IMG=.. PROVER_IMG=.. PREVIOUS_IMG=.. PREVIOUS_VIEWER_IMG=.. \
#     E2E_NODE_IMAGE=.. hack/e2e-images.sh <folder for the programs>
set -euo pipefail
out=$1
cd "$(dirname "$0")/.."

export CGO_ENABLED=0 GOOS=linux
GOARCH=$(docker version --format '{{.Server.Arch}}')
export GOARCH
# Without these two, BuildKit adds attestations, which kind cannot load, or uses
# a builder whose images Docker does not list.
export BUILDX_NO_DEFAULT_ATTESTATIONS=1 BUILDX_BUILDER=default

# compile <module> <package> <program>: without commit and build ID, which would change the image
# with each commit.
compile() {
  [[ $1 == test/harness ]] || local -x GOWORK=off # the harness of a release has no replacement
  (cd "$1" && "$GO" build -trimpath -buildvcs=false -ldflags='-s -w -buildid=' -o "$3" "$2")
  chmod 0755 "$3"
}

# image <target> <name> [<more of docker build, with the folder>]
image() {
  local old new log build=(--file hack/e2e.Dockerfile "$out")
  if (($# > 2)); then
    build=("${@:3}")
  fi
  old=$(docker image inspect --format '{{.Id}}' "$2" 2>/dev/null || true)
  if ! log=$(docker build --target "$1" --tag "$2" "${build[@]}" 2>&1); then
    printf '%s\n' "$log" >&2
    echo "e2e-images: building $2 failed, see above" >&2
    exit 1
  fi
  new=$(docker image inspect --format '{{.Id}}' "$2")
  if [[ $new == "$old" ]]; then
    echo "e2e-images: $2 is up to date" >&2
    return
  fi
  echo "e2e-images: $2 is built, $(($(docker image inspect --format '{{.Size}}' "$2") / 1000000)) MB" >&2
  # The replaced image is removed unless it has another name too.
  if [[ $(docker image inspect --format '{{len .RepoTags}}' "$old" 2>/dev/null) == 0 ]]; then
    docker image rm "$old" >/dev/null 2>&1 || echo "e2e-images: the previous $2 is in use and was kept as $old" >&2
  fi
}

# extract <commit> <folder>
extract() {
  mkdir -p "$2"
  git archive "$1" | tar -x -C "$2"
}

# prover_image adds the prover and its example to the control plane of this machine. Without a control
# plane for the image's platform there is no image, and the feature that needs it is skipped.
prover_image() {
  local dir=$out-prover assets=${KUBEBUILDER_ASSETS:-bin/controlplane/current} example=test/harness/testdata/archiver
  rm -rf "$dir"
  mkdir -p "$dir"/{bin,controlplane,project/prove}
  if [[ $("$GO" env GOHOSTOS)/$("$GO" env GOHOSTARCH) != "$GOOS/$GOARCH" ]] ||
    ! cp -L "$assets"/{etcd,kube-apiserver,kube-controller-manager,kubectl} "$dir/controlplane/"; then
    echo "e2e-images: $assets contains no control plane for $GOOS/$GOARCH, so $PROVER_IMG was not built" >&2
    docker image rm "$PROVER_IMG" >/dev/null 2>&1 || true
    return
  fi
  cp -R "$example"/{config,scenarios} "$dir/project/prove/"
  sed '/^build:/d; s|^binary:.*|binary: manager|' "$example/subject.yaml" >"$dir/project/prove/subject.yaml"
  compile test/harness ./testdata/archiver "$dir/project/prove/manager"
  compile test/harness ./cmd/prove "$dir/bin/prove"
  chmod -R a+rX "$dir"
  image prover "$PROVER_IMG" --file hack/prover.Dockerfile --build-arg NODE_IMAGE="$E2E_NODE_IMAGE" "$dir"
}

# previous_images builds both images of the previous release. Its manifests stay in $out/previous/source,
# which no image contains. If the page server has not changed, its image is not built again.
previous_images() {
  local commit
  rm -rf "$out/previous"
  if ! commit=$(hack/previous.sh); then
    echo "e2e-images: therefore $PREVIOUS_IMG was not built, and the upgrade cannot be tested" >&2
    docker image rm "$PREVIOUS_IMG" "$PREVIOUS_VIEWER_IMG" >/dev/null 2>&1 || true
    return
  fi
  extract "$commit" "$source/previous"
  mkdir -p "$out/previous"/{manager,viewer,source}
  compile "$source/previous" . "$out/previous/manager/manager"
  compile "$source/previous" ./controllers/markdownview/viewer "$out/previous/viewer/viewer"
  cp -R "$source/previous"/{config,hack} "$out/previous/source/"
  # A separate module is not part of ./... of this one.
  echo 'module leasehold.dev/previous' >"$out/previous/source/go.mod"
  chmod -R a+rX "$out/previous"
  image previous "$PREVIOUS_IMG"
  if cmp --silent "$out/viewer/viewer" "$out/previous/viewer/viewer"; then
    docker tag "$VIEWER_IMG" "$PREVIOUS_VIEWER_IMG"
  else
    image previous-viewer "$PREVIOUS_VIEWER_IMG"
  fi
}

source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT
mkdir -p "$out"/{manager,viewer,s3}
echo "e2e-images: compiling for $GOOS/$GOARCH (2 minutes on 2 cores the first time)" >&2
compile . . "$out/manager/manager"
compile . ./controllers/markdownview/viewer "$out/viewer/viewer"
compile hack/s3server github.com/versity/versitygw/cmd/versitygw "$out/s3/versitygw"

chmod -R a+rX "$out"

image manager "$IMG"
image viewer "$VIEWER_IMG"
image s3 "$S3_IMG"
prover_image
previous_images
