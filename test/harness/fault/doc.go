// SPDX-License-Identifier: Apache-2.0

// Package fault is the stage of the pipeline that injects faults:
//
//	seed -> scenario -> env -> {workload || [fault]} -> record -> history -> invariant -> report
//
// A Proxy stands in front of any HTTP service, forwards requests, and injects faults
// into those that a Rule selects. The program under test is unchanged; only the address
// that it connects to is different.
//
//	proxy, err := fault.NewProxy(fault.Options{Upstream: server.Endpoint()})
//	defer proxy.Close()
//	injection := proxy.Inject(fault.Rule{
//		Match: fault.Match{Methods: []string{http.MethodPut}, To: 1},
//		Fault: fault.Cut{At: fault.AfterAnswer},
//	})
//	... the program does its work through proxy.URL() ...
//	injection.Count()        // 1: one response was lost
//	injection.Heal()
//	proxy.Journal().Mutating() // the writes that the program sent
//
// docs/go.md lists the faults, and contains an example for external systems.
//
// A fault is counted when it takes effect, not when it is injected. A test whose fault has a count
// of 0 proves nothing.
//
// # In front of an API server
//
// NewAPIProxy starts a proxy between one replica of an operator and kube-apiserver. It forwards the
// replica's own token. Both sides use HTTP/1.1, so that cutting a connection affects one request.
// The proxy reads watches event by event, in JSON and in protobuf, and forwards each event
// immediately, including bookmarks. A rule can delay events, even those of watches that informers
// opened hours ago.
//
// # The journal
//
// The journal records every accepted connection with its bytes, and every request with its times.
// It therefore also proves that a request was not sent. In front of an API server, the journal also
// contains the last events of watches: their content, when they arrived and when they were forwarded.
// It does not store values that could be credentials.
package fault
