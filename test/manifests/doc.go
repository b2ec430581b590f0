// Package manifests holds config/ to its promises: it renders what users apply
// and checks rights, workload, webhooks and samples. It has tests only.
package manifests
