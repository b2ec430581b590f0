// Package learned knows by how much a time of one checkout differs from the same
// time of the same checkout, from runs in which both were the same.
package learned

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync"

	"sigs.k8s.io/yaml"
)

const (
	// unknown is the tolerance of a figure of which nothing was learned: it may double.
	unknown = 1.0
	// least is what any time may differ by, however little it did while it was learned:
	// others run the gate on machines that are less quiet.
	least = 0.5
	// margin is how often the largest difference that was seen is allowed, as a power:
	// what was seen in a few dozen runs is not all there is.
	margin = 2.0
	// step is what tolerances are rounded up to.
	step = 0.05
)

// Tolerances are by how much times may be longer: 0.25 is a quarter.
type Tolerances struct {
	// Machine is what they were learned on.
	Machine string `json:"machine"`
	// When they were learned, as a day.
	When string `json:"when"`
	// Runs is how many comparisons of a checkout with itself they were learned from.
	Runs int `json:"runs"`
	// Figures are the tolerances by the ID of the row.
	Figures map[string]float64 `json:"figures"`

	mu   sync.Mutex
	seen map[string][]float64
}

// Load reads the file. Where there is none, nothing was learned.
func Load(path string) (*Tolerances, error) {
	t := &Tolerances{Figures: map[string]float64{}}
	text, err := os.ReadFile(path) // #nosec G304 -- the user names the file
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err == nil {
		err = yaml.UnmarshalStrict(text, t)
	}
	if err != nil {
		return nil, fmt.Errorf("reading tolerances from %s: %w", path, err)
	}
	return t, nil
}

// Of returns the tolerance of a figure.
func (t *Tolerances) Of(id string) float64 {
	if known, ok := t.Figures[id]; ok {
		return known
	}
	return unknown
}

// See takes note of a ratio that was found, head to base.
func (t *Tolerances) See(id string, ratio float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen == nil {
		t.seen = map[string][]float64{}
	}
	t.seen[id] = append(t.seen[id], ratio)
}

// Learn makes the tolerances those that follow from all ratios that were seen, none
// of which had a reason. Figures of which none was seen keep theirs.
func (t *Tolerances) Learn(machine, day string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Machine, t.When, t.Runs = machine, day, 0
	if t.Figures == nil {
		t.Figures = map[string]float64{}
	}
	for id, ratios := range t.seen {
		t.Figures[id] = tolerance(ratios)
		t.Runs = max(t.Runs, len(ratios))
	}
}

// tolerance is wide enough for all of the ratios and as much again. Which of the two
// was the head was chance, so that half as long says as much as twice as long.
func tolerance(ratios []float64) float64 {
	var most float64
	for _, ratio := range ratios {
		most = max(most, math.Abs(math.Log(ratio)))
	}
	wide := math.Ceil((math.Exp(margin*most)-1)/step) * step
	return math.Round(max(least, wide)*100) / 100
}

// Save writes the file.
func (t *Tolerances) Save(path string) error {
	text, err := yaml.Marshal(t)
	if err != nil {
		return fmt.Errorf("writing tolerances: %w", err)
	}
	const head = "# By how much a time may be longer than at the base; counts have no tolerance.\n" +
		"# Learned by: make gate BASE=HEAD GATE_FLAGS='-learn 20'\n"
	if err := os.WriteFile(path, append([]byte(head), text...), 0o600); err != nil {
		return fmt.Errorf("writing tolerances: %w", err)
	}
	return nil
}
