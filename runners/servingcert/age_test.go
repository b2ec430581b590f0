// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// minimum is how long the served certificate and its CA must be valid at any time. A cluster may be
// without a leader for that long and still admit writes.
const minimum = 30 * day

const day = 24 * time.Hour

// cluster responds to the lists and watches of one test without a network, so that days pass in
// moments.
type cluster struct{ client.WithWatch }

// RoundTrip implements http.RoundTripper.
func (c cluster) RoundTrip(req *http.Request) (*http.Response, error) {
	var list client.ObjectList
	switch {
	case strings.HasSuffix(req.URL.Path, "/secrets"):
		list = &corev1.SecretList{}
	case strings.HasSuffix(req.URL.Path, "/validatingwebhookconfigurations"):
		list = &admissionregistrationv1.ValidatingWebhookConfigurationList{}
	case strings.HasSuffix(req.URL.Path, "/mutatingwebhookconfigurations"):
		list = &admissionregistrationv1.MutatingWebhookConfigurationList{}
	default:
		return nil, fmt.Errorf("%s %s: not expected", req.Method, req.URL.Path)
	}
	query := req.URL.Query()
	if _, isSecrets := list.(*corev1.SecretList); isSecrets && query.Get("fieldSelector") != "metadata.name="+key.Name {
		// RBAC grants access to one Secret by its name.
		return answer(req, http.StatusForbidden, metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden,
		})
	}
	switch {
	case query.Get("sendInitialEvents") == "true":
		// As an API server without this feature: the client lists, and then watches.
		return answer(req, http.StatusUnprocessableEntity, metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity,
		})
	case query.Get("watch") == "true":
		return c.watch(req, list)
	}
	if err := c.List(req.Context(), list); err != nil {
		return nil, err
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	newest := 1
	for _, o := range objects {
		newest = max(newest, version(o.(client.Object).GetResourceVersion()))
	}
	list.SetResourceVersion(strconv.Itoa(newest))
	kinds, _, err := c.Scheme().ObjectKinds(list)
	if err != nil {
		return nil, err
	}
	list.GetObjectKind().SetGroupVersionKind(kinds[0])
	return answer(req, http.StatusOK, list)
}

// Update behaves like an API server: an update without a change stores nothing, and watches have no
// event.
func (c cluster) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	var stored, updated map[string]any
	current := o.DeepCopyObject().(client.Object)
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), current); err != nil {
		return err
	}
	for object, into := range map[client.Object]*map[string]any{current: &stored, o: &updated} {
		encoded, err := json.Marshal(object)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(encoded, into); err != nil {
			return err
		}
	}
	if equality.Semantic.DeepEqual(stored["data"], updated["data"]) &&
		equality.Semantic.DeepEqual(stored["webhooks"], updated["webhooks"]) {
		return nil
	}
	return c.WithWatch.Update(ctx, o, opts...)
}

func answer(req *http.Request, code int, body any) (*http.Response, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: code, Request: req, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(encoded)),
	}, nil
}

// version returns a resource version of the fake client, which is a counter.
func version(resourceVersion string) int {
	n, err := strconv.Atoi(resourceVersion)
	if err != nil {
		panic(err)
	}
	return n
}

// watch begins with the changes since the given version.
func (c cluster) watch(req *http.Request, list client.ObjectList) (*http.Response, error) {
	events, err := c.Watch(req.Context(), list)
	if err != nil {
		return nil, err
	}
	if err := c.List(req.Context(), list); err != nil {
		return nil, err
	}
	present, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	since := version(req.URL.Query().Get("resourceVersion"))
	read, write := io.Pipe()
	go func() {
		defer events.Stop()
		encode := func(e watch.EventType, o runtime.Object) bool {
			kinds, _, err := c.Scheme().ObjectKinds(o)
			if err != nil {
				return false
			}
			o.GetObjectKind().SetGroupVersionKind(kinds[0])
			return json.NewEncoder(write).Encode(map[string]any{"type": e, "object": o}) == nil
		}
		for _, o := range present {
			if version(o.(client.Object).GetResourceVersion()) > since && !encode(watch.Modified, o) {
				return
			}
		}
		for {
			select {
			case <-req.Context().Done():
				_ = write.CloseWithError(req.Context().Err())
				return
			case e := <-events.ResultChan():
				if !encode(e.Type, e.Object) {
					return
				}
			}
		}
	}()
	return &http.Response{
		StatusCode: http.StatusOK, Request: req, Header: http.Header{"Content-Type": {"application/json"}}, Body: read,
	}, nil
}

// runs distinguishes the rotators of one process.
var runs atomic.Int32

// newManager returns a manager of this cluster, and a source of its certificate.
func newManager(t *testing.T, c cluster) (ctrl.Manager, *Source) {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	for _, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		mapper.Add(admissionregistrationv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	mgr, err := ctrl.NewManager(&rest.Config{Host: "http://cluster.test", Transport: c, QPS: -1}, ctrl.Options{
		Scheme:         c.Scheme(),
		Metrics:        server.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
		NewClient:      func(*rest.Config, client.Options) (client.Client, error) { return c, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	source := newSource(t)
	if err := source.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	return mgr, source
}

// age runs rotator and source on the cluster in the current bubble of synctest.
func age(t *testing.T, c cluster) *Source {
	t.Helper()
	mgr, source := newManager(t, c)
	if err := AddRotator(mgr, source, RotatorOptions{
		Client:  mgr.GetClient(),
		Service: "webhooks", Validating: "validating", Mutating: "mutating",
		ControllerName: fmt.Sprintf("aged-%d", runs.Add(1)),
	}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Start() = %v", err)
		}
	})
	return source
}

func newCluster(t *testing.T, secret *corev1.Secret) cluster {
	t.Helper()
	secret.Namespace, secret.Name = key.Namespace, key.Name
	// The fake client makes a RESTMapper of all registered kinds for each write.
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), admissionregistrationv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	hook := admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Namespace: key.Namespace, Name: "webhooks"}}
	return cluster{fake.NewClientBuilder().WithScheme(scheme).WithObjects(secret,
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "validating"},
			Webhooks:   []admissionregistrationv1.ValidatingWebhook{{Name: "validate.test", ClientConfig: hook}},
		},
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "mutating"},
			Webhooks:   []admissionregistrationv1.MutatingWebhook{{Name: "mutate.test", ClientConfig: hook}},
		}).Build()}
}

// served makes a handshake like the API server, and returns the certificate and its CA.
func (c cluster) served(ctx context.Context, source *Source) (leaf, ca *x509.Certificate, err error) {
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	for name, configuration := range map[string]client.Object{"validating": &validating, "mutating": &mutating} {
		if err := c.Get(ctx, client.ObjectKey{Name: name}, configuration); err != nil {
			return nil, nil, err
		}
	}
	bundle := validating.Webhooks[0].ClientConfig.CABundle
	if !bytes.Equal(bundle, mutating.Webhooks[0].ClientConfig.CABundle) {
		return nil, nil, fmt.Errorf("the two configurations trust different CAs")
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go func() { _ = tls.Server(far, &tls.Config{GetCertificate: source.GetCertificate}).HandshakeContext(ctx) }()
	connection := tls.Client(near, &tls.Config{RootCAs: roots, ServerName: host})
	if err := connection.HandshakeContext(ctx); err != nil {
		return nil, nil, err
	}
	chain := connection.ConnectionState().VerifiedChains[0]
	return chain[0], chain[len(chain)-1], nil
}

// Each certificate is replaced long before its end, with the CA that signed it if that ends too. At
// no time do the webhook configurations distrust the served certificate. The bubble is some hours longer
// than the 12 hours after which the rotator looks again, and no longer: the work queues have tickers of
// half a second.
func TestCertificatesAreReplacedEarly(t *testing.T) {
	for name, tc := range map[string]struct {
		certificate, ca time.Duration // the remaining validity; 0 means none
		want            string        // the certificates and CAs of that time
	}{
		"there is none":                         {0, 0, "1 of 1"},
		"it is new":                             {365 * day, 3650 * day, "1 of 1"},
		"it is old when the leader starts":      {31 * day, 3650 * day, "1 of 1"},
		"it gets old while the leader runs":     {90*day + 6*time.Hour, 3650 * day, "2 of 1"},
		"its CA gets old while the leader runs": {90*day + 6*time.Hour, 90*day + 6*time.Hour, "2 of 2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, aged(t, tc.certificate, tc.ca))
				loggedErrors()
				source := age(t, c)
				leaves, cas := map[string]bool{}, map[string]bool{}
				for began := time.Now(); time.Since(began) < day/2+3*time.Hour; {
					<-time.After(time.Hour)
					synctest.Wait()
					leaf, ca, err := c.served(t.Context(), source)
					if err != nil {
						t.Fatalf("after %s: %v", time.Since(began), err)
					}
					for what, certificate := range map[string]*x509.Certificate{"certificate": leaf, "CA": ca} {
						if left := time.Until(certificate.NotAfter); left < minimum {
							t.Fatalf("after %s the %s in use expires in %s, want at least %s", time.Since(began), what, left, minimum)
						}
					}
					leaves[leaf.NotAfter.String()] = true
					cas[ca.NotAfter.String()] = true
				}
				if got := fmt.Sprintf("%d of %d", len(leaves), len(cas)); got != tc.want {
					t.Errorf("certificates and CAs: %s, want %s", got, tc.want)
				}
				if lines := loggedErrors(); len(lines) > 0 {
					t.Errorf("nothing failed, and these errors are logged:\n%s", strings.Join(lines, "\n"))
				}
			})
		})
	}
}

// An emptied Secret gets a new certificate and a new CA: the remedy for a pair that a leader with a wrong clock
// issued. Until then the replicas serve the former one.
func TestEmptiedSecretIsFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		later := time.Now().Add(7 * time.Hour)
		c := newCluster(t, issued(t, later, later.Add(365*day), later.Add(3650*day)))
		source := age(t, c)
		settle := func() {
			<-time.After(time.Minute)
			synctest.Wait()
		}
		settle()
		former, err := source.GetCertificate(nil)
		if err != nil || !former.Leaf.NotBefore.After(time.Now()) {
			t.Fatalf("before: %v, want the certificate of a later time", err)
		}
		var secret corev1.Secret
		if err := c.Get(t.Context(), key, &secret); err != nil {
			t.Fatal(err)
		}
		secret.Data = nil
		if err := c.Update(t.Context(), &secret); err != nil {
			t.Fatal(err)
		}
		settle()
		leaf, ca, err := c.served(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		if leaf.NotBefore.After(time.Now()) || ca.NotBefore.After(time.Now()) {
			t.Errorf("valid from %s, its CA from %s", leaf.NotBefore, ca.NotBefore)
		}
	})
}

// aged returns a Secret whose certificate and CA have this remaining validity.
func aged(t *testing.T, certificate, ca time.Duration) *corev1.Secret {
	t.Helper()
	if certificate == 0 {
		return &corev1.Secret{}
	}
	now := time.Now()
	return issued(t, now.Add(-time.Hour), now.Add(certificate), now.Add(ca))
}

// issued returns a Secret whose certificate and CA are valid between these times.
func issued(t *testing.T, begin, end, endOfCA time.Time) *corev1.Secret {
	t.Helper()
	issuer := newAuthority(t).issuer
	issuer.CAName = "leasehold-ca"
	signing, err := issuer.CreateCACert(begin, endOfCA)
	if err != nil {
		t.Fatal(err)
	}
	signed, privateKey, err := issuer.CreateCertPEM(signing, begin, end)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{Data: map[string][]byte{
		"ca.crt": signing.CertPEM, "ca.key": signing.KeyPEM, "tls.crt": signed, "tls.key": privateKey,
	}}
}
