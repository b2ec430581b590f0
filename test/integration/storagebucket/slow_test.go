package storagebucket_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/integration/internal/operator"
)

// The requests of a visit at which an endpoint can be slow.
const (
	slowHead    = "HEAD"
	slowTags    = "GET tagging"
	slowBody    = "the body of GET tagging"
	slowCreate  = "PUT"
	slowReplace = "PUT tagging"
	slowRemove  = "DELETE"
)

var taggedValue = regexp.MustCompile(`<Value>([^<]*)</Value>`)

// slowFleet is what the endpoints of the spec share.
type slowFleet struct {
	late   atomic.Int64 // requests that were answered late
	visits atomic.Int64 // HEAD requests
	// turned is true once endpoints are slow that answered all requests of their first visits.
	turned atomic.Bool
}

// slowService has one bucket. It answers one kind of request late, and all others at once.
type slowService struct {
	*slowFleet

	slow string

	mu     sync.Mutex
	exists bool
	owner  string
}

func (s *slowService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := strings.TrimSuffix(r.URL.RawQuery, "=")
	request := strings.TrimSpace(r.Method + " " + query)
	body, _ := io.ReadAll(r.Body)
	if r.Method == http.MethodHead {
		s.visits.Add(1)
	}
	if request == s.slow && (s.turned.Load() || request == slowCreate || request == slowReplace || request == slowRemove) {
		s.wait(r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if match := taggedValue.FindSubmatch(body); match != nil {
		s.owner = string(match[1])
	}
	switch {
	case r.Method == http.MethodPut:
		s.exists = true
	case r.Method == http.MethodDelete:
		s.exists = false
		w.WriteHeader(http.StatusNoContent)
	case !s.exists:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchBucket</Code></Error>")
	case query == "tagging":
		answer := fmt.Sprintf("<Tagging><TagSet><Tag><Key>%s</Key><Value>%s</Value></Tag></TagSet></Tagging>",
			v1beta1.BucketTagOwner, s.owner)
		if s.slow == slowBody && s.turned.Load() {
			_, _ = io.WriteString(w, answer[:9])
			_ = http.NewResponseController(w).Flush()
			s.wait(r)
			answer = answer[9:]
		}
		_, _ = io.WriteString(w, answer)
	case r.Method == http.MethodGet:
		_, _ = io.WriteString(w, "<ListBucketResult/>")
	}
}

// wait returns shortly before the timeout.
func (s *slowService) wait(r *http.Request) {
	s.late.Add(1)
	select {
	case <-r.Context().Done():
	case <-time.After(28 * time.Second):
	}
}

// endpoint serves a bucket of the former owner, or none if its creation or removal is slow.
func (f *slowFleet) endpoint(ctx context.Context, slow string) string {
	GinkgoHelper()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	service := &slowService{slowFleet: f, slow: slow, exists: slow != slowCreate && slow != slowRemove, owner: "former"}
	server := &http.Server{Handler: service, ReadHeaderTimeout: time.Minute}
	DeferCleanup(server.Close)
	go func() { _ = server.Serve(l) }()
	return "http://" + l.Addr().String()
}

// create makes managed buckets in a namespace, each with an endpoint of its own.
func (f *slowFleet) create(ctx context.Context, n int, requests []string) {
	GinkgoHelper()
	namespace := place(ctx)
	var removed []*v1beta1.StorageBucket
	for i := range n {
		slow := requests[i%len(requests)]
		b := given(ctx, build(namespace, f.endpoint(ctx, slow), "slow", probing(30, 30, 3), managed(v1beta1.BucketDelete)))
		switch slow {
		case slowReplace:
			annotate(ctx, namespace, v1beta1.AnnotationBucketHandoverPrefix+"former", b.Name)
		case slowRemove:
			removed = append(removed, b)
		}
	}
	for _, b := range removed {
		Eventually(ctx, operator.Fetched(k8s, b)).WithTimeout(2 * expect.Long).Should(
			HaveField("Status.Provisioning", v1beta1.BucketCreated))
		Expect(k8s.Delete(ctx, b)).To(Succeed())
	}
}

var _ = Describe("Endpoints of two namespaces that answer late", Serial, func() {
	DescribeTable("delay the probes of a third by at most a period, and a new bucket by at most 10 s",
		func(ctx SpecContext, requests ...string) {
			const period, buckets, window = 10 * time.Second, 20, 45 * time.Second
			proxy, honest := through(fault.Options{}), place(ctx)
			var fleet slowFleet
			for range 2 {
				fleet.create(ctx, buckets, requests)
			}
			By("letting all of them answer soon, so that a judgement by the past would trust them")
			Eventually(fleet.visits.Load).WithTimeout(expect.Long).Should(BeNumerically(">=", 2*buckets))
			fleet.turned.Store(true)
			Eventually(fleet.late.Load).WithTimeout(expect.Long).Should(BeNumerically(">=", 4))
			began := time.Now()
			var names []string
			for range buckets {
				names = append(names, bucketOnServer(ctx))
				given(ctx, build(honest, proxy.URL(), names[len(names)-1], probing(10, 5, 3)))
			}
			fresh := given(ctx, build(honest, proxy.URL(), operator.Unique("managed"), managed(v1beta1.BucketRetain)))
			Eventually(ctx, operator.Fetched(k8s, fresh)).WithTimeout(expect.Long).Should(
				HaveField("Status.Provisioning", v1beta1.BucketCreated))
			created := time.Since(began)

			Eventually(func() time.Duration { return time.Since(began) }).WithTimeout(2 * window).Should(
				BeNumerically(">=", window))
			total, worst := 0, time.Duration(0)
			for _, name := range names {
				times := []time.Duration{0}
				for _, p := range probes(proxy, name) {
					times = append(times, p.Received.Sub(began))
				}
				total += len(times) - 1
				times = append(times, window)
				for i := range times[1:] {
					worst = max(worst, times[i+1]-times[i])
				}
			}
			AddReportEntry("figures", fmt.Sprintf(
				"slow at %s: %d probes in %s, at most %s apart; a new bucket after %s; %d late requests",
				strings.Join(slices.Compact(slices.Clone(requests)), ", "), total, window, worst.Round(time.Millisecond),
				created.Round(time.Millisecond), fleet.late.Load()))
			Expect(worst).To(BeNumerically("<=", 2*period), "between two probes")
			Expect(created).To(BeNumerically("<=", 10*time.Second), "until the new bucket was created")
			By("seeing that the slow endpoints got requests meanwhile")
			Expect(fleet.late.Load()).To(BeNumerically(">=", 6))
		},
		Entry("at the tags, after a prompt HEAD", SpecTimeout(5*time.Minute), slowTags),
		Entry("at another request each: HEAD, tags, their body, creation, handover, removal", SpecTimeout(7*time.Minute),
			slowHead, slowTags, slowBody, slowCreate, slowReplace, slowRemove),
	)
})
