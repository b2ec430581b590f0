package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// Encode writes the report as JSON. What is not a finite number is null there.
func (r Report) Encode(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("encoding a report: %w", err)
	}
	return nil
}

// number is what JSON has no word for if it is not finite: one division by zero
// must not cost a report.
type number float64

// MarshalJSON is json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	if !finite(float64(n)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

func finite(value float64) bool { return !math.IsNaN(value) && !math.IsInf(value, 0) }

type plainFigure Figure

// figureJSON is a Figure whose runs are numbers.
type figureJSON struct {
	plainFigure
	Runs []number `json:"runs"`
}

// MarshalJSON is json.Marshaler.
func (f Figure) MarshalJSON() ([]byte, error) {
	runs := make([]number, len(f.Runs))
	for i, run := range f.Runs {
		runs[i] = number(run)
	}
	return json.Marshal(figureJSON{plainFigure(f), runs})
}
