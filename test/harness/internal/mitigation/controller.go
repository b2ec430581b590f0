// SPDX-License-Identifier: Apache-2.0

// Package mitigation measures which remedies protect a controller from a stale cache. Its test runs one small
// controller with each remedy under each fault, and writes the table of test/harness/docs/restarts.md.
//
// The controller gives each ConfigMap of its namespace one Secret with the same revision. A ConfigMap that says
// wanted=false wants its Secret deleted, unless another client has marked the Secret as busy.
package mitigation

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

const (
	parentLabel    = "parent"   // on a Secret: the name of its ConfigMap
	busyLabel      = "busy"     // on a Secret: another client uses it
	lockAnnotation = "acted-on" // on a ConfigMap: the version that the controller has acted on
)

// Mitigation is what the controller does about stale caches. The zero value does nothing: the controller lists the
// children in its cache, creates a missing one under a generated name, and deletes without a precondition.
type Mitigation struct {
	ReadYourWrites bool          // the option of controller-runtime: reads wait for the client's own writes
	Memory         func() Memory // of what was written; nil: none
	ReadLive       bool          // before a create or a delete, read all objects again from the API server
	Precondition   bool          // delete only the version that was read
	LockParent     bool          // before a create or a delete, write the parent with the version that was read
	FixedName      bool          // derive the child's name from the parent's; if it exists, check its owner
}

// Run runs a manager with the controller for one namespace until ctx ends. A value from pokes starts a reconcile as a
// timer does, without an event of the watched kinds. observe is told that the cache "sees" a change of a parent, and
// what each reconcile does: it "begins", "waits" for the cache or has "read" so many children, and "ends" or "fails".
func (m Mitigation) Run(ctx context.Context, cfg *rest.Config, namespace string, pokes <-chan event.GenericEvent,
	observe func(parent *corev1.ConfigMap, what string),
) error {
	skip := true // other managers in this process have a controller of the same name
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: &skip},
		Cache:  cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Client: client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: &m.ReadYourWrites}}})
	if err != nil {
		return fmt.Errorf("making a manager: %w", err)
	}
	c := &controller{Mitigation: m, Client: mgr.GetClient(), live: mgr.GetAPIReader(), observe: observe}
	if m.Memory != nil {
		c.memory = m.Memory()
	}
	changed := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.ConfigMap), e.ObjectNew.(*corev1.ConfigMap)
		observe(after, "sees")
		return !maps.Equal(before.Data, after.Data) // not by the lock alone
	}}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}, builder.WithPredicates(changed)).
		Watches(&corev1.Secret{}, c.events()).
		WatchesRawSource(source.Channel(pokes, &handler.EnqueueRequestForObject{})).Complete(c)
	if err != nil {
		return fmt.Errorf("adding the controller: %w", err)
	}
	return mgr.Start(ctx)
}

type controller struct {
	Mitigation
	client.Client
	live    client.Reader
	memory  Memory // nil: none
	observe func(parent *corev1.ConfigMap, what string)
}

// events tells the memory each event of a child, and then enqueues its parent.
func (c *controller) events() handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	observe := func(child client.Object, w Write, q queue) {
		parent := types.NamespacedName{Namespace: child.GetNamespace(), Name: child.GetLabels()[parentLabel]}
		if c.memory != nil {
			c.memory.Observe(parent, w, child)
		}
		q.Add(reconcile.Request{NamespacedName: parent})
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { observe(e.Object, "create", q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { observe(e.ObjectNew, "update", q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { observe(e.Object, "delete", q) },
	}
}

// Reconcile implements reconcile.Reconciler.
func (c *controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var parent corev1.ConfigMap
	if err := c.Get(ctx, request.NamespacedName, &parent); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	c.observe(&parent, "begins")
	if c.memory != nil {
		if wait := c.memory.Wait(request.NamespacedName); wait > 0 { // the missing event starts a reconcile earlier
			c.observe(&parent, "waits")
			return reconcile.Result{RequeueAfter: wait}, nil
		}
	}
	if err := c.reconcile(ctx, parent.DeepCopy()); err != nil {
		c.observe(&parent, "fails")
		return reconcile.Result{}, err
	}
	c.observe(&parent, "ends")
	return reconcile.Result{}, nil
}

func (c *controller) reconcile(ctx context.Context, parent *corev1.ConfigMap) error {
	children, err := childrenOf(ctx, c, parent)
	if err != nil {
		return err
	}
	c.observe(parent, fmt.Sprintf("read %d", len(children)))
	create, update, remove := decide(parent, children)
	if c.ReadLive && (create || len(remove) > 0) {
		if err := c.live.Get(ctx, client.ObjectKeyFromObject(parent), parent); err != nil {
			return client.IgnoreNotFound(err)
		}
		if children, err = childrenOf(ctx, c.live, parent); err != nil {
			return err
		}
		create, update, remove = decide(parent, children)
	}
	if c.LockParent && (create || len(remove) > 0) {
		read := parent.DeepCopy()
		metav1.SetMetaDataAnnotation(&parent.ObjectMeta, lockAnnotation, read.ResourceVersion)
		err := c.Patch(ctx, parent, client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{}))
		if err != nil {
			return fmt.Errorf("locking the parent: %w", err)
		}
	}
	return c.carryOut(ctx, parent, create, update, remove)
}

func childrenOf(ctx context.Context, from client.Reader, parent client.Object) ([]corev1.Secret, error) {
	var list corev1.SecretList
	err := from.List(ctx, &list, client.InNamespace(parent.GetNamespace()),
		client.MatchingLabels{parentLabel: parent.GetName()})
	return list.Items, err
}

func decide(parent *corev1.ConfigMap, children []corev1.Secret) (create bool, update, remove []corev1.Secret) {
	wanted := parent.Data["wanted"] != "false"
	for _, child := range children {
		switch _, busy := child.Labels[busyLabel]; {
		case !wanted && !busy:
			remove = append(remove, child)
		case wanted && string(child.Data["revision"]) != parent.Data["revision"]:
			update = append(update, child)
		}
	}
	return wanted && len(children) == 0, update, remove
}

func (c *controller) carryOut(
	ctx context.Context, parent *corev1.ConfigMap, create bool, update, remove []corev1.Secret,
) error {
	remember := func(w Write, child *corev1.Secret, write func() error) error {
		if c.memory == nil {
			return write()
		}
		return c.memory.Remember(client.ObjectKeyFromObject(parent), w, child, write)
	}
	revision := map[string]string{"revision": parent.Data["revision"]}
	if create {
		owner := metav1.NewControllerRef(parent, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: parent.Namespace, GenerateName: parent.Name + "-", Labels: map[string]string{parentLabel: parent.Name},
			OwnerReferences: []metav1.OwnerReference{*owner}}, StringData: revision}
		if err := remember("create", child, func() error { return c.create(ctx, parent, child) }); err != nil {
			return fmt.Errorf("creating the child: %w", err)
		}
	}
	for _, child := range update {
		child.StringData = revision
		if err := remember("update", &child, func() error { return c.Update(ctx, &child) }); err != nil {
			return fmt.Errorf("updating the child: %w", err)
		}
	}
	for _, child := range remove {
		var options []client.DeleteOption
		if c.Precondition {
			options = append(options, client.Preconditions{UID: &child.UID, ResourceVersion: &child.ResourceVersion})
		}
		err := remember("delete", &child, func() error { return c.Delete(ctx, &child, options...) })
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the child: %w", err)
		}
	}
	return nil
}

func (c *controller) create(ctx context.Context, parent *corev1.ConfigMap, child *corev1.Secret) error {
	if !c.FixedName {
		return c.Create(ctx, child)
	}
	child.GenerateName, child.Name = "", parent.Name
	err := c.Create(ctx, child)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := c.live.Get(ctx, client.ObjectKeyFromObject(child), child); err != nil {
		return err
	}
	if metav1.IsControlledBy(child, parent) {
		return nil // it is the child; its event starts the next reconcile
	}
	return err
}
