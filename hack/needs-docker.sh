#!/usr/bin/env bash
# Fails with a remedy when Docker is missing, does not answer, may not be used,
# or does not run Linux containers.
set -euo pipefail

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

if ! command -v docker >/dev/null; then
  fail "Docker is needed and docker was not found: install it (on Debian and Ubuntu: apt-get install docker.io; else see https://docs.docker.com/engine/install)"
fi
if ! os=$(docker version --format '{{.Server.Os}}' 2>/dev/null); then
  why=$(docker version 2>&1 >/dev/null || true)
  case $why in
  *"permission denied"*)
    fail "Docker runs and $(id -un) may not use it: usermod -aG docker $(id -un), and log in again; or run this as root" "docker reports: $why"
    ;;
  *)
    fail "Docker is installed and its daemon does not answer${DOCKER_HOST:+ at $DOCKER_HOST}: systemctl start docker, or dockerd by hand where no init does it (.ci/docker does)" "docker reports: $why"
    ;;
  esac
fi
[[ $os == linux ]] || fail "Docker runs containers of $os, and Linux is needed"

# Each node uses up to 27 of these. One without any never becomes Ready.
inotify=/proc/sys/fs/inotify/max_user_instances
if [[ -r $inotify ]] && (($(<"$inotify") < 256)); then
  echo "note: fs.inotify.max_user_instances is $(<"$inotify"), which is enough for two kind clusters of three nodes and no more; for others beside them: sysctl fs.inotify.max_user_instances=512" >&2
fi
