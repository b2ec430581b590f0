package markdownview

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/fence"
	"leasehold.dev/controllers/internal/ownwrites"
)

var errStale = errors.New("the cache is behind")

// outcome is how the step for one child ended.
type outcome string

const (
	inPlace  outcome = "in place" // as it is to be, and nothing had to be done
	created  outcome = "created"
	changed  outcome = "changed"
	awaited  outcome = "awaited"  // on its way out
	withheld outcome = "withheld" // not ours, or not safe without another
	failed   outcome = "failed"
)

// result is how a pass ended.
type result struct {
	// outcomes by child. There are none where the spec is wrong.
	outcomes map[kind]outcome
	// foreign are the steps at whose names there is something that is not ours.
	foreign []step
	// errs are the failures that a retry may cure.
	errs []error
	// retry is the Conflict or the denial by the fence for which the pass is to
	// be made again; nil if there was none.
	retry error
	// leaving: the namespace is on its way out, and the view with it.
	leaving bool
}

// blocked: something is in the way that no watch will tell the end of.
func (res *result) blocked() bool {
	for _, out := range res.outcomes {
		if in(out, awaited, withheld) {
			return true
		}
	}
	return false
}

// act carries the plan out. One child that fails does not stop the others, but
// for this: no viewer is made or changed while the content is not ours, as it
// would show a stranger's.
func (r *Reconciler) act(ctx context.Context, o *observation, p plan) *result {
	res := &result{outcomes: map[kind]outcome{}}
	for _, s := range p.steps {
		if s.kind == deployment && !in(res.outcomes[configMap], inPlace, created, changed) {
			res.outcomes[s.kind] = withheld
			if s.verb == conflict {
				res.foreign = append(res.foreign, s)
			}
			continue
		}
		out, err := r.actOn(ctx, o, s)
		res.outcomes[s.kind] = out
		switch {
		case s.verb == conflict:
			res.foreign = append(res.foreign, s)
		case err == nil:
		case apierrors.IsConflict(err), fence.Denied(err):
			res.retry = err
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			res.leaving = true
		default:
			res.errs = append(res.errs, fmt.Errorf("writing %s %s: %w", s.kind, s.name, err))
		}
	}
	return res
}

// actOn carries out one step.
func (r *Reconciler) actOn(ctx context.Context, o *observation, s step) (outcome, error) {
	switch s.verb {
	case keep:
		return inPlace, nil
	case wait:
		return awaited, nil
	case conflict:
		return withheld, nil
	}
	var wrote bool
	var err error
	switch s.kind {
	case configMap:
		wrote, err = write(ctx, r.Client, &r.own.configMaps, s, o.configMap, o.want.configMap,
			func() *metav1ac.ObjectMetaApplyConfiguration { return o.want.configMap.ObjectMetaApplyConfiguration })
	case deployment:
		wrote, err = write(ctx, r.Client, &r.own.deployments, s, o.deployment, o.want.deployment,
			func() *metav1ac.ObjectMetaApplyConfiguration { return o.want.deployment.ObjectMetaApplyConfiguration })
	default: // service
		wrote, err = write(ctx, r.Client, &r.own.services, s, o.service, o.want.service,
			func() *metav1ac.ObjectMetaApplyConfiguration { return o.want.service.ObjectMetaApplyConfiguration })
	}
	switch {
	case err != nil:
		return failed, err
	case s.verb == create:
		return created, nil
	case wrote:
		return changed, nil
	default:
		return inPlace, nil
	}
}

// write makes the child where there is none, and else changes exactly the one
// that was judged. An apply that changes nothing is none: an admission webhook of
// somebody else's may put back its own value each time.
func write[D apply.Configuration[D], L interface {
	client.Object
	comparable
}](ctx context.Context, c client.Client, own *ownwrites.Floor, s step, live L, desired D, stored func() *metav1ac.ObjectMetaApplyConfiguration) (wrote bool, err error) {
	var none L
	before := ""
	if live != none {
		before = live.GetResourceVersion()
	}
	if s.bare != nil {
		if err := apply.Patch(ctx, c, s.bare, live); err != nil {
			return false, err
		}
		own.Wrote(s.bare)
		live = s.bare.(L)
	}
	switch {
	case live == none:
		err = apply.Create(ctx, c, desired)
	case s.differs:
		err = apply.Update(ctx, c, live, desired)
	default:
		return live.GetResourceVersion() != before, nil
	}
	if err != nil {
		return false, err
	}
	is := stored()
	own.Wrote(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: *is.Namespace, Name: *is.Name, ResourceVersion: *is.ResourceVersion}})
	return *is.ResourceVersion != before, nil
}

func in[T comparable](one T, of ...T) bool { return slices.Contains(of, one) }
