// SPDX-License-Identifier: Apache-2.0

package learn

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"leasehold.dev/test/harness/history"
	"leasehold.dev/test/harness/invariant"
)

// quiet returns the length of a checkpoint: long enough for the leader to renew its Lease, which
// shows that it ran without writes. With controller-runtime's default period that is 2 s.
func (d *Draft) quiet() string {
	if slices.ContainsFunc(d.Arguments, func(a Argument) bool { return strings.Contains(a.Text, "retry-period=") }) {
		return "2s"
	}
	return "5s"
}

// thrift is the number of writes without effect to one object between two checkpoints that a clean
// run may have.
const thrift = 5

// unchanged returns that limit for all runs. With a fault, replicas restart and repeat writes.
func (d *Draft) unchanged() int {
	if d.Unchanged > thrift {
		return thrift
	}
	return max(thrift, 3*d.Unchanged)
}

// defaultGrace is a Pod's terminationGracePeriodSeconds if it has none.
const defaultGrace = 30

// Subject is the file that describes the operator.
func (d *Draft) Subject() []byte {
	w := &writer{}
	w.line("# %s, as its manifests, its flags and two clean runs of each scenario describe it. Lines with", d.Name)
	w.line("# the word guess may be wrong: read them. docs/subject.md of the module has all fields.")
	w.line("name: %s", quoted(d.Name))
	w.line("binary: %s", quoted(d.Binary))
	w.given("workingDir: %s", d.WorkingDir)
	w.line("manifests: %s", quoted(d.Manifests))
	if len(d.CRDs) > 0 {
		w.line("crds: [%s]", joined(d.CRDs, quoted))
	}
	w.given("helm: {values: %s}", d.Values)
	d.writeArguments(w)
	if len(d.Env) > 0 {
		w.line("env:")
	}
	for _, name := range slices.Sorted(maps.Keys(d.Env)) {
		w.line("  %s: %q", name, d.Env[name])
	}
	if !slices.ContainsFunc(d.Arguments, func(a Argument) bool { return strings.Contains(a.Text, "lease-duration=") }) {
		w.line("# The Lease cannot be shortened, so the harness releases it for processes that a fault has killed.")
		w.line("releaseLease: true")
	}
	w.line("# If the operator creates Pods, they run nothing, and are Ready after a moment.")
	w.line("node: {}")
	w.given("deployment: %s", d.Deployment)
	w.line("contract:")
	if len(d.Leases) > 1 {
		w.line("  # guess: the operator took several Leases, %s; this one is the leader's.",
			joined(d.Leases, func(k history.Key) string { return k.Namespace + "/" + k.Name }))
	}
	w.line("  lease: {name: %s, namespace: %s}", quoted(d.Lease.Name), quoted(d.Lease.Namespace))
	w.line("  kinds:")
	for _, k := range d.Kinds {
		k.writeContract(w)
	}
	replicas := slices.Concat(events, d.strays())
	if len(replicas) == len(events) {
		w.line("  # guess: a standby writes events only.")
	} else {
		w.line("  # guess: a standby writes events, and what replicas wrote in clean runs while they did not lead.")
	}
	w.line("  anyReplica: [%s]", joined(replicas, resourceText))
	w.line("  # grace is the Pod's. unchanged: writes between checkpoints that change nothing of an object.")
	if d.Unchanged > thrift {
		w.line("  # guess: %d such writes of a clean run are too many. If they are meant, allow them.", d.Unchanged)
	}
	w.line("  limits: {quiet: %s, grace: %ds, unchanged: %d}", d.quiet(), cmp.Or(d.Grace, defaultGrace), d.unchanged())
	if watched := d.watched(); len(watched) > 0 {
		w.line("# guess: the operator writes these, and they name no owner. What names it can become children.")
		w.line("watched:")
		for _, r := range watched {
			w.line("- %s", resourceText(r))
		}
	}
	w.line("scenarios: [scenarios]")
	return []byte(w.String())
}

// strays returns the resources that replicas wrote without leading, except for kinds and children, which only a leader
// should write.
func (d *Draft) strays() []history.Resource {
	return slices.DeleteFunc(slices.Clone(d.Strays), func(r history.Resource) bool {
		return slices.Contains(events, r) || d.describes(r)
	})
}

// describes reports whether objects of a resource are a kind or children of one.
func (d *Draft) describes(r history.Resource) bool {
	return slices.ContainsFunc(d.Kinds, func(k DraftKind) bool {
		return k.Resource == r || slices.ContainsFunc(k.Children, func(c invariant.Child) bool { return c.Resource == r })
	})
}

func (d *Draft) writeArguments(w *writer) {
	var args []Argument
	for _, a := range d.Arguments {
		if a.Text == "" {
			w.line("# %s.", a.Comment)
			continue
		}
		args = append(args, a)
	}
	if len(args) > 0 {
		w.line("# guess: flags with these names have their usual meaning.")
		w.line("args:")
	}
	for _, a := range args {
		w.line("- %s", quoted(a.Text))
	}
}

func (d *Draft) watched() []history.Resource {
	var all []history.Resource
	for _, k := range d.Kinds {
		for _, r := range k.Watched {
			if !slices.Contains(all, r) && !d.describes(r) {
				all = append(all, r)
			}
		}
	}
	return all
}

func (k *DraftKind) writeContract(w *writer) {
	for _, note := range k.Notes {
		w.line("  # %s.", note)
	}
	if k.Problem != "" {
		w.line("  # There is no scenario of it: %s.", strings.Join(strings.Fields(k.Problem), " "))
	}
	if k.Group == "" {
		w.line("  - resource: %s", k.Resource.Resource)
	} else {
		w.line("  - group: %s", k.Group)
		w.line("    resource: %s", k.Resource.Resource)
	}
	w.given("    finalizer: %s", k.Finalizer)
	w.given("    ready: %s", k.Ready)
	if len(k.Children) == 0 {
		return
	}
	w.line("    # guess: it creates these for what the scenario applies; awaited are those that were gone before the finalizer.")
	w.line("    children:")
	for _, c := range k.Children {
		w.line("    - %s", childText(c))
	}
}

func childText(c invariant.Child) string {
	fields := []string{strings.Trim(resourceText(c.Resource), "{}")}
	if c.Annotation != "" {
		fields = append(fields, "annotation: "+quoted(c.Annotation))
	}
	if c.Label != "" {
		fields = append(fields, "label: "+quoted(c.Label))
	}
	if c.Controlled {
		fields = append(fields, "controlled: true")
	}
	if c.Awaited {
		fields = append(fields, "awaited: true")
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

func resourceText(r history.Resource) string {
	if r.Group == "" {
		return fmt.Sprintf("{resource: %s}", r.Resource)
	}
	return fmt.Sprintf("{group: %s, resource: %s}", r.Group, r.Resource)
}

// writer collects lines.
type writer struct{ strings.Builder }

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// given writes a line with a text, if there is one.
func (w *writer) given(format, text string) {
	if text != "" {
		w.line(format, quoted(text))
	}
}

// quoted is a text in YAML, with quotes where it needs them.
func quoted(s string) string {
	if strings.ContainsAny(s, "{}[],#&*!|>'\"%@`: ") || strings.Trim(s, "0123456789.+-eE") == "" || s == "true" ||
		s == "false" || s == "null" {
		return fmt.Sprintf("%q", s)
	}
	return s
}

// joined are the texts of items, with commas between them.
func joined[T any](all []T, text func(T) string) string {
	texts := make([]string, len(all))
	for i, item := range all {
		texts[i] = text(item)
	}
	return strings.Join(texts, ", ")
}
