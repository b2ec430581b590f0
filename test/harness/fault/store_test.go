// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

// store is an API server that has watches and a list of namespaces.
type store struct {
	*apiServer

	mu      sync.Mutex
	watches []chan watch.Event // in the order of opening
}

func startStore(t *testing.T) *store {
	t.Helper()
	s := &store{}
	s.apiServer = startAPIServer(t, func(w http.ResponseWriter, r *http.Request) {
		if isWatch(r.Method, r.URL.Query()) {
			s.watch(w, r)
			return
		}
		answers(w, mediaType(r), http.StatusOK, &corev1.NamespaceList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}})
	})
	t.Cleanup(func() { s.each(func(events chan watch.Event) { close(events) }) })
	return s
}

func mediaType(r *http.Request) string {
	if strings.Contains(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) {
		return runtime.ContentTypeProtobuf
	}
	return runtime.ContentTypeJSON
}

func (s *store) each(do func(chan watch.Event)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, events := range s.watches {
		do(events)
	}
	s.watches = nil
}

// watch writes the events that are passed to send, compressed where the client accepts that, as API
// servers do from Kubernetes 1.37 on.
func (s *store) watch(w http.ResponseWriter, r *http.Request) {
	contentType := mediaType(r)
	info, _ := runtime.SerializerInfoForMediaType(clientgoscheme.Codecs.SupportedMediaTypes(), contentType)
	w.Header().Set("Content-Type", contentType+";stream=watch")
	written, flush := io.Writer(w), http.NewResponseController(w).Flush
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		compressed := gzip.NewWriter(w)
		written, flush = compressed, func() error {
			return errors.Join(compressed.Flush(), http.NewResponseController(w).Flush())
		}
	}
	framer := info.StreamSerializer.NewFrameWriter(written)
	events := make(chan watch.Event)
	s.mu.Lock()
	s.watches = append(s.watches, events)
	s.mu.Unlock()
	w.WriteHeader(http.StatusOK)
	_ = flush() // the client detects errors
	for {
		var e watch.Event
		var more bool
		select {
		case e, more = <-events:
		case <-r.Context().Done():
		}
		if !more {
			return
		}
		object, err := runtime.Encode(clientgoscheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion),
			e.Object)
		if err != nil {
			return
		}
		event := &metav1.WatchEvent{Type: string(e.Type), Object: runtime.RawExtension{Raw: object}}
		encoder := info.StreamSerializer.Serializer
		if contentType == runtime.ContentTypeProtobuf {
			encoder = protobuf.NewRawSerializer(clientgoscheme.Scheme, clientgoscheme.Scheme)
		}
		if encoder.Encode(event, framer) != nil {
			return
		}
		_ = flush() // the client detects errors
	}
}

// send sends an event about a namespace on the first watch.
func (s *store) send(t *testing.T, kind watch.EventType, name string, annotations ...string) {
	t.Helper()
	g := NewWithT(t)
	var events chan watch.Event
	g.Eventually(func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.watches) == 0 {
			return false
		}
		events = s.watches[0]
		return true
	}, eventually).Should(BeTrue())
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7"}}
	for _, a := range annotations {
		n.Annotations = map[string]string{a: "true"}
	}
	g.Eventually(events, eventually).Should(BeSent(watch.Event{Type: kind, Object: n}))
}

// watching is a proxy in fake time with a client that watches namespaces through it.
type watching struct {
	*store
	t      *testing.T
	proxy  *Proxy
	clock  *clocktesting.FakeClock
	config *rest.Config
	media  string
}

func startWatching(t *testing.T, media string) *watching {
	t.Helper()
	w := &watching{store: startStore(t), t: t, media: media, clock: clocktesting.NewFakeClock(time.Unix(1_000, 0))}
	w.proxy, w.config = replicaOf(t, w.apiServer, w.clock)
	return w
}

// open opens a watch of namespaces.
func (w *watching) open(t *testing.T) watch.Interface {
	t.Helper()
	i, err := namespaces(t, w.config, w.media).CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(i.Stop)
	return i
}
