// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// isolatedOperator is the template of a Pod with a volume of each kind.
const isolatedOperator = `
metadata: {labels: {app: x}}
spec:
  containers:
  - name: operator
    volumeMounts:
    - {name: certs, mountPath: /tmp/k8s-webhook-server/serving-certs, readOnly: true}
    - {name: config, mountPath: /config}
    - {name: config, mountPath: /settings.yaml, subPath: level}
    - {name: scratch, mountPath: /var/cache/operator}
    - {name: all, mountPath: /var/run/all}
    - {name: absent, mountPath: /absent}
  volumes:
  - {name: certs, secret: {secretName: certs}}
  - {name: config, configMap: {name: config}}
  - {name: scratch, emptyDir: {}}
  - {name: absent, secret: {secretName: absent, optional: true}}
  - name: all
    projected:
      sources:
      - serviceAccountToken: {path: token, audience: example.org}
      - configMap: {name: kube-root-ca.crt}
      - downwardAPI: {items: [{path: pod/labels, fieldRef: {fieldPath: metadata.labels}}]}
`

func skipWithoutIsolation(t *testing.T) {
	t.Helper()
	if err := CheckIsolation(); err != nil {
		t.Skip(err)
	}
}

// The program finds the API server by itself, and each replica has all ports for itself.
func TestIsolatedReplicas(t *testing.T) {
	t.Parallel()
	skipWithoutIsolation(t)
	g := NewWithT(t)
	ctx, ns := t.Context(), namespace(t)
	var replicas []*Replica
	for _, name := range []string{"first", "second"} {
		r, err := startSmallOperator(ctx, shared, ns, name, func(o *ReplicaOptions) {
			o.Isolated = true
			o.Template.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "metrics", ContainerPort: 8081}}
			o.Env = append(o.Env, "POD_NAMESPACE="+ns, "POD_NAME="+o.Name)
		})
		g.Expect(err).NotTo(HaveOccurred())
		replicas = append(replicas, r)
	}
	for _, r := range replicas {
		g.Eventually(r.Ready, eventually).WithContext(ctx).Should(Succeed(), r.LogTail(20))
		g.Expect(r.Ports().Probe).NotTo(Equal(8081))
		g.Expect(r.Ports().Metrics).To(Equal(r.Ports().Probe), "one port may have both")
		g.Expect(audited(g, ns, r.Name()+"-"+wroteMarker)).To(HaveLen(1), "it acts as its Pod")
		g.Expect(r.Pause(ctx)).To(Succeed())
		g.Expect(r.Ready(ctx)).NotTo(Succeed())
		g.Expect(r.Resume()).To(Succeed())
		r.Kill()
		g.Expect(r.Restart()).To(Succeed())
		g.Eventually(r.Ready, eventually).WithContext(ctx).Should(Succeed(), r.LogTail(20))
		code, err := r.Stop(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(code).To(BeZero())
		g.Expect(r.Close()).To(Succeed())
	}
}

func TestIsolatedReplicasHaveVolumes(t *testing.T) {
	t.Parallel()
	skipWithoutIsolation(t)
	g := NewWithT(t)
	ctx, ns := t.Context(), namespace(t)
	certs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "certs"},
		Data: map[string][]byte{"tls.crt": []byte("one")}}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "config"},
		Data: map[string]string{"level": "7"}}
	g.Expect(shared.client.Create(ctx, certs)).To(Succeed())
	g.Expect(shared.client.Create(ctx, config)).To(Succeed())
	foreign, err := os.MkdirTemp("/tmp", "foreign-") //nolint:usetesting // t.TempDir may be elsewhere
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = os.RemoveAll(foreign) })
	working, err := os.MkdirTemp("/tmp", "working-") //nolint:usetesting // what /tmp hides
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = os.RemoveAll(working) })
	g.Expect(os.Mkdir(filepath.Join(working, "below"), 0o750)).To(Succeed())
	_, before := os.Stat("/tmp/k8s-webhook-server") // an operator that was run by hand may have made it
	template := fromYAML[corev1.PodTemplateSpec](t, isolatedOperator)
	r, err := startSmallOperator(ctx, shared, ns, "mounted", func(o *ReplicaOptions) {
		template.Spec.ServiceAccountName = "mounted"
		o.Template, o.Isolated = template, true
		o.Env = []string{roleVariable + "=" + rolePage}
		o.WorkingDir = working
		o.Args = func(p ReplicaPorts) []string { return []string{fmt.Sprintf(":%d", p.Metrics), "/"} }
	})
	g.Expect(err).NotTo(HaveOccurred())
	file := func(path string) string {
		text, err := fetch(ctx, fmt.Sprintf("http://127.0.0.1:%d%s", r.Ports().Metrics, path))
		if err != nil {
			return err.Error()
		}
		return text
	}
	g.Eventually(func() string { return file("/config/level") }, eventually).Should(Equal("7"))
	g.Expect(file("/settings.yaml")).To(Equal("7"))
	g.Expect(file("/proc/self/cwd/")).To(ContainSubstring("below/"))
	g.Expect(file("/tmp/k8s-webhook-server/serving-certs/tls.crt")).To(Equal("one"))
	g.Expect(file("/var/run/all/pod/labels")).To(Equal(`app="x"`))
	g.Expect(file("/var/run/all/ca.crt")).To(ContainSubstring("BEGIN CERTIFICATE"))
	g.Expect(file("/var/run/all/token")).To(And(HavePrefix("ey"), Not(Equal(file(accountFolder+"/token")))))
	g.Expect(file(accountFolder + "/namespace")).To(Equal(ns))
	g.Expect(file(accountFolder + "/token")).To(Equal(r.Config().BearerToken))
	g.Expect(file("/absent/")).To(ContainSubstring("<pre>"), "it is a folder without files")
	g.Expect(file("/etc/hosts")).To(ContainSubstring("mounted-0"))
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", r.Pid()))
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for variable := range strings.SplitSeq(strings.TrimSuffix(string(environment), "\x00"), "\x00") {
		name, _, _ := strings.Cut(variable, "=")
		names = append(names, name)
	}
	g.Expect(names).To(ConsistOf("PATH", "HOME", "HOSTNAME", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT",
		"KUBERNETES_SERVICE_PORT_HTTPS", "PWD", roleVariable), "the manifest sets no other variable")
	g.Expect(file("/tmp/")).To(And(ContainSubstring("k8s-webhook-server"), Not(ContainSubstring(filepath.Base(foreign)))))
	_, err = os.Stat("/tmp/k8s-webhook-server")
	g.Expect(os.IsNotExist(err)).To(Equal(os.IsNotExist(before)), "the machine stays as it was")

	certs.Data["tls.crt"] = []byte("two")
	g.Expect(shared.client.Update(ctx, certs)).To(Succeed())
	g.Eventually(func() string { return file("/tmp/k8s-webhook-server/serving-certs/tls.crt") }, eventually).
		Should(Equal("two"))
	r.Kill()
	g.Expect(r.Close()).To(Succeed())
}

// What a kubelet would wait for in vain, or not accept, is an error that names it.
func TestVolumesThatCannotBeProvided(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for want, source := range map[string]string{
		"volume certs: it is none of configMap":       "hostPath: {path: /}",
		"volume certs: there is no key tls.crt":       "configMap: {name: kube-root-ca.crt, items: [{key: tls.crt, path: x}]}",
		"file x: a replica has no field status.phase": "downwardAPI: {items: [{path: x, fieldRef: {fieldPath: status.phase}}]}",
	} {
		template := fromYAML[corev1.PodTemplateSpec](t, isolatedOperator)
		template.Spec.Volumes[0].VolumeSource = fromYAML[corev1.VolumeSource](t, "{"+source+"}")
		v := podVolumes{template: template, client: shared.client}
		_, err := v.mounts(t.Context(), t.TempDir())
		g.Expect(err).To(MatchError(ContainSubstring(want)))
	}
	template := fromYAML[corev1.PodTemplateSpec](t, isolatedOperator)
	template.Spec.Volumes = nil
	v := podVolumes{template: template, client: shared.client}
	_, err := v.mounts(t.Context(), t.TempDir())
	g.Expect(err).To(MatchError(ContainSubstring("there is no volume certs")))
}

// A Secret that nothing makes is named, even if the time is up within a request.
func TestMounts_MissingSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		template := fromYAML[corev1.PodTemplateSpec](t, isolatedOperator)
		v := podVolumes{template: template, client: fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
				opts ...client.GetOption) error {
				if requests++; requests > 1 {
					<-ctx.Done()
					return ctx.Err()
				}
				return c.Get(ctx, key, o, opts...)
			}}).Build()}
		v.pod.Namespace = "system"
		_, err := v.mounts(t.Context(), t.TempDir())
		NewWithT(t).Expect(err).To(MatchError(`providing the volume certs: reading Secret system/certs: secrets "certs" not found ` +
			"after 30s: the manifests have to have it, or what makes it, such as a Certificate"))
	})
}

// Files change all at once, and go with their keys.
func TestContentFolder_Write(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	f := &contentFolder{path: t.TempDir()}
	folder := f.path
	read := func() map[string]string {
		content := map[string]string{}
		for _, name := range []string{"a", "b", "c/d"} {
			if text, err := os.ReadFile(filepath.Join(folder, name)); err == nil {
				content[name] = string(text)
			}
		}
		return content
	}
	for _, content := range []map[string]string{{"a": "1", "b": "2"}, {"a": "1", "c/d": "3"}, {}, {"b": "4"}} {
		g.Expect(f.write(content)).To(Succeed())
		g.Expect(read()).To(Equal(content))
		before, err := os.Readlink(filepath.Join(folder, dataLink))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(f.write(content)).To(Succeed())
		g.Expect(os.Readlink(filepath.Join(folder, dataLink))).To(Equal(before), "what is right is not written again")
		generations, err := filepath.Glob(filepath.Join(folder, "..data-*"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(generations).To(HaveLen(1))
	}
}

func TestPortsOf(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := &corev1.Container{}
	g.Expect(portsOf(*c)).To(Equal(ReplicaPorts{Probe: 8081, Metrics: 8080, Webhook: 9443}), "controller-runtime's")
	c.Ports = []corev1.ContainerPort{
		{Name: "http-metrics", ContainerPort: 9402}, {Name: "webhook-server", ContainerPort: 10250},
		{Name: "healthz", ContainerPort: 6080},
	}
	path := func() string {
		if probe := readinessOf(*c); probe != nil {
			return probe.Path
		}
		return ""
	}
	g.Expect(path()).To(BeEmpty())
	c.LivenessProbe = get("/live", intstr.FromInt32(7000))
	g.Expect(portsOf(*c)).To(Equal(ReplicaPorts{Probe: 7000, Metrics: 9402, Webhook: 10250}))
	g.Expect(path()).To(Equal("/live"), "there is no other")
	c.ReadinessProbe = get("/ready", intstr.FromString("healthz"))
	g.Expect(portsOf(*c).Probe).To(Equal(6080))
	g.Expect(path()).To(Equal("/ready"))
	g.Expect(ProbePort(*c)).To(Equal(6080))
	g.Expect(ProbePort(corev1.Container{})).To(BeZero())

	c.Ports = nil
	c.ReadinessProbe = get("/ok", intstr.FromInt32(8080))
	g.Expect(portsOf(*c)).To(Equal(ReplicaPorts{Probe: 8080, Metrics: 8081, Webhook: 9443}))
	c.ReadinessProbe.HTTPGet.Path = "/metrics"
	g.Expect(portsOf(*c)).To(Equal(ReplicaPorts{Probe: 8080, Metrics: 8080, Webhook: 9443}),
		"the metrics are probed")
}
