// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pageClient is a client in the cluster that fetches a page through a Service in a loop, with a new
// connection for each request.
type pageClient struct {
	node, file string
	ended      chan replies
}

// replies counts the lines of a client and has the last one.
type replies struct {
	counts map[string]int
	last   string
	err    error
}

// startPageClient sends requests from a node, and so through its kube-proxy. For a successful
// response the line is the first of the texts that it contains; any other response has its own
// line. It ends by itself after a while.
func startPageClient(ctx context.Context, node, url string, texts ...string) *pageClient {
	const script = `page=$1 file=$2; shift 2
while [ ! -e "$file" ]; do
  answer=$(curl --silent --show-error --max-time 5 --write-out ' %{http_code}' "$page" 2>&1)
  line="failed: $answer"
  case $answer in *' 200') for text; do case $answer in *"$text"*) line=$text; break;; esac; done;; esac
  printf '%s\n' "$line" | tr '\n' ' '; echo
done
rm "$file"`
	a := &pageClient{node: node, file: "/tmp/" + unique("enough"), ended: make(chan replies, 1)}
	argv := append([]string{"timeout", "180", "sh", "-c", script, "sh", url, a.file}, texts...)
	go func() {
		out, err := shared.cluster.Exec(ctx, node, argv...)
		got := replies{counts: map[string]int{}, err: err}
		for line := range strings.Lines(out) {
			got.last = strings.TrimSpace(line)
			got.counts[got.last]++
		}
		a.ended <- got
	}()
	return a
}

// stop ends the client and returns its replies.
func (a *pageClient) stop(ctx context.Context) replies {
	if _, err := shared.cluster.Exec(ctx, a.node, "touch", a.file); err != nil {
		return replies{err: err}
	}
	select {
	case got := <-a.ended:
		return got
	case <-ctx.Done():
		return replies{err: ctx.Err()}
	}
}

// fetchByName fetches a URL from a node, with names resolved as in a Pod.
func (s *suite) fetchByName(ctx context.Context, node, url string) (string, error) {
	dns, err := s.cluster.Clients().CoreV1().Services("kube-system").Get(ctx, "kube-dns", metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the Service of the cluster's DNS: %w", err)
	}
	const script = `printf 'nameserver %s\nsearch default.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n' "$1" >/tmp/resolv.pod
mount --bind /tmp/resolv.pod /etc/resolv.conf && exec curl --silent --show-error --fail --max-time 5 "$2"`
	return s.cluster.Exec(ctx, node, "unshare", "--mount", "sh", "-c", script, "sh", dns.Spec.ClusterIP, url)
}

// workers returns the nodes for Pods.
func (s *suite) workers(ctx context.Context, g *WithT) []string {
	var nodes corev1.NodeList
	g.Expect(s.client.List(ctx, &nodes)).To(Succeed())
	var names []string
	for _, node := range nodes.Items {
		if len(node.Spec.Taints) == 0 {
			names = append(names, node.Name)
		}
	}
	g.Expect(names).NotTo(BeEmpty())
	return names
}

// reachable tests on each node whether port 80 of a Service answers, because each kube-proxy
// updates its node separately.
func (s *suite) reachable(service *corev1.Service) func(context.Context) error {
	return func(ctx context.Context) error {
		var nodes corev1.NodeList
		if err := s.client.List(ctx, &nodes); err != nil {
			return fmt.Errorf("listing nodes: %w", err)
		}
		for _, node := range nodes.Items {
			if _, err := s.cluster.Exec(ctx, node.Name, "curl", "--silent", "--output", "/dev/null", "--max-time", "2",
				"http://"+service.Spec.ClusterIP); err != nil {
				return err
			}
		}
		return nil
	}
}
