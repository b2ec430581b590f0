// SPDX-License-Identifier: Apache-2.0

package mitigation

import (
	"cmp"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"leasehold.dev/test/harness/fault"
	"leasehold.dev/test/harness/internal/page"
)

var update = flag.Bool("update", false, "write the table of the document")

const (
	assets     = "../../../../bin/controlplane/current" // where this repository builds its control plane
	document   = "../../docs/restarts.md"
	begin, end = "<!-- measured by test/harness/internal/mitigation -->\n", "<!-- end of the table -->\n"
	parallel   = 8 // most of the time a run waits
)

var rows = []struct {
	name       string
	mitigation Mitigation
}{
	{"nothing", Mitigation{}},
	{"read-your-writes", Mitigation{ReadYourWrites: true}},
	{"expectations", Mitigation{Memory: NewExpectations}},
	{"consistency store", Mitigation{Memory: NewConsistencyStore}},
	{"live read", Mitigation{ReadLive: true}},
	{"live read, precondition", Mitigation{ReadLive: true, Precondition: true}},
	{"write of the parent first", Mitigation{LockParent: true}},
	{"fixed name, owner check", Mitigation{FixedName: true}},
	{"live read, precondition, fixed name", Mitigation{ReadLive: true, Precondition: true, FixedName: true}},
}

// columns are faults. Each has one or two runs. A run returns the fault that is still in force, if any. Its parent is
// "made", for which one Secret has to be created, or "kept", whose Secret must not be deleted.
var columns = []struct {
	name string
	runs []func(*world) *fault.Injection
}{
	{"own write not seen", []func(*world) *fault.Injection{ownWrite}},
	{"other client's write not seen", []func(*world) *fault.Injection{otherWrite}},
	{"write in between", []func(*world) *fault.Injection{writeBeforeDelete, lateCreate}},
	{"restart with an old list", []func(*world) *fault.Injection{restartThenCreate, restartThenDelete}},
	{"answer lost", []func(*world) *fault.Injection{answerLost}},
	{"API server behind", []func(*world) *fault.Injection{behindThenCreate, behindThenDelete}},
}

// ownWrite updates a parent whose Secret the cache does not show yet.
func ownWrite(w *world) *fault.Injection {
	held := w.api.HoldEvents("secrets")
	w.apply("made 1 true")
	w.did(1, "made 1 true", "ends")
	w.happened(held)
	w.apply("made 2 true")
	w.decided(1, "made 2 true")
	return held
}

// otherWrite wants a Secret deleted whose use the cache does not show.
func otherWrite(w *world) *fault.Injection {
	w.converge("kept")
	held := w.api.HoldEvents("secrets")
	w.use("kept")
	w.happened(held)
	w.apply("kept 1 false")
	w.did(1, "kept 1 false", "ends", "fails")
	return held
}

// writeBeforeDelete marks a Secret as busy after the controller has sent its DELETE.
func writeBeforeDelete(w *world) *fault.Injection {
	w.converge("kept")
	request := w.held(http.MethodDelete, "kept 1 false")
	w.use("kept")
	request.Release()
	w.did(1, "kept 1 false", "ends", "fails")
	return nil
}

// lateCreate restarts the manager while a POST of the old one is on its way. It arrives after the new one has decided.
func lateCreate(w *world) *fault.Injection {
	request := w.held(http.MethodPost, "made 1 true")
	w.api.Restart()
	w.life++
	w.did(1, "made 1 true", "ends")
	request.Release()
	w.Eventually(func() int { return w.api.Journal().Request(request.Request.ID).Status }, soon).ShouldNot(BeZero())
	return nil
}

// restartThenCreate restarts with a list from before the Secret existed.
func restartThenCreate(w *world) *fault.Injection {
	old := w.api.Remember("secrets")
	w.converge("made")
	held := w.api.RestartSeeing(old)
	w.life++
	w.did(1, "made 1 true", "ends")
	w.happened(held)
	return held
}

// restartThenDelete restarts with a list from before the Secret was busy.
func restartThenDelete(w *world) *fault.Injection {
	w.converge("kept")
	old := w.api.Remember("secrets")
	w.use("kept")
	held := w.api.RestartSeeing(old)
	w.life++
	w.happened(held)
	w.apply("kept 1 false")
	w.did(1, "kept 1 false", "ends", "fails")
	return held
}

// answerLost loses the answer to a create. The retry comes before the event.
func answerLost(w *world) *fault.Injection {
	lost, held := w.api.LoseAnswer("create", "secrets"), w.api.HoldEvents("secrets")
	w.apply("made 1 true")
	w.did(1, "made 1 true", "ends")
	w.happened(lost)
	w.happened(held)
	return held
}

// behindThenCreate starts a second reconcile when the cache is older than the create of the first.
func behindThenCreate(w *world) *fault.Injection {
	request := w.held(http.MethodPost, "made 1 true")
	if w.mitigation.LockParent {
		w.did(1, "made 1 true", "sees") // else it may be older than the lock, too, and then a second one fails
	}
	behind := w.fallBehind()
	request.Release()
	w.did(1, "made 1 true", "ends")
	w.happened(behind)
	select {
	case w.pokes <- event.GenericEvent{Object: w.parent("made")}:
	case <-w.t.Context().Done():
	}
	w.decided(2, "made 1 true")
	return behind
}

// behindThenDelete wants a Secret again whose DELETE was lost on its way. The cache of the retry is older than that.
func behindThenDelete(w *world) *fault.Injection {
	w.converge("kept")
	request := w.held(http.MethodDelete, "kept 1 false")
	behind := w.fallBehind()
	w.apply("kept 1 true")
	w.happened(behind)
	request.Cut()
	w.did(2, "kept 1 false", "ends", "fails")
	return behind
}

// cell is what the runs of a column count.
type cell struct{ duplicates, deletions int }

func (c cell) String() string {
	if c == (cell{}) {
		return "green"
	}
	return fmt.Sprintf("red %d/%d", c.duplicates, c.deletions)
}

// The document shows the table that the runs give.
func TestTable(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	g, existing := NewWithT(t), false                                               // whatever USE_EXISTING_CLUSTER says
	t.Setenv("KUBEBUILDER_ASSETS", cmp.Or(os.Getenv("KUBEBUILDER_ASSETS"), assets)) // make may set it to nothing
	env := &envtest.Environment{UseExistingCluster: &existing,
		ControlPlaneStartTimeout: soon, ControlPlaneStopTimeout: soon}
	cfg, err := env.Start()
	t.Cleanup(func() { g.Expect(env.Stop()).To(Succeed()) })
	g.Expect(err).NotTo(HaveOccurred())
	cells, costs, mu, group := map[string]cell{}, map[string]map[string]int{}, sync.Mutex{}, errgroup.Group{}
	group.SetLimit(parallel)
	start := func(name string, m Mitigation, measure func(*world) (record func())) {
		group.Go(func() error {
			t.Run(name, func(t *testing.T) {
				record := measure(newWorld(t, cfg, m))
				mu.Lock()
				defer mu.Unlock()
				record()
			})
			return nil
		})
	}
	for _, row := range rows {
		start(row.name+": cost", row.mitigation, func(w *world) func() {
			c := cost(w)
			return func() { costs[row.name] = c }
		})
		for _, column := range columns {
			for _, run := range column.runs {
				start(row.name+": "+column.name, row.mitigation, func(w *world) func() {
					c, of := measure(w, run), row.name+column.name
					return func() { cells[of] = cell{cells[of].duplicates + c.duplicates, cells[of].deletions + c.deletions} }
				})
			}
		}
	}
	g.Expect(group.Wait()).To(Succeed())
	g.Expect(t.Failed() || len(costs) < len(rows) || len(cells) < len(rows)*len(columns)).To(BeFalse(),
		"the table is complete; -run must select all of it")
	head := "| | "
	for _, column := range columns {
		head += column.name + " | "
	}
	table := []string{head + "extra requests |", strings.Repeat("|---", len(columns)+2) + "|"}
	for _, row := range rows {
		line := "| " + row.name
		for _, column := range columns {
			line += " | " + cells[row.name+column.name].String()
		}
		table = append(table, line+" | "+extra(costs[row.name], costs[rows[0].name])+" |")
	}
	page.Hold(t, document, begin, end, strings.Join(table, "\n")+"\n", *update)
}

// extra returns the requests that a mitigation adds.
func extra(with, without map[string]int) string {
	var more []string
	for _, verb := range []string{"GET", "LIST", "POST", "PUT", "PATCH", "DELETE"} {
		if n := with[verb] - without[verb]; n != 0 {
			more = append(more, fmt.Sprintf("%d %s", n, verb))
		}
	}
	return cmp.Or(strings.Join(more, ", "), "none")
}
