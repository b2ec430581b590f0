package slimcache_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/tools/cache"

	"leasehold.dev/controllers/internal/slimcache"
)

// server lists n ConfigMaps in pages, and records what was requested.
type server struct {
	n          int
	expireAt   int // the page that expires once; 0 means none
	lists      []metav1.ListOptions
	mostAtOnce int
}

func (s *server) list(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
	s.lists = append(s.lists, o)
	from, _ := strconv.Atoi(o.Continue)
	if s.expireAt > 0 && len(s.lists) == s.expireAt {
		return nil, apierrors.NewResourceExpired("too old")
	}
	out := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	to := min(s.n, from+int(o.Limit))
	for i := from; i < to; i++ {
		out.Items = append(out.Items, corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("c%04d", i)},
			Data:       map[string]string{"a": "content"}})
	}
	s.mostAtOnce = max(s.mostAtOnce, len(out.Items))
	if to < s.n {
		out.Continue = strconv.Itoa(to)
	}
	return out, nil
}

// withoutData is a transform that is idempotent, as a reflector requires.
func withoutData(in any) (any, error) {
	c := in.(*corev1.ConfigMap)
	return &corev1.ConfigMap{ObjectMeta: c.ObjectMeta}, nil
}

func TestListsArePaged(t *testing.T) {
	for reason, expireAt := range map[string]int{"in one go": 0, "again after a page that expired": 3} {
		t.Run(reason, func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, features.WatchListClient, false)
			s, since, watcher := &server{n: 100, expireAt: expireAt}, make(chan string, 1), watch.NewFake()
			added := make(chan *corev1.ConfigMap, s.n+1)
			ctx, stop := context.WithCancel(t.Context())
			informer := slimcache.NewInformer(&cache.ListWatch{
				ListWithContextFunc: s.list,
				WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
					since <- o.ResourceVersion
					return watcher, nil
				},
			}, &corev1.ConfigMap{}, 0, cache.Indexers{"namespace": cache.MetaNamespaceIndexFunc})
			if err := informer.SetTransform(withoutData); err != nil {
				t.Fatal(err)
			}
			if _, err := informer.AddEventHandler(
				cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { added <- o.(*corev1.ConfigMap) }}); err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() { defer close(done); informer.RunWithContext(ctx) }()
			if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				t.Fatal("the informer did not sync")
			}
			if got := <-since; got != "7" {
				t.Errorf("watched from version %q, want that of the list, 7", got)
			}
			watcher.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "late", ResourceVersion: "8"},
				Data: map[string]string{"a": "content"}})
			for range s.n + 1 {
				if o := <-added; len(o.Data) > 0 {
					t.Fatalf("%s has its content still", o.Name)
				}
			}
			stop()
			<-done
			objects, err := informer.GetIndexer().ByIndex("namespace", "ns")
			if err != nil || len(objects) != s.n+1 {
				t.Errorf("%d objects and %v, want %d", len(objects), err, s.n+1)
			}
			if s.mostAtOnce > 8 {
				t.Errorf("%d objects in one answer, want at most 8", s.mostAtOnce)
			}
			for _, o := range s.lists {
				if o.ResourceVersion != "" || o.ResourceVersionMatch != "" || o.Limit == 0 {
					t.Errorf("listed with %+v: the API server would send all at once", o)
				}
			}
		})
	}
}

func TestFailedTransformFailsList(t *testing.T) {
	featurestesting.SetFeatureDuringTest(t, features.WatchListClient, false)
	s, failures := &server{n: 20}, make(chan error, 100)
	ctx, stop := context.WithCancel(t.Context())
	informer := slimcache.NewInformer(&cache.ListWatch{ListWithContextFunc: s.list}, &corev1.ConfigMap{}, 0,
		cache.Indexers{})
	boom := errors.New("boom")
	if err := errors.Join(
		informer.SetTransform(func(any) (any, error) { return nil, boom }),
		informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { failures <- err }),
	); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); informer.RunWithContext(ctx) }()
	if err := <-failures; !errors.Is(err, boom) {
		t.Errorf("got %v, want the transform's error", err)
	}
	stop()
	<-done
}
