#!/usr/bin/env bash
# Makes a release of the commit that is checked out in two clones, the second of which has
# an empty build cache, and fails if a file differs.
#
#   hack/release/repeat.sh <the command that makes a release, without -source and -out>
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
first=$work/first second=$work/another/folder
git clone --quiet . "$first"
git clone --quiet . "$second"
"$@" -source "$first" -out "$first/dist"
GOCACHE=$work/cache "$@" -source "$second" -out "$second/dist"

diff -r "$first/dist" "$second/dist"
cat "$second/dist/SHA256SUMS"
echo "release-repeat: all files are equal, those of commit $(git rev-parse HEAD)"
