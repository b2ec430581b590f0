// SPDX-License-Identifier: Apache-2.0

// Package sample is a small controller with the mistakes that stale caches punish, the same controller without
// them, and the test that tells them apart. test/harness/docs/staleness.md shows the test.
//
// Each ConfigMap with the label "sample" gets one Secret with the same revision.
package sample

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// parentLabel is on each ConfigMap that the controller works for, and on its Secret, with the ConfigMap's name.
const parentLabel = "sample"

// Run runs a manager with the controller until ctx ends. With SAMPLE=naive it is the one with the mistakes.
func Run(ctx context.Context, cfg *rest.Config) error {
	skip := true // a second manager in one process has a controller of the same name
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &skip}})
	if err != nil {
		return fmt.Errorf("making a manager: %w", err)
	}
	reconcile := repaired{mgr.GetClient()}.reconcile
	if os.Getenv("SAMPLE") == "naive" {
		reconcile = naive{mgr.GetClient()}.reconcile
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(forParents{mgr.GetClient(), reconcile})
	if err != nil {
		return fmt.Errorf("adding the controller: %w", err)
	}
	return mgr.Start(ctx)
}

// forParents reads the ConfigMap of a request, and passes it on if it has the label.
type forParents struct {
	client    client.Client
	reconcile func(context.Context, *corev1.ConfigMap) error
}

// Reconcile implements reconcile.Reconciler.
func (r forParents) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var parent corev1.ConfigMap
	if err := r.client.Get(ctx, request.NamespacedName, &parent); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, is := parent.Labels[parentLabel]; !is {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.reconcile(ctx, &parent)
}

// naive is what many controllers begin as. It believes its cache and drops errors.
type naive struct{ client.Client }

func (r naive) reconcile(ctx context.Context, parent *corev1.ConfigMap) error {
	var children corev1.SecretList
	err := r.List(ctx, &children, client.InNamespace(parent.Namespace), client.MatchingLabels{parentLabel: parent.Name})
	if err != nil {
		return fmt.Errorf("listing the children: %w", err)
	}
	if len(children.Items) == 0 { // in the cache
		child := childOf(parent)
		child.GenerateName = parent.Name + "-"
		err = r.Create(ctx, child)
	} else {
		child := &children.Items[0]
		child.StringData = childOf(parent).StringData
		err = r.Update(ctx, child)
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "writing the child") // and nothing tries again
	}
	return nil
}

// repaired creates under one name, checks the owner, and returns each error: AlreadyExists and Conflict mean that
// the cache is behind, and the retry decides again.
type repaired struct{ client.Client }

func (r repaired) reconcile(ctx context.Context, parent *corev1.ConfigMap) error {
	want := childOf(parent)
	want.Name = parent.Name
	var child corev1.Secret
	err := r.Get(ctx, client.ObjectKeyFromObject(want), &child)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading the child: %w", err)
	case err != nil:
		return r.Create(ctx, want)
	case !metav1.IsControlledBy(&child, parent):
		return fmt.Errorf("secret %s exists, and %s does not control it", child.Name, parent.Name)
	case string(child.Data["revision"]) == want.StringData["revision"]:
		return nil
	}
	child.StringData = want.StringData
	return r.Update(ctx, &child)
}

func childOf(parent *corev1.ConfigMap) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: parent.Namespace, Labels: map[string]string{parentLabel: parent.Name},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(parent, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
		},
		StringData: map[string]string{"revision": parent.Data["revision"]},
	}
}
