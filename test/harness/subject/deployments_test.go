package subject

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"leasehold.dev/test/harness/env"
	"leasehold.dev/test/harness/history"
)

// severalDeployments are small's Deployment and two more. The Lease of small is in the rights of
// operator, and another one in those of webhook.
func severalDeployments(t *testing.T, fields string) string {
	t.Helper()
	named := func(name, account string) string {
		return strings.NewReplacer("manager", name, "operator", account, "app: small", "app: "+name).Replace(deployment)
	}
	role := func(account, kind, names string) string {
		return fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: %[2]s
metadata: {name: %[1]s, namespace: %[4]s}
rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, update], resourceNames: [%[3]s]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: %[2]sBinding
metadata: {name: %[1]s, namespace: %[4]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %[2]s, name: %[1]s}
subjects: [{kind: ServiceAccount, name: %[1]s, namespace: small-system}]
`, account, kind, names, map[string]string{"Role": "small-system"}[kind])
	}
	return home(t, map[string]string{
		"subject.yaml":  small + fields,
		"bin/other":     "#!/bin/sh\n",
		"source/go.mod": "module example.com/injector\n", "source/main.go": "package main\n\nfunc main() {}\n",
		"config/deployment.yaml": strings.Join([]string{
			deployment, named("webhook", "webhook"), named("injector", "injector"),
			role("operator", "Role", "leader"), role("webhook", "ClusterRole", "another"),
		}, "---"),
	})
}

func TestLoad_ChoosesTheDeployment(t *testing.T) {
	t.Parallel()
	const both = "companions: {webhook: {binary: bin/other}, injector: {binary: bin/other}}\n"
	idle := func(name string) string {
		return "the Deployment " + name + " does not run: companions in the subject has no program for it"
	}
	for name, tc := range map[string]struct {
		fields, want string
		notes        []string
	}{
		"the one that is no companion":     {both, "manager", nil},
		"of several the one that may lead": {"", "manager", []string{idle("webhook"), idle("injector")}},
		"the same beside one companion": {"companions: {webhook: {binary: bin/other}}\n", "manager",
			[]string{idle("injector")}},
		"the one in the file": {"deployment: injector\n", "injector",
			[]string{idle("manager"), idle("webhook")}},
		"the one in the file with companions": {"deployment: injector\ncompanions: {manager: {binary: bin/other}, webhook: {binary: bin/other}}\n", "injector", nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, err := Load(t.Context(), severalDeployments(t, tc.fields), "")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(s.Operator.Deployment).To(Equal(tc.want))
			g.Expect(s.Notes).To(ConsistOf(tc.notes))
			account := map[string]string{"manager": "operator"}[tc.want]
			if account == "" {
				account = tc.want
			}
			g.Expect(s.Contract.Users).To(Equal([]string{"system:serviceaccount:small-system:" + account}))
		})
	}
}

func TestRights(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s, err := Load(t.Context(), severalDeployments(t, ""), "")
	g.Expect(err).NotTo(HaveOccurred())
	rights, err := readRights(s.objects)
	g.Expect(err).NotTo(HaveOccurred())
	for _, tc := range []struct {
		deployment, namespace, lease string
		want                         bool
	}{
		{"manager", "", "leader", true},
		{"manager", "small-system", "leader", true},
		{"manager", "kube-system", "leader", false},
		{"manager", "", "another", false},
		{"webhook", "kube-system", "another", true},
		{"injector", "", "leader", false},
	} {
		d, err := env.TheDeployment(s.objects, tc.deployment)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(rights.mayWrite(d, history.Key{Namespace: tc.namespace, Name: tc.lease})).To(Equal(tc.want), "%+v", tc)
	}
}

func TestLoad_Companions(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	path := severalDeployments(t, `
companions:
  webhook: {binary: bin/other, args: ["--port={webhook}"], env: {WHERE: "{namespace}"}}
  injector: {binary: bin/built, build: {dir: source, package: .}}
`)
	s, err := Load(t.Context(), path, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Operator.Companions).To(HaveLen(2))
	webhook := s.Operator.Companions["webhook"]
	g.Expect(webhook.Binary).To(Equal(filepath.Join(filepath.Dir(path), "bin", "other")))
	g.Expect(webhook.Args(env.ReplicaPorts{Webhook: 3})).To(Equal([]string{"--port=3"}))
	g.Expect(webhook.Env).To(Equal([]string{"WHERE=small-system"}))
	g.Expect(s.Operator.Companions["injector"].Binary).To(BeARegularFile(), "it has been built")
}

func TestLoad_ReportsErrorsOfDeployments(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ fields, says string }{
		"UnknownDeployment": {"deployment: other\n",
			"deployment: the manifests have the Deployments injector, manager, webhook: write here which one is the subject, and the programs of the others in companions"},
		"UnknownCompanion": {"companions: {other: {binary: bin/other}}\n",
			"companions[other]: the manifests have no such Deployment; they have injector, manager, webhook"},
		"NoBinary":     {"companions: {webhook: {}}\n", "companions[webhook].binary: name the program"},
		"NoSuchBinary": {"companions: {webhook: {binary: bin/none}}\n", "companions[webhook]: binary: stat"},
		"NoPackage": {"companions: {webhook: {binary: bin/other, build: {dir: x}}}\n",
			"companions[webhook].build.package: name the Go package"},
		"UnknownPort": {"companions: {webhook: {binary: bin/other, args: [\"{health}\"]}}\n",
			"nothing is known as {health} here"},
		"TheSubject": {"deployment: webhook\ncompanions: {webhook: {binary: bin/other}}\n",
			"companions[webhook]: it is the subject's"},
		"NoneLeft": {
			"companions: {manager: {binary: bin/other}, webhook: {binary: bin/other}, injector: {binary: bin/other}}\n",
			"deployment: the manifests have the Deployments",
		},
		"NoneMayLead": {"companions: {manager: {binary: bin/other}}\n", "deployment: the manifests have the Deployments"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(t.Context(), severalDeployments(t, tc.fields), "")
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.says)))
		})
	}
}
