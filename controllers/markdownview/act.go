// SPDX-License-Identifier: Apache-2.0

package markdownview

import (
	"context"
	"fmt"

	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/failure"
	"leasehold.dev/controllers/internal/reconciler"
	"leasehold.dev/controllers/internal/reporting"
)

// result is the result of the writes of a reconcile.
type result struct {
	reconciler.Errors

	// correct has the children that are as desired, and wrote those that this reconcile changed.
	correct, wrote map[kind]bool
	// events are of the changes of children.
	events []reporting.PendingEvent
	// terminating is true if the namespace, and the view in it, is being deleted.
	terminating bool
}

// act carries out the plan. An error of one child does not stop the others, with one exception: the
// Deployment is not written while the ConfigMap is not correct, because its Pods would serve other
// content.
func (r *Reconciler) act(ctx context.Context, o *observation, p plan) (*result, error) {
	res := &result{correct: map[kind]bool{}, wrote: map[kind]bool{}}
	var want children
	if len(p.with(create, update, replace)) > 0 {
		// The whole view, whose texts the cache does not hold. With a stale cache the operator would create again
		// what the garbage collector deletes, or roll out an old content.
		live := &v1beta1.MarkdownView{}
		if err := reconciler.Verify(ctx, r.Live, o.view, live, reconciler.SameSpec); err != nil {
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
			res.wrote[s.kind], err = write(ctx, r.Client, s, want.configMap, &want.configMap.ObjectMetaApplyConfiguration)
		case s.kind == deployment:
			res.wrote[s.kind], err = write(ctx, r.Client, s, want.deployment, &want.deployment.ObjectMetaApplyConfiguration)
		default:
			res.wrote[s.kind], err = write(ctx, r.Client, s, want.service, &want.service.ObjectMetaApplyConfiguration)
		}
		if err != nil {
			err = fmt.Errorf("writing %s %s: %w", s.kind, s.name, err)
			res.Record(err)
			res.terminating = res.terminating || failure.Of(err) == failure.Terminating
		}
		res.correct[s.kind] = err == nil
	}
	res.events = corrections(o, p, res)
	return res, nil
}

// write executes a step that writes, on exactly the version of the child that decide compared. It
// reports whether the child has changed: an apply may change nothing, because an admission webhook
// may restore its own value each time. meta is that of want, which an apply replaces.
func write[D apply.Configuration[D]](ctx context.Context, c client.Client, s step, want D,
	meta **metav1ac.ObjectMetaApplyConfiguration) (wrote bool, err error) {
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
	return ptr.Deref((*meta).ResourceVersion, "") != s.live.GetResourceVersion(), nil
}
