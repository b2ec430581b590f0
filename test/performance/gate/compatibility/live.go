package compatibility

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/performance/gate/row"
	"leasehold.dev/test/performance/stage"
)

const (
	// stored is how many generated objects there are of each version, and few how
	// many if it is to be quick.
	stored, few = 60, 12
	// tries is how many are made for each that has to be accepted.
	tries = 60
	// starting is how long the control plane may take on a machine that does more than this.
	starting = time.Minute
)

// example is an object that was stored under base.
type example struct {
	// sent is what a client had sent, and kept what base said is stored.
	sent, kept *unstructured.Unstructured
}

// subject is one version of one kind that both serve, with its objects.
type subject struct {
	definition apiextensionsv1.CustomResourceDefinition
	version    apiextensionsv1.CustomResourceDefinitionVersion
	examples   []example
}

func (s *subject) id() string { return prefix + "live/" + s.definition.Name + "/" + s.version.Name }

func (s *subject) kind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: s.definition.Spec.Group, Version: s.version.Name, Kind: s.definition.Spec.Names.Kind}
}

// try stores objects under base and has each done under head what clients do.
func try(ctx context.Context, b stage.Bench, base, head shipped) (_ []row.Row, err error) {
	plane, err := env.Start(ctx, env.Options{WorkDir: b.Dir, StartTimeout: starting})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	if plane.AuditLog() == "" {
		return nil, errors.New("stored objects are tried on a control plane of the gate's own: unset USE_EXISTING_CLUSTER")
	}
	if err := plane.Apply(ctx, base.definitions...); err != nil {
		return nil, fmt.Errorf("installing the kinds of base: %w", err)
	}
	c, err := client.New(plane.Config(), client.Options{})
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	subjects, err := store(ctx, b, c, base, head)
	if err != nil {
		return nil, err
	}
	rows, err := install(ctx, plane, head)
	if err != nil || len(rows) > 0 {
		return rows, err
	}
	for _, s := range subjects {
		b.Say("compatibility: %d objects of %s under head", len(s.examples), s.kind().GroupVersion().WithResource(s.definition.Spec.Names.Plural))
		rows = append(rows, coverage(s))
		rows = append(rows, s.exercise(ctx, c)...)
	}
	return rows, nil
}

// store stores the examples of all versions that both checkouts serve. Those that
// one of them does not serve are judged by the comparison of the definitions.
func store(ctx context.Context, b stage.Bench, c client.Client, base, head shipped) ([]*subject, error) {
	var subjects []*subject
	for _, d := range base.kinds {
		for _, v := range d.Spec.Versions {
			if !v.Served || !serves(head.kinds, d.Name, v.Name) {
				continue
			}
			s := &subject{definition: d, version: v}
			if err := s.fill(ctx, b, c, base.samples, head.samples); err != nil {
				return nil, err
			}
			b.Say("compatibility: %d objects of %s stored under base", len(s.examples), s.kind())
			subjects = append(subjects, s)
		}
	}
	return subjects, nil
}

func serves(kinds []apiextensionsv1.CustomResourceDefinition, name, v string) bool {
	for _, d := range kinds {
		if now := version(d, v); d.Name == name && now != nil && now.Served {
			return true
		}
	}
	return false
}

// fill stores the samples of base and generated objects. The samples of both
// checkouts are what the generator borrows values from.
func (s *subject) fill(ctx context.Context, b stage.Bench, c client.Client, samples, more []*unstructured.Unstructured) error {
	seed := fnv.New64a()
	seed.Write([]byte(s.id()))
	g := &generator{rand: rand.New(rand.NewPCG(b.Seed, seed.Sum64())), corpus: map[string][]any{}}
	for _, sample := range slices.Concat(samples, more) {
		if sample.GroupVersionKind() == s.kind() {
			remember(g.corpus, sample.Object)
		}
	}
	for _, sample := range samples {
		if sample.GroupVersionKind() != s.kind() {
			continue
		}
		if err := s.add(ctx, c, g, sample.DeepCopy()); err != nil {
			return fmt.Errorf("storing %s of base's config/samples: %w", sample.GetName(), err)
		}
	}
	want := stored
	if b.Quick {
		want = few
	}
	var refused error
	accepted := 0
	for try := 0; accepted < want; try++ {
		if try == want*tries {
			return fmt.Errorf("storing generated objects of %s (seed %d): the API server accepted %d of %d, %d are needed; give config/samples more of them: %w",
				s.kind(), b.Seed, accepted, try, want, refused)
		}
		obj := s.generate(g)
		obj.SetName(fmt.Sprintf("generated-%s-%03d", s.version.Name, accepted))
		switch err := s.add(ctx, c, g, obj); {
		case err == nil:
			accepted++
		case apierrors.IsInvalid(err):
			refused = err
		default:
			return fmt.Errorf("storing a generated object of %s: %w", s.kind(), err)
		}
	}
	return nil
}

func (s *subject) generate(g *generator) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	for _, name := range s.top() {
		obj.Object[name] = g.value(name, schemaOf(s.version).Properties[name])
	}
	if s.definition.Spec.Scope == apiextensionsv1.NamespaceScoped {
		obj.SetNamespace(metav1.NamespaceDefault)
	}
	obj.SetGroupVersionKind(s.kind())
	return obj
}

// add stores one object, with a status if it is written by itself.
func (s *subject) add(ctx context.Context, c client.Client, g *generator, sent *unstructured.Unstructured) error {
	kept := sent.DeepCopy()
	if err := c.Create(ctx, kept, client.FieldOwner("before")); err != nil {
		return err
	}
	if described, ok := schemaOf(s.version).Properties["status"]; ok && s.hasStatus() {
		if err := setStatus(ctx, c, kept, func() any { return g.value("status", described) }); err != nil {
			return err
		}
	}
	// What is compared later is what base itself reads back.
	if err := c.Get(ctx, client.ObjectKeyFromObject(kept), kept); err != nil {
		return err
	}
	s.examples = append(s.examples, example{sent: sent, kept: kept})
	return nil
}

// setStatus writes a status, a few if the first is refused. An object without one
// is an example, too.
func setStatus(ctx context.Context, c client.Client, obj *unstructured.Unstructured, value func() any) error {
	for range tries {
		with := obj.DeepCopy()
		with.Object["status"] = value()
		switch err := c.Status().Update(ctx, with, client.FieldOwner("before")); {
		case err == nil:
			return nil
		case !apierrors.IsInvalid(err):
			return fmt.Errorf("writing the status of %s: %w", obj.GetName(), err)
		}
	}
	return nil
}

func (s *subject) hasStatus() bool {
	return s.version.Subresources != nil && s.version.Subresources.Status != nil
}
