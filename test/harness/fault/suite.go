// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// TB contains the methods of a test that Before needs. *testing.T and Ginkgo's GinkgoT() implement
// it.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Failed() bool
}

// API is a proxy between the manager of a test and its API server. Its methods inject faults and are named for what
// the manager sees. Resources are named as for kubectl: "pods", "deployments.apps", "widgets.example.com".
type API struct {
	*Proxy

	t      TB
	config *rest.Config // of the manager
	server string       // the URL of the API server
	direct *http.Client // to the API server, past the proxy

	mu        sync.Mutex
	manager   *process
	leftovers []leftover
}

// leftover is a rule that fails the test if it never happened, or is still in force at the end.
type leftover struct {
	injection *Injection
	evidence  *Injection // whose count says whether it happened
}

// Before starts a proxy in front of the API server that cfg reaches, and stops it when the test ends. The
// returned config is for the manager under test; the test itself keeps using cfg. The proxy authenticates
// as cfg does, by client certificate, token or exec plugin, so the config of envtest works unchanged.
//
// A rule that matched no request, or that is still in force at the end of the test, fails the test. If the test has
// failed already, the log says how often each rule happened.
func Before(t TB, cfg *rest.Config) (*rest.Config, *API) {
	t.Helper()
	server, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		t.Fatalf("reading the address of the API server: %v", err)
	}
	o, err := APIOptions(cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	o.Upstream = server.String()
	if o.UpstreamTLS, err = rest.TLSConfigFor(cfg); err != nil {
		t.Fatalf("reading the client's certificate: %v", err)
	}
	o.Authenticate = func(base http.RoundTripper) (http.RoundTripper, error) {
		return rest.HTTPWrappersForConfig(cfg, base)
	}
	direct, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("making a client of the API server: %v", err)
	}
	proxy, err := NewProxy(o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	a := &API{Proxy: proxy, t: t, config: rest.AnonymousClientConfig(cfg),
		server: strings.TrimSuffix(server.String(), "/"), direct: direct}
	proxy.Connect(a.config)
	t.Cleanup(a.end)
	return a.config, a
}

// HoldEvents holds back the events of a resource's watches until the returned injection is healed: the cache of
// the manager does not change, whatever the API server stores. A cache that starts meanwhile gets its initial state.
func (a *API) HoldEvents(resource string) *Injection {
	a.t.Helper()
	watches := a.match(http.MethodGet, resource)
	watches.Query = map[string]string{"watch": ""}
	return a.add(a.name("the events of "+resource+" are held back"), watches, Lag{PassInitial: true})
}

// LoseAnswer loses the API server's answer to the next request with a verb ("create", "update", "patch" or
// "delete") for a resource. The API server carries out the request; the manager sees a broken connection.
func (a *API) LoseAnswer(verb, resource string) *Injection {
	a.t.Helper()
	return a.add(a.name(fmt.Sprintf("the answer to the next %s of %s is lost", verb, resource)),
		a.next(verb, resource), Cut{At: AfterAnswer})
}

// Refuse refuses the next request with a verb for a resource, with one of the codes of Refusal. The API
// server does not see the request.
func (a *API) Refuse(verb, resource string, code int) *Injection {
	a.t.Helper()
	name := a.name(fmt.Sprintf("the next %s of %s is refused with %d", verb, resource, code))
	answer, err := refusal(code, "injected: "+name)
	if err != nil {
		a.t.Fatalf("%v", err)
	}
	return a.add(name, a.next(verb, resource), answer)
}

// end stops the manager and the proxy, and fails the test for each rule that is left over.
func (a *API) end() {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.leftovers {
		name, over := l.injection.rule.Name, l.injection.ctx.Err() != nil || l.injection.rule.Match.To > 0
		switch {
		case a.t.Failed():
			a.t.Logf("%s: this happened %d time(s)", name, l.evidence.Count())
		case !l.evidence.Happened():
			a.t.Errorf("%s: this never happened, because no request through the proxy matched; run the manager with Start, "+
				"and name a resource with its group, as in deployments.apps", name)
		case !over:
			a.t.Errorf("%s: this was in force until the end; call Heal, and assert what the manager does then", name)
		}
		l.injection.Heal()
	}
	if a.manager != nil {
		if err := a.manager.stop(); err != nil {
			a.t.Errorf("%v", err)
		}
	}
	if err := a.Close(); err != nil {
		a.t.Errorf("%v", err)
	}
	a.direct.CloseIdleConnections()
}

// name returns what a rule does, with the line of the test that asked for it.
func (*API) name(what string) string {
	_, file, line, known := runtime.Caller(2) // the caller of the exported method
	if !known {
		return what
	}
	return fmt.Sprintf("%s (%s:%d)", what, filepath.Base(file), line)
}

func (a *API) add(name string, match Match, fault Fault) *Injection {
	i := a.Inject(Rule{Name: name, Match: match, Fault: fault})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leftovers = append(a.leftovers, leftover{injection: i, evidence: i})
	return i
}

// methods are the HTTP methods of the RBAC verbs that write one object.
var methods = map[string]string{
	"create": http.MethodPost, "update": http.MethodPut, "patch": http.MethodPatch, "delete": http.MethodDelete,
}

// next selects the next request with a verb.
func (a *API) next(verb, resource string) Match {
	a.t.Helper()
	method, known := methods[verb]
	if !known {
		a.t.Fatalf("verb %q: use create, update, patch or delete", verb)
	}
	m := a.match(method, resource)
	m.To = 1
	return m
}

// match selects the requests of a method for a resource: for collections, objects and subresources.
func (*API) match(method, resource string) Match {
	return Match{Methods: []string{method}, Pattern: pathsOf(resource)}
}

// namespaceGroup is the group of pathsOf that has the namespace.
const namespaceGroup = 2

// pathsOf matches the paths of a resource in all its versions and namespaces.
func pathsOf(resource string) *regexp.Regexp {
	r, root, object := schema.ParseGroupResource(resource), "/api", `(/[^/]+){0,2}`
	if r.Group != "" {
		root = "/apis/" + regexp.QuoteMeta(r.Group)
	} else if r.Resource == "namespaces" { // other resources follow the name of a namespace
		object = `(/[^/]+(/status|/finalize)?)?`
	}
	return regexp.MustCompile(`^` + root + `/[^/]+(/namespaces/([^/]+))?/` + regexp.QuoteMeta(r.Resource) + object + `$`)
}
