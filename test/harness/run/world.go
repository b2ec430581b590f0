package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

const (
	// rivalFor is how long a rival goes on, rivalEvery how often it writes.
	rivalFor, rivalEvery = 3 * time.Second, 200 * time.Millisecond
	// heldFor is how long a foreign finalizer holds what the operator has let go.
	heldFor = 2 * time.Second
	// foreign is the mark of somebody else.
	foreign = "rival.example.com/held"
)

// moves are what an administrator does to an object. They return when it is done,
// and say what it was if it did change something.
var moves = map[string]func(ctx context.Context, a *armed, o object) (string, error){
	scenario.StripLabels: strip,
	scenario.RemoveChild: remove,
	scenario.Rival:       rival,
}

// moveWorld holds the answer to the operator's write until the world has moved, so
// that nothing the operator does next can come before.
func moveWorld(ctx context.Context, a *armed) error {
	if a.plan.Variant == scenario.ForeignFinalizer {
		return holdForeign(ctx, a)
	}
	for _, r := range a.prover.replicas {
		gate := fault.NewGate(fault.AfterAnswer)
		a.inject(r, a.target(), gate)
		a.all.Go(func() {
			held, err := gate.Wait(ctx)
			if err != nil {
				return // the run is over and no such request came
			}
			a.once.Do(func() { a.move(ctx, r, held.Request) })
			held.Release()
		})
	}
	return nil
}

func (a *armed) move(ctx context.Context, r *replica, written fault.Request) {
	if !written.Committed() {
		return
	}
	o, err := a.prover.objectAt(written.Path)
	if err == nil {
		began := a.now()
		var did string
		did, err = moves[a.plan.Variant](ctx, a, o)
		if err == nil && did != "" {
			a.noted(history.Fault{Replica: r.process.Name(), Began: began, Ended: a.now(), Detail: did, Touched: []history.Key{o.key}})
		}
	}
	if err != nil {
		a.notMoved(ctx, fmt.Errorf("moving the world at %s: %w", written, err))
	}
}

// notMoved tells apart what the API server would not do, by which the plan did not
// happen, and what the harness could not.
func (a *armed) notMoved(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil: // the run is over
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		a.missing("%v", err)
	default:
		a.failed(err)
	}
}

// object is one of the API server's, as an administrator reaches it.
type object struct {
	dynamic.ResourceInterface

	key history.Key
}

// objectAt is the object that a request's path names, whatever its subresource.
func (p *Prover) objectAt(path string) (object, error) {
	o, err := p.resourceAt(path)
	if err == nil && o.key.Name == "" {
		err = fmt.Errorf("reading the path %s: it names no object", path)
	}
	return o, err
}

// resourceAt is what a request's path names: an object, or a collection, which has no
// name.
func (p *Prover) resourceAt(path string) (object, error) {
	asked, err := http.NewRequest(http.MethodGet, path, http.NoBody)
	if err != nil {
		return object{}, fmt.Errorf("reading the path %s: %w", path, err)
	}
	info, err := urls.NewRequestInfo(asked)
	if err != nil {
		return object{}, fmt.Errorf("reading the path %s: %w", path, err)
	}
	key := history.Key{Resource: history.Resource{Group: info.APIGroup, Resource: info.Resource}, Namespace: info.Namespace, Name: info.Name}
	gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	if key.Resource == (history.Resource{Resource: namespaces.Resource}) {
		key.Namespace = "" // a namespace's path has it as the namespace too
	}
	if key.Namespace == "" {
		return object{p.dynamic.Resource(gvr), key}, nil
	}
	return object{p.dynamic.Resource(gvr).Namespace(key.Namespace), key}, nil
}

// objectOf is the object that a scenario names.
func (p *Prover) objectOf(r scenario.Ref) (object, error) {
	kind := schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
	mapping, err := p.client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return object{}, fmt.Errorf("looking for the resource of %s: %w", r, err)
	}
	key := history.Key{
		Resource:  history.Resource{Group: mapping.Resource.Group, Resource: mapping.Resource.Resource},
		Namespace: r.Namespace, Name: r.Name,
	}
	if r.Namespace == "" {
		return object{p.dynamic.Resource(mapping.Resource), key}, nil
	}
	return object{p.dynamic.Resource(mapping.Resource).Namespace(r.Namespace), key}, nil
}

func (o object) get(ctx context.Context) (*unstructured.Unstructured, error) {
	return o.Get(ctx, o.key.Name, metav1.GetOptions{})
}

func strip(ctx context.Context, _ *armed, o object) (string, error) {
	before, err := o.get(ctx)
	if err != nil {
		return "", err
	}
	after, err := o.Patch(ctx, o.key.Name, types.MergePatchType, []byte(`{"metadata":{"labels":null,"annotations":null}}`), metav1.PatchOptions{})
	if err != nil || after.GetResourceVersion() == before.GetResourceVersion() {
		return "", err
	}
	return fmt.Sprintf("labels and annotations of %s were taken off", o.key), nil
}

func remove(ctx context.Context, _ *armed, o object) (string, error) {
	if err := o.Delete(ctx, o.key.Name, metav1.DeleteOptions{}); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s was deleted", o.key), nil
}

// rival goes on in the background: the operator is to fight it meanwhile.
func rival(ctx context.Context, a *armed, o object) (string, error) {
	wrong, err := o.get(ctx)
	if err != nil {
		return "", err
	}
	ended := a.lasts()
	a.all.Go(func() {
		defer ended()
		began := a.now()
		won, err := contest(ctx, o, wrong)
		switch {
		case err != nil:
			a.notMoved(ctx, fmt.Errorf("writing over %s: %w", o.key, err))
		case won > 0:
			a.noted(history.Fault{Began: began, Ended: a.now(), Detail: fmt.Sprintf("somebody wrote over %s %d times", o.key, won), Touched: []history.Key{o.key}})
		}
	})
	return "", nil
}

// contest takes off, again and again, what the operator has put on, and returns how
// often there was something.
func contest(ctx context.Context, o object, first *unstructured.Unstructured) (won int, err error) {
	limited, cancel := context.WithTimeout(ctx, rivalFor)
	defer cancel()
	last := first.GetResourceVersion()
	err = wait.PollUntilContextCancel(limited, rivalEvery, true, func(ctx context.Context) (bool, error) {
		after, err := o.Patch(ctx, o.key.Name, types.MergePatchType, []byte(`{"metadata":{"labels":null,"annotations":null}}`), metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil // it was on its way out
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

// holdForeign puts a foreign finalizer on what is about to be deleted. A goroutine
// takes it off when the operator has done its part and had the time for more.
func holdForeign(ctx context.Context, a *armed) error {
	n := a.plan.Target.Nth - 1
	if n < 0 || n >= len(a.scenario.Steps) || a.scenario.Steps[n].Delete == nil {
		return fmt.Errorf("looking for what is deleted: step %d of scenario %s deletes nothing", n+1, a.scenario.Name)
	}
	a.before[n] = func(stepCtx context.Context) error {
		o, err := a.prover.objectOf(*a.scenario.Steps[n].Delete)
		if err == nil {
			err = o.finalizers(stepCtx, func(all []string) []string { return append(all, foreign) })
		}
		if err != nil {
			return err
		}
		a.all.Go(func() {
			began := a.now()
			held, err := a.release(ctx, o)
			switch {
			case err != nil:
				a.notMoved(ctx, fmt.Errorf("taking the foreign finalizer off %s: %w", o.key, err))
			case held:
				a.noted(history.Fault{Began: began, Ended: a.now(), Detail: fmt.Sprintf("a foreign finalizer held %s for %s", o.key, heldFor)})
			}
		})
		return nil
	}
	return nil
}

// release waits until nothing else holds the object, which takes as long as the
// scenario. However that ends, the object is let go.
func (a *armed) release(ctx context.Context, o object) (held bool, err error) {
	err = wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		now, err := o.get(ctx)
		if err != nil {
			return false, err
		}
		return now.GetDeletionTimestamp() != nil && slices.Equal(now.GetFinalizers(), []string{foreign}), nil
	})
	if err == nil {
		held = true
		select {
		case <-ctx.Done():
		case <-a.prover.clock.After(heldFor):
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	let := o.finalizers(last, func(all []string) []string {
		return slices.DeleteFunc(all, func(f string) bool { return f == foreign })
	})
	return held, errors.Join(err, let)
}

// finalizers changes those of the object. One that is gone has none.
func (o object) finalizers(ctx context.Context, change func([]string) []string) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := o.get(ctx)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		now.SetFinalizers(change(now.GetFinalizers()))
		_, err = o.Update(ctx, now, metav1.UpdateOptions{})
		return err
	})
}
