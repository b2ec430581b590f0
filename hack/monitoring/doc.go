// Package monitoring holds config/prometheus and config/grafana to what the
// operator exposes: each alert fires when it should and is silent when it should,
// and each expression selects metrics and labels that exist. It has tests
// only, and is a module of its own as they use Prometheus itself.
package monitoring
