// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/denial"
)

var errStale = errors.New("the cache is stale")

// result is the result of the writes of a reconcile.
type result struct {
	// correct has the children that are as desired, and wrote those that this reconcile changed.
	correct, wrote map[kind]bool
	// errs are the errors that a retry may resolve.
	errs []error
	// retry is a Conflict or a denial by the fence; nil if there was none.
	retry error
	// terminating is true if the namespace, and the view in it, is being deleted.
	terminating bool
}

// act executes the plan. An error of one child does not stop the others, with one exception: the
// Deployment is not written while the ConfigMap is not correct, because its Pods would serve other
// content.
func (r *Reconciler) act(ctx context.Context, o *observation, p plan) (*result, error) {
	res := &result{correct: map[kind]bool{}, wrote: map[kind]bool{}}
	var want children
	if len(p.with(create, update, replace)) > 0 {
		live, err := r.readUnchanged(ctx, o.view)
		if err != nil {
			return nil, err
		}
		want = render(live, o.want.hash, r.Options.DefaultViewerImage)
	}
	for _, s := range p.steps {
		var err error
		switch {
		case s.kind == deployment && !res.correct[configMap], s.action == wait, s.action == conflict:
			continue
		case s.action == keep:
		case s.kind == configMap:
			res.wrote[s.kind], err = write(ctx, r.Client, s, want.configMap)
		case s.kind == deployment:
			res.wrote[s.kind], err = write(ctx, r.Client, s, want.deployment)
		default:
			res.wrote[s.kind], err = write(ctx, r.Client, s, want.service)
		}
		if err != nil {
			res.fail(fmt.Errorf("writing %s %s: %w", s.kind, s.name, err))
		}
		res.correct[s.kind] = err == nil
	}
	return res, nil
}

// fail records the error of a step.
func (res *result) fail(err error) {
	switch {
	case apierrors.IsConflict(err), denial.ByFence(err):
		res.retry = err
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		res.terminating = true
	default:
		res.errs = append(res.errs, err)
	}
}

// readUnchanged reads the whole view before a child is written, and returns a Conflict if the view
// has changed since the cached state. With a stale cache the operator would create again what the
// garbage collector deletes, or roll out an old content.
func (r *Reconciler) readUnchanged(ctx context.Context, v *v1beta1.MarkdownView) (*v1beta1.MarkdownView, error) {
	live := &v1beta1.MarkdownView{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(v), live)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading markdownview: %w", err)
	}
	if err != nil || live.UID != v.UID || live.Generation != v.Generation || !live.DeletionTimestamp.IsZero() {
		return nil, apierrors.NewConflict(v1beta1.GroupVersion.WithResource("markdownviews").GroupResource(), v.Name,
			errStale)
	}
	return live, nil
}

// write executes a step that writes, on exactly the version of the child that decide compared. It
// reports whether the child has changed: an apply may change nothing, because an admission webhook
// of others restores its own value each time.
func write[D apply.Configuration[D]](ctx context.Context, c client.Client, s step, want D) (wrote bool, err error) {
	switch s.action {
	case replace:
		if err := apply.DeleteUnchanged(ctx, c, s.live, client.DisableReadYourWritesConsistency); err != nil {
			return false, err
		}
		return true, apply.Create(ctx, c, want)
	case create:
		return true, apply.Create(ctx, c, want)
	}
	if err := apply.Update(ctx, c, s.live, want); err != nil {
		return false, err
	}
	return versionOf(want) != s.live.GetResourceVersion(), nil
}
