package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/scenario"
)

// What changes in the installation while the operator runs: P18.

const (
	// changedFor is how long an object of the installation is other than it ships.
	changedFor = 3 * time.Second
	// rolloutWithin is how long a replica with another flag may take to be ready. A
	// Deployment's roll-out stops at one that is not.
	rolloutWithin = 15 * time.Second
)

// Change is one change of the installation: of a flag, or of an object.
type Change struct {
	Name string `json:"name"`
	// Scenarios are those in which it is tried, by name. Empty: all.
	Scenarios []string `json:"scenarios,omitempty"`
	// Flag is an argument, after all others, that the replicas are restarted with.
	Flag string `json:"flag,omitempty"`
	// Object is what else is changed: a role, a webhook configuration or a
	// CustomResourceDefinition.
	Object *scenario.Ref `json:"object,omitempty"`
	// Without is a right that is taken away, if the object is a role.
	Without *Right `json:"without,omitempty"`
	// Patch is how another object is changed, as JSON patch.
	Patch []PatchOperation `json:"patch,omitempty"`
}

// Right is what rules of a role may allow.
type Right struct {
	Group    string   `json:"group,omitempty"`
	Resource string   `json:"resource"`
	Verbs    []string `json:"verbs"`
}

// PatchOperation is one of a JSON patch (RFC 6902).
type PatchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Kind is the variant of the perturbation that makes the change.
func (c Change) Kind() string {
	switch {
	case c.Flag != "":
		return scenario.FlagChange
	case c.Without != nil:
		return scenario.RuleChange
	case c.Object != nil && c.Object.Kind == "CustomResourceDefinition":
		return scenario.DefinitionChange
	}
	return scenario.WebhookChange
}

// Validate finds what cannot be meant.
func (c Change) Validate() error {
	object := c.Object != nil && c.Object.APIVersion != "" && c.Object.Name != ""
	switch {
	case c.Name == "" || strings.Contains(c.Name, ":"):
		return fmt.Errorf("change %q: it needs a name without a colon, as its plans are called by it", c.Name)
	case c.Flag != "" && (c.Object != nil || c.Without != nil || c.Patch != nil):
		return fmt.Errorf("change %s: it is either of a flag or of an object", c.Name)
	case c.Flag == "" && !object:
		return fmt.Errorf("change %s: name a flag or an object", c.Name)
	case c.Flag == "" && (c.Without == nil) == (len(c.Patch) == 0):
		return fmt.Errorf("change %s: say either what right is taken away or what the patch is", c.Name)
	case c.Without != nil && (c.Without.Resource == "" || len(c.Without.Verbs) == 0):
		return fmt.Errorf("change %s: a right is verbs on a resource", c.Name)
	}
	return nil
}

// changes are those that plans may be about.
func (p *Prover) changes() []scenario.Change {
	var all []scenario.Change
	for _, c := range p.subject.Changes {
		all = append(all, scenario.Change{Name: c.Name, Kind: c.Kind(), Scenarios: c.Scenarios})
	}
	return all
}

// changeInstallation begins the change before the target's step.
func changeInstallation(ctx context.Context, a *armed) error {
	i := slices.IndexFunc(a.prover.subject.Changes, func(c Change) bool { return c.Name == a.plan.Target.Path })
	if i < 0 {
		return fmt.Errorf("looking for the change %s: the subject has none of that name", a.plan.Target.Path)
	}
	change := a.prover.subject.Changes[i]
	if change.Kind() != a.plan.Variant {
		return fmt.Errorf("looking for the change %s: it is one of a %s", change.Name, change.Kind())
	}
	return a.beforeAction(func() {
		var err error
		if change.Flag != "" {
			err = a.changeFlag(ctx, change)
		} else {
			err = a.changeObject(ctx, change)
		}
		if err != nil {
			a.notMoved(ctx, fmt.Errorf("changing the installation by %s: %w", change.Name, err))
		}
	})
}

// changeFlag rolls all replicas over to another flag, as a Deployment does, and back.
// Before that it confirms what users may do.
func (a *armed) changeFlag(ctx context.Context, c Change) error {
	began := a.now()
	replaced, err := a.rollWhileReady(ctx, unlike{args: []string{c.Flag}, build: c.Flag})
	if err == nil {
		err = a.prover.recovered(ctx)
	}
	if err == nil {
		err = a.trial.settle(ctx, a.now(), a.now().Add(recovery))
	}
	if err == nil {
		err = a.trial.confirm(ctx, a.plan.ID())
	}
	// Whatever became of it, the next run is about the installation as it ships.
	back := a.roll(context.WithoutCancel(ctx), unlike{}, func(r *replica) bool { return r.build == c.Flag })
	if err := errors.Join(err, back, a.prover.recovered(ctx)); err != nil {
		return err
	}
	a.noted(history.Fault{
		// What the operator does with another flag may need rights that it does not ship with.
		Began: began, Ended: a.now(), Denies: true, Detail: fmt.Sprintf("%d replicas ran with %s", replaced, c.Flag),
	})
	return nil
}

// rollWhileReady replaces replicas, one after another, until a new one does not become
// ready. That one is removed, and the rest stay.
func (a *armed) rollWhileReady(ctx context.Context, u unlike) (replaced int, err error) {
	for _, old := range a.prover.present() {
		r, err := a.prover.add(ctx, u)
		if err != nil {
			return replaced, err
		}
		limited, cancel := context.WithTimeout(ctx, a.rollout)
		unready := a.isReady(limited, r)
		cancel()
		if unready == nil {
			replaced++
			if err := a.prover.remove(ctx, old); err != nil {
				return replaced, err
			}
			continue
		}
		// It has run with the flag, and was not let in.
		return replaced + 1, a.prover.remove(ctx, r)
	}
	return replaced, nil
}

// changeObject changes an object, and restores it while the scenario goes on.
func (a *armed) changeObject(ctx context.Context, c Change) error {
	o, err := a.prover.objectOf(*c.Object)
	if err != nil {
		return err
	}
	before, err := o.get(ctx)
	if err != nil {
		return err
	}
	began := a.now()
	after, err := c.apply(ctx, o, before)
	if err != nil {
		return err
	}
	if after.GetResourceVersion() == before.GetResourceVersion() {
		a.missing("%s had no effect on %s", c.Name, o.key)
		return nil
	}
	ended := a.lasts()
	a.all.Go(func() {
		defer ended()
		a.wait(ctx, changedFor)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		restored, err := o.restore(last, before)
		if err != nil {
			a.failed(fmt.Errorf("restoring %s: %w", o.key, err))
			return
		}
		by := "the operator"
		if restored {
			by = "the end of the fault"
		}
		ended := a.now()
		a.noted(history.Fault{
			Began: began, Ended: ended, Denies: c.Without != nil,
			Detail: fmt.Sprintf("%s was changed by %s and restored by %s; %d requests of the operator were forbidden meanwhile",
				o.key, c.Name, by, a.forbidden(began, ended)),
		})
	})
	return nil
}

// forbidden is how many requests of the replicas were, in a time.
func (a *armed) forbidden(from, to time.Time) int {
	n := 0
	for _, r := range a.prover.present() {
		for _, request := range r.proxy.Journal().Requests {
			if request.Status == http.StatusForbidden && !request.Received.Before(from) && !request.Received.After(to) {
				n++
			}
		}
	}
	return n
}

// apply changes the object. One that is as before has not been changed.
func (c Change) apply(ctx context.Context, o object, before *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if c.Without == nil {
		body, err := json.Marshal(c.Patch)
		if err != nil {
			return nil, fmt.Errorf("encoding the patch: %w", err)
		}
		return o.Patch(ctx, o.key.Name, types.JSONPatchType, body, metav1.PatchOptions{})
	}
	role := &rbacv1.ClusterRole{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(before.Object, role); err != nil {
		return nil, fmt.Errorf("decoding the role: %w", err)
	}
	body, err := json.Marshal(map[string]any{"rules": without(role.Rules, *c.Without)})
	if err != nil {
		return nil, fmt.Errorf("encoding the rules: %w", err)
	}
	return o.Patch(ctx, o.key.Name, types.MergePatchType, body, metav1.PatchOptions{})
}

// without are the rules without a right. A rule that allows it is split: what else it
// allows stays.
func without(rules []rbacv1.PolicyRule, right Right) []rbacv1.PolicyRule {
	var left []rbacv1.PolicyRule
	for _, rule := range rules {
		if !slices.Contains(rule.APIGroups, right.Group) || !slices.Contains(rule.Resources, right.Resource) {
			left = append(left, rule)
			continue
		}
		others := *rule.DeepCopy()
		others.Resources = slices.DeleteFunc(others.Resources, func(r string) bool { return r == right.Resource })
		if len(others.Resources) > 0 {
			left = append(left, others)
		}
		rest := *rule.DeepCopy()
		rest.Resources = []string{right.Resource}
		rest.Verbs = slices.DeleteFunc(rest.Verbs, func(v string) bool { return slices.Contains(right.Verbs, v) })
		if len(rest.Verbs) > 0 {
			left = append(left, rest)
		}
	}
	return left
}

// restore makes the object as it was, but for its metadata and status, and reports
// whether something else was there.
func (o object) restore(ctx context.Context, before *unstructured.Unstructured) (restored bool, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := o.get(ctx)
		if err != nil {
			return err
		}
		wanted := now.DeepCopy()
		for _, field := range slices.Sorted(maps.Keys(now.Object)) {
			if _, there := before.Object[field]; !there {
				delete(wanted.Object, field)
			}
		}
		for field, value := range before.Object {
			if field != "metadata" && field != "status" {
				wanted.Object[field] = runtime.DeepCopyJSONValue(value)
			}
		}
		if restored = !equality.Semantic.DeepEqual(now.Object, wanted.Object); !restored {
			return nil
		}
		_, err = o.Update(ctx, wanted, metav1.UpdateOptions{})
		return err
	})
	return restored, err
}
