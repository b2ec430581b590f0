// Package slimcache makes informers whose memory grows with the number of objects, not
// with their bytes. A transform cuts each object down before the next ones are read.
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

// pageSize is how many objects a list holds in full at once. An object has up to 1.5 MiB.
// Only servers that do not stream lists (WatchList: off in Kubernetes 1.31 and 1.33) are
// listed; the others send one object at a time.
const pageSize = 8

// NewInformer is for cache.Options.NewInformer. Its transform has to be idempotent: what
// has been cut down is given to it again.
//
// A reflector passes what it streams or watches through the transform one by one, but
// collects the whole of a list before it transforms the first object.
func NewInformer(source cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	from := cache.ToListerWatcherWithContext(source)
	pages := &pagedList{list: from.ListWithContext}
	return &informer{
		SharedIndexInformer: cache.NewSharedIndexInformer(
			&cache.ListWatch{ListWithContextFunc: pages.all, WatchFuncWithContext: from.WatchWithContext}, example, resync, indexers),
		pages: pages,
	}
}

type informer struct {
	cache.SharedIndexInformer
	pages *pagedList
}

// SetTransform implements cache.SharedIndexInformer. It precedes the start of the informer.
func (i *informer) SetTransform(f cache.TransformFunc) error {
	i.pages.transform = f
	return i.SharedIndexInformer.SetTransform(f)
}

// pagedList lists page by page, and transforms a page before it reads the next.
type pagedList struct {
	list      cache.ListWithContextFunc
	transform cache.TransformFunc
}

// all lists what there is now. The version that the reflector requests is not passed on:
// the API server ignores the limit of a list at "any version", and the newest is newer than
// all others. A page that has expired fails the list, and the reflector begins again.
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
