package failover

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// kept is one trial as it is written down, for who wonders about a tail. Times are
// seconds since the loss.
type kept struct {
	Subject string    `json:"subject"`
	Way     way       `json:"way"`
	At      time.Time `json:"at"`
	Renewed *float64  `json:"renewed,omitempty"`
	Last    *float64  `json:"last,omitempty"`
	Release *float64  `json:"released,omitempty"`
	Report  *float64  `json:"reported,omitempty"`
	Acquire *float64  `json:"acquired,omitempty"`
	First   *float64  `json:"first,omitempty"`
	Woken   *float64  `json:"woken,omitempty"`
	Ended   *float64  `json:"ended,omitempty"`
	Strays  int       `json:"strays"`
	Refused int       `json:"refused"`
	Early   int       `json:"early"`
}

// keep writes all trials down, as trials.json in the measurement's folder.
func (m *bench) keep() error {
	all := []kept{}
	for _, g := range m.groups {
		for _, w := range ways {
			for _, h := range g.handovers[w] {
				all = append(all, h.kept(g, w))
			}
		}
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the trials: %w", err)
	}
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		return fmt.Errorf("making a folder for the trials: %w", err)
	}
	if err := os.WriteFile(filepath.Join(m.Dir, "trials.json"), text, 0o600); err != nil {
		return fmt.Errorf("writing the trials down: %w", err)
	}
	return nil
}

func (h *handover) kept(g *group, w way) kept {
	since := func(t time.Time) *float64 {
		if t.IsZero() {
			return nil
		}
		return new(t.Sub(h.at).Seconds())
	}
	return kept{
		Subject: g.subject.name, Way: w, At: h.at,
		Renewed: since(h.renewed), Last: since(h.last), Release: since(h.released), Report: since(h.reported), Acquire: since(h.acquired),
		First: since(h.first), Woken: since(h.woken), Ended: since(h.ended), Strays: h.strays, Refused: h.refused, Early: h.early,
	}
}
