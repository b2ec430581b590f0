# started PID prints when the process began, or nothing when there is no such
# process or only its zombie. Together with the pid it names one process for
# good: a pid that was handed out again has another start.
started() {
  if [ -r "/proc/$$/stat" ]; then
    read -r stat 2>/dev/null <"/proc/$1/stat" || return 0
    # What comes after the last ")" starts with the state (field 3 of proc(5)
    # stat), so that the start time (field 22) is the 20th word of it.
    set -- ${stat##*) }
    [ "$1" = Z ] || echo "${20}"
  else
    case $(ps -o stat= -p "$1") in Z*) return 0 ;; esac
    ps -o lstart= -p "$1" || return 0
  fi
}
