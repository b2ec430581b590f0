#!/usr/bin/env bash
# Runs integration suites in parallel, each with its own control plane, because specs mostly wait.
# The first suites should be the slowest. The output of a suite is printed when it ends.
# $PROGRAMS is the folder of the programs under test, and gets those of the suites.
# Usage: GO=go hack/integration.sh GINKGO ARTIFACTS SUITE_JOBS "SUITES" [flags of ginkgo...]
set -euo pipefail
cd "$(dirname "$0")/.."
export GINKGO=$1 ARTIFACTS=$2
parallel=$3
read -ra suites <<<"$4"
shift 4

# suite runs one suite and prints the name of its log; its arguments are the name and the flags.
suite() {
  local name=$1 log=$ARTIFACTS/integration-$1.log status=0
  shift
  touch "$running/$name"
  "$GINKGO" run "$@" --output-dir="$ARTIFACTS" --junit-report="junit-integration-$name.xml" \
    "test/integration/$name/$name.test" >"$log" 2>&1 || status=$?
  rm "$running/$name"
  echo "$log"
  return "$status"
}
export -f suite

mkdir -p "$ARTIFACTS"
rm -f "$ARTIFACTS"/junit-integration*.xml
running=$(mktemp -d)
export running
trap 'kill "$ticker"; rm -rf "$running"' EXIT
while sleep 30 >/dev/null 2>&1; do
  names=$(ls "$running" | xargs)
  echo "integration: after $SECONDS s: ${names:-compiling}"
done &
ticker=$!

# One go command for all, with the flags of the unit tests. What the last run left is linked again only if it changed.
"$GO" test -c -o "$PROGRAMS/integration/" -ldflags=-w -vet=off "${suites[@]/#/./test/integration/}"
# Ginkgo runs a suite in the folder where it finds the program.
for name in "${suites[@]}"; do ln -sf "$PROGRAMS/integration/$name.test" "test/integration/$name/"; done
# The loop is the only writer, so the logs of suites do not mix. pipefail passes on a failure of xargs.
printf '%s\n' "${suites[@]}" | xargs -P "$parallel" -I{} bash -c 'suite "$@"' suite {} "$@" | while read -r log; do
  cat "$log"
done
# A misspelt --focus selects nothing, which ginkgo takes for success.
if [[ " $*" =~ --(focus|label-filter|skip) ]] && ! grep -qE '<testcase [^>]*status="passed"' "$ARTIFACTS"/junit-integration-*.xml; then
  echo "integration: no spec of ${suites[*]} ran; correct GINKGO_FLAGS ($*)" >&2
  exit 1
fi
