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
    echo "A Tenant whose namespaceDeletionPolicy is Delete takes its namespaces with it;"
    echo "set it to Retain beforehand to keep them."
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
    echo "One whose deletionPolicy is Delete takes its bucket with it, if that is empty;"
    echo "set it to Retain beforehand to keep it."
  } >&2
fi
exit "$held"
