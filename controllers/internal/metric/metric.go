// Package metric registers what the rooms measure.
package metric

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers c and returns it. Where another controller of the process
// has registered the same already, that one's is returned, to be shared.
func Register[C prometheus.Collector](registry prometheus.Registerer, c C) (C, error) {
	err := registry.Register(c)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		return already.ExistingCollector.(C), nil
	}
	if err != nil {
		return c, fmt.Errorf("registering a metric: %w", err)
	}
	return c, nil
}
