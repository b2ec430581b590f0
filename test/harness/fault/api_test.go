// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

const token = "the-replica's-own"

// apiServer is the part of an API server that a proxy needs: TLS and a handler.
type apiServer struct {
	*httptest.Server
	connections atomic.Int32
}

func startAPIServer(t *testing.T, h http.HandlerFunc) *apiServer {
	t.Helper()
	s := &apiServer{Server: httptest.NewUnstartedServer(h)}
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// config is that of a client with a token.
func (s *apiServer) config() *rest.Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return &rest.Config{
		Host: s.URL, BearerToken: token, QPS: -1, Timeout: eventually,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca},
	}
}

// replicaOf is a client as a replica is: a token of its own, through the proxy. Nil is the real
// clock.
func replicaOf(t *testing.T, s *apiServer, c clock.Clock) (*Proxy, *rest.Config) {
	t.Helper()
	config := s.config()
	o, err := APIOptions(config)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	o.Clock = c
	p := startProxy(t, o)
	p.Connect(config)
	return p, config
}

// answers writes an object in the encoding that the request accepts.
func answers(w http.ResponseWriter, contentType string, code int, o runtime.Object) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Audit-Id", "audit-1")
	w.WriteHeader(code)
	info, _ := runtime.SerializerInfoForMediaType(clientgoscheme.Codecs.SupportedMediaTypes(), contentType)
	encoder := clientgoscheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
	_ = encoder.Encode(o, w) // the client's result has the error
}

func namespaces(t *testing.T, config *rest.Config, contentType string) kubernetes.Interface {
	t.Helper()
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = contentType, contentType
	client, err := kubernetes.NewForConfig(config)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return client
}

func TestAPIProxyPassesBothEncodingsAndTheToken(t *testing.T) {
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		t.Run(contentType, func(t *testing.T) {
			g := NewWithT(t)
			type seen struct {
				Token, Type, Proto string
				Body               []byte
			}
			asked := make(chan seen, 1)
			s := startAPIServer(t, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return // the client got no answer and reports that
				}
				asked <- seen{r.Header.Get("Authorization"), r.Header.Get("Content-Type"), r.Proto, body}
				answers(w, contentType, http.StatusCreated, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u"}})
			})
			p, config := replicaOf(t, s, nil)
			made, err := namespaces(t, config, contentType).CoreV1().Namespaces().Create(t.Context(),
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(made.UID).To(Equal(types.UID("u")))
			got := <-asked
			g.Expect(got.Token).To(Equal("Bearer " + token))
			g.Expect(got.Type).To(Equal(contentType))
			g.Expect(got.Proto).To(Equal("HTTP/1.1"))
			_, kind, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(got.Body, nil, nil)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(kind.Kind).To(Equal("Namespace"))
			g.Eventually(func() []ProxiedRequest { return p.Journal().Mutating() }, eventually).Should(ConsistOf(
				HaveField("Done", Not(BeZero()))))
			r := p.Journal().Mutating()[0]
			g.Expect(r.Committed()).To(BeTrue())
			g.Expect(r.AuditID).To(Equal("audit-1"))
			g.Expect(fmt.Sprintf("%+v", p.Journal())).NotTo(ContainSubstring(token))
			for _, pair := range [][2]time.Time{{r.Received, r.Forwarded}, {r.Forwarded, r.Answered}, {r.Answered, r.Delivered},
				{r.Delivered, r.Done}} {
				g.Expect(pair[1]).To(BeTemporally(">=", pair[0]))
			}
		})
	}
}

func TestAPIProxyKeepsItsConnections(t *testing.T) {
	g := NewWithT(t)
	s := startAPIServer(t, func(w http.ResponseWriter, _ *http.Request) {
		answers(w, runtime.ContentTypeJSON, http.StatusOK, &corev1.Namespace{})
	})
	_, config := replicaOf(t, s, nil)
	client := namespaces(t, config, runtime.ContentTypeJSON)
	for range 5 {
		_, err := client.CoreV1().Namespaces().Get(t.Context(), "a", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(s.connections.Load()).To(BeEquivalentTo(1))
}

func TestRefusal_ClientDecodesIt(t *testing.T) {
	for code, is := range map[int]func(error) bool{
		http.StatusForbidden:           apierrors.IsForbidden,
		http.StatusNotFound:            apierrors.IsNotFound,
		http.StatusConflict:            apierrors.IsConflict,
		http.StatusTooManyRequests:     apierrors.IsTooManyRequests,
		http.StatusInternalServerError: apierrors.IsInternalError,
		http.StatusServiceUnavailable:  apierrors.IsServiceUnavailable,
		http.StatusGatewayTimeout:      apierrors.IsTimeout,
	} {
		for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
			t.Run(fmt.Sprintf("%d/%s", code, contentType), func(t *testing.T) {
				g := NewWithT(t)
				s := startAPIServer(t, func(http.ResponseWriter, *http.Request) { t.Error("the API server was asked") })
				p, config := replicaOf(t, s, nil)
				answer, err := Refusal(code)
				g.Expect(err).NotTo(HaveOccurred())
				refused := p.Inject(Rule{Fault: answer})
				request := namespaces(t, config, contentType).CoreV1().RESTClient().Delete().Resource("namespaces").Name("a").
					MaxRetries(0)
				err = request.Do(t.Context()).Error()
				g.Expect(is(err)).To(BeTrue(), "%v", err)
				g.Expect(refused.Count()).To(Equal(1))
				seconds, wait := apierrors.SuggestsClientDelay(err)
				g.Expect(wait).To(Equal(code == http.StatusTooManyRequests))
				if wait {
					g.Expect(seconds).To(Equal(retryAfter))
				}
			})
		}
	}
	_, err := Refusal(http.StatusTeapot)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("418")))
}

func TestNewAPIProxy_RejectsBadConfigs(t *testing.T) {
	g := NewWithT(t)
	_, err := NewAPIProxy(&rest.Config{Host: "127.0.0.1:1"}, nil)
	g.Expect(err).To(MatchError(ContainSubstring("upstream's URL")))
	_, err = NewAPIProxy(&rest.Config{Host: "https://127.0.0.1:1",
		TLSClientConfig: rest.TLSClientConfig{CAFile: "/does/not/exist"}}, nil)
	g.Expect(err).To(MatchError(ContainSubstring("how to reach the API server")))
}
