# Runs in the container that becomes the node image; the archive of the images comes on standard input,
# and $REFERENCES are the names by which kubeadm wants them.
set -euo pipefail

chmod 755 /kind /kind/bin /kind/manifests
mkdir -p /etc/kubernetes/manifests

# systemd here starts what a node needs and nothing that belongs to a machine.
units=/lib/systemd/system
rm -f "$units"/{basic,local-fs,multi-user}.target.wants/* /etc/systemd/system/*.wants/*
rm -f "$units"/sockets.target.wants/*{initctl,udev}* "$units"/sysinit.target.wants/systemd-tmpfiles-setup.service
ln -sf /lib/systemd/systemd /sbin/init
echo ReadKMsg=no >>/etc/systemd/journald.conf
systemctl enable kubelet.service containerd.service undo-mount-hacks.service
systemctl mask systemd-binfmt.service

# Limits are not set: a host may forbid to raise them.
ctr oci spec | jq 'del(.process.rlimits)' >/etc/containerd/cri-base.json

# The images are imported now and unpacked by the node that first needs one.
containerd >/tmp/containerd.log 2>&1 &
trap 'kill %1 && wait %1; tail -n 20 /tmp/containerd.log >&2' EXIT
for ((tries = 0; tries < 60; tries++)); do
  if ctr version >/dev/null 2>&1; then break; fi
  sleep 0.5
done
ctr --namespace=k8s.io images import --all-platforms --no-unpack -
for reference in $REFERENCES; do
  name=${reference##*/}
  part=docker.io/library/leasehold-node-part-${name%%:*}:latest
  ctr --namespace=k8s.io images tag "$part" "$reference"
  ctr --namespace=k8s.io images label "$reference" io.cri-containerd.pinned=pinned
  ctr --namespace=k8s.io images remove "$part"
done
ctr --namespace=k8s.io images list --quiet

trap - EXIT
kill %1
wait %1 || true # it was told to end
rm -rf /tmp/containerd.log /run/containerd
