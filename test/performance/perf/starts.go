// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/env"
)

// startsOfEach is how often each operator is started. A U test needs six to find a difference significant.
const startsOfEach = 6

// compareStarts starts the operator of this checkout and that of another one in turn, some times, and writes how long
// each took: from exec until it is ready, and until it has reconciled an object. The files are in the format of
// benchmarks, for the gate.
func (c *campaign) compareStarts(ctx context.Context, base string) (err error) {
	other, err := build(ctx, base, filepath.Join(c.dir, "bin", "base"))
	if err != nil {
		return err
	}
	names, sides, lines := []string{"base", "head"}, []*environment{}, make([]strings.Builder, 2)
	defer func() {
		for _, side := range sides {
			err = errors.Join(err, side.stop(context.WithoutCancel(ctx)))
		}
	}()
	for i, side := range []checkout{other, c.checkout} {
		c.logf("starting a control plane for the operator of %s", names[i])
		started, err := start(ctx, side, env.Options{}, 1, nil)
		if err != nil {
			return err
		}
		sides = append(sides, started)
	}
	for n := range startsOfEach {
		for i := range sides {
			i = (i + n) % len(sides)
			ready, reconciled, err := sides[i].restart(ctx, n)
			if err != nil {
				return fmt.Errorf("starting the operator of %s: %w", names[i], err)
			}
			c.logf("start %d of %s: ready after %s, reconciled after %s", n+1, names[i], ready, reconciled)
			fmt.Fprintf(&lines[i], "BenchmarkReady 1 %d ns/op\nBenchmarkReconciled 1 %d ns/op\n", ready, reconciled)
		}
	}
	for i, name := range names {
		text := "pkg: starts\n" + lines[i].String()
		file, failed := os.OpenFile(filepath.Join(c.dir, name+"-starts.txt"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if failed == nil {
			_, failed = file.WriteString(text)
			failed = errors.Join(failed, file.Close())
		}
		err = errors.Join(err, failed)
	}
	return err
}

// restart restarts the replica, and returns the time until it is ready and that until it has reconciled an object
// that was created while no replica ran. StorageBuckets have no webhook.
func (e *environment) restart(ctx context.Context, n int) (ready, reconciled time.Duration, err error) {
	replica := e.installation.Replicas()[0]
	if _, err := replica.Stop(ctx); err != nil {
		return 0, 0, fmt.Errorf("stopping it: %w", err)
	}
	b := &v1beta1.StorageBucket{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("start-%d-%d", os.Getpid(), n)},
		Spec: v1beta1.StorageBucketSpec{BucketName: "none", Endpoint: "http://127.0.0.1:1",
			CredentialsSecretRef: v1beta1.SecretReference{Name: "none"}},
	}
	if err := e.client.Create(ctx, b); err != nil {
		return 0, 0, fmt.Errorf("creating a StorageBucket: %w", err)
	}
	began := time.Now()
	if err := replica.Restart(); err != nil {
		return 0, 0, err
	}
	err = await(ctx, poll, patience, "the replica to be ready and to reconcile", func(ctx context.Context) error {
		if ready == 0 && replica.Ready(ctx) == nil {
			ready = time.Since(began)
		}
		if reconciled == 0 && e.client.Get(ctx, client.ObjectKeyFromObject(b), b) == nil && b.Status.ObservedGeneration > 0 {
			reconciled = time.Since(began)
		}
		if ready == 0 || reconciled == 0 {
			return fmt.Errorf("ready after %s, reconciled after %s", ready, reconciled)
		}
		return nil
	})
	return ready, reconciled, err
}
