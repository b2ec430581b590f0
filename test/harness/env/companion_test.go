package env

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// pair is an operator of two Deployments. Replicas of first are ready when they have reached second
// by its Service.
const pair = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: first, namespace: NS}
spec:
  selector: {matchLabels: {app: first}}
  template:
    metadata: {labels: {app: first}}
    spec:
      serviceAccountName: first
      containers:
      - name: c
        args: ["8081"]
        readinessProbe: {httpGet: {path: /readyz, port: 8081}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: second, namespace: NS}
spec:
  selector: {matchLabels: {app: second}}
  template:
    metadata: {labels: {app: second}}
    spec:
      serviceAccountName: second
      containers:
      - name: c
        args: ["8081"]
        env:
        - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        ports: [{name: pages, containerPort: 8081}]
        readinessProbe: {httpGet: {path: /readyz, port: pages}}
---
apiVersion: v1
kind: Service
metadata: {name: pages, namespace: NS}
spec:
  selector: {app: second}
  ports: [{port: 80, targetPort: pages}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: first, namespace: NS}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: second, namespace: NS}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: writer, namespace: NS}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: writer, namespace: NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: writer}
subjects: [{kind: ServiceAccount, name: first}, {kind: ServiceAccount, name: second}]
`

// manifestsOf writes manifests to a file, with a namespace in place of NS.
func manifestsOf(t *testing.T, text, ns string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "all.yaml")
	NewWithT(t).Expect(os.WriteFile(path, []byte(strings.ReplaceAll(text, "NS", ns)), 0o600)).To(Succeed())
	return path
}

func TestCompanionsRunBesideTheSubject(t *testing.T) {
	t.Parallel()
	skipWithoutIsolation(t)
	g := NewWithT(t)
	ctx, ns := t.Context(), namespace(t)
	self, err := os.Executable()
	g.Expect(err).NotTo(HaveOccurred())
	role := func(name string) []string { return []string{roleVariable + "=" + name} }
	reports := make(chan string, 10)
	i, err := shared.Install(ctx, InstallOptions{
		Manifests: manifestsOf(t, pair, ns), Deployment: "first", Binary: self, Env: role(roleVisitor), Isolated: true,
		Args: func(ReplicaPorts) []string {
			return []string{"http://pages/readyz", "http://pages." + ns + "/readyz", "http://pages." + ns + ".svc/readyz",
				"http://pages." + ns + ".svc.cluster.local:80/readyz"}
		},
		Companions: map[string]Companion{"second": {Binary: self, Env: role(roleReplica)}},
		Report:     func(text string) { reports <- text },
	})
	g.Expect(err).NotTo(HaveOccurred())
	stop := func() { g.Expect(i.Stop(context.WithoutCancel(ctx))).To(Succeed()) }
	defer stop()
	g.Eventually(i.CompanionsReady, eventually).WithContext(ctx).Should(Succeed())
	writes := audited(g, ns, "second-0-"+wroteMarker)
	g.Expect(writes).To(HaveLen(1))
	g.Expect(writes[0].User.Username).To(Equal("system:serviceaccount:" + ns + ":second"))

	t.Log("the subject reaches it by the names of its Service")
	r, err := i.Start(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(r.Ready, eventually).WithContext(ctx).Should(Succeed(), r.LogTail(20))
	g.Expect(i.Replicas()).To(HaveLen(1), "a companion is no replica of the subject")
	g.Expect(i.IsCompanion("second-0")).To(BeTrue())
	g.Expect(i.IsCompanion("first-0")).To(BeFalse())

	t.Log("one that does not answer is named with its log")
	beside, err := i.companions[0].get()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(beside.Pause(ctx)).To(Succeed())
	g.Expect(i.CompanionsReady(ctx)).
		To(MatchError(And(ContainSubstring("companion second: "), ContainSubstring("wrote second-0-"))))

	t.Log("it is started again when it ends, and its log is reported")
	beside.Kill()
	g.Eventually(reports, eventually).
		Should(Receive(And(ContainSubstring("companion second-0 ended with exit code -1"),
			ContainSubstring("wrote second-0-"))))
	g.Eventually(i.CompanionsReady, eventually).WithContext(ctx).Should(Succeed())
	stop()
	g.Expect(beside.Running()).To(BeFalse())
	g.Expect(reports).To(BeEmpty(), "an end on purpose is no news")
}

func TestCompanionsThatCannotStart(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx, ns := t.Context(), namespace(t)
	i, err := shared.Install(ctx, InstallOptions{
		Manifests: manifestsOf(t, pair, ns), Deployment: "first", Binary: "/absent",
		Companions: map[string]Companion{"second": {Binary: "/absent"}},
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(i.CompanionsReady, eventually).WithContext(ctx).Should(MatchError(And(
		ContainSubstring("companion second: "), Not(ContainSubstring("has not started")))))
	g.Expect(i.Stop(ctx)).To(Succeed())
}

// withCompanion is an Installation whose subject is manager and whose companion is second, both
// without replicas.
func withCompanion(t *testing.T, ns string) *Installation {
	t.Helper()
	i := routed(t, ns)
	w := &workload{cp: shared}
	w.shipped.Name, w.shipped.Namespace = "second", ns
	w.shipped.Spec.Template.Labels = map[string]string{"app": "second"}
	w.shipped.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c",
		Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: 10250}}}}
	i.companions = []*companion{{workload: w}}
	return i
}

func TestWebhooksOfCompanionsAreCalledThroughTheirServices(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ns := namespace(t)
	key := types.NamespacedName{Namespace: ns, Name: "webhooks"}
	s := service(key)
	s.Spec.Selector = map[string]string{"app": "second"}
	s.Spec.Ports[0].TargetPort = intstr.FromString("https")
	ca, backend := startRefusing(t, key.Name+"."+ns+".svc")
	i := withCompanion(t, ns)
	shipped := []*unstructured.Unstructured{object(t, s), object(t, refusing(key, unique("refusing"), ca))}
	g.Expect(i.routeWebhooks(shipped)).To(Succeed())
	g.Expect(i.HasWebhooks()).To(BeFalse(), "the subject serves none")
	ports := make(chan int, 10)
	i.companions[0].router.add(t.Context(), func(port int) Backend { ports <- port; return backend })
	apply(t, shipped...)
	g.Eventually(creating(t, ns), eventually).Should(MatchError(ContainSubstring("refused by the test")))
	g.Expect(ports).To(Receive(Equal(10250)), "the Service leads there")
}

func TestWebhooksOfDeploymentsThatDoNotRunAreErrors(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	i := withCompanion(t, "system")
	i.idle = append(i.idle, i.companions[0].shipped)
	i.companions = nil
	key := types.NamespacedName{Namespace: "system", Name: "webhooks"}
	s := service(key)
	s.Spec.Selector = map[string]string{"app": "second"}
	err := i.routeWebhooks([]*unstructured.Unstructured{object(t, s), object(t, refusing(key, "any", nil))})
	g.Expect(err).To(MatchError("webhooks are called through Service system/webhooks, which selects the Pods of Deployment second, " +
		"and that does not run: write its program under companions: in the subject"))
}

// A companion may be ready before it has injected the CA of the webhooks.
func TestCompanionsInjectAuthorities(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx, ns := t.Context(), namespace(t)
	i := withCompanion(t, ns)
	key := types.NamespacedName{Namespace: ns, Name: "webhooks"}
	configuration := refusing(key, unique("unsigned"), nil)
	apply(t, object(t, configuration))
	i.unsigned = []*unstructured.Unstructured{object(t, configuration)}
	want := "the webhooks of ValidatingWebhookConfiguration " + configuration.Name +
		" have no CA: no companion has set caBundle"
	g.Expect(i.CompanionsReady(ctx)).To(MatchError(ContainSubstring(want)))
	ca, _ := startRefusing(t, key.Name+"."+ns+".svc")
	signed := object(t, refusing(key, configuration.Name, ca))
	g.Expect(shared.Apply(ctx, signed)).To(Succeed())
	g.Expect(i.checkAuthorities(ctx)).To(Succeed())
	g.Expect(shared.Apply(ctx, object(t, configuration))).To(Succeed())
	g.Expect(i.checkAuthorities(ctx)).To(Succeed(), "what changes it later may be a fault")
}

// A program that listens on all addresses must not meet a Service on its port.
func TestServicesLeaveAPodItsPorts(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	i := withCompanion(t, "ns")
	i.subject.shipped.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort = 9000
	toBoth := func(name, app string, ports ...int32) *unstructured.Unstructured {
		s := service(types.NamespacedName{Namespace: "ns", Name: name})
		s.Spec.Selector, s.Spec.Ports = map[string]string{"app": app}, nil
		for _, p := range ports {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: p})
		}
		return object(t, s)
	}
	none := toBoth("none", "other", 1)
	g.Expect(i.shareServices(t.Context(), []*unstructured.Unstructured{
		toBoth("own", "x", 9001), toBoth("beside", "second", 443, 8081, 9000, 9001), none,
	})).To(Succeed())
	var got []string
	for _, s := range i.subject.services {
		for port := range s.Ports {
			got = append(got, fmt.Sprintf("%s:%d", s.Names[0], port))
		}
	}
	g.Expect(got).To(ConsistOf("beside:443"), "8081 is the probe's, 9000 the container's, 9001 that of its Service")
	g.Expect(hostsFile("first-0", i.subject.services)).To(Equal("127.0.0.1 localhost first-0\n" +
		"127.1.0.1 own own.ns own.ns.svc own.ns.svc.cluster.local\n127.1.0.2 beside beside.ns beside.ns.svc beside.ns.svc.cluster.local\n"))
	g.Expect(namesOfService("a", "other", "ns")).To(Equal([]string{"a.other", "a.other.svc", "a.other.svc.cluster.local"}))
	_, err := i.companions[0].dial(t.Context(), &corev1.Service{}, corev1.ServicePort{Port: 1})
	g.Expect(err).To(MatchError("no Pod is ready"))
}
