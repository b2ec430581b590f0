package compatibility

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/performance/gate/row"
	"leasehold.dev/test/performance/stage"
)

// Check compares the CustomResourceDefinitions of both checkouts and tries those
// of head with objects that were stored under those of base. It needs a control
// plane of its own, and no program of either.
func Check(ctx context.Context, p row.Pair) ([]row.Row, error) {
	base, err := read(ctx, p.Base)
	if err != nil {
		return nil, err
	}
	head, err := read(ctx, p.Head)
	if err != nil {
		return nil, err
	}
	rows := CompareDefinitions(base.kinds, head.kinds)
	p.Bench.Say("compatibility: %d kinds compared, %d differences", len(base.kinds),
		len(slices.DeleteFunc(slices.Clone(rows), func(r row.Row) bool { return r.Verdict == row.Same })))
	tried, err := try(ctx, p.Bench, base, head)
	return append(rows, tried...), err
}

// shipped is what a checkout ships of its kinds.
type shipped struct {
	// definitions are as `make install` applies them, and kinds the same, typed.
	definitions []*unstructured.Unstructured
	kinds       []apiextensionsv1.CustomResourceDefinition
	samples     []*unstructured.Unstructured
}

func read(ctx context.Context, c stage.Checkout) (shipped, error) {
	var s shipped
	var err error
	if s.definitions, err = env.Render(ctx, "", filepath.Join(c.Dir, "config", "crd")); err != nil {
		return shipped{}, err
	}
	for _, u := range s.definitions {
		var d apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &d); err != nil {
			return shipped{}, fmt.Errorf("reading CustomResourceDefinition %s of %s: %w", u.GetName(), c.Dir, err)
		}
		s.kinds = append(s.kinds, d)
	}
	if s.samples, err = env.Render(ctx, "", filepath.Join(c.Dir, "config", "samples")); err != nil {
		return shipped{}, err
	}
	return s, nil
}
