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
	// Mutant is the name of a mutant of Leasehold that only such a fault, or it first, reveals; ""
	// if there is none.
	Mutant string
	// Finding is the folder of an operator in which such a fault has found a bug; "" if there is none.
	Finding string
}

// families has all families, in the order of tables.
var families = []Family{
	{Name: "crash-after-write", Bug: "https://github.com/rabbitmq/cluster-operator/issues/782",
		Mutant: "01-binding-comes-with-the-namespace", Finding: "leaderworkerset"},
	{Name: "lost-response", Finding: "clusterapi"},
	{Name: "failed-write", Bug: "https://github.com/konpyutaika/nifikop/issues/49",
		Mutant: "02-error-that-is-only-logged", Finding: "externalsecrets"},
	{Name: "late-write", Bug: "https://github.com/cilium/cilium/pull/42920", Mutant: "23-end-that-takes-its-time"},
	{Name: "leader-pause", Bug: "https://github.com/cockroachdb/cockroach/issues/2728",
		Mutant: "42-time-from-before-the-wait"},
	{Name: "partition", Bug: "https://github.com/telekom/k8s-breakglass/issues/464",
		Mutant: "22-no-answer-no-election"},
	{Name: "stop", Bug: "https://github.com/kubernetes/kubernetes/pull/139991",
		Mutant: "24-lease-given-back-first"},
	{Name: "false-evidence", Bug: "https://github.com/operator-framework/operator-sdk/issues/1874",
		Mutant: "39-gone-pod-counts-as-ended"},
	{Name: "upgrade", Bug: "https://github.com/jaegertracing/jaeger-operator/issues/2370",
		Mutant: "54-selector-with-another-label"},
	{Name: "watch-delay", Bug: "https://github.com/kubernetes-sigs/cluster-api/issues/13649",
		Mutant: "04-another-name"},
	{Name: "watch-gap", Bug: "https://github.com/instaclustr/cassandra-operator/issues/398",
		Mutant: "49-deletion-in-a-list-is-ignored"},
	{Name: "stale-start", Bug: "https://github.com/openshift/oadp-operator/issues/187",
		Mutant: "18-own-writes-forgotten", Finding: "clusterapi"},
	{Name: "failed-list", Bug: "https://github.com/elastic/cloud-on-k8s/pull/9636",
		Mutant: "30-ready-from-the-start"},
	{Name: "environment", Bug: "https://github.com/redhat-cop/namespace-configuration-operator/issues/89",
		Mutant: "09-finalizer-while-deleting"},
	{Name: "installation", Bug: "https://github.com/open-cluster-management-io/addon-framework/issues/397",
		Mutant: "33-forbidden-for-ever"},
	{Name: "attack", Bug: "https://github.com/rook/rook/issues/11330", Mutant: "32-namespace-with-all-workers"},
	{Name: "external", Bug: "https://github.com/aws-controllers-k8s/community/issues/2062",
		Mutant: "27-failure-counts-as-gone"},
	{Name: "other-namespace", Bug: "https://github.com/kubernetes-sigs/lws/issues/262",
		Mutant: "55-operator-in-a-fixed-namespace"},
}

// Families returns all families, in the order of tables.
func Families() []Family { return slices.Clone(families) }

// Family returns the family of the plan's fault.
func (p Plan) Family() Family {
	s := specOf(p.Fault)
	return families[slices.IndexFunc(families, func(f Family) bool { return f.Name == s.family })]
}

// Forms returns the names of the family's faults in plans, each with a sentence about what goes
// wrong. A fault with one sentence for all variants is one form.
func (f Family) Forms() (names, sentences []string) {
	for _, fault := range Faults() {
		s := specOf(fault)
		if s.family != f.Name {
			continue
		}
		if s.text != "" {
			names, sentences = append(names, string(fault)), append(sentences, general(s.text))
		}
		for _, variant := range s.variants {
			if text, own := s.texts[variant]; own {
				names, sentences = append(names, string(fault)+"-"+variant), append(sentences, general(text))
			}
		}
	}
	return names, sentences
}

// general fills a sentence without a plan.
func general(text string) string {
	return strings.NewReplacer("a replica's TARGET", "the request of a replica", "a leader's TARGET",
		"the request of a leader", "VARIANT", "an error", "TARGET", "a request", "the change COLLECTION", "a change",
		"COLLECTION says", "the subject says", "step COLLECTION", "a step", "COLLECTION", "a collection", "STEP", "a step").
		Replace(text)
}
