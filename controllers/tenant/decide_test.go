// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1beta1"
)

func observed(t *v1beta1.Tenant, namespaces ...*corev1.Namespace) *observation {
	o := newObservation(t, flags)
	for _, ns := range namespaces {
		o.namespaces[ns.Name] = ns
	}
	return o
}

// dropping returns an observation of a Tenant that owns a-dev and a-old, and lists a-dev alone.
func dropping(old func(*corev1.Namespace), with ...func(*v1beta1.Tenant)) *observation {
	t := tenant("a", append(with, owning("a-dev", "a-old"))...)
	return observed(t, namespace("a-dev", ownedBy(t)), namespace("a-old", ownedBy(t), old))
}

// The finalizer for orphans counts only during a deletion: a user can write it at any time, and would
// override the spec for each name that leaves it.
func TestDecide(t *testing.T) {
	a, other := tenant("a"), tenant("b")
	as := func(*corev1.Namespace) {}
	for reason, tc := range map[string]struct {
		o    *observation
		want string
	}{
		"a namespace that does not exist is created": {
			observed(tenant("a", naming("dev", "prod"))), "a-dev:create a-prod:create"},
		"a recorded one without ownership labels is kept": {
			observed(tenant("a", owning("a-dev")), namespace("a-dev")), "a-dev:keep"},
		"one without ownership labels is not adopted": {
			observed(a, namespace("a-dev")), "a-dev:conflict"},
		"one with another tenant's ownership labels is not adopted": {
			observed(a, namespace("a-dev", ownedBy(other))), "a-dev:conflict"},
		"one that was made anew under a recorded name is not adopted": {
			observed(tenant("a", owning("a-dev")), namespace("a-dev", func(ns *corev1.Namespace) { ns.UID = "new" })),
			"a-dev:conflict"},
		"nothing is done in a terminating one, and it is not made anew yet": {
			observed(a, namespace("a-dev", ownedBy(a), terminating)), "a-dev:wait"},
		"a dropped one is removed if there is no policy": {
			dropping(as, func(t *v1beta1.Tenant) { t.Spec.NamespaceDeletionPolicy = "" }), "a-dev:keep a-old:remove"},
		"a dropped one is removed though a finalizer requests orphans": {
			dropping(as, orphaning), "a-dev:keep a-old:remove"},
		"a dropped one is removed though it has no owner": {dropping(unowned), "a-dev:keep a-old:remove"},
		"a dropped one is waited for while it terminates": {dropping(terminating), "a-dev:keep a-old:wait"},
		"under Retain a dropped one is released while it terminates": {
			dropping(terminating, retaining), "a-dev:keep a-old:release"},
		"a deleted tenant with orphans releases all": {dropping(as, deleted, orphaning), "a-dev:release a-old:release"},
		"a dropped one that is gone is forgotten": {
			observed(tenant("a", owning("a-dev", "a-old")), namespace("a-dev", ownedBy(a))), "a-dev:keep a-old:forget"},
		"a dropped one that was never owned is forgotten": {
			observed(tenant("a", owning("a-dev"), listing("a-old", v1beta1.ReasonNamespaceConflict)),
				namespace("a-dev", ownedBy(a)), namespace("a-old")), "a-dev:keep a-old:forget"},
		"a dropped one that was created but never recorded is removed": {
			observed(tenant("a", owning("a-dev"), listing("a-old", v1beta1.ReasonPending)),
				namespace("a-dev", ownedBy(a)), namespace("a-old", ownedBy(a))), "a-dev:keep a-old:remove"},
		"a deleted tenant removes what is its own": {
			observed(tenant("a", deleted, owning("a-dev")), namespace("a-dev", ownedBy(a))), "a-dev:remove"},
		"a deleted tenant in conflict leaves the other's namespace alone": {
			observed(tenant("a", deleted), namespace("a-dev")), "a-dev:forget"},
		"a deleted tenant keeps what the garbage collector has orphaned already": {
			observed(tenant("a", deleted, owning("a-dev")), namespace("a-dev", ownedBy(a), unowned)), "a-dev:release"},
		"a terminating one that is not owned is a conflict": {
			observed(a, namespace("a-dev", terminating)), "a-dev:conflict"},
		"one under a name that is refused keeps only rights that were given": {
			observed(tenant("a", naming("system"), prefix("kube-"), owning("kube-system")), namespace("kube-system")),
			"kube-system:restrict"},
		"one under a name that is refused is waited for while it terminates": {
			observed(tenant("a", naming("system"), prefix("kube-"), owning("kube-system")),
				namespace("kube-system", terminating)), "kube-system:wait"},
		"a foreign one under a refused name is forgotten": {
			observed(tenant("a", naming("system"), prefix("kube-")), namespace("kube-system")), "kube-system:forget"},
		"names that only resemble reserved ones are created": {
			observed(tenant("a", naming("rnetes", "openshifty", "defaulted", "leasehold-systems", "cert-manager", "cattle-x"), prefix("kube"))),
			"kubecattle-x:create kubecert-manager:create kubedefaulted:create kubeleasehold-systems:create " +
				"kubeopenshifty:create kubernetes:create"},
		"a name that begins as a reserved one is created": {
			observed(tenant("a", naming("managers"), prefix("cert-"))), "cert-managers:create"},
		"a refused name does not block the others": {
			observed(tenant("a", naming("dev", "Bad"), owning("a-old")), namespace("a-old", ownedBy(a))),
			"a-Bad:forget a-dev:create a-old:remove"},
	} {
		var got []string
		for _, s := range decide(tc.o).steps {
			got = append(got, fmt.Sprintf("%s:%s", s.name, s.action))
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: got %q, want %q", reason, strings.Join(got, " "), tc.want)
		}
	}
}

func TestDecideRefusesBadNames(t *testing.T) {
	for reason, tc := range map[string]struct {
		tenant *v1beta1.Tenant
		want   string
	}{
		"reserved by concatenation":    {tenant("a", naming("system"), prefix("kube-")), `would be named "kube-system"`},
		"reserved prefix without dash": {tenant("a", naming("e-x"), prefix("kub")), `would be named "kube-x"`},
		"openshift":                    {tenant("a", naming("x"), prefix("openshift-")), "reserved"},
		"default":                      {tenant("a", naming("ault"), prefix("def")), "reserved"},
		"the operator's own":           {tenant("a", naming("system"), prefix("leasehold-")), "the operator runs in"},
		"reserved by the flag":         {tenant("a", naming("manager"), prefix("cert-")), "--tenant-reserved-namespaces reserves cert-manager"},
		"reserved by a pattern":        {tenant("a", naming("x"), prefix("cattle-")), "reserves cattle-*"},
		"too long by a derived prefix": {tenant(strings.Repeat("a", 50), naming("0123456789012"), prefix("")),
			"must be no more than 63"},
		"a name with a dot":             {tenant("a", naming("b.c")), "must not contain dots"},
		"a prefix that is no DNS label": {tenant("a", naming("x"), prefix("A_")), "lower case"},
	} {
		o := observed(tc.tenant)
		p := decide(o)
		if len(o.invalid) == 0 || slices.ContainsFunc(p.steps, func(s step) bool { return s.action != forget }) {
			t.Errorf("%s: accepted, with steps %v", reason, p.steps)
			continue
		}
		if msg := o.invalid.ToAggregate().Error(); !strings.Contains(msg, tc.want) {
			t.Errorf("%s: message %q does not contain %q", reason, msg, tc.want)
		}
	}
}

// The status has a maximum number of names. Names beyond it are refused unless the status
// records them already.
func TestStatusLimitsNames(t *testing.T) {
	const most = v1beta1.MaxStatusNamespaces
	for used, want := range map[int]string{most - 1: "map[a-dev:true a-prod:true]",
		most: "map[a-dev:true a-prod:true]", most + 1: "map[a-dev:false a-prod:true]"} {
		x := tenant("a", naming("dev", "prod"), owning("a-prod"))
		for i := range used - 2 {
			owning(fmt.Sprintf("old-%d", i))(x)
		}
		wanted, errs := wantedNames(x, flags)
		if fmt.Sprint(wanted) != want || (len(errs) > 0) != (used > most) {
			t.Errorf("%d names: wanted %v (%v), want %s", used, wanted, errs, want)
		}
	}
}
