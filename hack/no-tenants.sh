#!/usr/bin/env bash
# Fails while there are Tenants. Removing their kind deletes them, and with that
# the namespaces of each whose policy is Delete; without the operator they would
# hang on their finalizer instead, and the kind with them.
#
#   hack/no-tenants.sh <kubectl>
set -euo pipefail
kubectl=$1

if ! "$kubectl" get customresourcedefinition tenants.leasehold.dev >/dev/null 2>&1; then
  # Tells "not there" from "cannot ask".
  "$kubectl" version >/dev/null
  exit 0
fi
tenants=$("$kubectl" get tenants.leasehold.dev --output=name)
if [[ -n $tenants ]]; then
  {
    echo "There are still Tenants:"
    "$kubectl" get tenants.leasehold.dev
    echo
    echo "Delete them first, while the operator runs: kubectl delete tenants.leasehold.dev --all"
    echo "A Tenant whose namespaceDeletionPolicy is Delete takes its namespaces with it;"
    echo "set it to Retain beforehand to keep them."
  } >&2
  exit 1
fi
