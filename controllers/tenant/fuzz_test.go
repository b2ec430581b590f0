// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"leasehold.dev/api/v1beta1"
)

// seeds are specs with known difficulties: empty, huge, Unicode, a reserved name made of
// prefix and suffix, overlapping names, and invalid JSON.
var seeds = []string{
	`{}`,
	`{"metadata":{"name":"a"},"spec":{"namespaces":["dev"],"admins":[{"kind":"User","name":"ann"}]}}`,
	`{"metadata":{"name":"kube"},"spec":{"namespacePrefix":"kube-","namespaces":["system"]}}`,
	`{"metadata":{"name":"a"},"spec":{"namespacePrefix":"` + strings.Repeat("x", 300) + `","namespaces":["` +
		strings.Repeat("y", 300) + `"]}}`,
	`{"metadata":{"name":"a"},"spec":{"namespaces":["","\u0000","ü","../x","a.b","A"]}}`,
	`{"metadata":{"name":"a","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["orphan"]},"spec":{"namespaces":["dev"]},"status":{"namespaces":[{"name":"a-dev","uid":"u"},{"name":"a-old"}]}}`,
	`{"metadata":{"name":"leasehold"},"spec":{"namespaces":["system"],"namespaceDeletionPolicy":"Nonsense"}}`,
}

// FuzzDecide checks that decide does not panic for any spec. It never acts on a reserved
// or invalid name, and creates nothing for a terminating Tenant.
func FuzzDecide(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		x := &v1beta1.Tenant{}
		if json.Unmarshal(data, x) != nil {
			t.Skip("not a Tenant")
		}
		if x.UID == "" {
			x.UID = "uid"
		}
		o := observed(x)
		for i, name := range usedNames(x) {
			ns := namespace(name)
			switch i % 3 {
			case 0: // foreign
			case 1:
				ownedBy(x)(ns)
			default:
				continue // does not exist
			}
			o.namespaces[name] = ns
		}
		p := decide(o)
		for _, s := range p.steps {
			acts := s.action == create || s.action == keep
			if acts && (reserved(s.name) || s.name == "leasehold-system" || len(validation.IsDNS1123Label(s.name)) > 0) {
				t.Fatalf("%s on %q", s.action, s.name)
			}
			if s.action == create && !x.DeletionTimestamp.IsZero() {
				t.Fatalf("create %q for a terminating Tenant", s.name)
			}
			isForeign := s.live != nil && s.live.Annotations == nil && recorded(x)[s.name].UID != s.live.UID
			if isForeign && (s.action == remove || s.action == release || s.action == keep) {
				t.Fatalf("%s on %q, which is foreign", s.action, s.name)
			}
		}
		res := ended()
		for _, s := range p.steps {
			res.states = append(res.states, state{name: s.name, reason: v1beta1.ReasonPending})
		}
		status := summarize(o, res, epoch)
		for _, c := range status.Conditions {
			if c.Reason == "" || len(c.Message) > 32768 ||
				(c.Type == v1beta1.ConditionReady && c.Status == metav1.ConditionUnknown) {
				t.Fatalf("condition %+v is invalid or has no message", c)
			}
		}
	})
}
