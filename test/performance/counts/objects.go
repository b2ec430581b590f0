package counts

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// act is one thing that somebody does, with what it leads to. The operator rests
// between two.
type act = func(context.Context) error

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// create makes an object.
func (p *play) create(o client.Object) act {
	return func(ctx context.Context) error {
		if err := p.admitted(ctx, func() error { return p.stage.Client.Create(ctx, o) }); err != nil {
			return fmt.Errorf("creating %s: %w", o.GetName(), err)
		}
		return nil
	}
}

// admitted asks again while admission does not answer, as may be on a machine that
// is busy with other things. Nothing has been stored then.
func (p *play) admitted(ctx context.Context, ask func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, poll, patience, true, func(context.Context) (bool, error) {
		last = ask()
		return !apierrors.IsInternalError(last), nil
	})
	return cmp.Or(last, err)
}

// createReady makes one of our objects and waits until it is Ready.
func (p *play) createReady(o client.Object) act { return then(p.create(o), p.ready(o)) }

// changing reads an object anew, changes it and writes it, as a user would.
func changing[T client.Object](p *play, o T, f func(T)) act {
	return func(ctx context.Context) error {
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			if err := p.stage.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			f(o)
			return p.admitted(ctx, func() error { return p.stage.Client.Update(ctx, o) })
		})
		if err != nil {
			return fmt.Errorf("changing %s: %w", o.GetName(), err)
		}
		return nil
	}
}

// remove deletes an object.
func (p *play) remove(o client.Object) act {
	return func(ctx context.Context) error {
		if err := p.stage.Client.Delete(ctx, o); err != nil {
			return fmt.Errorf("deleting %s: %w", o.GetName(), err)
		}
		return nil
	}
}

// removeGone deletes an object and waits until it is gone.
func (p *play) removeGone(o client.Object) act { return then(p.remove(o), p.gone(o)) }

// then is both, without a rest between them.
func then(first, second act) act {
	return func(ctx context.Context) error {
		if err := first(ctx); err != nil {
			return err
		}
		return second(ctx)
	}
}

// ready waits until one of our objects is Ready for its newest generation.
func (p *play) ready(o client.Object) act {
	return p.says(o, "to be Ready", func(conditions []metav1.Condition) bool {
		return meta.IsStatusConditionTrue(conditions, v1beta1.ConditionReady)
	})
}

// observed waits until the operator has carried out the newest generation.
func (p *play) observed(o client.Object) act {
	return p.says(o, "to be looked at", func([]metav1.Condition) bool { return true })
}

func (p *play) says(o client.Object, what string, enough func([]metav1.Condition) bool) act {
	return func(ctx context.Context) error {
		return p.await(ctx, o.GetName()+" "+what, func(ctx context.Context) error {
			if err := p.stage.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			generation, conditions := status(o)
			if generation != o.GetGeneration() || !enough(conditions) {
				return fmt.Errorf("at generation %d its status is of %d and says %v", o.GetGeneration(), generation, conditions)
			}
			return nil
		})
	}
}

// status is what all our kinds say: the generation that was seen, and conditions.
func status(o client.Object) (observed int64, conditions []metav1.Condition) {
	switch o := o.(type) {
	case *v1beta1.Tenant:
		return o.Status.ObservedGeneration, o.Status.Conditions
	case *v1beta1.StorageBucket:
		return o.Status.ObservedGeneration, o.Status.Conditions
	case *v1beta1.MarkdownView:
		return o.Status.ObservedGeneration, o.Status.Conditions
	}
	panic(fmt.Sprintf("%T is not one of our kinds", o))
}

// gone waits until an object is no more.
func (p *play) gone(o client.Object) act {
	return func(ctx context.Context) error {
		return p.await(ctx, o.GetName()+" to go", func(ctx context.Context) error {
			err := p.stage.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
			if err == nil {
				return fmt.Errorf("it is there, with finalizers %v", o.GetFinalizers())
			}
			return client.IgnoreNotFound(err)
		})
	}
}
