package reporting

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// RegisterMetric registers c and returns it. If another controller of the process has
// registered an equal collector, it returns that one, to be shared.
func RegisterMetric[C prometheus.Collector](registry prometheus.Registerer, c C) (C, error) {
	err := registry.Register(c)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		return already.ExistingCollector.(C), nil
	}
	if err != nil {
		return c, fmt.Errorf("registering a metric: %w", err)
	}
	return c, nil
}
