package scale

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/record"
	"leasehold.dev/test/leasehold"
	"leasehold.dev/test/performance/environment"
)

const (
	// workers is the operator's --max-concurrent-reconciles as it ships, and how many Tenants this
	// package makes at once.
	workers = 4
	// patience is how long anything may take that does not grow with the fleet, slowest what each
	// Tenant may add, and longest how long the audit log may grow.
	patience, slowest, longest = 2 * time.Minute, 250 * time.Millisecond, 30 * time.Minute
	// glance is the pause between two looks at something that costs nothing to see.
	glance = 50 * time.Millisecond
	// calm is for how long nothing may be recorded for all to be at rest; the renewals
	// of the Lease are not recorded.
	calm = time.Second
	// tries is for how many times calm nothing may be recorded before events are counted.
	tries = 5
)

// unlimited takes the limits of the operator's client out of the way.
var unlimited = []string{"--kube-api-qps=100000", "--kube-api-burst=100000"}

// swift makes a change of leader take little of the time of a measurement. None of it
// is within what is measured.
var swift = []string{
	"--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=500ms",
	"--shutdown-delay-duration=0s",
}

// controllers are all that kube-controller-manager runs. It would answer each
// namespace with a ServiceAccount and a ConfigMap, at the same API server and on
// the same cores, and what is measured is the operator. The one that is left has
// next to nothing to do; without any kube-controller-manager does not start.
var controllers = []string{"clusterrole-aggregation-controller"}

// policy records each request, and nothing of Leases, which are renewed also when all is at
// rest. It records no bodies, which would take a part of each request.
func policy() ([]byte, error) {
	none := func(r auditv1.PolicyRule) auditv1.PolicyRule {
		r.Level = auditv1.LevelNone
		return r
	}
	text, err := json.Marshal(&auditv1.Policy{
		TypeMeta:          metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Policy"},
		OmitStages:        []auditv1.Stage{auditv1.StageRequestReceived},
		OmitManagedFields: true,
		Rules: []auditv1.PolicyRule{
			none(auditv1.PolicyRule{Users: []string{"system:apiserver", "system:kube-controller-manager"}}),
			none(auditv1.PolicyRule{NonResourceURLs: []string{"*"}}),
			none(auditv1.PolicyRule{Resources: []auditv1.GroupResources{{Group: "coordination.k8s.io"}}}),
			{Level: auditv1.LevelMetadata},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the audit policy: %w", err)
	}
	return text, nil
}

// testbed is an environment with one replica on which a fleet is measured.
type testbed struct {
	*environment.Environment
	bench environment.Parameters
	// replica is the only one.
	replica *env.Replica
}

// open starts one.
func open(ctx context.Context, b environment.Parameters, args ...string) (*testbed, error) {
	audit, err := policy()
	if err != nil {
		return nil, err
	}
	s, err := environment.Start(ctx, b.Checkout, environment.Options{
		Args:  slices.Concat(swift, args),
		Plane: env.Options{Controllers: controllers, AuditPolicy: audit},
	})
	if err != nil {
		return nil, err
	}
	return &testbed{Environment: s, bench: b, replica: s.Installation.Replicas()[0]}, nil
}

// close ends it, also where ctx has ended.
func (f *testbed) close(ctx context.Context, err *error) {
	*err = errors.Join(*err, f.Stop(context.WithoutCancel(ctx)))
}

// settle returns when nothing has been written to the audit log for as long as calm.
func (f *testbed) settle(ctx context.Context, calm time.Duration) error {
	size, still := int64(-1), f.bench.Clock.Now()
	err := wait.PollUntilContextTimeout(ctx, glance, longest, true, func(context.Context) (bool, error) {
		info, err := os.Stat(f.Plane.AuditLog())
		if err != nil {
			return false, fmt.Errorf("measuring the audit log: %w", err)
		}
		if info.Size() != size {
			size, still = info.Size(), f.bench.Clock.Now()
		}
		return f.bench.Clock.Since(still) >= calm, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for all to be at rest: %w", err)
	}
	return nil
}

// bookmark is where the audit log ends now.
func (f *testbed) bookmark() (record.Bookmark, error) { return record.End(f.Plane.AuditLog()) }

// cost counts the operator's requests to the API server.
type cost struct {
	writes, reads, conflicts int
	// answering is how long the API server took for the writes that are not events, one added to
	// the other.
	answering time.Duration
	// first is when the API server received the first of the writes, and last when it had stored
	// the last one that is not an event. Both are zero if there is none.
	first, last time.Time
}

// costSince counts the operator's requests that follow the bookmark, but for watches and
// for what becoming the leader costs: its event, and the webhooks' certificate. Those
// about the Lease are not recorded.
func (f *testbed) costSince(from record.Bookmark) (cost, error) {
	events, _, err := record.ReadAuditLogFrom(f.Plane.AuditLog(), from)
	if err != nil {
		return cost{}, err
	}
	mine := record.Select(events, record.User(leasehold.User), record.Not(record.InNamespace(leasehold.Namespace)),
		record.Not(ofWebhooks))
	writes := record.Writes(mine, leasehold.User)
	c := cost{writes: len(writes), reads: len(record.Select(mine, record.Verb("get", "list")))}
	for _, e := range writes {
		if at := e.RequestReceivedTimestamp.Time; c.first.IsZero() || at.Before(c.first) {
			c.first = at
		}
		if e.ObjectRef.Resource == "events" {
			continue
		}
		c.answering += e.StageTimestamp.Sub(e.RequestReceivedTimestamp.Time)
		if at := e.StageTimestamp.Time; at.After(c.last) {
			c.last = at
		}
	}
	c.conflicts = len(record.Select(mine, record.Conflicted))
	return c, nil
}

func ofWebhooks(e auditv1.Event) bool {
	return e.ObjectRef != nil && e.ObjectRef.APIGroup == admissionregistrationv1.GroupName
}
