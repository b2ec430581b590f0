// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reconciler/reconcilertest"
	"leasehold.dev/controllers/internal/reporting"
	"leasehold.dev/controllers/storagebucket/s3"
)

var (
	epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	bKey  = client.ObjectKey{Namespace: "team", Name: "b"}
	bReq  = ctrl.Request{NamespacedName: bKey}
)

func bucket(name string, with ...func(*v1beta1.StorageBucket)) *v1beta1.StorageBucket {
	b := &v1beta1.StorageBucket{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("uid-" + name), Generation: 1},
		Spec: v1beta1.StorageBucketSpec{
			BucketName: "team-data", Endpoint: "https://s3.example.com", Region: "us-east-1",
			AddressingStyle: v1beta1.AddressingPath, CredentialsSecretRef: v1beta1.SecretReference{Name: "creds"},
			ManagementPolicy: v1beta1.BucketObserve, DeletionPolicy: v1beta1.BucketRetain,
			Probe: v1beta1.ProbeSpec{PeriodSeconds: 60, TimeoutSeconds: 10, FailureThreshold: 3},
		},
	}
	for _, f := range with {
		f(b)
	}
	return b
}

func every(seconds int32) func(*v1beta1.StorageBucket) {
	return func(b *v1beta1.StorageBucket) { b.Spec.Probe.PeriodSeconds = seconds }
}

func manage(b *v1beta1.StorageBucket) { b.Spec.ManagementPolicy = v1beta1.BucketManage }

// removable makes the bucket a managed one that the operator has created, under deletionPolicy Delete.
func removable(b *v1beta1.StorageBucket) {
	manage(b)
	b.Finalizers = []string{v1beta1.StorageBucketFinalizer}
	b.Spec.DeletionPolicy, b.Status.Provisioning = v1beta1.BucketDelete, v1beta1.BucketCreated
}

// withCA makes the bucket refer to a ConfigMap that does not exist.
func withCA(b *v1beta1.StorageBucket) {
	b.Spec.CABundleRef = &v1beta1.ConfigMapKeyReference{Name: "ca", Key: "ca.crt"}
}

// credentials returns the Secret of the bucket. No report may contain its keys.
func credentials() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "creds"}, Data: map[string][]byte{
		v1beta1.SecretKeyAccessKeyID: []byte(sentinel + "-id"), v1beta1.SecretKeySecretAccessKey: []byte(sentinel),
	}}
}

const sentinel = "SENTINEL"

func team() *corev1.Namespace { return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}} }

// fakeService implements the part of S3 that the operator needs, with at most one bucket.
type fakeService struct {
	exists   bool
	ownerTag string // "" for none
	otherTag bool   // the bucket has another tag
	late     bool   // the bucket appears right before the request that creates it
	// tags is how the service handles tags in the request that creates a bucket: it reads, ignores
	// or refuses them, or lacks tags of buckets.
	tags string
	// answers are error responses by request, such as "403 AccessDenied".
	answers map[string]string
}

const (
	requestHead, requestList, requestCreate, requestTags, requestSetTag = "HEAD", "GET list-type=2&max-keys=1", "PUT",
		"GET tagging", "PUT tagging"
	requestVersions = "GET max-keys=1&versions"
)

func nameOf(r *http.Request) string {
	return strings.TrimSpace(r.Method + " " + strings.TrimSuffix(r.URL.RawQuery, "="))
}

// withFailures returns a service with error responses, as request and response in turn.
func withFailures(s fakeService, list ...string) fakeService {
	s.answers = map[string]string{}
	for i := 0; i < len(list); i += 2 {
		s.answers[list[i]] = list[i+1]
	}
	return s
}

func (s *fakeService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fail := func(status int, code string) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code></Error>")
	}
	body, _ := io.ReadAll(r.Body)
	marked := strings.Contains(string(body), "<Key>"+v1beta1.BucketTagOwner+"</Key><Value>uid-b</Value>")
	request := nameOf(r)
	if s.late = s.late && request != requestCreate; s.late {
		fail(http.StatusNotFound, "NoSuchBucket")
		return
	}
	if answer, fails := s.answers[request]; fails {
		status, code := 0, ""
		_, _ = fmt.Sscan(answer, &status, &code)
		fail(status, code)
		return
	}
	if s.exists {
		w.Header().Set("X-Amz-Bucket-Region", "us-east-1")
	}
	switch {
	case request == requestTags && s.tags == "lacks":
		fail(http.StatusNotImplemented, "NotImplemented")
	case request == requestCreate && s.tags == "refuses" && len(body) > 0:
		fail(http.StatusBadRequest, "MalformedXML")
	case request == requestCreate:
		if !s.exists && s.tags != "ignores" && marked {
			s.ownerTag = "uid-b"
		}
		s.exists = true
	case s.exists && request == requestList:
		_, _ = io.WriteString(w, "<ListBucketResult/>")
	case s.exists && request == requestVersions:
		_, _ = io.WriteString(w, "<ListVersionsResult/>")
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

// scenario is the bucket b with its service and environment.
type scenario struct {
	with    func(*v1beta1.StorageBucket)
	secret  func(*corev1.Secret)
	objects []client.Object
	service fakeService
	// forbidden is true if the rules allow no address of the service.
	forbidden bool
	// removed deletes the StorageBucket, and ending its namespace.
	removed, ending bool
	reconciles      int
	// before has changes that precede a reconcile. The first one is the reconcile 0.
	before map[int]change
}

// change changes a fixture between two reconciles.
type change = func(*fixture)

// fixture is a Reconciler with the objects of a scenario in a fake cluster.
type fixture struct {
	*Reconciler
	t        testing.TB
	stored   client.WithWatch
	clock    *testingclock.FakePassiveClock
	recorder *events.FakeRecorder
	service  fakeService
	instead  http.Handler // of the service, unless nil
	requests []string     // to the service
	// onRequest and onResponse, unless nil, run before and after the service handles a request.
	onRequest  func(*http.Request)
	onResponse func(request string, status int)
}

func newFixture(t testing.TB, s scenario) *fixture {
	t.Helper()
	w := &fixture{t: t, service: s.service, clock: testingclock.NewFakePassiveClock(epoch),
		recorder: events.NewFakeRecorder(10)}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	b, secret := bucket("b"), credentials()
	b.Spec.Endpoint, b.Status.ObservedGeneration = server.URL, -1 // a default of the CRD
	if s.with != nil {
		s.with(b)
	}
	if s.secret != nil {
		s.secret(secret)
	}
	var err error
	w.stored = reconcilertest.NewClientBuilder().WithObjects(b, secret).WithStatusSubresource(b).Build()
	for _, o := range append(s.objects, team()) {
		create := w.stored.Create(t.Context(), o.DeepCopyObject().(client.Object))
		err = errors.Join(err, client.IgnoreAlreadyExists(create))
	}
	if s.removed {
		err = errors.Join(err, w.stored.Delete(t.Context(), b), w.stored.Get(t.Context(), bKey, b))
		w.clock.SetTime(b.DeletionTimestamp.Time)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Reconciler = &Reconciler{metrics: newMetrics(prometheus.NewRegistry()),
		Base:    reconciler.Base{Client: w.stored, Live: w.stored, Recorder: w.recorder, Clock: w.clock},
		Cluster: func(context.Context) ([]netip.Addr, error) { return nil, nil }}
	if !s.forbidden {
		w.Rules.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	if s.ending {
		w.endNamespace()
	}
	// The channel of the context is made here, and not in a synctest bubble, which could not end it.
	_ = t.Context().Done()
	return w
}

func (w *fixture) ServeHTTP(answer http.ResponseWriter, r *http.Request) {
	w.requests = append(w.requests, nameOf(r))
	if w.onRequest != nil {
		w.onRequest(r)
	}
	recorded := httptest.NewRecorder()
	if w.instead != nil {
		w.instead.ServeHTTP(recorded, r)
	} else {
		w.service.ServeHTTP(recorded, r)
	}
	if w.onResponse != nil {
		w.onResponse(nameOf(r), recorded.Code)
	}
	maps.Copy(answer.Header(), recorded.Header())
	answer.WriteHeader(recorded.Code)
	_, _ = recorded.Body.WriteTo(answer)
}

func (w *fixture) events() (text string) {
	for len(w.recorder.Events) > 0 {
		text += <-w.recorder.Events + "\n"
	}
	return text
}

func (w *fixture) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// reconcile reconciles without an error, and returns the stored bucket.
func (w *fixture) reconcile() *v1beta1.StorageBucket {
	w.t.Helper()
	_, err := w.Reconcile(w.t.Context(), bReq)
	w.must(err)
	return w.read()
}

// read returns the stored bucket, which has no name after its deletion.
func (w *fixture) read() *v1beta1.StorageBucket {
	w.t.Helper()
	b := &v1beta1.StorageBucket{}
	w.must(client.IgnoreNotFound(w.stored.Get(w.t.Context(), bKey, b)))
	return b
}

func (w *fixture) edit(f func(*v1beta1.StorageBucket)) {
	w.t.Helper()
	b := w.read()
	f(b)
	w.must(w.stored.Update(w.t.Context(), b))
}

func (w *fixture) delete() {
	w.t.Helper()
	w.must(w.stored.Delete(w.t.Context(), w.read()))
}

// endNamespace deletes the namespace, which stays as long as it has contents.
func (w *fixture) endNamespace() {
	w.t.Helper()
	ctx, namespace := w.t.Context(), team()
	w.must(w.stored.Get(ctx, client.ObjectKeyFromObject(namespace), namespace))
	namespace.Finalizers = []string{"kubernetes"}
	w.must(w.stored.Update(ctx, namespace))
	w.must(w.stored.Delete(ctx, namespace))
}

// changeLeader drops what is in memory of the bucket.
func (w *fixture) changeLeader() {
	w.probes = probes{}
	w.probes.of(w.read(), w.clock.Now())
}

// summarized returns the status after a probe with this verdict, by a Secret of this version.
func summarized(b *v1beta1.StorageBucket, known probe, version string, v s3.Verdict,
	now time.Time) v1beta1.StorageBucketStatus {
	return summarize(&observation{bucket: b, secretVersion: version}, known, &result{verdict: v}, now)
}

func readyOf(b *v1beta1.StorageBucket) metav1.Condition {
	return reporting.FindCondition(b.Status.Conditions, v1beta1.ConditionReady)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// serveLate answers each request after a second, and one never. It needs no network, as a synctest
// bubble can have none.
func (w *fixture) serveLate(silent string) {
	w.Rules.Guard = func(*http.Transport) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			late := map[bool]time.Duration{true: time.Hour, false: time.Second}[nameOf(r) == silent]
			select {
			case <-r.Context().Done():
				return nil, r.Context().Err()
			case <-time.After(late):
			}
			answer := httptest.NewRecorder()
			w.service.ServeHTTP(answer, r)
			return answer.Result(), nil
		})
	}
}
