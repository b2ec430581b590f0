// SPDX-License-Identifier: Apache-2.0

package election

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// object is a Lease or a Pod.
type object interface {
	metav1.Object
	runtime.Object
}

// api keeps Leases and Pods in memory. It implements the part of an API server that an election
// needs: versions, conflicts, lists, and watches from a version.
type api struct {
	t *testing.T

	mu       sync.Mutex
	version  int
	objects  map[string]object // by resource/name
	past     []change
	watches  map[*stream]bool
	requests []string        // "VERB resource user"
	muted    bool            // watches send nothing
	dead     map[string]bool // users whose requests are dropped
	cut      map[string]bool // users and "VERB resource" without responses
	faults   func(verb, resource string) error
}

// change is one event of the past.
type change struct {
	kind, resource, name string
	version              int
	object               json.RawMessage
}

// stream is one watch.
type stream struct {
	resource, name string
	frames         chan []byte
	body           *io.PipeWriter
}

func newAPI(t *testing.T) *api {
	t.Helper()
	return &api{t: t, objects: map[string]object{}, watches: map[*stream]bool{}}
}

// config returns the configuration of a client; requests records the user.
func (a *api) config(user string) *rest.Config {
	return &rest.Config{Host: "http://api", Transport: &sender{a, user},
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// statusError is an error of the API.
type statusError int

func (s statusError) Error() string { return http.StatusText(int(s)) }

var reasons = map[statusError]metav1.StatusReason{
	http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusConflict: metav1.StatusReasonConflict,
	http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusGone: metav1.StatusReasonExpired,
}

func (s statusError) object() *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(s), Reason: reasons[s], Message: s.Error(),
	}
}

// sender is a user's transport to the API.
type sender struct {
	api  *api
	user string
}

// RoundTrip implements http.RoundTripper.
func (s *sender) RoundTrip(r *http.Request) (*http.Response, error) { return s.api.serve(r, s.user) }

func (a *api) serve(r *http.Request, user string) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	resource, name := segments[len(segments)-1], ""
	if resource != "leases" && resource != "pods" {
		resource, name = segments[len(segments)-2], resource
	}
	query := r.URL.Query()
	verb := r.Method
	if name == "" && verb == http.MethodGet {
		name = strings.TrimPrefix(query.Get("fieldSelector"), "metadata.name=")
		verb = "LIST"
		if query.Get("watch") != "" {
			verb = "WATCH"
		}
	}
	if a.cut[user] || a.cut[verb+" "+resource] {
		a.mu.Unlock()
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	defer a.mu.Unlock()
	if a.dead[user] {
		return nil, errors.New("the sender has stopped")
	}
	a.requests = append(a.requests, verb+" "+resource+" "+user)
	if a.faults != nil {
		if err := a.faults(verb, resource); err != nil {
			return answer(r, nil, err)
		}
	}
	if verb == "WATCH" {
		return a.watch(r, resource, name, query.Get("resourceVersion"))
	}
	result, err := a.handle(r, verb, resource, name)
	return answer(r, result, err)
}

func answer(r *http.Request, result any, err error) (*http.Response, error) {
	code := http.StatusOK
	var failure statusError
	if errors.As(err, &failure) {
		code, result = int(failure), failure.object()
	} else if err != nil {
		return nil, err
	}
	body, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	return response(r, code, io.NopCloser(bytes.NewReader(body))), nil
}

func response(r *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body, ContentLength: -1, Request: r,
	}
}

func (a *api) handle(r *http.Request, verb, resource, name string) (any, error) {
	key := resource + "/" + name
	switch verb {
	case "LIST":
		list := map[string]any{"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1",
			"metadata": map[string]string{"resourceVersion": strconv.Itoa(a.version)}, "items": []object{}}
		if resource == "pods" {
			list["kind"], list["apiVersion"] = "PodList", "v1"
		}
		if o, found := a.objects[key]; found {
			list["items"] = []object{o}
		}
		return list, nil
	case http.MethodGet:
		if o, found := a.objects[key]; found {
			return o, nil
		}
		return nil, statusError(http.StatusNotFound)
	}
	lease := &coordinationv1.Lease{}
	if err := json.NewDecoder(r.Body).Decode(lease); err != nil {
		return nil, err
	}
	old, found := a.objects["leases/"+lease.Name]
	switch {
	case verb == http.MethodPost && found:
		return nil, statusError(http.StatusConflict)
	case verb == http.MethodPut && !found:
		return nil, statusError(http.StatusNotFound)
	case verb == http.MethodPut && old.GetResourceVersion() != lease.ResourceVersion:
		return nil, statusError(http.StatusConflict)
	}
	a.store(lease)
	return lease, nil
}

// put stores an object as another client would.
func (a *api) put(o object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.store(o)
}

func (a *api) store(o object) {
	resource := "leases"
	if _, isPod := o.(*corev1.Pod); isPod {
		resource = "pods"
	}
	kind := "MODIFIED"
	if old, found := a.objects[resource+"/"+o.GetName()]; !found {
		kind = "ADDED"
		if o.GetUID() == "" {
			o.SetUID(types.UID(fmt.Sprintf("uid-%d", a.version)))
		}
	} else if o.GetUID() == "" {
		o.SetUID(old.GetUID())
	}
	a.version++
	o.SetResourceVersion(strconv.Itoa(a.version))
	a.objects[resource+"/"+o.GetName()] = o.DeepCopyObject().(object)
	a.record(kind, resource, o)
}

// remove deletes an object as another client would.
func (a *api) remove(resource, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.objects[resource+"/"+name]
	delete(a.objects, resource+"/"+name)
	a.version++
	o.SetResourceVersion(strconv.Itoa(a.version))
	a.record("DELETED", resource, o)
}

func (a *api) record(kind, resource string, o object) {
	raw, err := json.Marshal(o)
	if err != nil {
		a.t.Error(err)
	}
	c := change{kind, resource, o.GetName(), a.version, raw}
	a.past = append(a.past, c)
	for s := range a.watches {
		if s.resource == c.resource && s.name == c.name && !a.muted {
			s.frames <- c.frame()
		}
	}
}

func (c change) frame() []byte {
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", c.kind, c.object)
}

func (a *api) watch(r *http.Request, resource, name, from string) (*http.Response, error) {
	after, err := strconv.Atoi(from)
	if err != nil {
		return nil, err
	}
	read, write := io.Pipe()
	s := &stream{resource, name, make(chan []byte, 1000), write}
	for _, c := range a.past {
		if c.resource == resource && c.name == name && c.version > after && !a.muted {
			s.frames <- c.frame()
		}
	}
	a.watches[s] = true
	go func() {
		defer a.forget(s)
		for {
			select {
			case <-r.Context().Done():
				return
			case frame, open := <-s.frames:
				if !open {
					return
				}
				if _, err := write.Write(frame); err != nil {
					return
				}
			}
		}
	}()
	return response(r, http.StatusOK, read), nil
}

func (a *api) forget(s *stream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.watches, s)
	_ = s.body.Close()
}

// send sends a frame to all watches of the Lease, and optionally ends them.
func (a *api) send(frame string, end bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s := range a.watches {
		if s.resource != "leases" {
			continue
		}
		if frame != "" {
			s.frames <- []byte(frame + "\n")
		}
		if end {
			close(s.frames)
			delete(a.watches, s)
		}
	}
}

// mute keeps watches open without sending events.
func (a *api) mute(muted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.muted = muted
}

// hang sends no responses to requests of these users and of these "VERB resource".
func (a *api) hang(what ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cut = map[string]bool{}
	for _, w := range what {
		a.cut[w] = true
	}
}

// deafen keeps the current watches open without sending events.
func (a *api) deafen() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.watches)
}

// fail responds to requests with the error of f, if any.
func (a *api) fail(f func(verb, resource string) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults = f
}

// lease returns the stored Lease, or nil.
func (a *api) lease() *coordinationv1.Lease {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o, found := a.objects["leases/"+lease.Name]; found {
		return o.DeepCopyObject().(*coordinationv1.Lease)
	}
	return nil
}

// take returns the requests since its last call.
func (a *api) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.requests
	a.requests = nil
	return taken
}
