package run

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/record"
)

// targetOf is where a process answers, as its arguments say.
func targetOf(process process, proxy *fault.Proxy, webhooks bool) record.Target {
	at := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	ports := process.Ports()
	t := record.Target{
		Name: process.Name(), Probe: at(ports.Probe), Metrics: at(ports.Metrics),
		Watches: func() int { return proxy.Open(fault.Match{Query: map[string]string{"watch": "true"}}) },
	}
	if webhooks {
		t.Webhook = at(ports.Webhook)
	}
	return t
}

// urls reads what requests are about.
var urls = apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// aboutOf is what a request is about; nil if that is no resource.
func aboutOf(r fault.Request) *apirequest.RequestInfo {
	info, err := urls.NewRequestInfo(&http.Request{Method: r.Method, URL: r.URL()})
	if err != nil || !info.IsResourceRequest {
		return nil
	}
	return info
}

// followed are the collections that a replica has asked for since a moment, to know
// all that is in them. Informers do that by a watch that sends what there is first,
// or by a list with a watch after it. One object that is selected by its name is no
// collection: a candidate for the Lease follows the Lease and the holder's Pod like that,
// and may be ready before.
func followed(j fault.Journal, name string, since time.Time) []history.Following {
	synced, watched := map[int]time.Time{}, map[string]time.Time{}
	for _, f := range j.Frames {
		if f.Synced {
			synced[f.Request] = f.Delivered
		}
	}
	for _, r := range j.Requests {
		if r.Query.Get("watch") == "true" {
			watched[r.Path] = r.Received // the last one
		}
	}
	var all []history.Following
	for _, r := range j.Requests {
		info := aboutOf(r)
		if info == nil || info.Name != "" || r.Received.Before(since) {
			continue
		}
		f := history.Following{
			Replica: name, Resource: history.Resource{Group: info.APIGroup, Resource: info.Resource}, Path: r.Path, Asked: r.Received,
		}
		switch {
		case info.Verb == "watch" && r.Query.Get("sendInitialEvents") == "true":
			f.Synced = synced[r.ID]
		case info.Verb == "list" && watched[r.Path].After(r.Received):
			switch {
			case r.Committed():
				f.Synced = r.Delivered
			case r.Instead == http.StatusOK:
				f.Synced = r.Done // a fault that tells what there was has told all
			}
		default:
			continue
		}
		all = append(all, f)
	}
	return all
}
