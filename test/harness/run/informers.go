// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// informersTimeout bounds the wait for a kind, as features of an operator may be off.
const informersTimeout = 30 * time.Second

// waitForInformers waits until the leader has listed each kind that the operator reconciles. A
// program may report before that it is ready, and its silence would be taken for idleness.
func (p *Prover) waitForInformers(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, pollInterval, informersTimeout, true, func(context.Context) (bool, error) {
		leader := p.lastRenewer()
		return leader != nil && listsKinds(leader.proxy.Journal(), p.subject.Contract.Kinds, time.Time{}), nil
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("waiting for the leader's informers: %w", err)
	}
	return nil
}

// listsKinds reports whether a replica has learned all objects of the kinds since a time.
func listsKinds(j fault.Journal, kinds []invariant.Kind, since time.Time) bool {
	followed := followedCollections(j, "", since)
	return !slices.ContainsFunc(kinds, func(k invariant.Kind) bool {
		return !slices.ContainsFunc(followed, func(f history.Following) bool {
			return f.Resource == k.Resource && !f.Synced.IsZero()
		})
	})
}

// followedCollections returns the collections whose objects a replica has read completely since a
// time: by a watch that sends the initial state, or by a list before a watch. One object selected
// by name is no collection: a candidate for the Lease reads the Lease and the holder's Pod that
// way, and may be ready before.
func followedCollections(j fault.Journal, name string, since time.Time) []history.Following {
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
		info := requestInfoOf(r)
		if info == nil || info.Name != "" || r.Received.Before(since) {
			continue
		}
		f := history.Following{
			Replica: name, Resource: history.Resource{Group: info.APIGroup, Resource: info.Resource}, Path: r.Path,
			Asked: r.Received,
		}
		switch {
		case info.Verb == "watch" && r.Query.Get("sendInitialEvents") == "true":
			f.Synced = synced[r.ID]
		case info.Verb == "list" && watched[r.Path].After(r.Received):
			switch {
			case r.Committed():
				f.Synced = r.Delivered
			case r.Instead == http.StatusOK:
				f.Synced = r.Done // a fault that replays the past list has answered it in full
			}
		default:
			continue
		}
		all = append(all, f)
	}
	return all
}

// requestInfoFactory parses the paths of requests.
var requestInfoFactory = apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// requestInfoOf returns the resource of a request, or nil if it has none.
func requestInfoOf(r fault.ProxiedRequest) *apirequest.RequestInfo {
	info, err := requestInfoFactory.NewRequestInfo(&http.Request{Method: r.Method, URL: r.URL()})
	if err != nil || !info.IsResourceRequest {
		return nil
	}
	return info
}
