#!/bin/sh
# Usage: shim.sh PROGRAM [ARGUMENT...]
# Notes this process for the watchdog, then becomes PROGRAM.
dir=${0%/*}
. "$dir/lib.sh"
started $$ >"$dir/pids/$$" || exit 1
# The order matters: noted first, looked second. The watchdog marks that it is
# closing first and reads the notes second, so one of the two sees the other.
if [ -e "$dir/closing" ]; then exit 1; fi
exec "$@"
