#!/usr/bin/env bash
# Builds both images of the Dockerfile by `make docker-build` and runs them. The base is an image
# of this machine's Go and of the modules in its cache, so no registry and no proxy is needed.
#
#   hack/docker-test.sh
set -euo pipefail
cd "$(dirname "$0")/.."
: "${MAKE:=make}" "${GO:=go}"
hack/needs-docker.sh

# Without these two, BuildKit uses a builder that cannot find the base image.
export BUILDX_NO_DEFAULT_ATTESTATIONS=1 BUILDX_BUILDER=default

tag=docker-test-$$
base=leasehold-go:$tag manager=leasehold:$tag viewer=leasehold-viewer:$tag
arch=$(docker version --format '{{.Server.Arch}}')
context=$(mktemp -d)
cleanup() {
  docker image rm --force "$manager" "$viewer" "$base" >/dev/null 2>&1 || true
  chmod -R u+w "$context"
  rm -rf "$context"
}
trap cleanup EXIT
fail() {
  echo "docker-test: $*" >&2
  exit 1
}

[[ $("$GO" env GOHOSTARCH) == "$arch" ]] || fail "Docker runs $arch, and this machine's Go is for $("$GO" env GOHOSTARCH)"
echo "docker-test: creating a base image with $("$GO" env GOVERSION)" >&2
export GOWORK=off
"$GO" mod download
# A separate module cache has only the modules of this module.
downloaded=$("$GO" env GOMODCACHE)/cache/download
GOMODCACHE=$context/cache GOPROXY=file://$downloaded GONOSUMDB='*' "$GO" mod download
mkdir -p "$context/base/usr/local" "$context/base/tmp"
mv "$context/cache/cache/download" "$context/base/modules"
cp -R "$("$GO" env GOROOT)" "$context/base/usr/local/go"
cat >"$context/Dockerfile" <<'EOF'
FROM scratch
COPY base/ /
ENV PATH=/usr/local/go/bin GOPROXY=file:///modules GONOSUMDB=* GOTOOLCHAIN=local HOME=/tmp
EOF
printf '%s\n' '**' '!base' >"$context/.dockerignore"
docker build --quiet --tag "$base" "$context" >/dev/null

echo "docker-test: building with make docker-build (2 minutes on 2 cores)" >&2
# Without a network the build can use only the base image.
"$MAKE" --no-print-directory docker-build IMG="$manager" VIEWER_IMG="$viewer" CONTAINER_TOOL=docker \
  DOCKER_BUILD_FLAGS="--network=none --build-arg GO_IMAGE=$base --build-arg BUILDPLATFORM=linux/$arch" >&2

# run <image> <arguments>: as config/manager runs it.
run() { docker run --rm --network=none --read-only --cap-drop=ALL --security-opt=no-new-privileges "$@" 2>&1; }

for program in manager viewer; do
  image=${!program}
  user=$(docker image inspect --format '{{.Config.User}}' "$image")
  [[ $user == 65532:65532 ]] || fail "$image runs as $user"
  version=$(run "$image" --version) || fail "$image --version fails: $version"
  [[ $version == "$program "*"linux/$arch"* ]] || fail "$image --version prints $version"
  help=$(run "$image" --help) || fail "$image --help fails: $help"
  [[ $help == *-bind-address* ]] || fail "$image --help prints $help"
  container=$(docker create "$image")
  files=$(docker export "$container" | tar -t | grep -vE '^(dev|etc|proc|sys)/|^\.dockerenv$')
  docker rm "$container" >/dev/null
  [[ $files == "$program" ]] || fail "$image contains unexpected files: $files"
  echo "docker-test: $program: $version, user $user, $(($(docker image inspect --format '{{.Size}}' "$image") / 1000000)) MB" >&2
done
