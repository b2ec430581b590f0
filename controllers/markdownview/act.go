package markdownview

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/controllers/internal/apply"
	"leasehold.dev/controllers/internal/denial"
	"leasehold.dev/controllers/internal/reconciler"
)

var errStale = errors.New("the cache is stale")

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

// result is how a reconcile ended.
type result struct {
	// outcomes by child. There are none where the spec is wrong.
	outcomes map[kind]outcome
	// foreign are the steps at whose names there is something that is not ours.
	foreign []step
	// errs are the failures that a retry may cure.
	errs []error
	// retry is the Conflict or the denial by the fence for which the reconcile is to
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
func (r *Reconciler) act(ctx context.Context, o *observation, p plan, want children) *result {
	res := &result{outcomes: map[kind]outcome{}}
	for _, s := range p.steps {
		if s.kind == deployment && !in(res.outcomes[configMap], inPlace, created, changed) {
			res.outcomes[s.kind] = withheld
			if s.verb == conflict {
				res.foreign = append(res.foreign, s)
			}
			continue
		}
		out, err := r.actOn(ctx, o, s, want)
		res.outcomes[s.kind] = out
		switch {
		case s.verb == conflict:
			res.foreign = append(res.foreign, s)
		case err == nil:
		case apierrors.IsConflict(err), denial.ByFence(err):
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
func (r *Reconciler) actOn(ctx context.Context, o *observation, s step, want children) (outcome, error) {
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
		wrote, err = write(ctx, r, &r.own.configMaps, s, o.configMap, &corev1.ConfigMap{}, want.configMap,
			func() *metav1ac.ObjectMetaApplyConfiguration { return want.configMap.ObjectMetaApplyConfiguration },
			func(live *corev1.ConfigMap) (*corev1.ConfigMap, error) {
				owned, err := corev1ac.ExtractConfigMap(live, string(apply.FieldOwner))
				if err != nil {
					return nil, err
				}
				return bareConfigMap(live, owned.Data, want.configMap.Data), nil
			})
	case deployment:
		wrote, err = write(ctx, r, &r.own.deployments, s, o.deployment, &appsv1.Deployment{}, want.deployment,
			func() *metav1ac.ObjectMetaApplyConfiguration { return want.deployment.ObjectMetaApplyConfiguration },
			func(live *appsv1.Deployment) (*appsv1.Deployment, error) {
				return bareDeployment(live, want.deployment, s.differs), nil
			})
	default: // service
		wrote, err = write(ctx, r, &r.own.services, s, o.service, &corev1.Service{}, want.service,
			func() *metav1ac.ObjectMetaApplyConfiguration { return want.service.ObjectMetaApplyConfiguration },
			func(live *corev1.Service) (*corev1.Service, error) { return bareService(live, want.service), nil })
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
// others may put back its own value each time.
func write[D apply.Configuration[D], L interface {
	client.Object
	comparable
}](ctx context.Context, r *Reconciler, own *reconciler.ReadYourWrites, s step, live, into L, desired D,
	stored func() *metav1ac.ObjectMetaApplyConfiguration, bareOf func(L) (L, error),
) (wrote bool, err error) {
	var none L
	before := ""
	if live != none {
		before = live.GetResourceVersion()
	}
	if s.foreign {
		if live, err = prune(ctx, r, own, live, into, bareOf); err != nil {
			return false, err
		}
	}
	switch {
	case live == none:
		err = apply.Create(ctx, r.Client, desired)
	case s.differs:
		err = apply.Update(ctx, r.Client, live, desired)
	default:
		return live.GetResourceVersion() != before, nil
	}
	if err != nil {
		return false, err
	}
	is := stored()
	own.Observe(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: *is.Namespace, Name: *is.Name, ResourceVersion: *is.ResourceVersion}})
	return *is.ResourceVersion != before, nil
}

// prune takes what is of others out of the child that was judged, and returns the child as
// it is then. It reads the child in full, as the cache does not hold its contents.
func prune[L interface {
	client.Object
	comparable
}](ctx context.Context, r *Reconciler, own *reconciler.ReadYourWrites, judged, into L, bareOf func(L) (L, error)) (L, error) {
	var none L
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(judged), into); err != nil && !apierrors.IsNotFound(err) {
		return none, fmt.Errorf("reading it in full: %w", err)
	}
	if into.GetUID() != judged.GetUID() || into.GetResourceVersion() != judged.GetResourceVersion() {
		return none, apierrors.NewConflict(schema.GroupResource{}, judged.GetName(), errStale)
	}
	bare, err := bareOf(into)
	if err != nil || bare == none {
		return into, err
	}
	if err := apply.Patch(ctx, r.Client, bare, into); err != nil {
		return none, err
	}
	own.Observe(bare)
	return bare, nil
}

func in[T comparable](one T, of ...T) bool { return slices.Contains(of, one) }
