// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// address matches the address in the log line of the server's start.
var address = regexp.MustCompile(`msg=Serving address=(\S+)`)

// awaitAddress reads a log until it has the server's address. It continues to read, so that the
// writer never blocks.
func awaitAddress(t *testing.T, log io.Reader) string {
	t.Helper()
	found := make(chan string, 1)
	go func() {
		defer close(found)
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			if m := address.FindStringSubmatch(lines.Text()); m != nil {
				found <- m[1]
			}
		}
	}()
	select {
	case at, ok := <-found:
		if !ok {
			t.Fatal("the viewer ended before it served")
		}
		return at
	case <-time.After(30 * time.Second):
		t.Fatal("the viewer does not serve after 30 s")
	}
	return ""
}

// fetch sends a request and returns the status and the body.
func fetch(t *testing.T, client *http.Client, method, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	must(t, err)
	response, err := client.Do(request)
	must(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(content)
}

// serving runs the viewer and returns its address, and a func that ends it and returns its error.
func serving(t *testing.T, m *mount) (address string, stop func() error) {
	t.Helper()
	logged, log := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		o := options{dir: m.dir, address: "127.0.0.1:0", title: "Notes", language: "de"}
		ended <- run(ctx, o, slog.New(slog.NewTextHandler(log, nil)))
		log.Close()
	}()
	return awaitAddress(t, logged), func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(drainTimeout):
			return errors.New("the server does not end")
		}
	}
}

// asViewer makes the test binary run as the viewer.
const asViewer = "VIEWER_TEST_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(asViewer) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// The process sets a limit for the garbage collector, with a variable of the library that is wrong here, because
// there may be no control group. It ends without an error after SIGTERM.
func TestProcess(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	process := exec.CommandContext(t.Context(), self, "--dir="+t.TempDir(), "--bind-address=127.0.0.1:0")
	process.Env = []string{asViewer + "=1", "AUTOMEMLIMIT=wrong"}
	log, err := process.StdoutPipe()
	must(t, err)
	must(t, process.Start())
	lines := bufio.NewReader(log)
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "No memory limit found") {
		t.Fatalf("the viewer logs %q, %v", line, err)
	}
	awaitAddress(t, lines)
	stopProcess(t, process)
}

// A viewer that cannot serve, or that gets an argument of another viewer, exits with an error, which its Pod shows.
func TestProcessFails(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	for argument, want := range map[string]struct {
		code   int
		reason string
	}{
		"--title=A": {1, "listening: "},
		"serve":     {2, `unexpected argument "serve"`},
	} {
		process := exec.CommandContext(t.Context(), self, "--dir="+t.TempDir(), "--bind-address=nowhere", argument)
		process.Env = []string{asViewer + "=1"}
		out, err := process.CombinedOutput()
		if process.ProcessState.ExitCode() != want.code || !strings.Contains(string(out), want.reason) {
			t.Errorf("%s: %v, want exit code %d and %q in\n%s", argument, err, want.code, want.reason, out)
		}
	}
}

// When the context is done, run finishes the open requests and leaves no goroutine.
func TestRun_ends_with_context(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	address, stop := serving(t, newMount(t, sample()))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	status, page := fetch(t, client, http.MethodGet, "http://"+address+"/")
	for _, want := range []string{"First page", `<html lang="de"`, "Notes</title>"} { // of each flag
		if status != http.StatusOK || !strings.Contains(page, want) {
			t.Errorf("status %d, want %s:\n%s", status, want, page)
		}
	}
	if status, page := fetch(t, client, http.MethodHead, "http://"+address+"/no"); status != http.StatusNotFound ||
		page != "" {
		t.Errorf("HEAD: status %d with a body of %d bytes", status, len(page))
	}
	err := run(t.Context(), options{dir: t.TempDir(), address: address}, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "listening: ") {
		t.Errorf("a second server on %s: %v", address, err)
	}
	if err := stop(); err != nil {
		t.Errorf("ending: %v", err)
	}
}

// A response that is being sent when the context is done is sent to its end.
func TestRun_sends_open_responses(t *testing.T) {
	files := sample()
	files["long.md"] = strings.Repeat("word ", 2<<20/5) // more than the kernel keeps for a reader
	address, stop := serving(t, newMount(t, files))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	response, err := client.Get("http://" + address + "/long.html")
	must(t, err)
	defer response.Body.Close()
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	for err == nil && len(ended) == 0 { // until the server accepts no connection
		var c net.Conn
		if c, err = net.Dial("tcp", address); err == nil {
			must(t, c.Close())
		}
	}
	if n, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Errorf("%d bytes of the page were sent: %v", n, err)
	}
	if err := <-ended; err != nil {
		t.Errorf("ending: %v", err)
	}
}

func TestParseFlags(t *testing.T) {
	o, err := parse(nil, io.Discard)
	if want := (options{dir: "/book/src", address: ":3000", language: "en"}); err != nil || o != want {
		t.Errorf("by default %+v, %v", o, err)
	}
	o, err = parse([]string{"--dir=/x", "--bind-address", "127.0.0.1:1", "--title=T", "-language=de"}, io.Discard)
	if want := (options{dir: "/x", address: "127.0.0.1:1", title: "T", language: "de"}); err != nil || o != want {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := parse([]string{"--version"}, io.Discard); err != nil || !o.showVersion {
		t.Errorf("--version: %+v, %v", o, err)
	}
	for _, args := range [][]string{{"serve"}, {"--no-such-flag"}, {"--version", "now"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

// program builds the viewer with the flags of a release and starts it as a process, whose memory
// a test reads.
func program(t *testing.T, dir string) (process *exec.Cmd, base string) {
	t.Helper()
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("memory is read from /proc, which this system does not have")
	}
	binary := filepath.Join(t.TempDir(), "viewer")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the viewer: %v\n%s", err, out)
	}
	process = exec.CommandContext(t.Context(), binary, "--dir="+dir, "--bind-address=127.0.0.1:0")
	process.Env = []string{} // as in a container from scratch
	log, err := process.StdoutPipe()
	must(t, err)
	must(t, process.Start())
	return process, "http://" + awaitAddress(t, log)
}

// memoryKiB returns a number of /proc/PID/status: VmRSS is the resident memory, and VmHWM its peak.
func memoryKiB(t *testing.T, pid int, field string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	_, after, found := strings.Cut(string(status), field)
	var kib int
	if _, err := fmt.Sscan(after, &kib); err != nil || !found {
		t.Fatalf("no %s in /proc/%d/status: %v", field, pid, err)
	}
	return kib
}

// The longest page of usual text is rendered within the memory limit of the viewer's container, and
// read by as many as may connect, who then read no further.
func TestSlowLongPagesFitIntoMemory(t *testing.T) {
	const limitKiB, size = 256 << 10, 900 << 10
	part := "# Überschrift\n\nEin *Text* mit [Links](one.md), `code` und Wörtern.\n\n- a\n- b\n\n|a|b|\n|-|-|\n|c|d|\n\n"
	files := sample()
	files["page.md"] = strings.Repeat(part, size/len(part))
	process, base := program(t, newMount(t, files).dir)
	for range maxConnections {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(base, "http://"))
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = c.Write([]byte("GET /page.html HTTP/1.1\r\nHost: a\r\n\r\n"))
		must(t, err)
		must(t, c.SetReadDeadline(time.Now().Add(30*time.Second)))
		if line, err := bufio.NewReaderSize(c, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200 OK") {
			t.Fatalf("%q, %v", line, err)
		}
	}
	if most := memoryKiB(t, process.Process.Pid, "VmHWM:"); most >= limitKiB {
		t.Errorf("%d KiB were resident, want less than %d", most, limitKiB)
	} else {
		t.Logf("%d KiB were resident", most)
	}
	must(t, process.Process.Kill())
	_ = process.Wait()
}

// The viewer needs less than 20 MB when idle, even after it has rendered pages.
func TestSlowIdleMemory(t *testing.T) {
	const limitKiB = 20_000_000 / 1024
	files := sample()
	files["three.md"] = strings.Repeat("# Heading\n\nA *text* with [links](one.md), `code` and words.\n\n", 4000) // 240 KB
	process, base := program(t, newMount(t, files).dir)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for range 50 {
		for _, target := range []string{"/", "/two.html", "/three.html", "/no", "/healthz", "/" + styleName} {
			if status, _ := fetch(t, client, http.MethodGet, base+target); status >= http.StatusInternalServerError {
				t.Fatalf("%s: status %d", target, status)
			}
		}
	}
	// The runtime returns memory in the background.
	deadline, tick := time.After(30*time.Second), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for idle := memoryKiB(t, process.Process.Pid, "VmRSS:"); idle >= limitKiB; {
		select {
		case <-tick.C:
			idle = memoryKiB(t, process.Process.Pid, "VmRSS:")
		case <-deadline:
			t.Fatalf("%d KiB are resident, want less than %d", idle, limitKiB)
		}
	}
	stopProcess(t, process)
}

// stopProcess checks that the process exits successfully after SIGTERM.
func stopProcess(t *testing.T, process *exec.Cmd) {
	t.Helper()
	must(t, process.Process.Signal(syscall.SIGTERM))
	if err := process.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}
