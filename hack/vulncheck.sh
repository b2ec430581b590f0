#!/usr/bin/env bash
# Reports known vulnerabilities in the code that the operator and the viewer call.
#
#   hack/vulncheck.sh <govulncheck>
set -euo pipefail
cd "$(dirname "$0")/.."
database=${GOVULNDB:-https://vuln.go.dev}

status=0
"$1" -db "$database" ./... || status=$?
case $status in
0) ;;
3) echo "vulncheck: this code calls known vulnerabilities (above); update their modules in go.mod, or the Go toolchain" >&2 ;;
*) echo "vulncheck: nothing was checked: govulncheck failed (above). It needs the database at $database; set GOVULNDB to use another database" >&2 ;;
esac
exit "$status"
