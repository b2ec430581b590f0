#!/usr/bin/env bash
# Runs a command that prints little, such as a build, and prints every 30 s how long it takes.
# Usage: hack/progress.sh NAME COMMAND [arguments...]
set -euo pipefail
name=$1
shift
# The ticker also ends if this script is killed.
while sleep 30 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
  echo "$name: after $SECONDS s" >&2
done &
trap 'kill $! 2>/dev/null || true' EXIT
"$@"
