// SPDX-License-Identifier: Apache-2.0

package counts_test

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/expect"
	"leasehold.dev/test/integration/internal/operator"
)

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// create retries while the webhooks do not answer, which stores nothing.
func create(o client.Object) step {
	return func(ctx context.Context) {
		Eventually(func() error { return k8s.Create(ctx, o) }).WithContext(ctx).WithTimeout(expect.Short).Should(Succeed(),
			o.GetName())
	}
}

func change[T client.Object](o T, f func(T)) step {
	return func(ctx context.Context) { operator.Change(ctx, k8s, o, f) }
}

func remove(o client.Object) step {
	return func(ctx context.Context) { Expect(k8s.Delete(ctx, o)).To(Succeed(), o.GetName()) }
}

func gone(o client.Object) step {
	return func(ctx context.Context) {
		Eventually(ctx, expect.Reading(k8s, o)).WithTimeout(expect.Medium).Should(expect.BeGone(), o.GetName())
	}
}

// ready waits until an object of ours is Ready in its current generation.
func ready(o client.Object) step {
	return await(o, func(conditions []metav1.Condition) bool {
		return meta.IsStatusConditionTrue(conditions, v1beta1.ConditionReady)
	})
}

// observed waits until the operator has observed the current generation.
func observed(o client.Object) step {
	return await(o, func([]metav1.Condition) bool { return true })
}

func await(o client.Object, enough func([]metav1.Condition) bool) step {
	return func(ctx context.Context) {
		Eventually(func() error {
			if err := k8s.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
				return err
			}
			generation, conditions := status(o)
			if generation != o.GetGeneration() || !enough(conditions) {
				return fmt.Errorf("%s has generation %d, its status generation %d and conditions %v", o.GetName(),
					o.GetGeneration(), generation, conditions)
			}
			return nil
		}).WithContext(ctx).WithTimeout(expect.Medium).Should(Succeed())
	}
}

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
