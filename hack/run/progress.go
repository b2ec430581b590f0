package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Pauses before a program is started again. That of the S3 server is long enough for its buckets to
// become unreachable. Those of a replica are a kubelet's: none the first time, then firstBackOff and
// twice as long each time up to maxBackOff. A process that ran for twice maxBackOff starts over.
const (
	serverPause  = time.Minute
	firstBackOff = 10 * time.Second
	maxBackOff   = 5 * time.Minute
)

func kubeletPause(crashes int) time.Duration {
	if crashes == 0 {
		return 0
	}
	return min(firstBackOff<<min(crashes-1, 5), maxBackOff)
}

// progress prints one line for each thing that happens, with the seconds since the start.
// It is safe for concurrent use.
type progress struct {
	began time.Time

	mu  sync.Mutex
	out io.Writer
}

func newProgress(out io.Writer) *progress { return &progress{began: time.Now(), out: out} }

// printf prints a line about topic. It indents further lines of the text below the first.
func (p *progress) printf(topic, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n"+strings.Repeat(" ", 25))
	fmt.Fprintf(p.out, "%6.1f s  %-14s  %s\n", time.Since(p.began).Seconds(), topic, text)
}

// block prints text as it is between empty lines.
func (p *progress) block(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "\n%s\n\n", text)
}

// process is one that is started again: another Done follows a restart.
type process interface {
	Pid() int
	Done() <-chan struct{}
}

// keep restarts a process each time that it has ended, until ctx is done. pause depends on how often
// it has crashed before.
func (p *progress) keep(ctx context.Context, topic, name string, process process,
	pause func(crashes int) time.Duration, restart func() error) {
	for crashes := 0; ; crashes++ {
		began := time.Now()
		select {
		case <-ctx.Done():
			return
		case <-process.Done():
		}
		if time.Since(began) > 2*maxBackOff {
			crashes = 0
		}
		if ctx.Err() == nil {
			p.printf(topic, "%s has ended; it restarts in %v", name, pause(crashes))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause(crashes)):
		}
		if err := restart(); err != nil {
			p.printf("failed", "%v", err)
			return
		}
		p.printf(topic, "%s runs again as process %d", name, process.Pid())
	}
}

// short returns path as seen from the working directory, when it is below that.
func short(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if below, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(below) {
		return below
	}
	return path
}
