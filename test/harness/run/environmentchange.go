package run

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

var metadataStripped = spec{
	fault: "metadata-stripped", family: "environment",
	text:   "when the API server has done TARGET, an administrator takes all labels and annotations off the object",
	derive: eachCreation, newInjector: held(fault.AfterAnswer, administratorChange(strip)),
}

var objectDeleted = spec{
	fault: "object-deleted", family: "environment",
	text:   "when the API server has done TARGET, an administrator deletes the object",
	derive: eachCreation, newInjector: held(fault.AfterAnswer, administratorChange(remove)),
}

var metadataContested = spec{
	fault: "metadata-contested", family: "environment",
	text:   "when the API server has done TARGET, another controller writes other values over the object for some seconds",
	derive: eachCreation, newInjector: held(fault.AfterAnswer, administratorChange(rival)),
}

// eachCreation plans the fault at the writes that create objects. The path of a POST does not name
// the object, so it is no target.
func eachCreation(d *derivation, f scenario.FaultName) []Plan {
	created := steady(d.runs, func(o observation) []write {
		return firsts(o.Writes, func(w write) bool { return w.Made })
	})
	return d.at(f, "", slices.DeleteFunc(created, func(t Target) bool { return t.Method == http.MethodPost }))
}

// firsts marks as effective only the first wanted write of each path. The others remain, because
// they count as requests.
func firsts(writes []write, wanted func(write) bool) []write {
	seen := map[string]bool{}
	kept := slices.Clone(writes)
	for i, w := range writes {
		object := strings.TrimSuffix(w.Path, "/status")
		kept[i].Effective = w.Effective && wanted(w) && !seen[object]
		seen[object] = seen[object] || kept[i].Effective
	}
	return kept
}

const (
	// rivalFor is the time for which a rival writes, and rivalPeriod its period.
	rivalFor, rivalPeriod = 3 * time.Second, 200 * time.Millisecond
)

// administratorChange changes the object that the operator's request wrote, as an administrator.
// The response to the request is held meanwhile, so the operator cannot act before the change.
// change returns a description of the change, or "" without one.
func administratorChange(change func(ctx context.Context, a *activeFault, o object) (string, error)) whileHeld {
	return func(ctx context.Context, a *activeFault, r *replica, held *fault.HeldRequest) error {
		if !held.Request.Committed() {
			return nil
		}
		began, did := a.now(), ""
		o, err := a.prover.objectAt(held.Request.Path)
		if err == nil {
			did, err = change(ctx, a, o)
		}
		switch {
		case err != nil:
			a.handleChangeError(ctx, fmt.Errorf("changing the object of %s: %w", held.Request, err))
		case did != "":
			a.record(history.FaultRecord{Replica: r.process.Name(), Began: began, Ended: a.now(), Detail: did,
				Touched: []history.Key{o.key}})
		}
		return nil
	}
}

// handleChangeError handles a change that failed. A refusal of the API server makes the plan void;
// any other error is the harness's own.
func (a *activeFault) handleChangeError(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil: // the run is over
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		a.setVoidReason("%v", err)
	default:
		a.addError(err)
	}
}

func strip(ctx context.Context, _ *activeFault, o object) (string, error) {
	before, err := o.get(ctx)
	if err != nil {
		return "", err
	}
	after, err := o.Patch(ctx, o.key.Name, types.MergePatchType, []byte(`{"metadata":{"labels":null,"annotations":null}}`),
		metav1.PatchOptions{})
	if err != nil || after.GetResourceVersion() == before.GetResourceVersion() {
		return "", err
	}
	return fmt.Sprintf("labels and annotations of %s were taken off", o.key), nil
}

func remove(ctx context.Context, _ *activeFault, o object) (string, error) {
	if err := o.Delete(ctx, o.key.Name, metav1.DeleteOptions{}); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s was deleted", o.key), nil
}

// rival writes in the background, so the operator repairs the object meanwhile.
func rival(ctx context.Context, a *activeFault, o object) (string, error) {
	wrong, err := o.get(ctx)
	if err != nil {
		return "", err
	}
	a.goOngoing(func() {
		began := a.now()
		won, err := contest(ctx, o, wrong)
		switch {
		case err != nil:
			a.handleChangeError(ctx, fmt.Errorf("writing over %s: %w", o.key, err))
		case won > 0:
			a.record(history.FaultRecord{Began: began, Ended: a.now(),
				Detail: fmt.Sprintf("a rival wrote over %s %d times", o.key, won), Touched: []history.Key{o.key}})
		}
	})
	return "", nil
}

// contest removes labels and annotations again and again, and returns how often there were any.
func contest(ctx context.Context, o object, first *unstructured.Unstructured) (won int, err error) {
	limited, cancel := context.WithTimeout(ctx, rivalFor)
	defer cancel()
	last := first.GetResourceVersion()
	err = wait.PollUntilContextCancel(limited, rivalPeriod, true, func(ctx context.Context) (bool, error) {
		after, err := o.Patch(ctx, o.key.Name, types.MergePatchType,
			[]byte(`{"metadata":{"labels":null,"annotations":null}}`), metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil // the object was terminating
		}
		if err == nil && after.GetResourceVersion() != last {
			won++
			last = after.GetResourceVersion()
		}
		return false, err
	})
	if limited.Err() != nil {
		return won, nil // the time is up
	}
	return won, err
}
