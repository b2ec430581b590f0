package record_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

// world has resources that the test lists and watches by hand.
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

func TestWatch_SeesObjectsFromTheirCreation(t *testing.T) {
	w := newWorld()
	w.list <- listed("5", anObject("old", "4"))
	watcher, err := w.watch(t, nil, things)
	if err != nil {
		t.Fatal(err)
	}
	w.frames.Modify(anObject("old", "6"))
	w.frames.Add(anObject("a", "7"))
	w.frames.Action(watch.Bookmark, anObject("", "8"))
	w.frames.Modify(anObject("a", "9"))
	NewWithT(t).Eventually(func() int { return len(watcher.History().Versions) }, 30*time.Second).Should(Equal(2))

	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	w.list <- listed("10", anObject("old", "6"))
	if err := watcher.Sync(short); err == nil {
		t.Error("Sync() succeeded, though a is gone and the watch has not delivered its deletion")
	}
	w.frames.Delete(anObject("a", "10"))
	w.frames.Add(anObject("b", "11"))
	w.list <- listed("11", anObject("old", "6"), anObject("b", "11"))
	if err := watcher.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
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
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	if !h.Has(history.Watch) {
		t.Error("the history does not say that a watch was listening")
	}
}

func TestWatch_FailsAfterAGap(t *testing.T) {
	w := newWorld()
	w.list <- listed("5")
	watcher, err := w.watch(t, nil, things)
	if err != nil {
		t.Fatal(err)
	}
	gone := apierrors.NewResourceExpired("compacted").Status()
	w.frames.Error(&gone)
	w.list <- listed("9")
	NewWithT(t).Eventually(func() bool { return watcher.History().Has(history.Watch) }, 30*time.Second).Should(BeFalse())
	if err := watcher.Sync(t.Context()); err == nil || !strings.Contains(err.Error(), "compacted") {
		t.Errorf("Sync() = %v, want the gap", err)
	}
}

func TestWatch_NeedsAStartVersion(t *testing.T) {
	w := newWorld()
	w.list <- listed("")
	if _, err := w.watch(t, nil, things); err == nil || !strings.Contains(err.Error(), "watching things") {
		t.Errorf("Watch() = %v, want an error", err)
	}
}
