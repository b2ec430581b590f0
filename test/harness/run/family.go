// SPDX-License-Identifier: Apache-2.0

package run

import (
	"slices"
	"strings"
)

// Family is what similar faults have in common. One of them is enough for a smoke test.
type Family struct {
	Name string
	// Bug is the address of a bug that such a fault would have shown, in another project.
	Bug string
	// Found says what such faults have found in third-party operators; "" if nothing.
	Found string
}

// externalFamily is the family of the faults of calls to the external system.
const externalFamily = "external"

// families has all families, in the order of tables.
var families = []Family{
	{Name: "crash-after-write", Bug: "https://github.com/rabbitmq/cluster-operator/issues/782",
		Found: "4 bugs found; in one, RabbitMQ nodes keep an old configuration"},
	{Name: "lost-response", Found: "1 bug found: a Machine of Cluster API never gets its infrastructure"},
	{Name: "failed-write", Bug: "https://github.com/konpyutaika/nifikop/issues/49",
		Found: "6 bugs found; in one, a JobSet is never Completed"},
	{Name: "late-write", Bug: "https://github.com/cilium/cilium/pull/42920"},
	{Name: "leader-pause", Bug: "https://github.com/cockroachdb/cockroach/issues/2728"},
	{Name: "stop", Bug: "https://github.com/kubernetes/kubernetes/pull/139991",
		Found: "4 bugs found; in one, the Hierarchical Namespace Controller panics at each stop"},
	{Name: "false-evidence", Bug: "https://github.com/operator-framework/operator-sdk/issues/1874"},
	{Name: "upgrade", Bug: "https://github.com/jaegertracing/jaeger-operator/issues/2370"},
	{Name: "watch-delay", Bug: "https://github.com/kubernetes-sigs/cluster-api/issues/13649",
		Found: "6 bugs found; in one, Accurate deletes a namespace with everything in it"},
	{Name: "stale-start", Bug: "https://github.com/openshift/oadp-operator/issues/187",
		Found: "32 bugs found; in one, the Apache Solr operator deletes the volume of a running node"},
	{Name: "failed-list", Bug: "https://github.com/elastic/cloud-on-k8s/pull/9636",
		Found: "1 bug found: Argo CD keeps permissions in a namespace that was withdrawn from it"},
	{Name: "attack", Bug: "https://github.com/rook/rook/issues/11330"},
	{Name: externalFamily, Bug: "https://github.com/aws-controllers-k8s/community/issues/2062"},
}

// Families returns all families, in the order of tables.
func Families() []Family { return slices.Clone(families) }

// Family returns the family of the plan's fault.
func (p Plan) Family() Family {
	s := specOf(p.Fault)
	return families[slices.IndexFunc(families, func(f Family) bool { return f.Name == s.family })]
}

// Form is a fault, or a variant with a sentence of its own.
type Form struct {
	// Name is as in plans, without a variant that has no sentence of its own.
	Name string
	// Sentence describes what goes wrong.
	Sentence string
}

// Forms returns the faults of the family.
func (f Family) Forms() []Form {
	var all []Form
	for _, s := range specs {
		if s.family != f.Name {
			continue
		}
		if s.text != "" {
			all = append(all, Form{string(s.fault), general(s.text)})
		}
		for _, variant := range s.variants {
			if text, own := s.texts[variant]; own {
				all = append(all, Form{string(s.fault) + "-" + variant, general(text)})
			}
		}
	}
	return all
}

// general fills a sentence without a plan.
func general(text string) string {
	return strings.NewReplacer("a replica's TARGET", "the request of a replica", "a leader's TARGET",
		"the request of a leader", "VARIANT", "an error", "TARGET", "a request", "step COLLECTION", "a step",
		"COLLECTION", "a collection", "STEP", "a step").Replace(text)
}
