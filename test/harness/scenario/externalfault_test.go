// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/scenario"
)

func TestExternalStepsAndValues(t *testing.T) {
	g := NewWithT(t)
	s, err := scenario.Parse([]byte(`
name: a
steps:
- external: {put: "{thing}"}
- apply: {kind: X, endpoint: "{store.endpoint}", key: "{store.accessKey}", name: "{thing}"}
- {name: end, quiesce: {for: 1s}}
`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Names()).To(Equal([]string{"thing"}))
	g.Expect(s.Values()).To(Equal([]string{"store.accessKey", "store.endpoint"}))
	filled, err := s.Fill(map[string]string{"thing": "thing-1", "store.endpoint": "http://127.0.0.1:1"})
	g.Expect(err).NotTo(HaveOccurred())
	change, thing := filled.Steps[0].Change()
	g.Expect([]string{change, thing}).To(Equal([]string{"put", "thing-1"}))
	g.Expect(filled.Steps[1].Apply).To(Equal(map[string]any{"kind": "X", "endpoint": "http://127.0.0.1:1",
		"key": "{store.accessKey}", "name": "thing-1"}))
}
