// What hack/controlplane and hack/nodeimage share. A module of its own, as each of them
// has one, and without dependencies.
module leasehold.dev/hack/pinned

go 1.26.0
