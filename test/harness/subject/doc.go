// Package subject reads from a file the subject of a proof: an operator as it ships,
// what it promises, and the scenarios that put that to the test. Nothing of the
// operator changes for it, and little has to be said:
//
//	name: archiver
//	build: {package: ./cmd}
//	binary: bin/manager
//	manifests: config/default
//	args:
//	- --health-probe-bind-address=127.0.0.1:{probe}
//	- --metrics-bind-address=127.0.0.1:{metrics}
//	contract:
//	  lease: {name: archiver.example.com}
//	  kinds:
//	  - group: example.com
//	    resource: archives
//	    ready: Ready
//	    children: [{group: batch, resource: jobs, controlled: true}]
//	scenarios: [scenarios]
//
// The rest is taken from the manifests: the user that the replicas are, the
// namespace of the Lease, the CustomResourceDefinitions, what is written to the
// audit log with its bodies and what is watched.
package subject
