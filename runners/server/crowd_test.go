package server

import (
	"fmt"
	"io"
	"net/http"
	"testing"
)

// Idle connections of many addresses close each other, and none of the one that has a few.
func TestListenerSparesFewConnections(t *testing.T) {
	const most = 3 * fewShare
	b := newBounded(t, most, http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) { complete(request) }))
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
	b := newBounded(t, most, http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) { complete(request) }))
	b.dial("api", "127.0.0.1")
	for i := range 2 * most {
		b.dial(fmt.Sprint("attacker ", i), fmt.Sprint("127.0.1.", 1+i%attackers))
	}
	b.get("api")
}

// A request whose body does not arrive still waits, whether or not the server reads bodies.
func TestListenerClosesIncompleteRequests(t *testing.T) {
	const incomplete = "POST /unknown HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" +
		"Content-Length: 200000\r\n\r\nx"
	for name, handler := range map[string]http.Handler{
		"unknown path": limitBodies(http.NewServeMux(), nil),
		"page":         withoutBodies(http.NotFoundHandler()),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBounded(t, 2, handler)
			for _, name := range []string{"1", "2"} {
				b.dial(name, "127.0.0.1")
				if _, err := io.WriteString(b.clients[name], incomplete); err != nil {
					t.Fatal(err)
				}
			}
			b.dial("3", "127.0.0.1")
			b.expectClosed("1")
		})
	}
}
