#!/usr/bin/env bash
# Fails while there are objects with a finalizer that only the operator removes: Tenants, and
# StorageBuckets that manage their bucket. The removal of their kinds deletes them. Without the
# operator they would keep their finalizer, and the kinds would remain. The deletion of a Tenant
# also deletes its namespaces if its policy is Delete.
#
#   hack/nothing-held.sh <kubectl>
set -euo pipefail
kubectl=$1
held=0

# defined <resource>: distinguishes "not there" from "no answer".
defined() {
  "$kubectl" get customresourcedefinition "$1.leasehold.dev" >/dev/null 2>&1 && return
  "$kubectl" version >/dev/null || exit 1
  return 1
}

if defined tenants && [[ -n $("$kubectl" get tenants.leasehold.dev --output=name) ]]; then
  held=1
  {
    echo "There are still Tenants:"
    "$kubectl" get tenants.leasehold.dev
    echo
    echo "Delete them first, while the operator runs: kubectl delete tenants.leasehold.dev --all"
    echo "Deleting a Tenant whose namespaceDeletionPolicy is Delete also deletes its namespaces;"
    echo "to keep them, set the policy to Retain first."
    echo
  } >&2
fi

managed='{range .items[?(@.spec.managementPolicy=="Manage")]}{.metadata.namespace}/{.metadata.name} {.spec.deletionPolicy}{"\n"}{end}'
if defined storagebuckets && list=$("$kubectl" get storagebuckets.leasehold.dev --all-namespaces --output=jsonpath="$managed") && [[ -n $list ]]; then
  held=1
  {
    echo "There are still StorageBuckets that manage their bucket:"
    echo "$list"
    echo
    echo "Delete them first, while the operator runs: kubectl delete storagebuckets.leasehold.dev --all --all-namespaces"
    echo "Deleting a StorageBucket whose deletionPolicy is Delete also deletes its bucket, if the bucket is empty;"
    echo "to keep the bucket, set the policy to Retain first."
  } >&2
fi
exit "$held"
