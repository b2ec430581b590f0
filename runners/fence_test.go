// SPDX-License-Identifier: Apache-2.0

package runners_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/runners"
)

// answer is what the API server answers to a try, and the holder of the Lease then; "" is none, and "no Lease"
// that it does not exist. Two holders are those before and after the try.
type answer struct {
	holder string
	err    error
}

// answering returns a client whose requests get the answer of the time.
func answering(t *testing.T, now func() answer) client.Client {
	t.Helper()
	tried := false
	return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object,
			_ ...client.GetOption) error {
			lease := o.(*coordinationv1.Lease)
			if key != (client.ObjectKey{Namespace: "system", Name: "lease"}) {
				t.Errorf("the Lease %s was read", key)
			}
			if now().holder == "no Lease" {
				return apierrors.NewNotFound(coordinationv1.Resource("leases"), key.Name)
			}
			holder, after, moves := strings.Cut(now().holder, " ")
			if tried && moves {
				holder = after
			}
			if tried = false; holder != "" {
				lease.Spec.HolderIdentity = &holder
			}
			return nil
		},
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if o.GetNamespace() != "system" || len(options) != 1 || options[0] != client.DryRunAll {
				t.Errorf("%T is created in namespace %s with %v, want a dry run", o, o.GetNamespace(), options)
			}
			tried = true
			return now().err
		},
	}).Build()
}

// checked runs the check with one answer each 15 s, and returns the value of its metric, "" for none,
// the number of events, and whether the check has ended.
func checked(t *testing.T, answers ...answer) (effective string, reports int, ended bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(log.IntoContext(t.Context(), funcr.New(func(_, args string) {
			if strings.Contains(args, "reading the Lease") {
				t.Errorf("logged: %s", args)
			}
		}, funcr.Options{})))
		defer cancel()
		const period = 15 * time.Second
		began := time.Now()
		now := func() answer { return answers[min(int(time.Since(began)/period), len(answers)-1)] }
		recorder := events.NewFakeRecorder(100)
		registry := prometheus.NewRegistry()
		f := &runners.FenceCheck{Client: answering(t, now), Lease: client.ObjectKey{Namespace: "system", Name: "lease"},
			PodName: "manager-0", Recorder: recorder, Clock: clock.RealClock{}}
		if err := f.Register(registry); err != nil || f.NeedLeaderElection() {
			t.Fatalf("registering: %v", err)
		}
		done := make(chan error, 1)
		go func() { done <- f.Start(ctx) }()
		<-time.After(time.Duration(len(answers))*period - time.Second)
		synctest.Wait()
		ended, reports = len(done) == 1, len(recorder.Events)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the check returned %v", err)
		}
		for range reports {
			if text := <-recorder.Events; !strings.HasPrefix(text, "Warning FenceIneffective the API server accepts writes of Pod manager-0") {
				t.Error(text)
			}
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if len(families) == 1 {
			effective = families[0].GetMetric()[0].String()
		}
		if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
	})
	return effective, reports, ended
}

func TestFenceCheck(t *testing.T) {
	forbidden := func(why string) error {
		return apierrors.NewForbidden(corev1.Resource("configmaps"), "leasehold-fence-check", errors.New(why))
	}
	byFence := forbidden("ValidatingAdmissionPolicy 'leasehold-fence.leasehold.dev' with binding 'leasehold-fence.leasehold.dev' denied request: no")
	const yes, no = "gauge:{value:1}", "gauge:{value:0}"
	for name, tc := range map[string]struct {
		answers   []answer
		effective string
		reports   int
		ended     bool
	}{
		"no holder":                      {[]answer{{}, {}}, "", 0, false},
		"no Lease yet":                   {[]answer{{holder: "no Lease"}, {"manager-1_x", byFence}}, yes, 0, true},
		"this replica leads":             {[]answer{{holder: "manager-0_x"}}, "", 0, true},
		"a Pod with a longer name":       {[]answer{{"manager-01_x", byFence}}, yes, 0, true},
		"denied":                         {[]answer{{"manager-1_x", byFence}}, yes, 0, true},
		"denied later":                   {[]answer{{}, {"manager-1_x", byFence}}, yes, 0, true},
		"permitted once":                 {[]answer{{"manager-1_x", nil}}, "", 0, false},
		"permitted, then denied":         {[]answer{{"manager-1_x", nil}, {"manager-1_x", byFence}}, yes, 0, true},
		"permitted twice":                {[]answer{{"manager-1_x", nil}, {"manager-1_x", nil}}, no, 1, false},
		"repaired":                       {[]answer{{"manager-1_x", nil}, {"manager-1_x", nil}, {"manager-1_x", byFence}}, yes, 1, true},
		"permitted twice, then it leads": {[]answer{{"manager-1_x", nil}, {"manager-1_x", nil}, {"manager-0_x", nil}}, "", 1, true},
		"a missing right":                {[]answer{{"manager-1_x", forbidden(`User "m" cannot create resource "configmaps"`)}, {}}, "", 0, false},
		// The fence permits such a write rightly: this replica may have become the holder.
		"the Lease moves": {[]answer{{"manager-1_x manager-0_x", nil}, {"manager-1_x manager-0_x", nil}}, "", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			effective, reports, ended := checked(t, tc.answers...)
			if effective != tc.effective || reports != tc.reports || ended != tc.ended {
				t.Errorf("metric %q, %d events, ended %t; want %q, %d, %t", effective, reports, ended, tc.effective, tc.reports,
					tc.ended)
			}
		})
	}
}
