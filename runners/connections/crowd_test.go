package connections

import (
	"fmt"
	"net/http"
	"testing"
)

// Idle connections of many addresses close each other, and none of the one that has a few.
func TestListenerSparesFewConnections(t *testing.T) {
	const most = 3 * fewShare
	b := newBounded(t, most, http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) { Complete(request) }))
	for i := range most - 1 {
		b.dial(fmt.Sprint("crowd ", i), fmt.Sprint("127.0.1.", i+1))
	}
	for i := range 3 {
		b.dial(fmt.Sprint("api ", i), "127.0.0.1")
	}
	b.expectClosed("crowd 0", "crowd 1") // those that wait longest
	for i := range 3 {
		b.get(fmt.Sprint("api ", i))
	}
}

// A flood from a few addresses closes its own connections, while the one of another address waits.
func TestListenerSparesOneConnectionInAFlood(t *testing.T) {
	const most, attackers = 128, 9
	b := newBounded(t, most, http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) { Complete(request) }))
	b.dial("api", "127.0.0.1")
	for i := range 2 * most {
		b.dial(fmt.Sprint("attacker ", i), fmt.Sprint("127.0.1.", 1+i%attackers))
	}
	b.get("api")
}
