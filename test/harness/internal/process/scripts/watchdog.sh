#!/bin/sh
# Usage: watchdog.sh FOLDER-TO-REMOVE-OR-EMPTY <pipe
# Waits until the other end of the pipe is closed, which the kernel does when
# the process that holds it ends in whatever way. Then it kills what is left.
trap '' INT TERM HUP
dir=${0%/*}
. "$dir/lib.sh"
while read -r _; do :; done
: >"$dir/closing"

# left prints the pids that were noted and still belong to the same process.
left() {
  for note in "$dir"/pids/*; do
    pid=${note##*/}
    since=
    read -r since 2>/dev/null <"$note"
    if [ -n "$since" ] && [ "$since" = "$(started "$pid")" ]; then echo "$pid"; fi
  done
}

# Killing and dying are two things: the folder goes when nobody writes to it
# any more, or after 5 seconds.
tries=0
while [ $tries -lt 100 ]; do
  pids=$(left)
  [ -n "$pids" ] || break
  for pid in $pids; do
    kill -s KILL -- "-$pid" 2>/dev/null
    kill -s KILL "$pid" 2>/dev/null
  done
  tries=$((tries + 1))
  sleep 0.05
done
if [ -n "$1" ]; then rm -rf "$1"; fi
