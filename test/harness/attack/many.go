package attack

import (
	"errors"

	"leasehold.dev/test/harness/scenario"
)

// ManyObjects makes Count objects: what an operator does for each keeps it from those
// of others.
const ManyObjects = "many-objects"

func manyObjects(in Input) ([]scenario.Step, error) {
	if !uses(name(in), index) {
		return nil, errors.New("it needs a template whose name has " + index)
	}
	return filled(in)
}
