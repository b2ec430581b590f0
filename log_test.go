package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"testing"

	uberzap "go.uber.org/zap"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

func TestLoggedErrorsAreBounded(t *testing.T) {
	for _, development := range []bool{false, true} {
		var out bytes.Buffer
		logger := zap.New(zap.UseDevMode(development), zap.WriteTo(&out), zap.RawZapOpts(uberzap.WrapCore(boundErrors)))
		logger.Error(errors.New(strings.Repeat("x", maxLoggedError)), "short", "name", "a")
		if !strings.Contains(out.String(), strings.Repeat("x", maxLoggedError)) || strings.Contains(out.String(), "x ...") {
			t.Errorf("an error of %d bytes is truncated", maxLoggedError)
		}
		out.Reset()
		long := errors.New(strings.Repeat("x", 1<<20))
		logger.WithValues("cause", long).Error(long, "long", "name", "a")
		if n := out.Len(); n > 2*maxLoggedError+4<<10 || !strings.Contains(out.String(), "x ...") ||
			!strings.Contains(out.String(), "long") {
			t.Errorf("errors of 1 MiB make a line of %d bytes", n)
		}
		out.Reset()
		logger.V(1).Info("details")
		if out.Len() > 0 != development {
			t.Errorf("development %t: %q", development, out.String())
		}
	}
}

// What an endpoint sends after its response is not logged.
func TestEndpointsDoNotWriteLogs(t *testing.T) {
	written := func(prepare func()) string {
		var out bytes.Buffer
		before := stdlog.Writer()
		defer stdlog.SetOutput(before)
		stdlog.SetOutput(&out)
		prepare()
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		served := make(chan error, 1)
		go func() {
			c, err := listener.Accept()
			if err == nil {
				defer c.Close()
				_, err = http.ReadRequest(bufio.NewReader(c))
			}
			if err == nil {
				_, err = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nMARKER")
			}
			if err == nil { // the client logs before it closes the connection
				_, _ = io.Copy(io.Discard, c)
			}
			served <- err
		}()
		client := &http.Client{Transport: &http.Transport{}}
		response, err := client.Get("http://" + listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if err := <-served; err != nil {
			t.Fatal(err)
		}
		stdlog.SetOutput(before) // waits for a line that is being written
		return out.String()
	}
	if text := written(func() {}); !strings.Contains(text, "MARKER") {
		t.Errorf("the client logs %q, so this test shows nothing", text)
	}
	if text := written(discardStandardLog); text != "" {
		t.Errorf("the log has %q", text)
	}
}
