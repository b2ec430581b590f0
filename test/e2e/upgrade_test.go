// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/test/harness/record"
)

// Prefixes of the lines of CHANGELOG.md that announce new viewers or changed messages of
// conditions. An upgrade writes each status with such a message once.
const (
	viewersRemark  = "- Viewers roll"
	messagesRemark = "- Conditions have other messages"
)

// release is a version of the operator with the manifests that it ships.
type release struct {
	name, dir, image, viewerImage string
}

// TestUpgrade runs after TestUndeploy, by the names of the files, because the API server ignores
// the fence after it too.
func TestUpgrade(t *testing.T) {
	if !shared.hasPrevious {
		t.Skipf("there is no image %s: hack/previous.sh names the release before, whose commit is not in the history of this clone; "+
			"git fetch --unshallow --tags gets it", shared.settings.PreviousImage)
	}
	u, err := newReleaseChange(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := features.New("the release before is upgraded, rolled back and upgraded again").
		Setup(step(u.installPrevious)).
		Setup(step(u.populate))
	for i, to := range []release{u.current, u.previous, u.current} {
		f = f.Assess(fmt.Sprintf("%d: to the %s release, without a write to unchanged objects", i+1, to.name),
			step(func(ctx context.Context, g *WithT) {
				u.to(ctx, g, to)
			}))
	}
	f = f.Assess("no webhook call failed, and each Tenant became Ready in time", step(u.judgeLoad)).
		Teardown(teardown(u.clear))
	testenv.Test(t, f.Feature())
}

// releaseChange is a cluster on which one release replaces the other.
type releaseChange struct {
	previous, current release
	// viewersRoll: the two releases have different viewers, which CHANGELOG.md announces.
	viewersRoll bool
	// messagesChange: CHANGELOG.md announces other messages of conditions.
	messagesChange bool

	server    *s3
	view      *v1beta1.MarkdownView
	tenants   []client.Object
	buckets   map[string]string
	before    *snapshot
	admission *admission
	churn     *load
	began     time.Time
}

func newReleaseChange(ctx context.Context) (*releaseChange, error) {
	s := shared.settings
	u := &releaseChange{
		previous: release{name: "previous", dir: s.PreviousDir, image: s.PreviousImage, viewerImage: s.PreviousViewerImage},
		current:  release{name: "current", dir: root, image: s.Image, viewerImage: s.ViewerImage},
		server:   newS3(), view: newView(unique("view")),
	}
	changes, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return nil, fmt.Errorf("reading the changelog: %w", err)
	}
	u.messagesChange = announces(string(changes), messagesRemark)
	same, err := sameImage(ctx, s.ViewerImage, s.PreviousViewerImage)
	if err != nil {
		return nil, err
	}
	if same {
		// If the viewer has not changed, the release refers to the previous image.
		u.current.viewerImage = s.PreviousViewerImage
		return u, nil
	}
	u.viewersRoll = true
	if !announces(string(changes), viewersRemark) {
		return nil, fmt.Errorf("the viewer has changed since the release before, so an upgrade replaces all viewers: "+
			"CHANGELOG.md needs a line that begins with %q", viewersRemark)
	}
	return u, nil
}

// announces reports whether the changelog's first section with a list, the one of the version under
// test, has a line that begins with the remark.
func announces(changelog, remark string) bool {
	listed := false
	for line := range strings.Lines(changelog) {
		switch {
		case strings.HasPrefix(line, "## ") && listed:
			return false
		case strings.HasPrefix(line, remark):
			return true
		}
		listed = listed || strings.HasPrefix(line, "- ")
	}
	return false
}

// sameImage reports whether the local engine has one image under both names.
func sameImage(ctx context.Context, names ...string) (bool, error) {
	out, err := exec.CommandContext(ctx, "docker",
		append([]string{"image", "inspect", "--format", "{{.Id}}"}, names...)...).Output()
	if err != nil {
		return false, fmt.Errorf("comparing images: %w", err)
	}
	ids := strings.Fields(string(out))
	return len(ids) == 2 && ids[0] == ids[1], nil
}

// apply does the same as `make deploy` of the release, with its scripts.
func (r release) apply(ctx context.Context) error {
	render := exec.CommandContext(ctx, filepath.Join(r.dir, "hack", "render.sh"), shared.settings.Kustomize, "config/e2e",
		r.image, r.viewerImage)
	var manifests, stderr bytes.Buffer
	render.Stdout, render.Stderr = &manifests, &stderr
	if err := render.Run(); err != nil {
		return fmt.Errorf("rendering the %s release: %w: %s", r.name, err, stderr.String())
	}
	apply := exec.CommandContext(ctx, shared.settings.Kubectl, "apply", "--server-side", "--force-conflicts", "-f", "-")
	apply.Stdin, apply.Env = &manifests, append(os.Environ(), "KUBECONFIG="+shared.cluster.Kubeconfig())
	if out, err := apply.CombinedOutput(); err != nil {
		return fmt.Errorf("applying the %s release: %w: %s", r.name, err, out)
	}
	return nil
}

// installPrevious first removes the current release and its objects.
func (u *releaseChange) installPrevious(ctx context.Context, g *WithT) {
	g.Expect(shared.make(ctx, "undeploy", "OVERLAY=config/e2e")).To(Succeed())
	await(ctx, g, shared.left, BeEmpty())
	began := time.Now()
	g.Expect(u.previous.apply(ctx)).To(Succeed())
	g.Expect(shared.awaitOperator(ctx)).To(Succeed())
	shared.logf("  install of the previous release: %s", time.Since(began).Round(time.Second/10))
}

// populate creates objects of all kinds, waits until each is Ready, and starts the load.
func (u *releaseChange) populate(ctx context.Context, g *WithT) {
	u.server.start(ctx, g)
	strictNamespace(ctx, g, u.view.Namespace)
	g.Expect(u.server.make(ctx, "watched")).To(Succeed())
	deleted, retained := newTeam("upgraded"), newTeam("retained")
	retained.Spec.NamespaceDeletionPolicy = v1beta1.NamespaceRetain
	u.tenants = []client.Object{deleted, retained}
	watched, managed := u.server.bucket("watched"), u.server.managed("managed")
	for _, o := range []client.Object{deleted, retained, watched, managed, u.view} {
		g.Expect(shared.client.Create(ctx, o)).To(Succeed())
	}
	await(ctx, g, tenantReady(deleted), Succeed())
	await(ctx, g, tenantReady(retained), Succeed())
	ready(ctx, g, watched, metav1.ConditionTrue, v1beta1.ReasonProbeSucceeded)
	ready(ctx, g, managed, metav1.ConditionTrue, v1beta1.ReasonProbeSucceeded)
	await(ctx, g, viewReady(u.view), Succeed())
	g.Expect(shared.client.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: deleted.Name + "-dev", Name: "of-the-team"}})).To(Succeed())

	var err error
	u.buckets, err = u.server.owners(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	u.before = u.snapshot(ctx, g)
	u.began = time.Now()
	u.admission, err = startAdmission(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	u.churn = startLoad(ctx, 2*time.Second, true)
}

// newTeam returns a Tenant with an admin of each kind.
func newTeam(base string) *v1beta1.Tenant {
	t := newTenant(unique(base), "dev", "prod")
	t.Spec.Admins = append(t.Spec.Admins,
		v1beta1.Subject{Kind: v1beta1.SubjectGroup, Name: t.Name + "-crew"},
		v1beta1.Subject{Kind: v1beta1.SubjectServiceAccount, Name: "robot", Namespace: t.Name + "-dev"})
	return t
}

// to replaces the running release and compares all objects that no step has changed.
func (u *releaseChange) to(ctx context.Context, g *WithT, r release) {
	began, position := time.Now(), auditPosition(ctx, g)
	g.Expect(r.apply(ctx)).To(Succeed())
	g.Expect(shared.awaitOperator(ctx)).To(Succeed())
	await(ctx, g, shared.settled, Succeed())
	took := time.Since(began)
	// The new leader has reconciled all objects when a Tenant created in its term is Ready.
	last := newTenant(unique("last"), "a")
	g.Expect(shared.client.Create(ctx, last)).To(Succeed())
	await(ctx, g, tenantReady(last), Succeed())
	discard(ctx, g, last)

	if u.viewersRoll {
		await(ctx, g, viewReady(u.view), Succeed())
	}
	after, err := takeSnapshot(ctx, u.tenants, u.server.namespace, u.view.Namespace)
	g.Expect(err).NotTo(HaveOccurred())
	changes, writes := u.before.changes(after, u), u.writes(ctx, g, position)
	shared.logf("  to the %s release: %s; %d objects compared, %d changed; %d writes to them", r.name,
		took.Round(time.Second/10),
		len(after.objects), len(changes), len(writes))
	g.Expect(changes).To(BeEmpty())
	g.Expect(writes).To(BeEmpty())
	g.Expect(u.server.owners(ctx)).To(Equal(u.buckets))
	u.before = after
}

// auditPosition returns the current end of the audit log.
func auditPosition(ctx context.Context, g *WithT) record.Bookmark {
	path, err := shared.cluster.AuditLog(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	end, err := record.End(path)
	g.Expect(err).NotTo(HaveOccurred())
	return end
}

// writes returns the operator's successful writes to the objects of the snapshot since then, also
// those without an effect. It omits the status of a StorageBucket, which is written every five
// minutes and when a new leader's first probe has another result.
func (u *releaseChange) writes(ctx context.Context, g *WithT, since record.Bookmark) []string {
	path, err := shared.cluster.AuditLog(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	events, _, err := record.ReadAuditLogFrom(path, since)
	g.Expect(err).NotTo(HaveOccurred())
	var writes []string
	for _, e := range operatorWrites(events, record.Succeeded) {
		ref := e.ObjectRef
		if ref == nil || ref.Resource == "storagebuckets" && ref.Subresource == "status" {
			continue
		}
		if u.messagesChange && ref.APIGroup == v1beta1.GroupVersion.Group && ref.Subresource == "status" {
			continue
		}
		namespace := ref.Namespace
		if ref.Resource == "namespaces" {
			namespace = ""
		}
		if u.viewersRoll && namespace == u.view.Namespace {
			continue
		}
		if u.before.names[namespace+"/"+ref.Name] {
			writes = append(writes, fmt.Sprintf("%s %s/%s %s/%s", e.Verb, ref.Resource, ref.Subresource, namespace, ref.Name))
		}
	}
	return writes
}

func (u *releaseChange) judgeLoad(ctx context.Context, g *WithT) {
	u.churn.stop()
	sent, failures := u.admission.stop()
	_, slowest := u.churn.slowest()
	shared.logf("  %d webhook calls in %s, %d refused; %d Tenants created, changed and deleted, the slowest Ready after %s",
		sent, time.Since(u.began).Round(time.Second), len(failures), len(u.churn.tenants), slowest.Round(time.Second/10))
	g.Expect(failures).To(BeEmpty())
	g.Expect(sent).To(BeNumerically(">", 100))
	g.Expect(u.churn.errs).To(BeEmpty())
	g.Expect(len(u.churn.tenants)).To(BeNumerically(">", 10))
	g.Expect(shared.fetchByName(ctx, shared.workers(ctx, g)[0], u.view.Status.URL)).To(ContainSubstring("Edition one"))
}

// clear installs the current release, also after a failed feature.
func (u *releaseChange) clear(ctx context.Context, g *WithT) {
	if u.churn != nil {
		u.churn.stop()
	}
	if u.admission != nil {
		u.admission.stop()
	}
	g.Expect(u.current.apply(ctx)).To(Succeed())
	g.Expect(shared.awaitOperator(ctx)).To(Succeed())
	remove(ctx, g, u.tenants...)
	u.server.remove(ctx, g)
	discard(ctx, g, namespaceOf(u.view.Namespace))
	for _, t := range u.tenants { // one of them has the policy Retain
		discard(ctx, g, namespaceOf(t.GetName()+"-dev"), namespaceOf(t.GetName()+"-prod"))
	}
}

// belongsToViewers reports whether a rollout of new viewers changes the object. The first upgrade also adds the
// hash of the content to the ConfigMap.
func (u *releaseChange) belongsToViewers(o unstructured.Unstructured) bool {
	if !u.viewersRoll {
		return false
	}
	switch o.GetKind() {
	case "ConfigMap", "Deployment", "ReplicaSet", "Pod", "Endpoints", "EndpointSlice", "MarkdownView":
		return o.GetNamespace() == u.view.Namespace
	}
	return false
}
