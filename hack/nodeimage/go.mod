// The program of `hack/node-image.sh`. What it builds is pinned in kubernetes/ and
// node/, modules of their own: their dependencies do not agree with each other.
module leasehold.dev/hack/nodeimage

go 1.26.0

require (
	github.com/google/go-containerregistry v0.22.1
	leasehold.dev/test/harness v0.0.0
)

require (
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
)

replace leasehold.dev/test/harness => ../../test/harness
