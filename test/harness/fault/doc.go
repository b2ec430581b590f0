// SPDX-License-Identifier: Apache-2.0

// Package fault is the stage of the pipeline where things go wrong on purpose:
//
//	seed -> scenario -> env -> {workload || [fault]} -> record -> history -> invariant -> report
//
// A Proxy stands in front of any HTTP service, forwards requests, and injects faults
// into those that a Rule selects. The program under test is unchanged; it only gets
// another address.
//
//	proxy, err := fault.NewProxy(fault.Options{Upstream: server.Endpoint()})
//	defer proxy.Close()
//	injection := proxy.Inject(fault.Rule{
//		Match: fault.Match{Methods: []string{http.MethodPut}, To: 1},
//		Fault: fault.Cut{At: fault.AfterAnswer},
//	})
//	... the program does its work through proxy.URL() ...
//	injection.Count()        // 1: one answer was really lost
//	injection.Heal()
//	proxy.Journal().Mutating() // and this is what it had sent
//
// docs/go.md has the faults, and an example for external systems.
//
// A fault is counted when it has happened, not when it is injected: a test whose fault has a count
// of 0 has proved nothing.
//
// # In front of an API server
//
// NewAPIProxy stands between one replica of an operator and kube-apiserver, and
// passes the replica's own token through. Both sides use HTTP/1.1, where cutting a connection
// affects one request. Watches are read event by event, in JSON and in protobuf, and each event is
// passed on at once, bookmarks too. Their events can lag, also those of watches that
// informers opened hours ago.
//
// # The journal
//
// Every connection is recorded when it is accepted, with the bytes that came
// through it, and every request with its times. The journal thus proves what was not
// sent. In front of an API server it also has the last events of watches: their content,
// when they came and when they were passed on.
// Values that could be credentials are not kept.
package fault
