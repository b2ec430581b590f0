#!/usr/bin/env bash
# Builds a node image for kind from Go modules and Debian packages alone, for places where kindest/node
# cannot be pulled, and prints its name:
#
#  1. the programs of Kubernetes (../controlplane/go.mod) and of a node (node/go.mod)
#  2. a root file system by debootstrap
#  3. the images that kubeadm wants, each a static program
#  4. all of it in one container, which is committed as the node image
#
# A label of the image has what it was built from; a run that finds it so has nothing to do. Only
# debootstrap needs to be root; sudo makes it so. DEBIAN_MIRROR is the mirror that it uses in place of its
# default.
#
#   GO=go hack/nodeimage/build.sh FOLDER [NAME]    FOLDER gets the programs, NAME is that of the image
set -euo pipefail
umask 022
cd "$(dirname "$0")"
mkdir -p "$1"
out=$(realpath "$1")
report() { printf 'node-image: %s\n' "$*" >&2; }
fail() { report "$*"; exit 1; }
pinned() { awk -v module="$2" '$1 == module && $2 ~ /^v/ {print $2; exit}' "$1"; }

# Debian 12: its systemd still runs on hosts with cgroup v1, and on those with v2.
suite=bookworm keyring=/usr/share/keyrings/debian-archive-keyring.gpg
packages=systemd,bash,procps,util-linux,mount,kmod,jq,runc,libseccomp2,pigz
packages+=,conntrack,ethtool,iproute2,iptables,nftables,socat,ca-certificates,curl
# What a node never reads, and what the container runtime mounts.
unwanted=('dev/*' 'proc/*' 'sys/*' 'var/cache/apt/*' 'var/lib/apt/lists/*' 'var/log/*'
  'usr/share/doc/*' 'usr/share/man/*' 'usr/share/locale/*' 'usr/share/info/*')
version=$(pinned ../controlplane/go.mod k8s.io/kubernetes)
image=${2:-leasehold-node:$version}
# The image of the root file system is named after what is in it, so a change of anything else keeps it.
root=leasehold-node-root:$suite-$(sha256sum <<<"$suite $packages ${unwanted[*]}" | cut -c-12)
label=dev.leasehold.node-image.inputs
inputs=$({ "$GO" version; pinned ../tools/go.mod sigs.k8s.io/kind
  find . ../controlplane/go.{mod,sum} -type f ! -name '*_test.go' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum; } | sha256sum | cut -c-64)
sudo=()
((EUID == 0)) || sudo=(sudo)

[[ $(uname -s) == Linux ]] || fail "it is built from Debian packages on Linux: use an image of kindest/node that can be pulled"
../needs-docker.sh
arch=$("$GO" env GOARCH) server=$(docker version --format '{{.Server.Arch}}')
[[ $server == "$arch" ]] || fail "the Docker daemon is $server and this machine is $arch: build on a machine like the daemon's"
exec {lock}>"$out/.lock"
flock --nonblock "$lock" || { report "another run is building at this moment; waiting for it"; flock "$lock"; }
if [[ $(docker image inspect --format "{{index .Config.Labels \"$label\"}}" "$image" 2>/dev/null) == "$inputs" ]]; then
  report "$image is up to date"
  echo "$image"
  exit
fi
has_root() { docker image inspect "$root" >/dev/null 2>&1; }
# Before the long work, not after it.
if ! has_root; then
  [[ -x /usr/sbin/debootstrap ]] || fail "debootstrap is needed: install it (on Debian and Ubuntu: apt-get install debootstrap)"
  [[ -e $keyring ]] || fail "$keyring is needed: install it (on Debian and Ubuntu: apt-get install debian-archive-keyring)"
  ((EUID == 0)) || command -v sudo >/dev/null || fail "debootstrap has to run as root: run this as root, or install sudo"
fi
report "building $image of $inputs (about 10 minutes on 2 cores the first time)"
rootfs=$(mktemp -d "$out/root-XXXXXX") stage=$(mktemp -d "$out/stage-XXXXXX") containers=() parts=()
clean() {
  ((${#containers[@]} == 0)) || docker rm --force --volumes "${containers[@]}" >/dev/null || true
  ((${#parts[@]} == 0)) || docker image rm --force "${parts[@]}" >/dev/null || true
  # If debootstrap left a mount, it is not emptied.
  "${sudo[@]}" rm -rf --one-file-system "$rootfs" "$stage"
}
trap clean EXIT

bin=$out/$version-linux-$arch
IFS=. read -r major minor _ <<<"${version#v}"
# Without the version kubeadm and kubelet refuse to work with each other.
stamp='-s -w'
for value in "gitVersion=$version" "gitMajor=$major" "gitMinor=$minor" gitTreeState=clean gitCommit=unknown buildDate=1970-01-01T00:00:00Z; do
  stamp+=" -X k8s.io/component-base/version.$value"
done
# compile <module> <package> <flags of the linker>
compile() {
  local name=${2##*/}
  [[ $2 != go.etcd.io/etcd/server/v3 ]] || name=etcd
  report "compiling $name"
  (cd "$1" && CGO_ENABLED=0 GOWORK=off "$GO" build -trimpath -gcflags=all=-dwarf=false -ldflags "$3" -o "$bin/$name" "$2")
}
tools() { awk '/^\)/ {inside = 0} inside {print $1} /^tool \(/ {inside = 1}' "$1/go.mod"; }
compile .. ./nodeimage/pause '-s -w'
for package in $(tools ../controlplane); do compile ../controlplane "$package" "$stamp"; done
for package in $(tools node); do compile node "$package" '-s -w'; done

if ! has_root; then
  report "making the root file system (debootstrap $suite)"
  "${sudo[@]}" /usr/sbin/debootstrap --variant=minbase --force-check-gpg --keyring="$keyring" --include="$packages" "$suite" \
    "$rootfs" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$out/debootstrap.log" 2>&1 || { tail -n 20 "$out/debootstrap.log" >&2; exit 1; }
  id=$("${sudo[@]}" tar --numeric-owner -C "$rootfs" "${unwanted[@]/#/--exclude=./}" -c . | docker import -)
  # It has its name only now: the import of half an archive can succeed.
  docker tag "$id" "$root"
fi

report "making the images of the components"
references=$("$bin/kubeadm" config images list --kubernetes-version "$version") pause='' proxy=''
for reference in $references; do
  name=${reference##*/} name=${name%%:*}
  part=leasehold-node-part-$name
  start=(--change "ENTRYPOINT [\"/usr/local/bin/$name\"]" --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin')
  case $name in
  kube-proxy) # it runs other programs: nft, iptables
    proxy=$reference
    container=$(docker create "$root" none)
    containers+=("$container")
    docker cp "$bin/$name" "$container:/usr/local/bin/$name"
    docker commit "${start[@]}" --change 'CMD []' "$container" "$part" >/dev/null ;;
  etcd | coredns | pause | kube-apiserver | kube-controller-manager | kube-scheduler)
    [[ $name != pause ]] || pause=$reference
    tar -C "$bin" --transform 's|^|usr/local/bin/|' --owner=0 --group=0 --mtime=@0 -c "$name" |
      docker import "${start[@]}" - "$part" >/dev/null ;;
  *) fail "kubeadm wants $reference, and nothing here builds it" ;;
  esac
  parts+=("$part")
done
[[ -n $pause && -n $proxy && ${#parts[@]} == 7 ]] || fail "kubeadm does not want all images that are built here: $references"

report "making the node image"
kind=$(cd ../tools && GOWORK=off "$GO" mod download -json sigs.k8s.io/kind | sed -n 's/.*"Dir": "\(.*\)",*/\1/p')
# A module has files without the right to be executed.
cp -R --no-preserve=mode "$kind/images/base/files/." "$stage"
chmod 755 "$stage"/usr/local/bin/* "$stage"/kind/bin/*
install -D -t "$stage/usr/bin" "$bin"/{kubeadm,kubectl,kubelet}
install -D -t "$stage/usr/local/bin" "$bin"/{containerd,containerd-shim-runc-v2,ctr,crictl}
install -D -t "$stage/opt/cni/bin" "$bin"/{host-local,loopback,ptp,portmap}
install -D -m 644 files/cni.template "$stage/etc/containerd/cni.template"
install -D -m 644 -t "$stage/kind/manifests" files/default-{cni,storage}.yaml
# The routes of the default network are set by a container of the one image that has the programs for it.
sed -i "s|KUBE_PROXY_IMAGE|$proxy|" "$stage/kind/manifests/default-cni.yaml"
printf %s "$version" >"$stage/kind/version"
# Kubernetes refuses hosts with cgroup v1 unless configured otherwise; on others this says nothing.
sed -i -e '1s|$| --fail-cgroupv1=false|' -e '$a\' "$stage/etc/default/kubelet"
# The pause image is the one that is there, a host may forbid to lower a process's chance to be killed for
# memory, and Pods get their network from our template.
config=$stage/etc/containerd/config.toml
sed -i "s|^\( *sandbox_image =\).*|\1 \"$pause\"|; s|^\( *restrict_oom_score_adj =\).*|\1 true|" "$config"
[[ $(grep -cE "^ *(sandbox_image = \"$pause\"|restrict_oom_score_adj = true)$" "$config") == 2 ]] ||
  fail "containerd's configuration of kind has no sandbox_image or no restrict_oom_score_adj any more"
printf '\n[plugins."io.containerd.grpc.v1.cri".cni]\n  conf_template = "/etc/containerd/cni.template"\n' >>"$config"

# Not privileged: what the script does needs only calls that the default filter of system calls forbids.
# The label, signal and variable are inherited by what is committed.
container=$(docker run --detach --security-opt seccomp=unconfined --network none --label "$label=$inputs" \
  --stop-signal SIGRTMIN+3 --env container=docker --entrypoint sleep "$root" infinity)
containers+=("$container")
(cd "$stage" && find . -type f -print0 | tar --null --no-recursion -T - --owner=0 --group=0 --mtime=@0 -c) | docker cp - "$container:/"
docker save "${parts[@]}" | docker exec --interactive --env "REFERENCES=$references" "$container" bash -c "$(<files/finish.sh)" \
  >"$out/finish.log" 2>&1 || { tail -n 20 "$out/finish.log" >&2; exit 1; }
docker commit --change 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]' --change 'CMD []' "$container" "$image" >/dev/null
report "$image is built, after $SECONDS s"
echo "$image"
