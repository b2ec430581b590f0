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
	// Mutants are mutants of Leasehold, by the form of the fault that alone, or first, reveals them.
	Mutants mutants
	// Finding is the folder of an operator in which such a fault has found a bug; "" if there is none.
	Finding string
}

// mutants are names of mutants, by the form of a fault.
type mutants map[string]string

// families has all families, in the order of tables.
var families = []Family{
	{Name: "crash-after-write", Bug: "https://github.com/rabbitmq/cluster-operator/issues/782",
		Mutants: mutants{"crash-after-write": "01-binding-comes-with-the-namespace"}, Finding: "leaderworkerset"},
	{Name: "lost-response", Finding: "clusterapi"},
	{Name: "failed-write", Bug: "https://github.com/konpyutaika/nifikop/issues/49",
		Mutants: mutants{"failed-write": "02-error-that-is-only-logged"}, Finding: "externalsecrets"},
	{Name: "late-write", Bug: "https://github.com/cilium/cilium/pull/42920",
		Mutants: mutants{"late-write": "23-slow-exit-after-lost-lease"}},
	{Name: "leader-pause", Bug: "https://github.com/cockroachdb/cockroach/issues/2728",
		Mutants: mutants{"leader-pause": "42-time-from-before-the-wait",
			"leader-pause-reconnect": "40-reconnect-counts-as-renewal"}},
	{Name: "partition", Bug: "https://github.com/telekom/k8s-breakglass/issues/464",
		Mutants: mutants{"full-partition": "48-liveness-needs-the-api-server",
			"partitioned-start": "22-no-election-without-api-server"}},
	{Name: "stop", Bug: "https://github.com/kubernetes/kubernetes/pull/139991",
		Mutants: mutants{"stop-leader": "24-lease-released-first",
			"slow-stop":     "64-delay-in-place-of-the-timeout",
			"stop-at-start": "59-stopped-start-is-an-error",
			"stop-standby":  "58-standby-waits-for-its-election"}},
	{Name: "false-evidence", Bug: "https://github.com/operator-framework/operator-sdk/issues/1874",
		Mutants: mutants{"false-evidence-deleted": "39-gone-pod-counts-as-ended",
			"false-evidence-replaced": "43-pod-of-the-same-name"}},
	{Name: "upgrade", Bug: "https://github.com/jaegertracing/jaeger-operator/issues/2370",
		Mutants: mutants{"upgrade": "54-selector-with-another-label"}},
	{Name: "watch-delay", Bug: "https://github.com/kubernetes-sigs/cluster-api/issues/13649",
		Mutants: mutants{"watch-delay": "04-another-name"}},
	{Name: "watch-gap", Bug: "https://github.com/instaclustr/cassandra-operator/issues/398",
		Mutants: mutants{"watch-gap": "49-deletion-in-a-list-is-ignored"}},
	{Name: "stale-start", Bug: "https://github.com/openshift/oadp-operator/issues/187",
		Mutants: mutants{"stale-start": "18-own-writes-not-awaited"}, Finding: "clusterapi"},
	{Name: "failed-list", Bug: "https://github.com/elastic/cloud-on-k8s/pull/9636",
		Mutants: mutants{"failed-list": "63-no-watch-without-a-right",
			"failed-list-timeout": "30-ready-from-the-start"}},
	{Name: "environment", Bug: "https://github.com/redhat-cop/namespace-configuration-operator/issues/89",
		Mutants: mutants{"foreign-finalizer": "09-finalizer-while-deleting",
			"metadata-contested": "19-event-for-each-reconcile",
			"metadata-stripped":  "56-owner-is-enough",
			"object-deleted":     "57-missing-counts-as-late"}},
	{Name: "installation", Bug: "https://github.com/open-cluster-management-io/addon-framework/issues/397",
		Mutants: mutants{"flag-change": "60-security-level-is-never-lowered",
			"rule-change": "33-forbidden-is-not-retried"}},
	{Name: "attack", Bug: "https://github.com/rook/rook/issues/11330",
		Mutants: mutants{"attack": "32-namespace-with-all-workers"}},
	{Name: "external", Bug: "https://github.com/aws-controllers-k8s/community/issues/2062",
		Mutants: mutants{"external-crash": "28-ownership-tag-comes-later",
			"external-error":         "27-failure-counts-as-gone",
			"external-lost-response": "61-lost-connection-counts-as-removed",
			"external-slow":          "62-slow-once-counts-as-down"}},
	{Name: "other-namespace", Bug: "https://github.com/kubernetes-sigs/lws/issues/262",
		Mutants: mutants{"other-namespace": "55-operator-in-a-fixed-namespace"}},
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
	for _, fault := range Faults() {
		s := specOf(fault)
		if s.family != f.Name {
			continue
		}
		if s.text != "" {
			all = append(all, Form{string(fault), general(s.text)})
		}
		for _, variant := range s.variants {
			if text, own := s.texts[variant]; own {
				all = append(all, Form{string(fault) + "-" + variant, general(text)})
			}
		}
	}
	return all
}

// general fills a sentence without a plan.
func general(text string) string {
	return strings.NewReplacer("a replica's TARGET", "the request of a replica", "a leader's TARGET",
		"the request of a leader", "VARIANT", "an error", "TARGET", "a request", "the change COLLECTION", "a change",
		"step COLLECTION", "a step", "COLLECTION", "a collection", "STEP", "a step").
		Replace(text)
}
