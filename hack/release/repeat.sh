#!/usr/bin/env bash
# Builds a release of the current commit in two clones, the second with an empty build cache, and
# fails if a file differs.
#
#   hack/release/repeat.sh <version> <registry>
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
first=$work/first second=$work/another/folder
git clone --quiet . "$first"
git clone --quiet . "$second"
release=$PWD/hack/release/release.sh
"$release" "$first" "$first/dist" "$@"
GOCACHE=$work/cache "$release" "$second" "$second/dist" "$@"

diff -r "$first/dist" "$second/dist"
cat "$second/dist/SHA256SUMS"
echo "release-repeat: both builds are identical, commit $(git rev-parse HEAD)"
