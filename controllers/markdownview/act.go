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

// outcome is the result of the step for one child.
type outcome string

const (
	unchanged outcome = "unchanged" // correct before this reconcile
	created   outcome = "created"
	changed   outcome = "changed"
	waiting   outcome = "waiting"  // terminating; it is created again after its deletion
	withheld  outcome = "withheld" // foreign, or not safe to write before another child is correct
	failed    outcome = "failed"
)

// result is the result of a reconcile.
type result struct {
	// outcomes has an entry for each child. It is empty if the spec is invalid.
	outcomes map[kind]outcome
	// foreign are the steps whose names are taken by objects that the view does not own.
	foreign []step
	// errs are the errors that a retry may resolve.
	errs []error
	// retry is a Conflict or a denial by the fence, after which the reconcile runs again. It is nil
	// if there was none.
	retry error
	// terminating is true if the namespace, and the view in it, is being deleted.
	terminating bool
}

// blocked reports whether an object prevents a step and no watch event reports its deletion.
func (res *result) blocked() bool {
	for _, out := range res.outcomes {
		if oneOf(out, waiting, withheld) {
			return true
		}
	}
	return false
}

// act executes the plan. An error of one child does not stop the others, with one exception: the
// Deployment is not written while the ConfigMap is not owned, because its Pods would serve foreign
// content.
func (r *Reconciler) act(ctx context.Context, o *observation, p plan, want children) *result {
	res := &result{outcomes: map[kind]outcome{}}
	for _, s := range p.steps {
		if s.kind == deployment && !oneOf(res.outcomes[configMap], unchanged, created, changed) {
			res.outcomes[s.kind] = withheld
			if s.action == conflict {
				res.foreign = append(res.foreign, s)
			}
			continue
		}
		out, err := r.actOn(ctx, o, s, want)
		res.outcomes[s.kind] = out
		switch {
		case s.action == conflict:
			res.foreign = append(res.foreign, s)
		case err == nil:
		case apierrors.IsConflict(err), denial.ByFence(err):
			res.retry = err
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			res.terminating = true
		default:
			res.errs = append(res.errs, fmt.Errorf("writing %s %s: %w", s.kind, s.name, err))
		}
	}
	return res
}

// actOn executes one step.
func (r *Reconciler) actOn(ctx context.Context, o *observation, s step, want children) (outcome, error) {
	switch s.action {
	case keep:
		return unchanged, nil
	case wait:
		return waiting, nil
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
				return prunedConfigMap(live, owned.Data, want.configMap.Data), nil
			})
	case deployment:
		wrote, err = write(ctx, r, &r.own.deployments, s, o.deployment, &appsv1.Deployment{}, want.deployment,
			func() *metav1ac.ObjectMetaApplyConfiguration { return want.deployment.ObjectMetaApplyConfiguration },
			func(live *appsv1.Deployment) (*appsv1.Deployment, error) {
				return prunedDeployment(live, want.deployment, s.differs), nil
			})
	default: // service
		wrote, err = write(ctx, r, &r.own.services, s, o.service, &corev1.Service{}, want.service,
			func() *metav1ac.ObjectMetaApplyConfiguration { return want.service.ObjectMetaApplyConfiguration },
			func(live *corev1.Service) (*corev1.Service, error) { return prunedService(live, want.service), nil })
	}
	switch {
	case err != nil:
		return failed, err
	case s.action == create:
		return created, nil
	case wrote:
		return changed, nil
	default:
		return unchanged, nil
	}
}

// write creates the child if there is none, and otherwise updates exactly the version that decide
// compared. An apply that changes nothing does not count as a write: a foreign admission webhook
// may restore its own value each time.
func write[D apply.Configuration[D], L interface {
	client.Object
	comparable
}](ctx context.Context, r *Reconciler, own *reconciler.ReadYourWrites, s step, live, into L, desired D,
	stored func() *metav1ac.ObjectMetaApplyConfiguration, prunedOf func(L) (L, error),
) (wrote bool, err error) {
	var none L
	before := ""
	if live != none {
		before = live.GetResourceVersion()
	}
	if s.foreign {
		if live, err = prune(ctx, r, own, live, into, prunedOf); err != nil {
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

// prune removes the foreign entries from the child that decide compared, and returns the child
// after that. It reads the whole child, because the cache does not have its contents.
func prune[L interface {
	client.Object
	comparable
}](ctx context.Context, r *Reconciler, own *reconciler.ReadYourWrites, judged, into L,
	prunedOf func(L) (L, error)) (L, error) {
	var none L
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(judged), into); err != nil && !apierrors.IsNotFound(err) {
		return none, fmt.Errorf("reading the whole child: %w", err)
	}
	if into.GetUID() != judged.GetUID() || into.GetResourceVersion() != judged.GetResourceVersion() {
		return none, apierrors.NewConflict(schema.GroupResource{}, judged.GetName(), errStale)
	}
	pruned, err := prunedOf(into)
	if err != nil || pruned == none {
		return into, err
	}
	if err := apply.Patch(ctx, r.Client, pruned, into); err != nil {
		return none, err
	}
	own.Observe(pruned)
	return pruned, nil
}

func oneOf[T comparable](one T, of ...T) bool { return slices.Contains(of, one) }
