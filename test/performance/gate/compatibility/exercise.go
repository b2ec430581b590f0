package compatibility

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/performance/gate/row"
)

// told is how many failures of one operation a row names.
const told = 3

// operation is what clients do to an object that is there.
type operation struct {
	name string
	do   func(ctx context.Context, c client.Client, e example) error
	// instead says what to do if it fails.
	instead string
}

// operations are in the order in which they are done to each object.
var operations = []operation{
	{"read", readBack, "the field is dropped from what is stored: keep it in the schema"},
	{"label", label, "a write of something else has to leave what is stored alone: do not refuse values that were accepted"},
	{"write", write, "an object as it was read has to be accepted: do not refuse values that were accepted"},
	{"replace", replace, "an object as its user sent it has to be accepted again: do not refuse values that were accepted"},
	{"status", writeStatus, "a status as it was read has to be accepted: do not refuse values that were accepted"},
	{"create", create, "a manifest that base accepts has to be accepted: do not refuse values that were accepted"},
	{"delete", remove, "an object that was stored has to go when it is deleted"},
}

// exercise does each operation to each object, and makes a row of each operation.
func (s *subject) exercise(ctx context.Context, c client.Client) []row.Row {
	var rows []row.Row
	for _, o := range operations {
		if o.name == "status" && !s.hasStatus() {
			continue
		}
		var failed []string
		for _, e := range s.examples {
			if err := o.do(ctx, c, e); err != nil {
				failed = append(failed, fmt.Sprintf("%s %s: %v", s.kind().Kind, e.kept.GetName(), err))
			}
		}
		rows = append(rows, judge(s.id()+"/"+o.name, len(s.examples), failed, o.instead))
	}
	return rows
}

func judge(id string, all int, failed []string, instead string) row.Row {
	r := row.Row{ID: id, Base: fmt.Sprintf("%d of %d", all, all), Head: fmt.Sprintf("%d of %d", all-len(failed), all), Verdict: row.Same}
	if len(failed) > 0 {
		r.Verdict = row.Worse
		r.Reason = strings.Join(failed[:min(told, len(failed))], "; ") + ": " + instead
	}
	return r
}

func readBack(ctx context.Context, c client.Client, e example) error {
	now, err := get(ctx, c, e)
	if err != nil {
		return err
	}
	return kept(e, now)
}

// kept is an error if a field of what was stored is missing or another at head,
// but for metadata. What head has in addition is no loss.
func kept(e example, now *unstructured.Unstructured) error {
	if fields := lost("", content(e.kept), content(now)); len(fields) > 0 {
		return errors.New(strings.Join(fields[:min(told, len(fields))], ", "))
	}
	return nil
}

func label(ctx context.Context, c client.Client, e example) error {
	obj := e.kept.DeepCopy()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"gate":"label"}}}`))
	if err := c.Patch(ctx, obj, patch); err != nil {
		return err
	}
	return kept(e, obj)
}

func write(ctx context.Context, c client.Client, e example) error {
	now, err := get(ctx, c, e)
	if err != nil {
		return err
	}
	now.SetAnnotations(map[string]string{"gate": "write"})
	if err := c.Update(ctx, now); err != nil {
		return err
	}
	return kept(e, now)
}

// replace sends the manifest of the user again, as kubectl replace does.
func replace(ctx context.Context, c client.Client, e example) error {
	now, err := get(ctx, c, e)
	if err != nil {
		return err
	}
	again := e.sent.DeepCopy()
	again.SetResourceVersion(now.GetResourceVersion())
	if err := c.Update(ctx, again); err != nil {
		return err
	}
	return kept(e, again)
}

func writeStatus(ctx context.Context, c client.Client, e example) error {
	now, err := get(ctx, c, e)
	if err != nil {
		return err
	}
	if err := c.Status().Update(ctx, now); err != nil {
		return err
	}
	return kept(e, now)
}

// create asks whether the manifest would be accepted by a cluster without it:
// there is no older object then whose values an update may keep.
func create(ctx context.Context, c client.Client, e example) error {
	obj := e.sent.DeepCopy()
	obj.SetName(obj.GetName() + "-again")
	return c.Create(ctx, obj, client.DryRunAll)
}

func remove(ctx context.Context, c client.Client, e example) error {
	if err := c.Delete(ctx, e.kept.DeepCopy()); err != nil {
		return err
	}
	switch _, err := get(ctx, c, e); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	default:
		return errors.New("it is still there")
	}
}

func get(ctx context.Context, c client.Client, e example) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(e.kept.GroupVersionKind())
	err := c.Get(ctx, client.ObjectKeyFromObject(e.kept), obj)
	return obj, err
}

// content is an object without its metadata.
func content(obj *unstructured.Unstructured) map[string]any {
	rest := maps.Clone(obj.Object)
	delete(rest, "metadata")
	return rest
}

// lost names the fields of base that head does not have, or has otherwise.
func lost(field string, base, head any) []string {
	switch base := base.(type) {
	case map[string]any:
		now, ok := head.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %v and was an object", field, head)}
		}
		var all []string
		for _, name := range slices.Sorted(maps.Keys(base)) {
			below, still := now[name]
			if !still {
				all = append(all, join(field, name)+" is gone")
				continue
			}
			all = append(all, lost(join(field, name), base[name], below)...)
		}
		return all
	case []any:
		now, ok := head.([]any)
		if !ok || len(now) != len(base) {
			return []string{fmt.Sprintf("%s has %d elements and had %d", field, len(now), len(base))}
		}
		var all []string
		for i := range base {
			all = append(all, lost(fmt.Sprintf("%s[%d]", field, i), base[i], now[i])...)
		}
		return all
	}
	if !reflect.DeepEqual(base, head) {
		return []string{fmt.Sprintf("%s is %v and was %v", field, head, base)}
	}
	return nil
}
