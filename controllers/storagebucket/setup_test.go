// SPDX-License-Identifier: Apache-2.0

package storagebucket

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/storagebucket/s3"
)

type manager struct {
	ctrl.Manager

	cached, live client.Client
}

func (m *manager) GetClient() client.Client                       { return m.cached }
func (m *manager) GetAPIReader() client.Reader                    { return m.live }
func (m *manager) GetConfig() *rest.Config                        { return &rest.Config{Host: "203.0.113.1:6443"} }
func (m *manager) GetEventRecorder(string) recorder.EventRecorder { return events.NewFakeRecorder(1) }

// Each flag takes effect. No flag permits the addresses of the API server and of the operator, but
// one that names them.
func TestOptionsTakeEffect(t *testing.T) {
	prefix := func(text string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(text)} }
	guarded := 0
	type named struct{ client.Client }
	mgr := &manager{cached: &named{fake.NewFakeClient()}, live: &named{fake.NewFakeClient()}}
	r, err := New(mgr, Options{
		AllowCIDRs: prefix("127.1.0.0/16"), DenyCIDRs: prefix("192.0.2.0/24"),
		Guard: func(transport *http.Transport) http.RoundTripper {
			guarded++
			return transport
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Client != mgr.cached || r.Live != client.Reader(mgr.live) || r.Clock != clock.PassiveClock(clock.RealClock{}) {
		t.Error("the cache and the API server are not separated, or the clock is another one")
	}
	rules := r.Rules
	if rules.Cluster, err = r.Cluster(t.Context()); err != nil {
		t.Fatal(err)
	}
	for address, allowed := range map[string]bool{
		"127.1.0.1": true, "127.2.0.1": false, "192.0.2.1": false, "203.0.113.1": false, "203.0.113.2": true,
		"10.0.0.1": true,
	} {
		if got := !rules.Forbids(netip.MustParseAddr(address)); got != allowed {
			t.Errorf("%s: allowed %t, want %t", address, got, allowed)
		}
	}
	own, err := net.InterfaceAddrs()
	if err != nil || len(own) == 0 {
		t.Fatalf("%v, %v", own, err)
	}
	for _, address := range own {
		ip := netip.MustParsePrefix(address.String()).Addr()
		if !slices.Contains(rules.Cluster, ip) {
			t.Errorf("the operator's own address %s is not among %v", ip, rules.Cluster)
		}
	}
	if s3.New(s3.Target{Endpoint: &url.URL{Scheme: "http", Host: "s3"}}, s3.Credentials{}, rules); guarded != 1 {
		t.Errorf("guarded %d clients, want one", guarded)
	}
}

// The bucket's name is where the spec puts it.
func TestAddressingStyleTakesEffect(t *testing.T) {
	for style, want := range map[v1beta1.AddressingStyle]string{
		v1beta1.AddressingPath:        "http://s3.example.com/team-data",
		v1beta1.AddressingVirtualHost: "http://team-data.s3.example.com/",
	} {
		w, got := newFixture(t, scenario{with: func(b *v1beta1.StorageBucket) {
			b.Spec.Endpoint, b.Spec.AddressingStyle = "http://s3.example.com", style
		}}), ""
		w.Rules.Guard = func(*http.Transport) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				got = r.URL.String()
				return nil, io.EOF
			})
		}
		if w.reconcile(); got != want {
			t.Errorf("%s: a request to %s, want %s", style, got, want)
		}
	}
}

// A reconcile applies the addresses of the operator and of the API server to its own requests.
func TestClusterIsNotDialled(t *testing.T) {
	const address = "203.0.113.1"
	w := newFixture(t, scenario{with: func(b *v1beta1.StorageBucket) {
		b.Spec.Endpoint, b.Spec.Probe.TimeoutSeconds = "http://"+address, 1
	}})
	w.Cluster = func(context.Context) ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr(address)}, nil }
	if ready := readyOf(w.reconcile()); ready.Reason != v1beta1.ReasonEndpointForbidden {
		t.Errorf("Ready %s %s: %s", ready.Status, ready.Reason, ready.Message)
	}
}

// A tick queues the buckets that are due. A terminating or paused one needs no tick, and one with an
// error waits for the queue.
func TestTicksEnqueueDueBuckets(t *testing.T) {
	due := func(w *fixture) { w.clock.SetTime(epoch.Add(time.Hour)) }
	for name, tc := range map[string]struct {
		changes []change
		want    []ctrl.Request
	}{
		"due":                 {[]change{due}, []ctrl.Request{bReq}},
		"not due":             {nil, nil},
		"due and terminating": {[]change{due, (*fixture).delete}, nil},
		"due and paused": {[]change{due, func(w *fixture) {
			w.edit(annotated(v1beta1.AnnotationPaused, "true"))
		}}, nil},
		"due after an error": {[]change{due, func(w *fixture) {
			w.probes.store(w.read(), probe{uid: w.read().UID, retrying: true})
		}}, nil},
		"unknown": {[]change{due, func(w *fixture) { w.probes.forget(bKey) }}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, scenario{with: removable, service: owned})
			w.reconcile()
			for _, change := range tc.changes {
				change(w)
			}
			if got := w.due(t.Context(), nil); !slices.Equal(got, tc.want) {
				t.Errorf("queued %v, want %v", got, tc.want)
			}
		})
	}
}

// The key of an unusable value is named, whichever it is: net/http would refuse each request. A
// final line break and a byte order mark are trimmed.
func TestCredentialsIn(t *testing.T) {
	longest := strings.Repeat("a", maxKey)
	keys := []string{v1beta1.SecretKeyAccessKeyID, v1beta1.SecretKeySecretAccessKey, v1beta1.SecretKeySessionToken}
	for _, bad := range append(keys, "") {
		for _, value := range []string{"a\nb", "a\x00b", "a\ufeffb", "a\u200bb", " ", strings.Repeat("a", maxKey+1)} {
			secret := &corev1.Secret{Data: map[string][]byte{bad: []byte(value)}}
			for _, key := range keys {
				if key != bad {
					secret.Data[key] = []byte("\ufeff" + longest + "\r\n")
				}
			}
			got, key := credentialsIn(secret)
			want := s3.Credentials{AccessKeyID: longest, SecretAccessKey: longest, SessionToken: longest}
			refused := bad
			if value == " " && bad == v1beta1.SecretKeySessionToken {
				want.SessionToken, refused = "", "" // it is optional
			}
			if key != refused || refused == "" && got != want {
				t.Errorf("%q with %.9q: refused %q", bad, value, key)
			}
		}
	}
}

// The cache drops what users may fill: 20 objects with a MiB of finalizers each in 7 namespaces took the
// operator beyond its memory limit. The finalizers of others stay, as they are read before a patch.
func TestCacheIsBoundedAndFinalizersOfOthersStay(t *testing.T) {
	r := newFixture(t, scenario{with: func(b *v1beta1.StorageBucket) {
		manage(b)
		b.Finalizers, b.Labels = []string{"example.com/a", "example.com/b"}, map[string]string{"a": "b"}
		b.Annotations = map[string]string{"note": "x", v1beta1.AnnotationPaused: "true", v1beta1.AnnotationRequestedAt: "y"}
		b.OwnerReferences = []metav1.OwnerReference{{UID: "other"}}
	}})
	live := func() *v1beta1.StorageBucket {
		t.Helper()
		b := &v1beta1.StorageBucket{}
		if err := r.stored.Get(t.Context(), bKey, b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	var cached any
	for _, by := range CacheByObject() { // it has one kind
		var err error
		if cached, err = by.Transform(live()); err != nil {
			t.Fatal(err)
		}
	}
	b := cached.(*v1beta1.StorageBucket)
	if cap(b.Finalizers)+len(b.Labels)+len(b.OwnerReferences) > 0 || len(b.Annotations) != 2 {
		t.Errorf("the cache keeps %+v", b.ObjectMeta)
	}
	if err := r.addFinalizer(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	const ours = v1beta1.StorageBucketFinalizer
	if got := live().Finalizers; !slices.Equal(got, []string{"example.com/a", "example.com/b", ours}) {
		t.Errorf("with the operator's finalizer they are %q", got)
	}
	if cached, _ := slim(live()); !controllerutil.ContainsFinalizer(cached.(client.Object), ours) {
		t.Error("the cache does not show the operator's finalizer")
	}
	if err := r.release(t.Context(), &observation{bucket: b}); err != nil {
		t.Fatal(err)
	}
	if got := live().Finalizers; !slices.Equal(got, []string{"example.com/a", "example.com/b"}) {
		t.Errorf("without the operator's finalizer they are %q", got)
	}
	b.ResourceVersion, b.Finalizers = "1", nil
	if err := r.addFinalizer(t.Context(), b); !apierrors.IsConflict(err) {
		t.Errorf("at an old version: %v, want a Conflict", err)
	}
}
