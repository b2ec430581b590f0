#!/usr/bin/env bash
# Runs the operator of this checkout against the cluster of the current kubeconfig, until a signal. It
# applies the CRDs as `make install` does, so that either can follow the other, and nothing else.
#
#   KUBECTL=kubectl hack/current.sh bin/manager current
set -euo pipefail
[[ $# == 2 && $2 == current ]] || { echo "run: CLUSTER must be empty or \"current\", and CLUSTER=current accepts no ARGS" >&2; exit 2; }
manager=$(realpath "$1")
cd "$(dirname "$0")/.."
kubeconfig=$(mktemp) # readable by this user only
trap 'rm -f "$kubeconfig"' EXIT
# The current context may change while the operator runs.
"$KUBECTL" config view --raw --minify --flatten >"$kubeconfig"
k() { "$KUBECTL" --kubeconfig "$kubeconfig" "$@"; }
echo "context $(k config current-context), cluster $(k config view -o jsonpath='{.clusters[0].name} at {.clusters[0].cluster.server}')"
# An overlay may rename everything but the paths of the webhooks, which generated code serves.
installed=$(k get validatingwebhookconfigurations -o \
  jsonpath='{range .items[*]}{.metadata.name} {.webhooks[*].clientConfig.service.path}{"\n"}{end}' |
  awk '/ \/validate-leasehold-dev-/ {print "validatingwebhookconfiguration " $1}')
# One without webhooks keeps its labels.
[[ -n $installed ]] || installed=$(k get deployments --all-namespaces -l app.kubernetes.io/name=leasehold,control-plane=controller-manager -o \
  jsonpath='{range .items[*]}deployment {.metadata.namespace}/{.metadata.name}{"\n"}{end}')
[[ -z $installed ]] || { echo "run: Leasehold is already installed in the cluster (${installed//$'\n'/, }), and two operators would compete; nothing was changed" >&2; exit 1; }

# Nothing is forced: a CRD that another manager applied may have fields that this one lacks, and the API server
# would drop these from each object at its next write. A dry run of all CRDs comes first, so a conflict changes
# nothing.
k apply --server-side --dry-run=server -f config/crd/bases >/dev/null || { echo "run: nothing was changed" >&2; exit 1; }
k apply --server-side -f config/crd/bases
# The operator exits if a kind is not served yet.
until [[ $(k api-resources --api-group=leasehold.dev -o name | wc -l) == 3 ]]; do sleep 0.1; done
cat <<'END'
nothing else is installed; to apply the samples, run: kubectl apply -k config/samples
an installation in the cluster also has these, which are missing here:
- admission webhooks: no warning before a deletion, no check of names that other Tenants use, no check of pages
- the fence and the leader election: run only one operator
- the RBAC rules of the installation: the operator has all permissions of your kubeconfig
- viewer images: the cluster pulls leasehold-viewer:dev, unless a MarkdownView names another image
a later helm install needs --take-ownership; make uninstall removes the CRDs and all objects of their kinds
END

# In a process group of its own: Ctrl-C reaches only this script, and the operator gets one signal.
# A second would end it at once.
set -m
POD_NAMESPACE=leasehold-system "$manager" --kubeconfig="$kubeconfig" --enable-webhooks=false \
  --metrics-bind-address=0 --health-probe-bind-address=0 --zap-encoder=console &
set +m
pid=$! stopped=
trap 'stopped=1; kill "$pid" || true' INT TERM HUP
status=0
wait "$pid" || status=$?
while kill -0 "$pid" 2>/dev/null; do status=0; wait "$pid" || status=$?; done
[[ -n $stopped ]] || { echo "run: the operator exited on its own" >&2; exit "$status"; }
echo 'the operator has exited; the CRDs and all objects remain in the cluster'
