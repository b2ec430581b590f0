#!/usr/bin/env bash
# Runs the unit tests of modules, each with a report in $ARTIFACTS: junit-unit.xml for the root with
# api, hack and test, which share its versions, junit-<folder>.xml for another. With -race, it skips renderers, which have one goroutine, and
# measurements: the detector makes them slow and finds nothing there.
#
#   GO=go GOTESTSUM=gotestsum ARTIFACTS=artifacts hack/unit.sh "FLAGS OF GO TEST" MODULES...
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
read -ra flags <<<"$1"
shift
not_unit='/test/(integration|e2e)(/|$)'
if [[ " ${flags[*]} " == *" -race "* ]]; then
  command -v "$("$GO" env CC)" >/dev/null || { echo "unit: the race detector needs a C compiler, and none was found; install one" >&2; exit 1; }
  not_unit+='|/markdownview/viewer/render$|/test/performance/'
fi

mkdir -p "$ARTIFACTS"
# unit runs the tests of one module.
unit() {
  local module=$1 report=$ARTIFACTS/junit-${1##*/}.xml patterns=(./...) packages
  [[ $module != . ]] || report=$ARTIFACTS/junit-unit.xml patterns+=(./api/... ./hack/... ./test/...)
  rm -f "$report"
  # A module that go.work does not have has versions of its own.
  grep -qxF -e $'\t'"$module" -e $'\t'"./$module" go.work || export GOWORK=off
  cd "$root/$module"
  mapfile -t packages < <("$GO" list "${patterns[@]}" | grep -vE "$not_unit")
  # Without their own modules, which have the oldest versions, the election and the faults are tested with those of the workspace.
  if [[ $module == . && $modules != *" runners/election "* ]]; then packages+=(leasehold.dev/runners/election); fi
  if [[ $module == test/harness ]]; then packages+=(leasehold.dev/test/harness/fault/...); fi
  "$root/hack/progress.sh" "unit tests in $module" \
    "$GOTESTSUM" --format=pkgname --hide-summary=skipped --junitfile="$report" -- "${flags[@]}" "${packages[@]}"
}

# At the same time, because some tests wait.
modules=" $* " status=0 running=()
for module in "$@"; do
  unit "$module" &
  running+=($!)
done
for job in "${running[@]}"; do wait "$job" || status=$?; done
exit "$status"
