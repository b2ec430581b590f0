package storagebucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

// service is an S3 service as far as a creation needs one: one bucket, or none yet.
type service struct {
	exists bool
	owner  string // the mark; "" for none
	other  bool   // the bucket has another tag
	// tags is what it makes of tags in the request that creates a bucket: it reads, ignores or
	// refuses them.
	tags string
	// answers are its failures, as "403 AccessDenied", by request.
	answers map[string]string
}

const (
	looks, lists, makes, asksMark, setsMark = "HEAD", "GET list-type=2&max-keys=1", "PUT", "GET tagging", "PUT tagging"
)

func nameOf(r *http.Request) string {
	return strings.TrimSpace(r.Method + " " + strings.TrimSuffix(r.URL.RawQuery, "="))
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fail := func(status int, code string) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code></Error>")
	}
	body, _ := io.ReadAll(r.Body)
	marked := strings.Contains(string(body), "<Key>"+v1beta1.BucketTagOwner+"</Key><Value>uid-b</Value>")
	request := nameOf(r)
	if answer, fails := s.answers[request]; fails {
		status, code := 0, ""
		_, _ = fmt.Sscan(answer, &status, &code)
		fail(status, code)
		return
	}
	switch {
	case request == makes && s.tags == "refuses" && len(body) > 0:
		fail(http.StatusBadRequest, "MalformedXML")
	case request == makes:
		if !s.exists && s.tags != "ignores" && marked {
			s.owner = "uid-b"
		}
		s.exists = true
	case s.exists && request == lists:
		_, _ = io.WriteString(w, "<ListBucketResult/>")
	case request == setsMark && marked:
		s.owner = "uid-b"
	case !s.exists:
		fail(http.StatusNotFound, "NoSuchBucket")
	case request == asksMark && s.owner != "":
		_, _ = fmt.Fprintf(w, "<Tagging><TagSet><Tag><Key>%s</Key><Value>%s</Value></Tag></TagSet></Tagging>", v1beta1.BucketTagOwner, s.owner)
	case request == asksMark && s.other:
		_, _ = io.WriteString(w, "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>")
	case request == asksMark:
		fail(http.StatusNotFound, "NoSuchTagSet")
	}
}

// creation is what one reconcile of a managed bucket leaves behind.
type creation struct {
	Requests     []string
	Ready        string
	Provisioning v1beta1.BucketProvisioning
	Events       []string
}

// managedWorld has the bucket b managed, at a service.
func managedWorld(t *testing.T, provisioning v1beta1.BucketProvisioning, service http.HandlerFunc, meddle func(context.Context, client.Client)) *world {
	t.Helper()
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	w := newWorld(t, meddle)
	w.countConnections()
	change(t, func(b *v1beta1.StorageBucket) {
		b.Spec.ManagementPolicy, b.Spec.Endpoint, b.Spec.Probe.FailureThreshold = v1beta1.BucketManage, server.URL, 1
	})(t.Context(), w.stored)
	b := w.read(t)
	b.Status.Provisioning = provisioning
	if err := w.stored.Status().Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return w
}

// countConnections keeps count of the connections to endpoints that are open.
func (w *world) countConnections() {
	rules := w.Rules
	w.Rules = func(ctx context.Context) (s3.Rules, error) {
		r, err := rules(ctx)
		r.Guard = func(transport *http.Transport) http.RoundTripper {
			dial := transport.DialContext
			transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := dial(ctx, network, address)
				if err != nil {
					return nil, err
				}
				w.open.Add(1)
				return countedConn{conn, w}, nil
			}
			return transport
		}
		return r, err
	}
}

type countedConn struct {
	net.Conn

	*world
}

func (c countedConn) Close() error {
	c.open.Add(-1)
	return c.Conn.Close()
}

func (w *world) read(t *testing.T) *v1beta1.StorageBucket {
	t.Helper()
	b := &v1beta1.StorageBucket{}
	if err := w.stored.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "b"}, b); err != nil {
		t.Error(err)
	}
	return b
}

// leaves is what has been left behind so far, but for the requests.
func (w *world) leaves(t *testing.T) creation {
	t.Helper()
	b := w.read(t)
	ready := reporting.FindCondition(b.Status.Conditions, v1beta1.ConditionReady)
	got := creation{Ready: string(ready.Status) + " " + ready.Reason, Provisioning: b.Status.Provisioning}
	for recorded := w.Recorder.(*events.FakeRecorder).Events; len(recorded) > 0; {
		got.Events = append(got.Events, strings.Join(strings.Fields(<-recorded)[:2], " "))
	}
	return got
}

// A bucket is made only where there is none, and is ours only by its mark. The mark is put only
// on a bucket that this very request has made. A reconcile after it makes nothing again.
func TestWhatACreationLeaves(t *testing.T) {
	const intended, made, ready = v1beta1.BucketIntended, v1beta1.BucketCreated, "True ProbeSucceeded"
	created, conflict := []string{"Normal BucketCreated", "Normal BucketHealthy"}, []string{"Warning BucketConflict"}
	healthy, unhealthy := []string{"Normal BucketHealthy"}, []string{"Warning BucketUnhealthy"}
	missing := func(further ...string) []string { return append([]string{looks, lists}, further...) }
	there := []string{looks, asksMark}
	wants := map[string]creation{
		"none yet":                {missing(makes, asksMark), ready, made, created},
		"tags are ignored":        {missing(makes, asksMark, setsMark), ready, made, created},
		"tags are refused":        {missing(makes, makes, asksMark, setsMark), ready, made, created},
		"may not be made":         {missing(makes), "False AccessDenied", intended, unhealthy},
		"may not be marked":       {missing(makes, asksMark, setsMark), "False AccessDenied", intended, unhealthy},
		"the mark cannot be seen": {missing(makes, asksMark), "False ServerError", intended, unhealthy},

		"another account's":                                     {missing(makes, asksMark), "False BucketConflict", intended, conflict},
		"another account's, of our mark":                        {missing(makes, asksMark), ready, made, healthy},
		"made meanwhile by us":                                  {missing(makes, asksMark), ready, made, healthy},
		"made meanwhile by another":                             {missing(makes, asksMark), "False BucketConflict", intended, conflict},
		"made meanwhile without a mark":                         {missing(makes, asksMark), "False BucketConflict", intended, conflict},
		"made meanwhile, of an unknown mark":                    {missing(makes, asksMark), "False AccessDenied", intended, unhealthy},
		"made meanwhile by another, and called a success":       {missing(makes, asksMark), "False BucketConflict", intended, conflict},
		"made meanwhile with another tag, and called a success": {missing(makes, asksMark), "False BucketConflict", intended, conflict},

		"there and ours":         {there, ready, made, healthy},
		"there and another's":    {there, "False BucketConflict", "", conflict},
		"there without a mark":   {there, "False BucketConflict", "", conflict},
		"there, of unknown mark": {there, "False AccessDenied", "", unhealthy},
		"a service in trouble":   {[]string{looks}, "False ServerError", "", unhealthy},
	}
	for name, bucket := range creations() {
		want, named := wants[name]
		if !named {
			t.Errorf("nothing is wanted of %q", name)
		}
		t.Run(name, func(t *testing.T) {
			var w *world
			var requests []string
			w = managedWorld(t, "", func(answer http.ResponseWriter, r *http.Request) {
				if nameOf(r) == makes {
					if got := w.leaves(t); got.Provisioning != intended || got.Ready != "Unknown Creating" || len(got.Events) > 0 {
						t.Errorf("when the bucket is made: %+v, want that the intent is recorded", got)
					}
				}
				if b := w.read(t); !slices.Equal(b.Finalizers, []string{v1beta1.StorageBucketFinalizer}) {
					t.Errorf("%s is asked of a bucket that is held by %q", nameOf(r), b.Finalizers)
				}
				requests = append(requests, nameOf(r))
				bucket.ServeHTTP(answer, r)
			}, func(context.Context, client.Client) {})
			if result, _ := w.reconcile(t); result != (ctrl.Result{}) {
				t.Errorf("%+v, want no other reconcile: the next probe is the ticks' business", result)
			}
			got := w.leaves(t)
			got.Requests = requests
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			status, reason, _ := strings.Cut(want.Ready, " ")
			counted := traces{Results: map[string]float64{reason: 1}, Measured: w.traces().Measured}
			if status == "True" {
				counted.Up = 1
			}
			if diff := cmp.Diff(counted, w.traces()); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
			if open := w.open.Load(); open > 0 {
				t.Errorf("%d connections are left open", open)
			}
		})
	}
}

// A reconcile that is broken off since the operator stops says nothing about the bucket,
// whichever request that was at.
func TestAStopIsNoNews(t *testing.T) {
	others := creations()["another account's"]
	delete(others.answers, asksMark)
	for name, bucket := range map[string]*service{
		looks: {}, lists: {}, makes: {}, asksMark: {}, setsMark: {tags: "ignores"}, asksMark + " of another account's": &others,
	} {
		at := strings.TrimSuffix(name, " of another account's")
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			w := managedWorld(t, "", func(answer http.ResponseWriter, r *http.Request) {
				if nameOf(r) == at {
					stop()
					_, _ = io.Copy(io.Discard, r.Body) // after which net/http sees the client hang up
					<-r.Context().Done()
					return
				}
				bucket.ServeHTTP(answer, r)
			}, func(context.Context, client.Client) {})
			if _, err := w.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "team", Name: "b"}}); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want that the context was canceled", err)
			}
			want := creation{Ready: "Unknown Creating", Provisioning: v1beta1.BucketIntended}
			if at == looks || at == lists {
				want = creation{Ready: " "}
			}
			if diff := cmp.Diff(want, w.leaves(t)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// No bucket is made for a StorageBucket that has gone or has changed since it was read, whether
// the intent is recorded yet or not.
func TestNoBucketIsMadeForWhatHasChanged(t *testing.T) {
	for name, edit := range map[string]func(context.Context, *testing.T, client.Client){
		"gone": func(ctx context.Context, t *testing.T, c client.Client) {
			t.Helper()
			change(t, func(b *v1beta1.StorageBucket) { b.Finalizers = nil })(ctx, c)
			if err := c.Delete(ctx, bucket("b")); err != nil {
				t.Error(err)
			}
		},
		"being deleted": func(ctx context.Context, t *testing.T, c client.Client) {
			t.Helper()
			if err := c.Delete(ctx, bucket("b")); err != nil {
				t.Error(err)
			}
		},
		"another spec": func(ctx context.Context, t *testing.T, c client.Client) {
			t.Helper()
			change(t, func(b *v1beta1.StorageBucket) { b.Generation, b.Spec.ManagementPolicy = 2, v1beta1.BucketObserve })(ctx, c)
		},
	} {
		for _, provisioning := range []v1beta1.BucketProvisioning{"", v1beta1.BucketIntended, v1beta1.BucketCreated} {
			t.Run(name+" "+string(provisioning), func(t *testing.T) {
				var w *world
				bucket, puts := &service{}, 0
				w = managedWorld(t, provisioning, func(answer http.ResponseWriter, r *http.Request) {
					switch nameOf(r) {
					case lists:
						edit(t.Context(), t, w.stored)
					case makes:
						puts++
					}
					bucket.ServeHTTP(answer, r)
				}, func(context.Context, client.Client) {})
				_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "team", Name: "b"}})
				if puts > 0 || bucket.exists {
					t.Errorf("it was made in %d requests (%v)", puts, err)
				}
				if got := len(w.Recorder.(*events.FakeRecorder).Events); got > 0 {
					t.Errorf("%d events about what was not done", got)
				}
			})
		}
	}
}
