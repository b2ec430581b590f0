#!/usr/bin/env bash
# Builds all files of a release into one folder:
#
#   manager-linux-amd64, viewer-...     static binaries
#   manager-image.tar, viewer-image.tar OCI archives for both platforms
#   manager-image-*.spdx.json, viewer-  SBOMs, one for each image and one for each index
#   install.yaml, leasehold-0.1.0.tgz   the manifests and the chart, with images by digest
#   SHA256SUMS
#
# It builds a clone of the commit, so untracked files have no influence, and the Go command stamps
# the tag of the clone. The same commit, version, registry and Go release give the same bytes in any
# folder. It needs GNU tar.
#
#   hack/release/release.sh <checkout> <folder to write> <version> <registry>
#
# GO, KO, KUSTOMIZE and HELM name the tools. The exit code is 2 if it refuses to build.
set -euo pipefail
source=$1 out=$2 version=$3 registry=$4
: "${GO:=go}" "${KO:=ko}" "${KUSTOMIZE:=kustomize}" "${HELM:=helm}"

refuse() { echo "release: nothing was built: $*" >&2; exit 2; }
number='(0|[1-9][0-9]*)'
[[ $version =~ ^v$number\.$number\.$number(-[0-9A-Za-z.-]+)?$ ]] ||
  refuse "version \"$version\" is not like v0.1.0 or v0.1.0-rc.1: make release VERSION=v0.1.0"
[[ $registry =~ ^[a-z0-9-]+([.:][a-z0-9-]+)+(/[a-z0-9._-]+)*$ ]] ||
  refuse "registry \"$registry\" is not like ghcr.io/example: make release REGISTRY=ghcr.io/example"
[[ ! -e $out && ! -L $out ]] || refuse "$out exists: move or remove it first"
commit=$(git -C "$source" rev-parse --verify 'HEAD^{commit}') || refuse "$source has no commit"
changed=$(git -C "$source" status --porcelain)
[[ -z $changed ]] || refuse "the tree is dirty, a release is made of a commit:"$'\n'"$changed"
# A release may be built before its commit is tagged, but not for another commit than the tagged one.
tagged=$(git -C "$source" rev-parse --verify --quiet "refs/tags/$version^{commit}" || true)
[[ -z $tagged || $tagged == "$commit" ]] || refuse "tag $version is commit $tagged and $commit is checked out"
# Importers of a tag do not have the replacements of its go.mod.
own=$(awk '$1 == "module" {print $2 "/"}' "$source/go.mod")
others=$(awk -v own="$own" -v version="$version" '{sub(/^require /, "")} index($1, own) == 1 && $2 ~ /^v/ && $2 != version {print $1, $2}' "$source/go.mod")
[[ -z $tagged || -z $others ]] || refuse "go.mod of the tagged commit requires $others: run hack/release/versions.sh $version before the tag"

# The folder is renamed into place when it is complete. A rename does not cross file systems.
mkdir -p "$(dirname "$out")"
out=$(cd "$(dirname "$out")" && pwd)/$(basename "$out")
work=$(mktemp -d)
dist=$(mktemp -d "$(dirname "$out")/.dist-XXXXXX")
trap 'rm -rf "$work" "$dist"' EXIT
chmod 755 "$dist"
git clone --quiet --shared --no-tags --no-checkout --config=core.autocrlf=false "$source" "$work/source"
cd "$work/source"
git checkout --quiet --detach "$commit"
git -c tag.gpgSign=false tag "$version"

# All times are the commit's. The user's environment does not reach the compiler.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export TZ=UTC0
created=$(git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ)
export SOURCE_DATE_EPOCH KO_DATA_DATE_EPOCH=$SOURCE_DATE_EPOCH LC_ALL=C CGO_ENABLED=0 GOAMD64=v1 GOARM64=v8.0 \
  GOFLAGS='-mod=readonly -trimpath -buildvcs=true' GOWORK=off GOFIPS140=off GOEXPERIMENT= GODEBUG=
repack() { tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" "$@"; }

# ko prefers a base image in its cache to one in a registry. This one is empty, so an image contains
# only the program.
blob() { # reads content from stdin, prints digest and size as in a descriptor
  local sum
  tee "$work/blob" >/dev/null
  sum=$(sha256sum "$work/blob" | cut -d' ' -f1)
  printf '"digest":"sha256:%s","size":%d' "$sum" "$(wc -c < "$work/blob")"
  mv "$work/blob" "$KOCACHE/img/blobs/sha256/$sum"
}
export KOCACHE=$work/ko
mkdir -p "$KOCACHE/img/blobs/sha256"
oci=application/vnd.oci.image
manifests=
for arch in amd64 arm64; do
  config=$(printf '{"architecture":"%s","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":[]}}' $arch | blob)
  image=$(printf '{"schemaVersion":2,"mediaType":"%s","config":{"mediaType":"%s",%s},"layers":[]}' \
    $oci.manifest.v1+json $oci.config.v1+json "$config" | blob)
  manifests+=${manifests:+,}$(printf '{"mediaType":"%s",%s,"platform":{"architecture":"%s","os":"linux"}}' \
    $oci.manifest.v1+json "$image" $arch)
done
index=$(printf '{"schemaVersion":2,"mediaType":"%s","manifests":[%s]}' $oci.index.v1+json "$manifests" | blob)
echo '{"imageLayoutVersion":"1.0.0"}' > "$KOCACHE/img/oci-layout"
# The cache lists each image itself, and not only the index.
printf '{"schemaVersion":2,"manifests":[{"mediaType":"%s",%s},%s]}' $oci.index.v1+json "$index" "$manifests" > "$KOCACHE/img/index.json"
[[ $index =~ sha256:[0-9a-f]{64} ]]
export KO_DEFAULTBASEIMAGE=leasehold.invalid/empty@${BASH_REMATCH[0]}

# build <program> <package> <image>: its binaries, image and SBOMs. It sets digest.
build() {
  local program=$1 package=$2 image=$registry/$3 arch binary info platform
  for arch in amd64 arm64; do
    binary=$dist/$program-linux-$arch
    echo "release: building ${binary##*/}" >&2
    GOOS=linux GOARCH=$arch "$GO" build -ldflags='-s -w' -o "$binary" "$package"
    info=$("$GO" version -m "$binary")
    grep -qE "^\s+mod\s+\S+\s+$version\s" <<<"$info"$'\n' && grep -q "vcs.revision=$commit" <<<"$info" &&
      grep -q vcs.modified=false <<<"$info" || {
      echo "release: ${binary##*/} has a different version or commit than $version and $commit:" \
        "from v2 on the module's path has to end in the major version" >&2
      return 1
    }
  done
  mkdir -p "$work/sbom"
  # ko uses the path of the layout as a repository name, which must be lower case.
  KO_DOCKER_REPO=$image "$KO" build --bare --push=false --oci-layout-path="../$program" --sbom=spdx --sbom-dir="$work/sbom" \
    --platform=linux/amd64,linux/arm64 --ldflags='-s -w' --image-user=65532:65532 \
    --image-label="org.opencontainers.image.revision=$commit,org.opencontainers.image.version=$version" \
    --image-annotation="org.opencontainers.image.revision=$commit,org.opencontainers.image.version=$version" \
    --image-annotation="org.opencontainers.image.created=$created" "$package" >/dev/null
  digest=$(sed -n 's/.*"digest": *"\(sha256:[0-9a-f]*\)".*/\1/p' "$work/$program/index.json")
  # The name by which containerd and Docker import the archive.
  repack -cf "$dist/$program-image.tar" -C "$work/$program" .
  for platform in index linux-amd64 linux-arm64; do
    mv "$work/sbom"/*"-$platform.spdx.json" "$dist/$program-image-$platform.spdx.json"
  done
  echo "release: image $image@$digest" >&2
}
build manager . leasehold
manager=$registry/leasehold@$digest
build viewer ./controllers/markdownview/viewer leasehold-viewer
viewer=$registry/leasehold-viewer@$digest
hack/render.sh "$KUSTOMIZE" config/default "$manager" "$viewer" > "$dist/install.yaml"

# All programs are built by now, so this change of the clone does not stamp them as modified. Helm
# sets the files' times to the current time, so the package is repacked.
for image in "$manager" "$viewer"; do
  name=${image##*/} name=${name%@*}
  sed -i "/repository: $name\$/,/digest:/{s|repository: .*|repository: ${image%@*}|;s|digest: \"\"|digest: ${image#*@}|}" \
    config/chart/values.yaml
  grep -qF "digest: ${image#*@}" config/chart/values.yaml || {
    echo "release: values.yaml contains no repository $name with an empty digest" >&2
    exit 1
  }
done
"$HELM" package config/chart --destination "$work/chart" --version "${version#v}" --app-version "$version" >&2
mkdir "$work/unpacked"
tar -xzf "$work/chart"/*.tgz -C "$work/unpacked"
(cd "$work/unpacked" && repack -c -- *) | gzip -n9 > "$dist/$(basename "$work/chart"/*.tgz)"

(cd "$dist" && sha256sum -- * > "$work/sums" && mv "$work/sums" SHA256SUMS)
mv "$dist" "$out"
echo "release: $version of commit $commit is in $out" >&2
