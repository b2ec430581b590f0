package connections

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"
)

// The kernel keeps little of a response that is not read.
func TestUnreadResponseIsBounded(t *testing.T) {
	const most = 1 << 20 // the buffers of both sides
	written := make(chan int, 1)
	b := newBounded(t, 1, http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
		total := 0
		for err := http.NewResponseController(response).SetWriteDeadline(time.Now().Add(time.Second)); err == nil; {
			var n int
			n, err = response.Write(make([]byte, 16<<10))
			total += n
		}
		written <- total
	}))
	b.dial("slow", "127.0.0.1")
	if err := b.clients["slow"].(*net.TCPConn).SetReadBuffer(16 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprint(b.clients["slow"], "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if got := <-written; got > most {
		t.Errorf("%d bytes were written to a client that reads nothing, want at most %d", got, most)
	}
}
