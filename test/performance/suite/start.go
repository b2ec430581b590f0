package suite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/performance/stage"
)

// starts are the seconds that control planes took, in pairs.
type starts struct{ ours, stock []float64 }

// startPlanes starts them in turns, so that what else happens on the machine meets
// both, and each is the first of a pair as often as the other.
func startPlanes(ctx context.Context, b stage.Bench) (starts, error) {
	pairs := 20
	if b.Quick {
		pairs = 2
	}
	var all starts
	assets, err := env.FindAssets("")
	if err != nil {
		return all, err
	}
	ours := func() error { return start(ctx, b, &all.ours, startOurs(assets)) }
	stock := func() error { return start(ctx, b, &all.stock, startStock(assets)) }
	for i := range pairs {
		first, second := ours, stock
		if i%2 == 1 {
			first, second = stock, ours
		}
		if err := errors.Join(first(), second()); err != nil {
			return all, err
		}
		b.Say("control planes: pair %d of %d, ours %.2f s, envtest's %.2f s", i+1, pairs, all.ours[i], all.stock[i])
	}
	return all, nil
}

// start adds what one start takes; its stop is not part of that.
func start(ctx context.Context, b stage.Bench, seconds *[]float64, begin func(context.Context) (stop func() error, err error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	began := b.Clock.Now()
	stop, err := begin(ctx)
	took := b.Clock.Since(began)
	if err != nil {
		return err
	}
	*seconds = append(*seconds, took.Seconds())
	return stop()
}

func startOurs(assets string) func(context.Context) (func() error, error) {
	return func(ctx context.Context) (func() error, error) {
		plane, err := env.Start(ctx, env.Options{AssetsDir: assets})
		if err != nil {
			return nil, err
		}
		return plane.Stop, nil
	}
}

func startStock(assets string) func(context.Context) (func() error, error) {
	return func(context.Context) (func() error, error) {
		plane := &envtest.Environment{BinaryAssetsDirectory: assets, ControlPlaneStopTimeout: 10 * time.Second}
		if _, err := plane.Start(); err != nil {
			return nil, errors.Join(fmt.Errorf("starting envtest's control plane: %w", err), plane.Stop())
		}
		return plane.Stop, nil
	}
}
