package manager_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
	"leasehold.dev/test/leasehold"
)

const (
	// answerTime bounds a legitimate request during an attack.
	answerTime = 5 * time.Second
	// memoryLimit is that of config/manager/manager.yaml.
	memoryLimit = 256 << 20
)

// attacker is the address of a Pod without credentials. No other client has it: the API server, the
// kubelet and scrapers have their own addresses, as does each Pod.
var attacker = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}

// target is a listening server.
type target struct {
	address string
	secure  bool
	path    string
	pid     int
}

// attack is the behaviour of one connection of an attacker. It ends with the connection.
type attack struct {
	name        string
	connections int
	plain       bool // without TLS
	body        bool // only the webhooks read bodies
	act         func(net.Conn, *target)
}

// header returns a request up to its last header, which may follow.
func header(method string, t *target, headers string) string {
	return method + " " + t.path + "?timeout=24h HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + headers
}

// hold keeps the connection until the server closes it.
func hold(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// trickle sends one byte a second until the server closes the connection.
func trickle(c net.Conn) {
	closed := make(chan struct{})
	go func() { defer close(closed); hold(c) }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-closed:
			return
		case <-tick.C:
			if _, err := c.Write([]byte("x")); err != nil {
				return
			}
		}
	}
}

// afterStart sends text and then calls then.
func afterStart(text func(*target) string, then func(net.Conn)) func(net.Conn, *target) {
	return func(c net.Conn, t *target) {
		if _, err := io.WriteString(c, text(t)); err == nil {
			then(c)
		}
	}
}

var (
	largeBody = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"` +
		strings.Repeat("x", 3<<20) + `"}}`
	// Each value takes 3 bytes of the body, and some 100 bytes of the object.
	manyValues = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"x","operation":"CREATE",` +
		`"object":{"kind":"MarkdownView","apiVersion":"leasehold.dev/v1beta1","metadata":{"managedFields":[{}` +
		strings.Repeat(",{}", 1<<20) + `]}}}}`
	attacks = []attack{
		{"many connections that send nothing", 3000, true, false, func(c net.Conn, _ *target) { hold(c) }},
		{"handshakes that stop", 400, true, false, afterStart(func(*target) string { return "\x16\x03\x01\x02\x00" }, hold)},
		{"slow headers", 400, false, false, afterStart(func(t *target) string { return header("GET", t, "X: ") }, trickle)},
		{"slow bodies", 400, false, true, afterStart(func(t *target) string {
			return header("POST", t, "Content-Length: 4194304\r\n\r\n{")
		}, trickle)},
		{"slow bodies in chunks", 400, false, true, afterStart(func(t *target) string {
			return header("POST", t, "Transfer-Encoding: chunked\r\n\r\n40000\r\n{")
		}, trickle)},
		{"bodies that stop after a while", 400, false, true, afterStart(func(t *target) string {
			return header("POST", t, "Content-Length: 4194304\r\n\r\n") + largeBody[:128<<10]
		}, hold)},
		{"idle connections", 400, false, false, afterStart(func(t *target) string {
			return header("GET", t, "\r\n")
		}, hold)},
		// Eight times the bound. Beyond that the attack itself would use up the machine.
		{"large headers", 300, false, false, afterStart(func(t *target) string {
			return header("GET", t, "X: "+largeBody[:256<<10])
		}, hold)},
		{"large requests", 50, false, true, afterStart(func(t *target) string {
			return header("POST", t, "Content-Length: "+strconv.Itoa(len(largeBody))+"\r\n\r\n") + largeBody
		}, hold)},
		{"requests of many values", 50, false, true, afterStart(func(t *target) string {
			return header("POST", t, "Content-Length: "+strconv.Itoa(len(manyValues))+"\r\n\r\n") + manyValues
		}, hold)},
		{"requests with a large number", 50, false, true, afterStart(func(t *target) string {
			number := `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"status":{"code":` +
				strings.Repeat("1", 1<<20) + `}}}`
			return header("POST", t, "Content-Length: "+strconv.Itoa(len(number))+"\r\n\r\n") + number
		}, hold)},
		{"requests that are no reviews", 50, false, true, afterStart(func(t *target) string {
			return strings.Repeat(header("POST", t, "Content-Length: 1\r\n\r\nx"), 1000)
		}, hold)},
		{"requests of a wrong type", 50, false, true, afterStart(func(t *target) string {
			return strings.Repeat(strings.Replace(header("POST", t, "Content-Length: 1\r\n\r\nx"), "application/json",
				largeBody[1<<10:25<<10], 1), 20)
		}, hold)},
	}
)

// run opens the connections of the attack, and reopens each that the server closes, until ctx is
// done. opened returns the number of opened connections.
func (a *attack) run(ctx context.Context, t *target) (opened func() int64, wait func()) {
	var count atomic.Int64
	var all sync.WaitGroup
	for range a.connections {
		all.Go(func() {
			for ctx.Err() == nil {
				c, err := (&net.Dialer{LocalAddr: attacker}).DialContext(ctx, "tcp", t.address)
				if err != nil {
					continue
				}
				stop := context.AfterFunc(ctx, func() { _ = c.Close() })
				count.Add(1)
				if t.secure && !a.plain {
					c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
				}
				a.act(c, t)
				stop()
				_ = c.Close()
				// A closed client reconnects after a pause.
				select {
				case <-ctx.Done():
				case <-time.After(2 * time.Second):
				}
			}
		})
	}
	return count.Load, all.Wait
}

// Serial: the attacks use the whole machine.
var _ = Describe("Under attack by a Pod without credentials", Serial, Ordered, ContinueOnFailure, func() {
	var (
		replicas []*env.Replica
		tokens   map[string]string // by path
		viewer   *target
		users    client.Client
	)

	BeforeAll(func(ctx SpecContext) {
		if shared.AuditLog == "" {
			Skip("not on an existing cluster: the installation would replace the one that is there")
		}
		// In two containers the installations have Pods of the same names.
		removePods := func(ctx SpecContext) {
			Expect(kube.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(operatorNamespace),
				client.GracePeriodSeconds(0))).To(Succeed())
		}
		removePods(ctx)
		DeferCleanup(removePods)
		subject := leasehold.Subject("../../../config", operator.Manager())
		subject.Env = []string{"GOMEMLIMIT=" + strconv.Itoa(memoryLimit*8/10)} // as the manager sets it in a container
		installation, err := controlPlane.Install(ctx, subject)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) { Expect(installation.Stop(ctx)).To(Succeed()) })
		users, err = client.New(config, client.Options{Scheme: leasehold.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		for range 2 {
			r, err := installation.Start(ctx)
			Expect(err).NotTo(HaveOccurred())
			Eventually(r.Ready).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
			replicas = append(replicas, r)
		}
		tokens = map[string]string{}
		for path, role := range map[string]string{"/metrics": "leasehold-metrics-reader",
			"/debug/leasehold": "leasehold-debug-reader"} {
			tokens[path] = tokenOfReader(ctx, role, path)
		}
		viewer = startViewer(ctx)
	}, NodeTimeout(buildTimeout))

	fetch := func(ctx context.Context, url, token string) {
		GinkgoHelper()
		ctx, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		Expect(statusWith(ctx, url, token)).To(Equal(http.StatusOK), url)
	}
	// admits waits until an object of each kind with webhooks is admitted, within the webhooks' timeouts.
	admits := func(ctx context.Context) {
		GinkgoHelper()
		for _, o := range admitted() {
			Expect(users.Create(ctx, o, client.DryRunAll)).To(Succeed(), "%T", o)
		}
	}
	servers := map[string]struct { //nolint:ginkgolinter // the table makes the specs, before any of them runs
		target func(*env.Replica) *target
		serves func(context.Context, *env.Replica)
	}{
		"the webhooks": {func(r *env.Replica) *target {
			return &target{local(r.Ports().Webhook), true, "/validate-leasehold-dev-v1beta1-markdownview", r.Pid()}
		}, func(ctx context.Context, _ *env.Replica) { admits(ctx) }},
		// One server and one guard serve both pages.
		"the metrics and the debug page": {func(r *env.Replica) *target {
			return &target{local(r.Ports().Metrics), true, "/metrics", r.Pid()}
		}, func(ctx context.Context, r *env.Replica) {
			for path, token := range tokens {
				fetch(ctx, "https://"+local(r.Ports().Metrics)+path, token)
			}
		}},
		"the probes": {func(r *env.Replica) *target {
			return &target{local(r.Ports().Probe), false, "/readyz", r.Pid()}
		}, func(ctx context.Context, r *env.Replica) {
			fetch(ctx, "http://"+local(r.Ports().Probe)+"/healthz", "")
			fetch(ctx, "http://"+local(r.Ports().Probe)+"/readyz", "")
		}},
		"a viewer": {func(*env.Replica) *target { return viewer }, func(ctx context.Context, _ *env.Replica) {
			fetch(ctx, "http://"+viewer.address+"/one.html", "")
			fetch(ctx, "http://"+viewer.address+"/healthz", "")
		}},
	}
	for name, server := range servers {
		for i := range attacks {
			a := &attacks[i]
			if a.body && name != "the webhooks" {
				continue
			}
			It(fmt.Sprintf("%s, and admission, still work: %s", name, a.name), func(ctx SpecContext) {
				logged := logBytes(replicas)
				for _, r := range replicas {
					// Resets VmHWM, see proc_pid_clear_refs(5).
					file := fmt.Sprintf("/proc/%d/clear_refs", server.target(r).pid)
					Expect(os.WriteFile(file, []byte("5"), 0)).To(Succeed())
				}
				attacking, stop := context.WithCancel(ctx)
				var waits []func()
				DeferCleanup(func() {
					stop()
					for _, wait := range waits {
						wait()
					}
				})
				attacked := replicas[:1]
				if name == "the webhooks" {
					attacked = replicas // the API server chooses among them
				}
				for _, r := range attacked {
					opened, wait := a.run(attacking, server.target(r))
					waits = append(waits, wait)
					Eventually(opened).WithContext(ctx).WithTimeout(expect.Medium).Should(BeNumerically(">=", a.connections))
				}
				for range 4 {
					for _, r := range attacked {
						server.serves(ctx, r)
					}
					admits(ctx)
					<-time.After(500 * time.Millisecond)
				}
				for _, r := range attacked {
					peak := residentMost(server.target(r).pid)
					AddReportEntry(fmt.Sprintf("%s, %s: most %d MiB", name, a.name, peak>>20))
					Expect(peak).To(BeNumerically("<", memoryLimit))
				}
				Expect(logBytes(replicas)-logged).To(BeNumerically("<", 64<<10), "bytes in the logs")
			}, SpecTimeout(expect.Long))
		}
	}

	// A replica reviews unknown tokens by requests to the API server, at a limited rate.
	It("the metrics still serve: made-up tokens", func(ctx SpecContext) {
		var fresh []string // a replica caches the result for a token
		for range 5 {
			fresh = append(fresh, tokenOfReader(ctx, "leasehold-metrics-reader", "/metrics"))
		}
		attacking, stop := context.WithCancel(ctx)
		forged := &atomic.Int64{}
		_, wait := (&attack{connections: 400, act: func(c net.Conn, t *target) {
			for {
				token := fmt.Sprintf("Authorization: Bearer forged.%d\r\n\r\n", forged.Add(1))
				if _, err := io.WriteString(c, header("GET", t, token)); err != nil {
					return
				}
				if _, err := c.Read(make([]byte, 4<<10)); err != nil {
					return
				}
			}
		}}).run(attacking, &target{address: local(replicas[0].Ports().Metrics), secure: true, path: "/metrics"})
		DeferCleanup(func() { stop(); wait() })
		for _, token := range fresh {
			// More than the client's burst.
			before := forged.Load()
			Eventually(forged.Load).WithContext(ctx).WithTimeout(expect.Medium).Should(BeNumerically(">", before+100))
			fetch(ctx, "https://"+local(replicas[0].Ports().Metrics)+"/metrics", token)
		}
		admits(ctx)
	}, SpecTimeout(expect.Long))
})

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// admitted returns an object of each kind with webhooks.
func admitted() []client.Object {
	tenant := &v1beta1.Tenant{Spec: v1beta1.TenantSpec{Namespaces: []v1beta1.NamespaceSuffix{"dev"}}}
	tenant.Name = operator.Unique("attack")
	tenant.Spec.Admins = []v1beta1.Subject{{Kind: "User", Name: "jane"}}
	view := &v1beta1.MarkdownView{}
	view.Namespace, view.Name = "default", operator.Unique("attack")
	view.Spec.Markdowns = map[string]v1beta1.MarkdownText{"SUMMARY.md": "[One](one.md)", "one.md": "One"}
	return []client.Object{tenant, view}
}

// startViewer runs the page server with a small book.
func startViewer(ctx context.Context) *target {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	for name, text := range map[string]string{"SUMMARY.md": "[One](one.md)", "one.md": strings.Repeat("word ", 20<<10)} {
		Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(Succeed())
	}
	session, err := gexec.Start(exec.Command(operator.Viewer(), "--dir="+dir, "--bind-address=127.0.0.1:0"), GinkgoWriter,
		GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Eventually(session.Kill()).Should(gexec.Exit()) })
	Eventually(ctx, session).Should(gbytes.Say(`msg=Serving address=127\.0\.0\.1:\d+ `))
	_, rest, _ := bytes.Cut(session.Out.Contents(), []byte("msg=Serving address="))
	address, _, _ := strings.Cut(string(rest), " ")
	return &target{address: address, path: "/one.html", pid: session.Command.Process.Pid}
}

// logBytes returns the size of the logs of all replicas.
func logBytes(replicas []*env.Replica) int64 {
	GinkgoHelper()
	var all int64
	for _, r := range replicas {
		file, err := os.Stat(r.LogPath())
		Expect(err).NotTo(HaveOccurred())
		all += file.Size()
	}
	return all
}

// residentMost returns the peak resident memory of the process since the spec began, in bytes.
func residentMost(pid int) int64 {
	GinkgoHelper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	Expect(err).NotTo(HaveOccurred())
	_, after, found := strings.Cut(string(data), "VmHWM:")
	Expect(found).To(BeTrue())
	var kilobytes int64
	_, err = fmt.Sscan(after, &kilobytes)
	Expect(err).NotTo(HaveOccurred())
	return kilobytes << 10
}
