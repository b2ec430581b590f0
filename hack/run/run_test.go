package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/leasehold"
)

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string // part of the error; empty: none
	}{
		"nothing":             {nil, ""},
		"once, short lease":   {[]string{"-once", "-lease", "3s"}, ""},
		"lease too short":     {[]string{"-lease", "2s"}, "-lease 2s: want whole seconds, at least 3"},
		"lease with a rest":   {[]string{"-lease", "3500ms"}, "-lease 3.5s: want whole seconds, at least 3"},
		"current cluster":     {[]string{"-cluster", "current"}, ""},
		"another cluster":     {[]string{"-cluster", "kind"}, `-cluster kind: want "current" or nothing`},
		"once on a cluster":   {[]string{"-cluster", "current", "-once"}, "-once and -lease are for a control plane"},
		"word without a dash": {[]string{"once"}, `unexpected arguments ["once"]`},
		"unknown flag":        {[]string{"-twice"}, "flag provided but not defined: -twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(tc.args, io.Discard)
			if (err != nil) != (tc.want != "") || (err != nil && !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("parse(%q): error %v, want %q", tc.args, err, tc.want)
			}
		})
	}
}

// Each signal that ends this program ends the operator first. SIGHUP comes when the terminal closes.
func TestSignals_EndTheContext(t *testing.T) {
	// The test may run under nohup. A signal that was once waited for is not ignored any more.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	signal.Stop(hangups)
	for _, sent := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		ctx, stop := untilSignal(t.Context())
		if err := syscall.Kill(os.Getpid(), sent); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Errorf("%v does not end the context", sent)
		}
		stop()
	}
	signal.Ignore(syscall.SIGHUP) // as nohup does
	defer signal.Reset(syscall.SIGHUP)
	ctx, stop := untilSignal(t.Context())
	defer stop()
	for _, sent := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		if ctx.Err() != nil {
			t.Errorf("an ignored SIGHUP ends the context")
		}
		if err := syscall.Kill(os.Getpid(), sent); err != nil {
			t.Fatal(err)
		}
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); !strings.Contains(cause.Error(), "terminated") {
		t.Errorf("an ignored SIGHUP ends the context: %v", cause)
	}
}

func TestElection_KeepsItsProportions(t *testing.T) {
	if got := electionArgs(0); got != nil {
		t.Errorf("got %q, want none", got)
	}
	want := []string{"--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s",
		"--leader-elect-retry-period=2s"}
	if diff := cmp.Diff(want, electionArgs(15*time.Second)); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}

// TestEvents_AreReportedOnce shows what is printed for a history of objects.
func TestEvents_AreReportedOnce(t *testing.T) {
	var out bytes.Buffer
	n := &changes{out: newProgress(&out), system: "system", printed: map[string]string{}}
	lease := func(ns, holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: leasehold.Lease},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(holder)},
		}
	}
	n.lease(lease("elsewhere", "x_1"), false)
	n.lease(lease("system", "a_1"), false)
	n.lease(lease("system", "a_1"), false) // renewed
	n.lease(lease("system", ""), false)
	n.lease(lease("system", "b_2"), false)

	tenant := &v1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
	tenant.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Reconciled", Message: "fine"}}
	n.object("tenant", tenant, tenant.Status.Conditions, false)
	n.object("tenant", tenant, tenant.Status.Conditions, false)
	tenant.DeletionTimestamp = new(metav1.Now())
	n.object("tenant", tenant, tenant.Status.Conditions, false)
	n.object("tenant", tenant, tenant.Status.Conditions, true)

	event := &eventsv1.Event{Type: "Normal", Reason: "Updated", Note: "the tenant was updated"}
	event.Regarding.Name = "t"
	n.event(event, false) // about something else
	event.Regarding.APIVersion, event.Regarding.Kind = v1beta1.GroupVersion.String(), "Tenant"
	n.event(event, false)
	event.Series = &eventsv1.EventSeries{Count: 2}
	n.event(event, false)
	n.event(event, true)

	got := regexp.MustCompile(`(?m)^ *[0-9.]+ s  (\S+) +`).ReplaceAllString(out.String(), "$1: ")
	want := `leader: a leads
leader: none: the Lease is released
leader: b leads
tenant: t: Ready=True (Reconciled) fine
tenant: t is being deleted
tenant: t is gone
event: t: Normal Updated: the tenant was updated
event: t: Normal Updated: the tenant was updated (2 times)
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestCut(t *testing.T) {
	long := strings.Repeat("é", 200)
	if got := cut("short\n" + long); got != "short\n"+strings.Repeat("é", 160)+"..." {
		t.Errorf("got %q", got)
	}
}

// crashing is a process that ends after it has run for the durations given, one for each start.
type crashing struct {
	runs   []time.Duration
	done   chan struct{}
	starts []time.Duration // since began
	began  time.Time
}

func (c *crashing) Name() string          { return "a" }
func (c *crashing) Pid() int              { return len(c.starts) }
func (c *crashing) Done() <-chan struct{} { return c.done }
func (c *crashing) LogTail(int) string    { return "killed" }

func (c *crashing) Restart() error {
	c.starts = append(c.starts, time.Since(c.began))
	done := make(chan struct{})
	if len(c.runs) > 0 {
		time.AfterFunc(c.runs[0], func() { close(done) })
		c.runs = c.runs[1:]
	}
	c.done = done
	return nil
}

func TestReplicas_RestartWithBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := &crashing{done: make(chan struct{}), began: time.Now(),
			runs: []time.Duration{0, time.Second, 0, 11 * time.Minute}}
		close(c.done)
		var out bytes.Buffer
		ended := make(chan struct{})
		go func() { keepRunning(ctx, c, newProgress(&out)); close(ended) }()
		<-time.After(time.Hour)
		cancel()
		<-ended
		want := []time.Duration{0, 10 * time.Second, 31 * time.Second, 71 * time.Second, 11*time.Minute + 71*time.Second}
		if diff := cmp.Diff(want, c.starts); diff != "" {
			t.Errorf("starts (-want +got):\n%s\n%s", diff, &out)
		}
		if want := "a runs again as process 5"; !strings.Contains(out.String(), want) {
			t.Errorf("it does not print %q:\n%s", want, &out)
		}
	})
}
