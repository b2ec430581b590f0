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

// fakeService implements the part of S3 that a creation needs, with at most one bucket.
type fakeService struct {
	exists   bool
	ownerTag string // "" for none
	otherTag bool   // the bucket has another tag
	// tags is how the service handles tags in the request that creates a bucket: it reads, ignores
	// or rejects them.
	tags string
	// answers are error responses by request, such as "403 AccessDenied".
	answers map[string]string
}

const (
	requestHead, requestList, requestCreate, requestTags, requestSetTag = "HEAD", "GET list-type=2&max-keys=1", "PUT",
		"GET tagging", "PUT tagging"
)

func nameOf(r *http.Request) string {
	return strings.TrimSpace(r.Method + " " + strings.TrimSuffix(r.URL.RawQuery, "="))
}

func (s *fakeService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	case request == requestCreate && s.tags == "refuses" && len(body) > 0:
		fail(http.StatusBadRequest, "MalformedXML")
	case request == requestCreate:
		if !s.exists && s.tags != "ignores" && marked {
			s.ownerTag = "uid-b"
		}
		s.exists = true
	case s.exists && request == requestList:
		_, _ = io.WriteString(w, "<ListBucketResult/>")
	case request == requestSetTag && marked:
		s.ownerTag = "uid-b"
	case !s.exists:
		fail(http.StatusNotFound, "NoSuchBucket")
	case request == requestTags && s.ownerTag != "":
		_, _ = fmt.Fprintf(w, "<Tagging><TagSet><Tag><Key>%s</Key><Value>%s</Value></Tag></TagSet></Tagging>",
			v1beta1.BucketTagOwner, s.ownerTag)
	case request == requestTags && s.otherTag:
		_, _ = io.WriteString(w, "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>")
	case request == requestTags:
		fail(http.StatusNotFound, "NoSuchTagSet")
	}
}

// creationResult is the result of one reconcile of a managed bucket.
type creationResult struct {
	Requests     []string
	Ready        string
	Provisioning v1beta1.BucketProvisioning
	Events       []string
}

// newManagedFixture returns a fixture with the managed bucket b at a service.
func newManagedFixture(t *testing.T, provisioning v1beta1.BucketProvisioning, service http.HandlerFunc,
	beforeStatusWrite func(context.Context, client.Client)) *fixture {
	t.Helper()
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	w := newFixture(t, beforeStatusWrite)
	w.countConnections()
	editStored(t, func(b *v1beta1.StorageBucket) {
		b.Spec.ManagementPolicy, b.Spec.Endpoint, b.Spec.Probe.FailureThreshold = v1beta1.BucketManage, server.URL, 1
	})(t.Context(), w.stored)
	b := w.read(t)
	b.Status.Provisioning = provisioning
	if err := w.stored.Status().Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return w
}

// countConnections counts the open connections to endpoints.
func (w *fixture) countConnections() {
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

	*fixture
}

func (c countedConn) Close() error {
	c.open.Add(-1)
	return c.Conn.Close()
}

func (w *fixture) read(t *testing.T) *v1beta1.StorageBucket {
	t.Helper()
	b := &v1beta1.StorageBucket{}
	if err := w.stored.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "b"}, b); err != nil {
		t.Error(err)
	}
	return b
}

// creation returns the results so far, without the requests.
func (w *fixture) creation(t *testing.T) creationResult {
	t.Helper()
	b := w.read(t)
	ready := reporting.FindCondition(b.Status.Conditions, v1beta1.ConditionReady)
	got := creationResult{Ready: string(ready.Status) + " " + ready.Reason, Provisioning: b.Status.Provisioning}
	for recorded := w.Recorder.(*events.FakeRecorder).Events; len(recorded) > 0; {
		got.Events = append(got.Events, strings.Join(strings.Fields(<-recorded)[:2], " "))
	}
	return got
}

// A bucket is created only if none exists, and its owner tag decides the ownership. Only the
// request that has created a bucket sets the tag. The next reconcile creates nothing.
func TestCreation(t *testing.T) {
	const intended, made, ready = v1beta1.BucketIntended, v1beta1.BucketCreated, "True ProbeSucceeded"
	created, conflict := []string{"Normal BucketCreated", "Normal BucketHealthy"}, []string{"Warning BucketConflict"}
	healthy, unhealthy := []string{"Normal BucketHealthy"}, []string{"Warning BucketUnhealthy"}
	missing := func(further ...string) []string { return append([]string{requestHead, requestList}, further...) }
	there := []string{requestHead, requestTags}
	wants := map[string]creationResult{
		"does not exist":     {missing(requestCreate, requestTags), ready, made, created},
		"tags are ignored":   {missing(requestCreate, requestTags, requestSetTag), ready, made, created},
		"tags are rejected":  {missing(requestCreate, requestCreate, requestTags, requestSetTag), ready, made, created},
		"creation is denied": {missing(requestCreate), "False AccessDenied", intended, unhealthy},
		"tagging is denied": {missing(requestCreate, requestTags, requestSetTag), "False AccessDenied",
			intended, unhealthy},
		"the tags are unreadable": {missing(requestCreate, requestTags), "False ServerError", intended, unhealthy},

		"another account's": {missing(requestCreate, requestTags), "False BucketConflict",
			intended, conflict},
		"another account's, with the own owner tag": {missing(requestCreate, requestTags), ready,
			made, healthy},
		"created meanwhile by this operator": {missing(requestCreate, requestTags), ready,
			made, healthy},
		"created meanwhile by another": {missing(requestCreate, requestTags),
			"False BucketConflict", intended, conflict},
		"created meanwhile without an owner tag": {missing(requestCreate, requestTags),
			"False BucketConflict", intended, conflict},
		"created meanwhile, with unreadable tags": {missing(requestCreate, requestTags),
			"False AccessDenied", intended, unhealthy},
		"created meanwhile by another, with a success response": {missing(requestCreate, requestTags),
			"False BucketConflict", intended, conflict},
		"created meanwhile with another tag, with a success response": {missing(requestCreate, requestTags),
			"False BucketConflict", intended, conflict},

		"exists and owned":            {there, ready, made, healthy},
		"exists with another owner":   {there, "False BucketConflict", "", conflict},
		"exists without an owner tag": {there, "False BucketConflict", "", conflict},
		"exists with unreadable tags": {there, "False AccessDenied", "", unhealthy},
		"a failing service":           {[]string{requestHead}, "False ServerError", "", unhealthy},
	}
	for name, bucket := range creations() {
		want, named := wants[name]
		if !named {
			t.Errorf("nothing is wanted of %q", name)
		}
		t.Run(name, func(t *testing.T) {
			var w *fixture
			var requests []string
			w = newManagedFixture(t, "", func(answer http.ResponseWriter, r *http.Request) {
				if nameOf(r) == requestCreate {
					if got := w.creation(t); got.Provisioning != intended || got.Ready != "Unknown Creating" || len(got.Events) > 0 {
						t.Errorf("when the bucket is created: %+v, want the intent recorded", got)
					}
				}
				if b := w.read(t); !slices.Equal(b.Finalizers, []string{v1beta1.StorageBucketFinalizer}) {
					t.Errorf("request %s for a bucket with the finalizers %q", nameOf(r), b.Finalizers)
				}
				requests = append(requests, nameOf(r))
				bucket.ServeHTTP(answer, r)
			}, func(context.Context, client.Client) {})
			if result, _ := w.reconcile(t); result != (ctrl.Result{}) {
				t.Errorf("%+v, want no other reconcile: the next probe is the ticks' business", result)
			}
			got := w.creation(t)
			got.Requests = requests
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			status, reason, _ := strings.Cut(want.Ready, " ")
			counted := probeMetrics{Results: map[string]float64{reason: 1}, Measured: w.recordedMetrics().Measured}
			if status == "True" {
				counted.Up = 1
			}
			if diff := cmp.Diff(counted, w.recordedMetrics()); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
			if open := w.open.Load(); open > 0 {
				t.Errorf("%d connections are open", open)
			}
		})
	}
}

// A reconcile that is canceled because the operator stops reports nothing about the bucket,
// whatever request it has reached.
func TestCanceledReconcileReportsNothing(t *testing.T) {
	others := creations()["another account's"]
	delete(others.answers, requestTags)
	for name, bucket := range map[string]*fakeService{
		requestHead: {}, requestList: {}, requestCreate: {}, requestTags: {}, requestSetTag: {tags: "ignores"},
		requestTags + " of another account's": &others,
	} {
		at := strings.TrimSuffix(name, " of another account's")
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			w := newManagedFixture(t, "", func(answer http.ResponseWriter, r *http.Request) {
				if nameOf(r) == at {
					stop()
					_, _ = io.Copy(io.Discard, r.Body) // after that net/http detects that the client has disconnected
					<-r.Context().Done()
					return
				}
				bucket.ServeHTTP(answer, r)
			}, func(context.Context, client.Client) {})
			if _, err := w.Reconcile(ctx,
				ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "team", Name: "b"}}); !errors.Is(err, context.Canceled) {
				t.Errorf("%v, want that the context was canceled", err)
			}
			want := creationResult{Ready: "Unknown Creating", Provisioning: v1beta1.BucketIntended}
			if at == requestHead || at == requestList {
				want = creationResult{Ready: " "}
			}
			if diff := cmp.Diff(want, w.creation(t)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// No bucket is created for a StorageBucket that was deleted or changed since it was read, whether
// or not the intent is recorded.
func TestNoBucketIsCreatedForChangedStorageBucket(t *testing.T) {
	for name, edit := range map[string]func(context.Context, *testing.T, client.Client){
		"gone": func(ctx context.Context, t *testing.T, c client.Client) {
			t.Helper()
			editStored(t, func(b *v1beta1.StorageBucket) { b.Finalizers = nil })(ctx, c)
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
			editStored(t, func(b *v1beta1.StorageBucket) {
				b.Generation, b.Spec.ManagementPolicy = 2,
					v1beta1.BucketObserve
			})(ctx, c)
		},
	} {
		for _, provisioning := range []v1beta1.BucketProvisioning{"", v1beta1.BucketIntended, v1beta1.BucketCreated} {
			t.Run(name+" "+string(provisioning), func(t *testing.T) {
				var w *fixture
				bucket, puts := &fakeService{}, 0
				w = newManagedFixture(t, provisioning, func(answer http.ResponseWriter, r *http.Request) {
					switch nameOf(r) {
					case requestList:
						edit(t.Context(), t, w.stored)
					case requestCreate:
						puts++
					}
					bucket.ServeHTTP(answer, r)
				}, func(context.Context, client.Client) {})
				_, err := w.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "team", Name: "b"}})
				if puts > 0 || bucket.exists {
					t.Errorf("it was created in %d requests (%v)", puts, err)
				}
				if got := len(w.Recorder.(*events.FakeRecorder).Events); got > 0 {
					t.Errorf("%d events about what was not done", got)
				}
			})
		}
	}
}
