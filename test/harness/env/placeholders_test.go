// SPDX-License-Identifier: Apache-2.0

package env

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestFillPlaceholders(t *testing.T) {
	g := NewWithT(t)
	const text = `
kind: Deployment
metadata: {name: manager}
spec:
  template:
    spec:
      containers:
      - command: [/manager]
        args: ["--metrics=${ADDRESS:=:8443}", "--gates=A=${A:-true},B=${B=false}", "--name=$(POD_NAME)", "${UNSET}", '--open=${OPEN:-x', '--q=${Q:="\q"}']
        env: [{name: REGION, value: "${REGION:=}"}, {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
`
	want := strings.NewReplacer("${ADDRESS:=:8443}", ":8443", "${A:-true}", "true", "${B=false}", "false", "${REGION:=}", "",
		`${Q:="\q"}`, `"\q"`).Replace(text)
	deployment, wanted := objects(t, text)[0], objects(t, want)[0]
	script := objects(t, `{kind: ConfigMap, metadata: {name: script}, data: {run: "${LEVEL:=1}"}}`)[0]
	untouched := script.DeepCopy()
	notes, err := fillPlaceholders([]*unstructured.Unstructured{deployment, script})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(deployment).To(BeComparableTo(wanted))
	g.Expect(script).To(BeComparableTo(untouched), "it is not changed")
	wantNotes := []string{"the variables A, ADDRESS, B, Q, REGION of Deployment manager have their defaults; args and env of the subject can change that"}
	g.Expect(notes).To(Equal(wantNotes))
}
