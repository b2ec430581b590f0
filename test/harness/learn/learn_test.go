// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"gotest.tools/v3/golden"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
	"leasehold.dev/test/harness/run"
	"leasehold.dev/test/harness/scenario"
)

const operator = "system:serviceaccount:archiver-system:archiver"

func definition(t *testing.T, text string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	d := &apiextensionsv1.CustomResourceDefinition{}
	NewWithT(t).Expect(yaml.Unmarshal([]byte(text), d)).To(Succeed())
	return d
}

// backups is the definition of the archiver, an operator as kubebuilder scaffolds it.
func backups(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", "archiver", "config", "crd", "bases",
		"archive.example.com_backups.yaml"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return definition(t, string(text))
}

func kindsOf(t *testing.T, samples []Sample,
	definitions ...*apiextensionsv1.CustomResourceDefinition) []DraftKind {
	t.Helper()
	kinds, err := Kinds(definitions, samples)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return kinds
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	NewWithT(t).Expect(yaml.Unmarshal([]byte(text), &o.Object)).To(Succeed())
	return o
}

// recording is a history of one run under construction.
type recording struct {
	history.History
	version uint64
	now     time.Time
}

func record(name string) *recording {
	return &recording{
		History: history.History{
			Recorded: []history.Source{history.Audit, history.Watch}, Aliases: map[string]string{name: "{backup}"},
		},
		version: 100, now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

// store records a version of an object that the operator, or else a user, wrote.
func (r *recording) store(user, resource string, o *unstructured.Unstructured) {
	r.write(user, resource, o, false)
}

func (r *recording) remove(user, resource string, o *unstructured.Unstructured) {
	r.write(user, resource, o, true)
}

func (r *recording) write(user, resource string, o *unstructured.Unstructured, gone bool) {
	r.version++
	r.now = r.now.Add(100 * time.Millisecond)
	name, group, _ := strings.Cut(resource, ".")
	key := history.Key{Resource: history.Resource{Group: group, Resource: name}, Namespace: o.GetNamespace(),
		Name: o.GetName()}
	q := history.Request{
		User: user, Verb: "update", Key: key, UID: o.GetUID(), RevisionRange: history.At(r.version), Received: r.now,
		Answered: r.now,
		Code:     200, Effect: history.Stored, Made: true, Body: true, NeedsVersion: "1", NeedsUID: o.GetUID(),
	}
	for _, v := range r.Versions {
		q.Made = q.Made && v.UID != o.GetUID()
	}
	if q.Made {
		q.Code = 201
	}
	if name == "secrets" { // the log has no bodies of them
		q.UID, q.Body, q.NeedsVersion, q.NeedsUID = "", false, "", ""
	}
	if gone {
		q.Effect = history.Deleted
	}
	r.Requests = append(r.Requests, q)
	r.Versions = append(r.Versions, history.Version{Key: key, UID: o.GetUID(), RevisionRange: history.At(r.version),
		At: r.now, Gone: gone, Object: o.DeepCopy()})
}

func (r *recording) rest(name string) {
	m := history.Checkpoint{Name: name, Converged: true, Began: r.now, Ended: r.now.Add(2 * time.Second),
		RevisionRange: history.RevisionRange{From: r.version, To: r.version + 1}}
	r.now = m.Ended
	r.Checkpoints = append(r.Checkpoints, m)
}

// archive records a clean run of the archiver: a Job with an owner reference, and an entry of the
// catalogue with the UID in an annotation, which is deleted before the finalizer is removed.
func archive(t *testing.T, name string) *history.History {
	t.Helper()
	r := record(name)
	backup := object(t, "{apiVersion: archive.example.com/v1, kind: Backup, metadata: {namespace: default, name: "+name+
		", uid: "+name+"-uid}, spec: {database: example}}")
	r.store("admin", "backups.archive.example.com", backup)
	backup.SetFinalizers([]string{"archive.example.com/catalogue"})
	r.store(operator, "backups.archive.example.com", backup)
	job := object(t, "{apiVersion: batch/v1, kind: Job, metadata: {namespace: default, name: "+name+"-x7k2p, uid: "+name+"-job}}")
	job.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "archive.example.com/v1", Kind: "Backup", Name: name,
		UID: backup.GetUID(), Controller: new(true)}})
	r.store(operator, "jobs.batch", job)
	entry := object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: archiver-system, name: default."+name+
		", uid: "+name+"-entry, annotations: {archive.example.com/backup-uid: "+name+"-uid}}}")
	r.store(operator, "configmaps", entry)
	r.store(operator, "secrets", object(t,
		"{apiVersion: v1, kind: Secret, metadata: {namespace: archiver-system, name: shared, uid: "+name+"-note}}"))
	backup.Object["status"] = map[string]any{"observedGeneration": int64(0), "conditions": []any{
		map[string]any{"type": "Scheduled", "status": "True"}, map[string]any{"type": "Ready", "status": "True"},
		map[string]any{"type": "Stalled", "status": "False"},
	}}
	r.store(operator, "backups.archive.example.com", backup)
	r.rest("made")
	at := metav1.NewTime(r.now)
	backup.SetDeletionTimestamp(&at)
	r.store("admin", "backups.archive.example.com", backup)
	r.remove(operator, "configmaps", entry)
	r.remove(operator, "backups.archive.example.com", backup)
	r.rest("gone")
	return &r.History
}

// The archiver's generated files equal its handwritten ones in test/harness/testdata/archiver.
func TestDraft_OfTheArchiver(t *testing.T) {
	g := NewWithT(t)
	d := &Draft{
		Options: Options{Binary: "../bin/archiver", Manifests: "config/default"}, Name: "archiver", Grace: 10,
		Kinds:     kindsOf(t, nil, backups(t)),
		Arguments: Arguments(goHelp, []string{"--leader-elect"}, 8081),
		Lease:     history.Key{Resource: history.Leases, Namespace: "archiver-system", Name: "archiver.example.com"},
	}
	histories := []*history.History{archive(t, "backup-1-x"), archive(t, "backup-2-y")}
	g.Expect(d.Learn(&d.Kinds[0], []string{operator}, histories...)).To(Succeed())
	golden.Assert(t, string(d.Subject()), "archiver.yaml")
	g.Expect(d.Kinds[0].Grow(GrowAll)).To(BeTrue(), "a Backup has a note, by which it can grow")
	files, err := d.Scenarios(&d.Kinds[0])
	g.Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		golden.Assert(t, string(file.Text), file.Name+".yaml")
		s, err := scenario.Parse(file.Text)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(run.CheckFaults(s)).To(Succeed())
	}
	observing, err := d.Observing(&d.Kinds[0])
	g.Expect(err).NotTo(HaveOccurred())
	_, err = scenario.Parse(observing)
	g.Expect(err).NotTo(HaveOccurred())
}

// A loop of writes that change nothing is a finding of clean runs. A few such writes are none, and a
// fault may repeat them.
func TestSubject_LimitsUnchangedWrites(t *testing.T) {
	writes := func(n int, user string) *history.History {
		same := history.Request{User: user, Verb: "patch", Effect: history.Unchanged,
			Key: history.Key{Resource: history.Resource{Resource: "configmaps"}, Name: "index"}}
		return untouched(t, slices.Repeat([]history.Request{same}, n)...)
	}
	for name, tc := range map[string]struct {
		runs []*history.History
		want string
	}{
		"None":    {[]*history.History{writes(0, operator)}, ", unchanged: 5}"},
		"Few":     {[]*history.History{writes(1, operator), writes(4, operator)}, ", unchanged: 12}"},
		"Loop":    {[]*history.History{writes(40, operator)}, "# guess: 40 such writes of a clean run are too many. If they are meant, allow them.\n  limits: {quiet: 5s, grace: 30s, unchanged: 5}"},
		"Others'": {[]*history.History{writes(40, "alice")}, ", unchanged: 5}"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := &Draft{Name: "archiver", Kinds: kindsOf(t, nil, backups(t))}
			g.Expect(d.Learn(&d.Kinds[0], []string{operator}, tc.runs...)).To(Succeed())
			g.Expect(string(d.Subject())).To(ContainSubstring(tc.want))
		})
	}
}

// What replicas wrote without leading is theirs, unless it is a kind or a child.
func TestSubject_AnyReplica(t *testing.T) {
	jobs := history.Resource{Group: "batch", Resource: "jobs"}
	webhooks := history.Resource{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations"}
	kind := DraftKind{Kind: invariant.Kind{Resource: history.Resource{Resource: "things"},
		Children: []invariant.Child{{Resource: jobs}}}}
	d := &Draft{Name: "small", Strays: []history.Resource{{Resource: "events"}, webhooks, jobs, kind.Resource},
		Kinds: []DraftKind{kind}}
	want := "anyReplica: [{resource: events}, {group: events.k8s.io, resource: events}, " +
		"{group: admissionregistration.k8s.io, resource: validatingwebhookconfigurations}]\n"
	NewWithT(t).Expect(string(d.Subject())).To(ContainSubstring(want))
}

const guestbooks = `
metadata: {name: guestbooks.webapp.example.com}
spec:
  group: webapp.example.com
  scope: Namespaced
  names: {kind: Guestbook, plural: guestbooks}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, required: [spec],
      properties: {spec: {type: object, properties: {secret: {type: string},
        selector: {type: object, additionalProperties: {type: string}}}}}}}
`

// A sample without writes of the operator is reported, despite events, its Lease and objects of its own.
func TestLearn_Ignored(t *testing.T) {
	lease := history.Request{User: operator, Verb: "update", Effect: history.Stored,
		Key: history.Key{Resource: history.Leases, Namespace: "archiver-system", Name: "archiver.example.com"}}
	refused := history.Request{User: operator, Verb: "patch", Effect: history.Refused,
		Key: history.Key{Resource: history.Resource{Group: "archive.example.com", Resource: "backups"}, Namespace: "default", Name: "b0"}}
	event, taint, beat := lease, lease, lease
	event.Key, event.Made = history.Key{Resource: history.Resource{Resource: "events"}, Name: "no-pool"}, true
	taint.Key = history.Key{Resource: history.Resource{Resource: "nodes"}, Name: "a"}
	beat.Key = history.Key{Resource: history.Resource{Resource: "configmaps"}, Namespace: "archiver-system", Name: "beat"}
	for name, tc := range map[string]struct {
		runs []*history.History
		want bool
	}{
		"Event":    {[]*history.History{untouched(t, event)}, true},
		"Taint":    {[]*history.History{untouched(t, taint)}, false},
		"Beat":     {[]*history.History{untouched(t, beat)}, true},
		"Answered": {[]*history.History{archive(t, "b0"), archive(t, "b1")}, false},
		"Ignored":  {[]*history.History{untouched(t, lease), untouched(t, lease)}, true},
		"Refused":  {[]*history.History{untouched(t, lease), untouched(t, lease, refused)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, kinds := NewWithT(t), kindsOf(t, nil, backups(t))
			g.Expect((&Draft{Lease: lease.Key}).Learn(&kinds[0], []string{operator}, tc.runs...)).To(Succeed())
			g.Expect(kinds[0].Ignored).To(Equal(tc.want))
		})
	}
}

// A wrong write to an object of another client shows only if its resource is watched.
func TestLearn_WatchesWhatIsOnlyWritten(t *testing.T) {
	g, kinds := NewWithT(t), kindsOf(t, nil, backups(t))
	deletes := func(user, resource string, effect history.Effect) history.Request {
		return history.Request{User: user, Verb: "delete", Effect: effect,
			Key: history.Key{Resource: history.Resource{Resource: resource}, Namespace: "default", Name: "data-0"}}
	}
	taint := history.Request{User: operator, Verb: "patch", Effect: history.Stored,
		Key: history.Key{Resource: history.Resource{Resource: "nodes"}, Name: "a"}}
	run := untouched(t, deletes(operator, "persistentvolumeclaims", history.Deleted), taint, deletes(operator, "pods", history.Refused),
		deletes("admin", "secrets", history.Stored), deletes(operator, "events", history.Stored))
	g.Expect((&Draft{}).Learn(&kinds[0], []string{operator}, run, run)).To(Succeed())
	g.Expect(kinds[0].Watched).To(Equal([]history.Resource{{Resource: "persistentvolumeclaims"}, {Resource: "nodes"}}))
}

// untouched records a run in which only a user writes the Backup.
func untouched(t *testing.T, more ...history.Request) *history.History {
	t.Helper()
	r := record("b0")
	backup := object(t, "{apiVersion: archive.example.com/v1, kind: Backup, metadata: {namespace: default, name: b0, uid: b0}}")
	r.store("admin", "backups.archive.example.com", backup)
	r.Requests = append(r.Requests, more...)
	return &r.History
}

// An object that keeps the sample's name has no placeholder.
func TestLearn_OwnName(t *testing.T) {
	g, kinds, run := NewWithT(t), kindsOf(t, nil, backups(t)), untouched(t)
	run.Aliases = nil
	g.Expect((&Draft{}).Learn(&kinds[0], nil, run)).To(MatchError(ContainSubstring("was recorded")))
	kinds[0].Objects[0].SetName("b0")
	g.Expect((&Draft{}).Learn(&kinds[0], nil, run)).To(Succeed())
}

func TestLearn_NeedsTheObject(t *testing.T) {
	NewWithT(t).Expect((&Draft{}).Learn(&kindsOf(t, nil, backups(t))[0], nil, &history.History{})).
		To(MatchError(ContainSubstring("no version of backups.archive.example.com was recorded")))
}
