// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

func TestNewErrors(t *testing.T) {
	g, l := NewWithT(t), &learner{}
	const cause = `no matches for kind \"Certificate\" in version \"cert-manager.io/v1\"`
	const missing = `{"level":"error","ts":1,"error":"` + cause + `"}`
	logs := map[string][]byte{
		"a": []byte("starts\n" + missing + "\n" + missing + "\n"),
		"b": []byte(strings.ReplaceAll(missing, ":1,", ":2,")),
	}
	g.Expect(l.newErrors(logs)).To(Equal("the run continues; new errors in the operator's log: 1; the last ones:\n    " +
		missing + "\n    the API server does not serve Certificate of cert-manager.io/v1: set --crds to the file or " +
		"directory of its CustomResourceDefinition\n"))
	const none = "the run continues, and the operator's log contains no new errors\n"
	g.Expect(l.newErrors(logs)).To(Equal(none), "only the times differ")
	logs["a"] = append(logs["a"], "E0102 03:04:05.6 1 a.go:1] no host\nE0102 03:04:05.6 1 a.go:1] no port\n"+
		"E0102 03:04:05.6 1 a.go:1] no zone\nE0102 03:04:05.6 1 a.go:1] no name\n"...)
	g.Expect(l.newErrors(logs)).To(And(HavePrefix("the run continues; new errors in the operator's log: 4; "),
		Not(ContainSubstring("no host")), ContainSubstring("no port"), Not(ContainSubstring("--crds"))))
}

func TestAccompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var output strings.Builder
		l := &learner{output: &output}
		stop := l.accompany(t.Context(), func() (map[string][]byte, error) { return nil, nil })
		<-time.After(3*accompanyPeriod - time.Second)
		stop()
		g.Expect(strings.Count(output.String(), "no new error")).To(Equal(2))
		output.Reset()
		stop = l.accompany(t.Context(), func() (map[string][]byte, error) { return nil, errors.New("gone") })
		<-time.After(3 * accompanyPeriod)
		stop()
		g.Expect(output.String()).To(Equal("the logs of the operator cannot be read: gone\n"))
	})
}
