package run

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestWaitForIdle_IgnoresOtherWriters(t *testing.T) {
	for name, tc := range map[string]struct {
		user, resource string
		waits          bool
	}{
		"TheOperator":  {operator, "things", true},
		"ItsLease":     {operator, "leases", false},
		"SomebodyElse": {"alice", "things", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			run := newExecution(t, interceptor.Funcs{})
			now := time.Now()
			event := auditv1.Event{
				Stage: auditv1.StageResponseComplete, Verb: "patch", StageTimestamp: metav1.NewMicroTime(now), RequestReceivedTimestamp: metav1.NewMicroTime(now),
				ObjectRef: &auditv1.ObjectReference{Resource: tc.resource, Namespace: "ns", Name: "lease"},
			}
			if tc.resource == "leases" {
				event.ObjectRef.APIGroup = coordinationv1.GroupName
			}
			event.User.Username = tc.user
			line, err := json.Marshal(event)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(os.WriteFile(run.prover.auditLog, append(line, '\n'), 0o600)).To(Succeed())
			g.Expect(run.waitForIdle(t.Context(), now.Add(-quietPeriod), now.Add(testTimeout))).To(Succeed())
			if tc.waits {
				g.Expect(time.Since(now)).To(BeNumerically(">=", quietPeriod))
			} else {
				g.Expect(time.Since(now)).To(BeNumerically("<", quietPeriod))
			}
		})
	}
}

func TestWaitForIdle_EndsAtTheDeadline(t *testing.T) {
	g := NewWithT(t)
	run := newExecution(t, interceptor.Funcs{})
	run.prover.auditLog = filepath.Join(t.TempDir(), "none")
	g.Expect(run.waitForIdle(t.Context(), time.Now(), time.Now())).To(MatchError(ContainSubstring("waiting for the operator to rest")))
	g.Expect(os.WriteFile(run.prover.auditLog, nil, 0o600)).To(Succeed())
	g.Expect(run.waitForIdle(t.Context(), time.Now(), time.Now().Add(-time.Hour))).To(Succeed())
}
