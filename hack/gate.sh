#!/usr/bin/env bash
# Compares this checkout and its uncommitted changes with its merge base with BASE, and stops
# regressions. The exit code is 1 for a regression and 2 for an error. FOLDER gets report.md and its
# input: benchstat reads base-times.txt and head-times.txt.
#
#   GO=go hack/gate.sh BASE FOLDER [benchmarks] [flakes] [starts]
set -Eeuo pipefail
trap 'echo "gate: aborted; the results so far are in $out" >&2; exit 2' ERR
cd "$(dirname "$0")/.."
root=$PWD base=$1 out=$(realpath -m "$2") repeats=20 rounds=6
checks=" ${*:3} "
[[ $# -gt 2 ]] || checks=' benchmarks flakes starts '
work=$(mktemp -d)
report() { echo "gate: $*" >&2; }
# Later commits of the base are not part of the change.
commit=$(git merge-base --end-of-options "$base" HEAD) ||
  { report "BASE=$base and HEAD have no commit in common here; git fetch --unshallow completes a shallow clone"; exit 2; }
trap '[[ ! -d $work/base ]] || git worktree remove --force "$work/base"; rm -rf "$work"' EXIT
mkdir -p "$out"
rm -f "$out"/*.txt "$out/report.md"
git -c core.hooksPath=/dev/null worktree add --quiet --detach "$work/base" "$commit"
git log --reverse --format='%(trailers:key=Gate-Allow,valueonly,unfold)' "$commit..HEAD" >"$out/allowed.txt"
"$GO" build -o "$work/gate" ./test/performance/gate

# Tests in changed files must pass in each run.
flakes() {
  local pkg files module limit command status failed
  { git diff --name-only --diff-filter=d "$commit" -- '*_test.go'
    git ls-files --others --exclude-standard -- '*_test.go'; } >"$work/changed"
  for pkg in $(xargs -r dirname <"$work/changed" | sort -u); do
    mapfile -t files < <(grep -E "^$pkg/[^/]+$" "$work/changed")
    case $pkg in
    test/e2e*) flake "$pkg" new '' 'not repeated here: it needs Docker'; continue ;;
    test/integration/*)
      limit=8m # a suite starts a control plane each time
      command=("$root/bin/tools/ginkgo" run --no-color --procs=6 --randomize-all "--repeat=$((repeats - 1))")
      command+=("${files[@]/#*\//--focus-file=/}" "./$pkg") ;;
    *)
      limit=3m module=$pkg
      until [[ -f $module/go.mod ]]; do module=$(dirname "$module"); done
      command=() # A module that go.work does not have has versions of its own.
      grep -qxF -e $'\t'"$module" -e $'\t'"./$module" go.work || command=(env GOWORK=off)
      command+=("$GO" -C "$module" test "-count=$repeats" -failfast -run "$(tests "${files[@]}")"
        "./$(realpath --relative-to="$module" "$pkg")") ;;
    esac
    report "flakes: $repeats runs of the changed tests of $pkg, within $limit"
    status=0
    timeout --signal=INT --kill-after=1m "$limit" "${command[@]}" >"$work/output" 2>&1 || status=$?
    case $status in
    0) flake "$pkg" same "$repeats passed" '' ;;
    124 | 137) flake "$pkg" same "none failed within $limit" '' ;;
    126 | 127) cat "$work/output" >&2; exit 2 ;;
    *) cat "$work/output" >&2
      # A package that does not compile, or exits, names no test.
      failed=$(grep -m1 -oE -- '--- FAIL: \S+|\[FAIL\].*' "$work/output") || true
      flake "$pkg" worse 'one failed' "$failed \`${command[*]}\`" ;;
    esac
  done
}

flake() { printf 'flakes/%s\t%s\t%s\t%s\n' "$@" >>"$out/flakes.txt"; }

# tests prints a pattern for the tests of files. A file without tests has helpers, which any test may use.
tests() {
  local file
  for file in "$@"; do grep -q '^func Test' "$file" || { echo .; return; }; done
  echo "^($(grep -ohP '^func \KTest\w+' "$@" | paste -sd '|'))$"
}

# Both trees run the benchmarks of the head, alternately. A regression is measured a second time,
# because it may come from other load on the machine.
benchmarks() {
  local file pkg round sides side
  ln -s "$root" "$work/head"
  for file in $(cd "$root" && ls controllers/*/bench_test.go); do
    pkg=${file%/*}
    report "compiling the benchmarks of $pkg"
    compile head "$pkg"
    [[ -d $work/base/$pkg ]] || continue
    printf '{"Replace":{"%s":"%s"}}' "$work/base/$file" "$root/$file" >"$work/overlay.json"
    compile base "$pkg" -overlay "$work/overlay.json" || { report "the base of $pkg runs its own"; compile base "$pkg"; }
  done
  for _ in 1 2; do
    for ((round = 1; round <= rounds; round++)); do
      report "benchmarks: round $round of $rounds"
      sides=(base head)
      ((round % 2)) || sides=(head base)
      for side in "${sides[@]}"; do
        # Counts are taken over a fixed number of iterations. Timed runs are shorter than a time slice.
        measure "$side" . -test.skip=Heap -test.benchtime=100x -test.benchmem >>"$out/$side-counts.txt"
        measure "$side" . -test.skip=Heap -test.benchtime=1ms -test.count=3 >>"$out/$side-times.txt"
        measure "$side" Heap -test.benchtime=500x >>"$out/$side-heap.txt"
      done
    done
    [[ $(judge) == 1 ]] || break
  done
}

compile() { (cd "$work/$1/$2" && "$GO" test -c "${@:3}" -o "$work/$1-${2##*/}.test" .); }

measure() {
  local program
  for program in "$work/$1"-*.test; do
    (cd "$work/$1/controllers/$(basename "${program#"$work/$1-"}" .test)" &&
      "$program" -test.run='^$' -test.bench="$2" -test.cpu=1 -test.timeout=5m "${@:3}")
  done
}

# The operators of both trees start alternately, each on a control plane of its own. What looks worse is measured again.
starts() {
  "$GO" build -o "$work/perf" ./test/performance/perf
  for _ in 1 2; do
    report 'starts: the operators of both trees, alternately'
    "$work/perf" -dir "$out" -starts "$work/base" >&2
    rm -r "$out/bin"
    [[ $(judge) == 1 ]] || break
  done
}

judge() {
  local status=0
  "$work/gate" -base "$commit" "$out" >"$out/report.md" || status=$?
  echo "$status"
}

for check in $checks; do
  case $check in
  benchmarks | flakes | starts) ;;
  *) report "no check is called $check: there are benchmarks, flakes and starts"; exit 2 ;;
  esac
  "$check"
done
status=$(judge)
cat "$out/report.md"
exit "$status"
