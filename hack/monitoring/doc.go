// SPDX-License-Identifier: Apache-2.0

// Package monitoring tests config/prometheus and config/grafana against the metrics of the
// operator: each alert fires and is silent when it should, and each expression selects metrics and
// labels that exist. The package contains only tests. It is a separate module because the tests import Prometheus.
package monitoring
