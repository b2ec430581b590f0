// SPDX-License-Identifier: Apache-2.0

package runners_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/runners"
)

// fakeCache responds for the kinds that it was given; others have no informer.
type fakeCache struct {
	cache.Cache
	t      *testing.T
	synced map[string]bool
}

func (c fakeCache) GetInformer(
	_ context.Context, o client.Object, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	var options cache.InformerGetOptions
	for _, opt := range opts {
		opt(&options)
	}
	if options.BlockUntilSynced == nil || *options.BlockUntilSynced {
		c.t.Error("the check would wait for the informer to sync")
	}
	synced, ok := c.synced[kindOf(o)]
	if !ok {
		return nil, errors.New("no such kind")
	}
	return fakeInformer{synced: synced}, nil
}

type fakeInformer struct {
	toolscache.SharedIndexInformer
	synced bool
}

func (i fakeInformer) HasSynced() bool { return i.synced }

func kindOf(o client.Object) string {
	switch o.(type) {
	case *corev1.Namespace:
		return "Namespace"
	case *rbacv1.RoleBinding:
		return "RoleBinding"
	}
	return ""
}

func TestCachesSynced(t *testing.T) {
	watched := []client.Object{&corev1.Namespace{}, &rbacv1.RoleBinding{}}
	for name, tc := range map[string]struct {
		synced map[string]bool
		want   string // "" for ready
	}{
		"all have synced":      {map[string]bool{"Namespace": true, "RoleBinding": true}, ""},
		"one kind still lists": {map[string]bool{"Namespace": true, "RoleBinding": false}, "*v1.RoleBinding has not synced"},
		"the cache cannot watch a kind": {map[string]bool{"Namespace": true},
			"getting the informer of *v1.RoleBinding: no such kind"},
		"the cache was never used": {nil, "getting the informer"},
	} {
		t.Run(name, func(t *testing.T) {
			check := runners.CachesSynced(fakeCache{t: t, synced: tc.synced}, watched)
			err := check(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz/caches", http.NoBody))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("it is ready: %v, want %q", err, tc.want)
			}
		})
	}
}
