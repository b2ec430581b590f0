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
// that is cut is that of one request; Options.HTTP2 offers the other, where all
// requests of a client share one.
//
// Watches are read event by event, in JSON and in protobuf, and each event is passed
// on at once, bookmarks too. What is told on them can lag, skip or stall:
//
//	late := proxy.Inject(fault.Rule{Match: fault.Match{Path: "/api/v1/namespaces"}, Fault: fault.Lag{For: 3 * time.Second}})
//	... informers, whose watch may be hours old, are told nothing ...
//	<-late.Done()
//	late.Count() // 1 or more: something was late
//
// Skip cuts a watch, refuses to go on with it, and then says that its version has
// expired (410), as an API server does that has compacted its store; Stall leaves the
// connection open and loses what should have come on it. All of that is what a real
// cluster may do to a client.
//
// # The journal
//
// Every connection is noted when it is accepted, with the bytes that came
// through it, and every request with its times. It proves what was not sent. Of an
// API server it also has the last events of watches: what they told of, when they came
// and when they were passed on.
// Values that could be credentials are not kept.
package fault
