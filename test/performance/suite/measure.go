package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"leasehold.dev/test/harness/figures"
	"leasehold.dev/test/performance/stage"
)

// The goals. Both are ratios, as seconds depend on the machine.
const (
	// startGoal is what is left of envtest's start when etcd does not wait up to a
	// second for the election of its only member.
	startGoal = 0.9
	// wallGoal leaves room for what cannot be packed: the last spec, and Serial ones.
	wallGoal = 1.3
)

// Measure starts control planes, then runs the integration suites of the checkout
// as `make integration` does.
func Measure(ctx context.Context, b stage.Bench) (figures.Section, error) {
	section := figures.Section{ID: "suite", Title: "What those wait for who run the tests"}
	started, err := startPlanes(ctx, b)
	section.Figures = started.figures()
	if err != nil {
		return section, err
	}
	section.Plots = []figures.Plot{started.plot()}
	ran, err := runSuites(ctx, b)
	if ran != nil {
		section.Figures = append(section.Figures, ran.figures(section.Figures[0].Median())...)
		section.Text = ran.text()
	}
	return section, err
}

// figures are those of the starts, empty where there were none.
func (s starts) figures() []figures.Figure {
	ratio := figures.Figure{
		ID: "H2.start.ratio", Title: "start of a control plane over that of envtest", Goal: figures.MedianAtMost(startGoal),
		Note: "each of ours over the one of envtest just before or after it, with the same programs",
	}
	for i := range min(len(s.ours), len(s.stock)) {
		ratio.Runs = append(ratio.Runs, s.ours[i]/s.stock[i])
	}
	return []figures.Figure{
		{ID: "H2.start", Title: "start of a control plane", Unit: "s", Runs: s.ours, Note: "with RBAC, audit log and kube-controller-manager, until env.Start returns"},
		{ID: "H2.start.peer", Title: "start of envtest's control plane", Unit: "s", Runs: s.stock, Note: "with RBAC, without audit log and kube-controller-manager, until Environment.Start returns"},
		ratio,
	}
}

func (s starts) plot() figures.Plot {
	series := func(name string, runs []float64) figures.Series {
		points := make([]figures.Point, len(runs))
		for i, run := range runs {
			points[i] = figures.Point{X: float64(i + 1), Y: run}
		}
		return figures.Series{Name: name, Points: points}
	}
	return figures.Plot{
		Name: "suite-start", Title: "Start of a control plane", XLabel: "run", YLabel: "seconds",
		Series: []figures.Series{series("env", s.ours), series("envtest", s.stock)},
	}
}

// figures are those of the run. A control plane needs this many seconds to start.
func (r *ran) figures(start float64) []figures.Figure {
	cpu := r.cpu.Seconds()
	floor := start + cpu/float64(r.cores)
	one := func(id, title, unit string, value float64, note string) figures.Figure {
		return figures.Figure{ID: id, Title: title, Unit: unit, Runs: []float64{value}, Note: note}
	}
	ratio := one("H1.ratio", "integration suites over their floor", "", r.wall.Seconds()/floor, "")
	ratio.Goal = figures.AtMost(wallGoal)
	return []figures.Figure{
		one("H1.wall", "integration suites", "s", r.wall.Seconds(), "with compiling and linking what has changed"),
		one("H1.cpu", "CPU time of the integration suites", "s", cpu, "of ginkgo and all processes that were waited for, down to etcd and the compiler"),
		one("H1.floor", "floor of the integration suites", "s", floor, fmt.Sprintf("one start of a control plane (%s) and the CPU time spread over %d cores", figures.Format(start, "s"), r.cores)),
		ratio,
	}
}

const explanation = `The floor is what could not be avoided if everything else were packed perfectly: nothing can be tested before a
control plane has started once, and the work is not done before all cores together have done it. What is above it is waiting
that nobody else's work has filled: for a Lease to expire, for something that must not happen to not happen, for the last spec.
`

// text explains the floor and names what took longest.
func (r *ran) text() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\nSuites: %d, specs: %d, at a time: %d. The slowest:\n\n| s | suite | spec |\n|--:|---|---|\n",
		explanation, r.suites, len(r.specs), processes)
	for _, s := range r.slowest(10) {
		fmt.Fprintf(&text, "| %.1f | %s | %s |\n", s.seconds, s.suite, strings.ReplaceAll(s.name, "|", `\|`))
	}
	return text.String()
}

// errNoSpecs says that the run proves nothing about its time.
var errNoSpecs = errors.New("no spec has run")
