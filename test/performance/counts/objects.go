package counts

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// change reads the object anew, changes it and writes it, as a user would.
func change[T client.Object](ctx context.Context, c client.Client, o T, f func(T)) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		f(o)
		return c.Update(ctx, o)
	})
	if err != nil {
		return fmt.Errorf("changing %s: %w", o.GetName(), err)
	}
	return nil
}

// ready waits until the object is Ready for its newest generation.
func (p *play) ready(ctx context.Context, o client.Object, status func() (int64, []metav1.Condition)) error {
	return p.await(ctx, o.GetName()+" to be Ready", func(ctx context.Context) error {
		if err := p.stage.Client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		observed, conditions := status()
		if observed != o.GetGeneration() || !meta.IsStatusConditionTrue(conditions, v1beta1.ConditionReady) {
			return fmt.Errorf("of generation %d it says of %d %v", o.GetGeneration(), observed, conditions)
		}
		return nil
	})
}

// gone waits until the object is no more.
func (p *play) gone(ctx context.Context, o client.Object) error {
	return p.await(ctx, o.GetName()+" to go", func(ctx context.Context) error {
		err := p.stage.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
		if err == nil {
			return fmt.Errorf("it is there, with finalizers %v", o.GetFinalizers())
		}
		return client.IgnoreNotFound(err)
	})
}

// remove deletes the object and returns without waiting.
func (p *play) remove(ctx context.Context, o client.Object) error {
	if err := p.stage.Client.Delete(ctx, o); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s: %w", o.GetName(), err)
	}
	return nil
}
