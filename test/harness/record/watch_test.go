// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
)

var things = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}

// world has resources whose lists and watches the test controls.
type world struct {
	client *dynamicfake.FakeDynamicClient
	frames *watch.FakeWatcher
	list   chan *unstructured.UnstructuredList // what the next lists return
}

func newWorld() *world {
	w := &world{frames: watch.NewFake(), list: make(chan *unstructured.UnstructuredList, 9)}
	w.client = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{things: "ThingList", secrets: "SecretList"})
	w.client.PrependReactor("list", "*",
		func(clienttesting.Action) (bool, runtime.Object, error) { return true, <-w.list, nil })
	w.client.PrependWatchReactor("*", clienttesting.DefaultWatchReactor(w.frames, nil))
	return w
}

// watch records a resource until the test ends, by a clock that shows 9 s.
func (w *world) watch(t *testing.T, hash record.Hash, r schema.GroupVersionResource) (*record.Watcher, error) {
	t.Helper()
	watcher, err := record.Watch(t.Context(), w.client, testingclock.NewFakePassiveClock(time.Unix(9, 0)), hash, r)
	if err == nil {
		t.Cleanup(watcher.Stop)
	}
	return watcher, err
}

func anObject(uid, version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing",
		"metadata": map[string]any{
			"namespace": "ns", "name": "t-" + uid, "uid": uid, "resourceVersion": version,
		}}}
}

func listed(version string, objects ...*unstructured.Unstructured) *unstructured.UnstructuredList {
	l := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "ThingList"}}
	l.SetResourceVersion(version)
	for _, o := range objects {
		l.Items = append(l.Items, *o)
	}
	return l
}

func TestWatch_RecordsObjectsFromTheirCreation(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	w.list <- listed("5", anObject("old", "4"))
	watcher, err := w.watch(t, nil, things)
	g.Expect(err).NotTo(HaveOccurred())
	w.frames.Modify(anObject("old", "6"))
	w.frames.Add(anObject("a", "7"))
	w.frames.Action(watch.Bookmark, anObject("", "8"))
	w.frames.Modify(anObject("a", "9"))
	g.Eventually(func() int { return len(watcher.History().Versions) }, 30*time.Second).Should(Equal(2))

	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	w.list <- listed("10", anObject("old", "6"))
	g.Expect(watcher.Sync(short)).NotTo(Succeed(), "the watch has not delivered the deletion of a")
	w.frames.Delete(anObject("a", "10"))
	w.frames.Add(anObject("b", "11"))
	w.list <- listed("11", anObject("old", "6"), anObject("b", "11"))
	g.Expect(watcher.Sync(t.Context())).To(Succeed())
	h := watcher.History()
	var got []string
	for _, v := range h.Versions {
		got = append(got, fmt.Sprintf("%s %s gone=%t at %d", v.Key, v.RevisionRange, v.Gone, v.At.Unix()))
	}
	want := []string{
		"things.example.com ns/t-a resourceVersion 7 gone=false at 9",
		"things.example.com ns/t-a resourceVersion 9 gone=false at 9",
		"things.example.com ns/t-a resourceVersion 10 gone=true at 9",
		"things.example.com ns/t-b resourceVersion 11 gone=false at 9",
	}
	g.Expect(got).To(Equal(want))
	g.Expect(h.Has(history.Watch)).To(BeTrue())
}

func TestWatch_FailsAfterAGap(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	w.list <- listed("5")
	watcher, err := w.watch(t, nil, things)
	g.Expect(err).NotTo(HaveOccurred())
	gone := apierrors.NewResourceExpired("compacted").Status()
	w.frames.Error(&gone)
	w.list <- listed("9")
	g.Eventually(func() bool { return watcher.History().Has(history.Watch) }, 30*time.Second).Should(BeFalse())
	g.Expect(watcher.Sync(t.Context())).To(MatchError(ContainSubstring("compacted")))
}

func TestWatch_NeedsAStartVersion(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	w.list <- listed("")
	_, err := w.watch(t, nil, things)
	g.Expect(err).To(MatchError(ContainSubstring("watching things")))
}
