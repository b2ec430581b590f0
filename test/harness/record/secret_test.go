// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
)

const password = "swordfish"

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

func aSecret(version string, data any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": data,
		"metadata": map[string]any{
			"namespace": "ns", "name": "s", "uid": "u", "resourceVersion": version,
			"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": `{"stringData":{"password":"` +
				password + `"}}`, "other": "stays"},
		},
	}}
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// seen returns the records of a Watcher about versions of a Secret.
func seen(t *testing.T, hash record.Hash, versions ...*unstructured.Unstructured) *history.History {
	t.Helper()
	g := NewWithT(t)
	w := newWorld()
	w.list <- listed("1")
	watcher, err := w.watch(t, hash, secrets)
	g.Expect(err).NotTo(HaveOccurred())
	for _, v := range versions {
		w.frames.Modify(v)
	}
	NewWithT(t).Eventually(func() int { return len(watcher.History().Versions) }, 30*time.Second).
		Should(Equal(len(versions)))
	return watcher.History()
}

// No value may reach a file: neither as it is, nor as the API server encodes it.
func TestWatch_HidesValuesOfSecrets(t *testing.T) {
	g := NewWithT(t)
	salt := record.NewSalt()
	h := seen(t, salt.Hash(strings.NewReplacer()),
		aSecret("2", map[string]any{"password": encoded(password), "other": encoded(password), "empty": ""}),
		aSecret("3", map[string]any{"password": encoded(password)}),
		aSecret("4", map[string]any{"password": encoded("tuna"), "garbled": password}),
		aSecret("5", password), // the API server does not answer so
	)
	var file strings.Builder
	g.Expect(h.Encode(&file)).To(Succeed())
	for _, value := range []string{password, encoded(password), "tuna", encoded("tuna")} {
		g.Expect(file.String()).NotTo(ContainSubstring(value))
	}
	data := func(i int) map[string]any { return h.Versions[i].Object.Object["data"].(map[string]any) }
	g.Expect(data(0)).To(HaveLen(3), "all keys stay")
	g.Expect(data(0)["password"]).To(MatchRegexp("^hash:[0-9a-f]{32}$"))
	g.Expect(data(1)["password"]).To(Equal(data(0)["password"]), "the same value")
	g.Expect(data(2)["password"]).NotTo(Equal(data(0)["password"]), "another value")
	g.Expect(data(0)["other"]).NotTo(Equal(data(0)["password"]), "the same value under another key")
	g.Expect(h.Versions[0].Object.Object["type"]).To(Equal("Opaque"))
	g.Expect(h.Versions[0].Object.GetAnnotations()).To(HaveKeyWithValue("other", "stays"))
}

func TestSalt(t *testing.T) {
	g := NewWithT(t)
	one, other := record.NewSalt(), record.NewSalt()
	first, second := strings.NewReplacer("db-1-abc", "{db}"), strings.NewReplacer("db-2-xyz", "{db}")
	g.Expect(one.Hash(first)("url", "host=db-1-abc")).To(Equal(one.Hash(second)("url", "host=db-2-xyz")),
		"names of the run")
	g.Expect(one.Hash(first)("k", "v")).NotTo(Equal(other.Hash(first)("k", "v")), "no table of hashes fits two sweeps")
	g.Expect(one.Hash(first)("ab", "c")).NotTo(Equal(one.Hash(first)("a", "bc")))
	text, err := json.Marshal(struct{ Salt any }{one.Hash(first)("k", "v")})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(text).NotTo(ContainSubstring(string(one[:])))
}

func TestWatch_RefusesSecretsWithoutAHash(t *testing.T) {
	_, err := newWorld().watch(t, nil, secrets)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("watching secrets: their values must not be recorded")))
}
