#!/usr/bin/env bash
# Fails with a remedy when Docker is missing, does not answer, may not be used,
# or does not run Linux containers.
set -euo pipefail

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

if ! command -v docker >/dev/null; then
  fail "docker was not found; install Docker (on Debian and Ubuntu: apt-get install docker.io; else see https://docs.docker.com/engine/install)"
fi
if ! os=$(docker version --format '{{.Server.Os}}' 2>/dev/null); then
  why=$(docker version 2>&1 >/dev/null || true)
  case $why in
  *"permission denied"*)
    fail "Docker is running, but $(id -un) is not allowed to use it; run usermod -aG docker $(id -un) and log in again, or run this command as root" "docker reports: $why"
    ;;
  *)
    fail "the Docker daemon does not respond${DOCKER_HOST:+ at $DOCKER_HOST}; run systemctl start docker, or start dockerd manually if there is no init system (.ci/docker does)" "docker reports: $why"
    ;;
  esac
fi
[[ $os == linux ]] || fail "Docker runs $os containers, but Linux containers are needed"

# Each node uses up to 27 of these. One without any never becomes Ready.
inotify=/proc/sys/fs/inotify/max_user_instances
if [[ -r $inotify ]] && (($(<"$inotify") < 256)); then
  echo "note: fs.inotify.max_user_instances is $(<"$inotify"), which is enough for at most two kind clusters of three nodes; for more, run sysctl fs.inotify.max_user_instances=512" >&2
fi
