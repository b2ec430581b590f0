// Package fault is the stage of the pipeline where things go wrong on purpose:
//
//	seed -> scenario -> env -> {workload || [fault]} -> record -> history -> invariant -> report
//
// A Proxy stands in front of any HTTP service, forwards requests and spoils
// those that a Rule picks. Nothing is changed in the program under test; it is
// only told another address.
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
// # Faults are data
//
// A Rule says which requests (method, path, query, the nth to the mth) and one
// Fault: Delay, Cut, Answer, Garbage, Endless, Drip, BlackHole or a Gate, which
// holds requests until it is told to let them go. A Wire spoils whole
// connections: certificates of every bad kind, the wrong protocol, silence.
// What happened is counted when it has happened, not when it was asked for: a
// test whose fault has a count of 0 has proved nothing.
//
// # In front of an API server
//
// NewAPIProxy stands between one replica of an operator and kube-apiserver, as
// which the replica's own token is passed through; Refusals are the ways in which
// an API server says no. HTTP/1.1 is spoken on both sides, so that a connection
// that is cut is that of one request.
//
// # The journal
//
// Every connection is noted when it is accepted, with the bytes that came
// through it, and every request with its times. It proves what was not sent.
// Values that could be credentials are not kept.
package fault
