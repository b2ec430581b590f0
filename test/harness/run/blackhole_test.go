// SPDX-License-Identifier: Apache-2.0

package run

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestBlackHole_AcceptsAndNeverAnswers(t *testing.T) {
	g := NewWithT(t)
	holes := blackHoles{prover: &Prover{}}
	urls, err := holes.open(t.Context(), 1)
	g.Expect(err).NotTo(HaveOccurred())
	address := strings.TrimPrefix(urls[0], "http://")
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))).To(Succeed())
	_, err = conn.Read(make([]byte, 1))
	g.Expect(err).To(MatchError(ContainSubstring("timeout")))

	g.Expect(conn.SetReadDeadline(time.Now().Add(testTimeout))).To(Succeed())
	g.Expect(holes.close()).To(Succeed())
	_, err = conn.Read(make([]byte, 1))
	g.Expect(err).To(HaveOccurred())
	g.Expect(err).NotTo(MatchError(ContainSubstring("timeout")))
	_, err = new(net.Dialer).DialContext(t.Context(), "tcp", address)
	g.Expect(err).To(MatchError(ContainSubstring("refused")))
}

// Isolated replicas reach black holes as others do, those that start later too.
func TestBlackHoles_AreReachedByAllReplicas(t *testing.T) {
	s := newTestbed(t)
	holes := blackHoles{prover: s.Prover}
	urls, err := holes.open(t.Context(), 1)
	s.Expect(err).NotTo(HaveOccurred())
	s.add()
	s.Expect(holes.close()).To(Succeed())
	s.add()
	address := strings.TrimPrefix(urls[0], "http://")
	for _, w := range s.processes[:3] {
		s.Expect(w.recordedActions()).To(HaveExactElements("reaches "+address, "does not reach "+address))
	}
	s.Expect(s.processes[3].recordedActions()).To(BeEmpty(), "it started later")
}
