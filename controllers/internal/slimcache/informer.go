// Package slimcache creates informers whose memory grows with the number of objects and not with
// their size. A transform reduces each object before the next ones are read.
package slimcache

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// pageSize is the number of complete objects that a list holds at a time. An object has up to 1.5
// MiB. Only servers that do not stream lists (WatchList: off in Kubernetes 1.31 and 1.33) are
// listed; the others send one object at a time.
const pageSize = 8

// NewInformer is for cache.Options.NewInformer. The transform must be idempotent, because it also
// runs on transformed objects.
//
// A reflector transforms streamed and watched objects one by one, but it reads a whole list before
// it transforms the first object.
func NewInformer(source cache.ListerWatcher, example runtime.Object, resync time.Duration,
	indexers cache.Indexers) cache.SharedIndexInformer {
	from := cache.ToListerWatcherWithContext(source)
	pages := &pagedList{list: from.ListWithContext}
	return &informer{
		SharedIndexInformer: cache.NewSharedIndexInformer(
			&cache.ListWatch{ListWithContextFunc: pages.all, WatchFuncWithContext: from.WatchWithContext}, example,
			resync, indexers),
		pages: pages,
	}
}

type informer struct {
	cache.SharedIndexInformer
	pages *pagedList
}

// SetTransform implements cache.SharedIndexInformer. It must be called before the informer starts.
func (i *informer) SetTransform(f cache.TransformFunc) error {
	i.pages.transform = f
	return i.SharedIndexInformer.SetTransform(f)
}

// pagedList lists in pages, and transforms each page before it reads the next one.
type pagedList struct {
	list      cache.ListWithContextFunc
	transform cache.TransformFunc
}

// all returns the current objects. It does not pass on the version that the reflector requests: for
// "any version" the API server ignores the limit, and the newest version satisfies all requests. An
// expired page fails the list, and the reflector starts again.
func (p *pagedList) all(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	o.ResourceVersion, o.ResourceVersionMatch, o.Limit, o.Continue = "", "", pageSize, ""
	whole := &metainternalversion.List{}
	for {
		page, err := p.list(ctx, o)
		if err != nil {
			return nil, err
		}
		about, err := meta.ListAccessor(page)
		if err != nil {
			return nil, fmt.Errorf("reading a page: %w", err)
		}
		if err := meta.EachListItemWithAlloc(page, func(item runtime.Object) error {
			slim, err := p.slim(item)
			whole.Items = append(whole.Items, slim)
			return err
		}); err != nil {
			return nil, fmt.Errorf("transforming a page: %w", err)
		}
		// All pages have the version of the first.
		whole.ResourceVersion = about.GetResourceVersion()
		if o.Continue = about.GetContinue(); o.Continue == "" {
			return whole, nil
		}
	}
}

func (p *pagedList) slim(item runtime.Object) (runtime.Object, error) {
	if p.transform == nil {
		return item, nil
	}
	out, err := p.transform(item)
	if err != nil {
		return nil, err
	}
	object, ok := out.(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("the transform made a %T, which is no object", out)
	}
	return object, nil
}
