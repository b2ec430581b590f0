package attack

import (
	"errors"

	"leasehold.dev/test/harness/scenario"
)

// LargeObjects makes Count objects with Size bytes of padding each: what an operator
// keeps of each object costs it memory.
const LargeObjects = "large-objects"

func largeObjects(in Input) ([]scenario.Step, error) {
	if in.Size.Value() <= 0 || !uses(in.Template, padding) || !uses(name(in), index) {
		return nil, errors.New("it needs a size, a template with " + padding + " and a name with " + index)
	}
	return filled(in)
}
