package connections

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// bounded is a server with a bound of connections, and the names of its clients' connections.
type bounded struct {
	t       *testing.T
	l       *Listener
	clients map[string]net.Conn
}

func newBounded(t *testing.T, most int, handler http.Handler) *bounded {
	t.Helper()
	l, err := Listen(t.Context(), "127.0.0.1:0", most)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	Bind(s)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		if l.open.Len() != 0 || len(l.of) != 0 {
			t.Errorf("%d connections and %d addresses are still counted", l.open.Len(), len(l.of))
		}
	})
	return &bounded{t: t, l: l, clients: map[string]net.Conn{}}
}

// dial connects from an address of the loopback network, and waits until the server counts it.
func (b *bounded) dial(name, host string) {
	b.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
	c, err := dialer.DialContext(b.t.Context(), "tcp", b.l.Addr().String())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close() })
	b.clients[name] = c
	b.until(func() bool {
		b.l.mu.Lock()
		defer b.l.mu.Unlock()
		for e := b.l.open.Front(); e != nil; e = e.Next() {
			if e.Value.(*connection).RemoteAddr().String() == c.LocalAddr().String() {
				return true
			}
		}
		return b.isClosed(name)
	})
}

func (b *bounded) until(holds func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			b.t.Fatal("the server does not get there")
		}
		<-time.After(time.Millisecond)
	}
}

// isClosed reports whether the server has closed the connection.
func (b *bounded) isClosed(name string) bool {
	c := b.clients[name]
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "timeout")
}

func (b *bounded) expectClosed(want ...string) {
	b.t.Helper()
	var got []string
	b.until(func() bool {
		got = nil
		for name := range b.clients {
			if b.isClosed(name) {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

// get sends a request and reads its response.
func (b *bounded) get(name string) {
	b.t.Helper()
	c := b.clients[name]
	_ = c.SetReadDeadline(time.Time{})
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		b.t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		b.t.Fatal(err)
	}
	_ = response.Body.Close()
	b.until(func() bool { // the connection waits again
		b.l.mu.Lock()
		defer b.l.mu.Unlock()
		last := b.l.open.Back().Value.(*connection)
		return !last.served && last.RemoteAddr().String() == c.LocalAddr().String()
	})
}

func TestListenerClosesWhatWaitsLongest(t *testing.T) {
	b := newBounded(t, 3, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, name := range []string{"1", "2", "3"} {
		b.dial(name, "127.0.0.1")
	}
	b.expectClosed()
	b.get("1") // now 2 waits longest
	b.dial("4", "127.0.0.1")
	b.expectClosed("2")
	b.dial("5", "127.0.0.1")
	b.expectClosed("2", "3")
	b.get("1")
	b.dial("6", "127.0.0.1")
	b.expectClosed("2", "3", "4")
	_ = b.clients["1"].Close()
	b.until(func() bool { b.l.mu.Lock(); defer b.l.mu.Unlock(); return b.l.open.Len() == 2 })
	delete(b.clients, "1")
	b.dial("7", "127.0.0.1")
	b.expectClosed("2", "3", "4")
}

// A flood from one address closes its own connections, however long others wait.
func TestListenerSparesOtherAddresses(t *testing.T) {
	b := newBounded(t, 4, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	b.dial("api", "127.0.0.1")
	b.get("api")
	for i := range 3 {
		b.dial(fmt.Sprintf("attacker %d", i), "127.0.0.2")
	}
	b.expectClosed()
	b.dial("attacker 3", "127.0.0.2")
	b.dial("attacker 4", "127.0.0.2")
	b.expectClosed("attacker 0", "attacker 1")
	b.get("api")
	b.dial("api 2", "127.0.0.1")
	b.expectClosed("attacker 0", "attacker 1", "attacker 2")
}

// A request that is complete goes on, while its address has a connection that waits.
func TestListenerSparesCompleteRequests(t *testing.T) {
	inside, open := make(chan struct{}, 8), make(chan struct{})
	b := newBounded(t, 2, http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		Complete(request)
		inside <- struct{}{}
		select {
		case <-open:
		case <-request.Context().Done():
		}
	}))
	send := func(name string) {
		if _, err := io.WriteString(b.clients[name], "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Error(err)
		}
		<-inside
	}
	b.dial("1", "127.0.0.1")
	send("1")
	b.dial("2", "127.0.0.1")
	b.dial("3", "127.0.0.1")
	b.expectClosed("2")
	send("3")
	// All requests of the address that has the most are complete.
	b.dial("4", "127.0.0.2")
	b.expectClosed("1", "2")
	close(open)
}

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
