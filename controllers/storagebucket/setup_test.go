package storagebucket

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/storagebucket/s3"
)

// manager implements the part of a Manager that New uses.
type manager struct {
	ctrl.Manager

	cached, live client.Client
	recorders    []string
}

func (m *manager) GetClient() client.Client    { return m.cached }
func (m *manager) GetAPIReader() client.Reader { return m.live }
func (m *manager) GetConfig() *rest.Config     { return &rest.Config{Host: "https://203.0.113.1:6443"} }
func (m *manager) GetEventRecorder(name string) recorder.EventRecorder {
	m.recorders = append(m.recorders, name)
	return events.NewFakeRecorder(1)
}

// Each flag takes effect: those for endpoints in the rules, which also contain the API server, and
// the number of workers in the limiter.
func TestOptionsTakeEffect(t *testing.T) {
	prefix := func(text string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(text)} }
	guarded := 0
	mgr := &manager{cached: &struct{ client.Client }{fake.NewFakeClient()},
		live: &struct{ client.Client }{fake.NewFakeClient(&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"203.0.113.3"}}},
		})}}
	now := testingclock.NewFakePassiveClock(epoch)
	r, err := New(mgr, Options{
		MaxConcurrentReconciles: 5, AllowCIDRs: prefix("127.1.0.0/16"), DenyCIDRs: prefix("192.0.2.0/24"),
		ServiceCIDRs: prefix("198.51.100.0/24"),
		RemovalGrace: 7 * time.Minute, Clock: now,
		Guard: func(transport *http.Transport) http.RoundTripper {
			guarded++
			return transport
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Client != mgr.cached || r.Live != client.Reader(mgr.live) {
		t.Error("the cache and the API server are not separated")
	}
	if r.limiter.total != 5-reserve || r.RemovalGrace != 7*time.Minute || r.Clock != clock.PassiveClock(now) {
		t.Errorf("%d slots, a grace of %s, the clock %v", r.limiter.total, r.RemovalGrace, r.Clock)
	}
	if diff := cmp.Diff([]string{"leasehold-storagebucket"}, mgr.recorders); diff != "" {
		t.Errorf("recorders (-want +got):\n%s", diff)
	}
	rules, err := r.Rules(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for address, allowed := range map[string]bool{
		"127.1.0.1": true, "127.2.0.1": false, "192.0.2.1": false, "198.51.100.1": false, "203.0.113.1": false,
		"203.0.113.2": true, "203.0.113.3": false, "10.0.0.1": true,
	} {
		if got := rules.Check(netip.MustParseAddr(address)) == nil; got != allowed {
			t.Errorf("%s: allowed %t, want %t", address, got, allowed)
		}
	}
	if _, err := s3.New(s3.Target{Endpoint: "http://s3"}, s3.Credentials{}, rules); err != nil || guarded != 1 {
		t.Errorf("%v, guarded %d clients, want one", err, guarded)
	}
	if r, err = New(mgr, Options{}); err != nil || r.Clock != clock.PassiveClock(clock.RealClock{}) {
		t.Errorf("%v, the clock %v, want the real one", err, r.Clock)
	}
}

// A tick queues the buckets that are due. One that is parked, has a slot, or is terminating needs no
// tick.
func TestTicksEnqueueOnlyIdleBuckets(t *testing.T) {
	for name, tc := range map[string]struct {
		parked, granted, deleted, due bool
		want                          []ctrl.Request
	}{
		"due":                        {due: true, want: []ctrl.Request{bReq}},
		"not due":                    {},
		"due and parked":             {due: true, parked: true},
		"due, and has a slot":        {due: true, granted: true},
		"parked, and not due":        {parked: true},
		"has a slot, and is not due": {granted: true},
		"due and terminating":        {due: true, deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, scenario{with: removable, service: owned})
			b := w.reconcile()
			if tc.due {
				w.clock.SetTime(epoch.Add(time.Hour))
			}
			if tc.deleted {
				w.delete()
			}
			if tc.parked {
				w.occupy()
			}
			if (tc.parked || tc.granted) && w.limiter.Acquire(bReq, b.Spec.Endpoint) != tc.granted {
				t.Fatalf("want a slot: %t", tc.granted)
			}
			if got := w.due(t.Context(), nil); !slices.Equal(got, tc.want) {
				t.Errorf("queued %v, want %v", got, tc.want)
			}
		})
	}
}

// A StorageBucket that names a certificate trusts it and no public authority.
func TestCABundleReplacesSystemRoots(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	r := &Reconciler{Live: fake.NewFakeClient(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "ca"}, Data: map[string]string{"ca.crt": string(bundle)}})}
	got, problem, _, err := r.roots(t.Context(), bucket("b", withCA))
	want := x509.NewCertPool()
	want.AddCert(server.Certificate())
	if err != nil || problem != "" || !got.Equal(want) {
		t.Errorf("problem %q, %v, want the bundle alone", problem, err)
	}
}

// The key of an unusable value is named, whichever it is: net/http would refuse each request. A
// final line break is trimmed.
func TestCredentialsHaveNoControlCharacters(t *testing.T) {
	keys := []string{v1beta1.SecretKeyAccessKeyID, v1beta1.SecretKeySecretAccessKey, v1beta1.SecretKeySessionToken}
	for _, bad := range append(keys, "") {
		for _, control := range []string{"\n", "\r", "\x00", "\t"} {
			secret := &corev1.Secret{Data: map[string][]byte{}}
			for _, key := range keys {
				secret.Data[key] = []byte("value\n")
			}
			if bad != "" {
				secret.Data[bad] = []byte("a" + control + "b")
			}
			if got, key := credentialsIn(secret); key != bad || (bad == "") != (got.SessionToken == "value") {
				t.Errorf("%q with %q: refused %q", bad, control, key)
			}
		}
	}
}
